//! Endpoints that compress their messages, and messages to them.

use super::server::{Peer, Script, script, serve};
use super::{SSE, forever, run_with, typed};
use crate::swarm::Blind;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use std::io::{Error, Write};
use thalweg_lab::load_generator::Outcome;
use thalweg_lab::scenario::{Settings, Typed};
use thalweg_testing::undisturbed;

const OFFER: &str = "permessage-deflate";
const WITHOUT_CONTEXT: &str = "permessage-deflate; server_no_context_takeover";

/// Without the four bytes that are always the same (RFC 7692 §7.2.1).
fn deflated(deflate: &mut Compress, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 100);
    deflate.compress_vec(message, &mut bytes, FlushCompress::Sync).expect("room for it");
    bytes.truncate(bytes.len() - 4);
    bytes
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(10_000);
    let bytes = [bytes, &[0, 0, 0xFF, 0xFF]].concat();
    let mut inflate = Decompress::new(false);
    inflate.decompress_vec(&bytes, &mut message, FlushDecompress::Sync).expect("a message");
    message
}

fn visit(scheme: &str, rate: u32, script: Script) -> Outcome {
    let url = format!("{scheme}://{}/", serve(script));
    let typed = Typed { compress: true, ..typed(url) };
    let settings = Settings { connections: 3, rate, ..Settings::default() };
    run_with(&typed, settings, 20, 150, &mut Blind).expect("an endpoint that is received")
}

fn agreed<'a>(outcome: &'a Outcome, name: &str) -> &'a str {
    let facts = &outcome.negotiated.facts;
    facts.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
}

/// Measures an echo that has chosen this extension, and whose messages refer to earlier ones if that has a context. Returns the
/// bytes of a received message: inflated, and on the wire.
fn echoed(extension: &'static str) -> (u64, u64) {
    let echo = script(move |mut peer: Peer| {
        let offer = peer.header("Sec-WebSocket-Extensions").to_owned();
        if offer != OFFER {
            return Err(Error::other(offer));
        }
        peer.upgrade(&format!("Sec-WebSocket-Extensions: {extension}\r\n"))?;
        let mut deflate = Compress::new(Compression::fast(), false);
        loop {
            match peer.read_frame()? {
                (0xC1, _, message) => {
                    if extension == WITHOUT_CONTEXT {
                        deflate.reset();
                    }
                    // The lab compresses each message by itself.
                    peer.frame(0xC1, &deflated(&mut deflate, &inflated(&message)))?;
                }
                (first, ..) => return Err(Error::other(format!("{first:x}"))),
            }
        }
    });
    let outcome = visit("ws", 100, echo);
    assert_eq!(agreed(&outcome, "Sec-WebSocket-Extensions"), extension);
    let received = outcome.received.expect("an endpoint has figures of what it sent");
    assert_eq!(received.answer.compression.as_deref(), Some(extension));
    let exchanged = received.exchanged.expect("messages were exchanged");
    assert!(exchanged.sent > 20 && exchanged.unanswered == 0, "{exchanged:?}");
    assert_eq!(
        received.payload_bytes,
        u64::from(Settings::default().event_bytes) * received.events
    );
    (received.payload_bytes / received.events, received.wire_bytes / received.events)
}

#[test]
fn messages_are_compressed_both_ways_in_the_context_that_the_server_chooses() {
    undisturbed(|| {
        let (message_bytes, alone_bytes) = echoed(WITHOUT_CONTEXT);
        let (_, bytes) = echoed(OFFER);
        assert!(alone_bytes < message_bytes, "{alone_bytes} of {message_bytes} bytes");
        assert!(bytes * 3 < alone_bytes * 2, "{bytes} bytes in context, {alone_bytes} alone");
    });
}

#[test]
fn bodies_are_read_as_they_come_compressed() {
    undisturbed(|| {
        let events = script(|mut peer: Peer| {
            if peer.header("Accept-Encoding") != "gzip" {
                return Err(Error::other("nothing is offered"));
            }
            peer.say(&format!("{SSE}Content-Encoding: gzip\r\n\r\n"))?;
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            forever(|| {
                gzip.write_all(b"data: the same again and again and again\n\n")?;
                gzip.flush()?;
                let bytes = std::mem::take(gzip.get_mut());
                peer.socket.write_all(&bytes)
            })
        });
        let outcome = visit("http", 0, events);
        assert_eq!(agreed(&outcome, "Content-Encoding"), "gzip");
        let received = outcome.received.unwrap();
        assert_eq!(received.answer.compression.as_deref(), Some("gzip"));
        assert!(
            received.events > 10 && received.payload_bytes == 34 * received.events,
            "{received:?}"
        );
        assert!(received.wire_bytes < received.payload_bytes, "{received:?}");
    });
}

#[test]
fn uncompressed_servers_are_measured_too() {
    undisturbed(|| {
        let received = visit("ws", 100, script(|mut peer| peer.echo())).received.unwrap();
        let exchanged = received.exchanged.unwrap();
        assert!(exchanged.sent > 20 && exchanged.unanswered == 0, "{exchanged:?}");
        assert_eq!(received.answer.compression, None);
    });
}
