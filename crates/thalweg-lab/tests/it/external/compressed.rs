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

const EXTENSION: &str = "permessage-deflate; server_no_context_takeover";

/// Without context, and without the four bytes that are always the same (RFC 7692 §7.2.1).
fn deflated(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 100);
    let mut deflate = Compress::new(Compression::fast(), false);
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

#[test]
fn messages_are_compressed_both_ways_without_context() {
    undisturbed(|| {
        let echo = script(|mut peer: Peer| {
            let offer = peer.header("Sec-WebSocket-Extensions").to_owned();
            if offer != format!("{EXTENSION}; client_no_context_takeover") {
                return Err(Error::other(offer));
            }
            peer.upgrade(&format!("Sec-WebSocket-Extensions: {EXTENSION}\r\n"))?;
            loop {
                match peer.read_frame()? {
                    (0xC1, _, message) => peer.frame(0xC1, &deflated(&inflated(&message)))?,
                    (first, ..) => return Err(Error::other(format!("{first:x}"))),
                }
            }
        });
        let outcome = visit("ws", 100, echo);
        assert_eq!(agreed(&outcome, "Sec-WebSocket-Extensions"), EXTENSION);
        let received = outcome.received.unwrap();
        assert_eq!(received.answer.compression.as_deref(), Some(EXTENSION));
        let exchanged = received.exchanged.unwrap();
        assert!(exchanged.sent > 20 && exchanged.unanswered == 0, "{exchanged:?}");
        assert_eq!(
            received.payload_bytes,
            u64::from(Settings::default().event_bytes) * received.events
        );
        assert!(received.wire_bytes < received.payload_bytes, "{received:?}");
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
        let plain = script(|mut peer: Peer| {
            peer.upgrade("")?;
            loop {
                match peer.read_frame()? {
                    (0x81, _, message) => peer.frame(0x81, &message)?,
                    (first, ..) => return Err(Error::other(format!("{first:x}"))),
                }
            }
        });
        let received = visit("ws", 100, plain).received.unwrap();
        let exchanged = received.exchanged.unwrap();
        assert!(exchanged.sent > 20 && exchanged.unanswered == 0, "{exchanged:?}");
        assert_eq!(received.answer.compression, None);
    });
}
