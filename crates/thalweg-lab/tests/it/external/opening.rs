//! The dialogue that opens a WebSocket: messages of the lab, and expected replies.

use super::server::{Peer, script, serve};
use super::{forever, received, typed, visit};
use std::io;
use thalweg_lab::scenario::{OpeningStep, Typed};
use thalweg_testing::undisturbed;

fn send(text: &str) -> OpeningStep {
    OpeningStep::Send(text.to_owned())
}

/// Reads a message, which must be this one. A wrong message ends the connection.
pub(super) fn read(peer: &mut Peer, expected: &str) -> io::Result<()> {
    let (_, _, message) = peer.read_frame()?;
    match message == expected.as_bytes() {
        true => Ok(()),
        false => {
            let found = format!("{} instead of {expected}", message.escape_ascii());
            // A reason of a close frame has at most 123 bytes (RFC 6455 §5.5.1).
            peer.frame(0x88, &[b"\x0f\xa0", &found.as_bytes()[..found.len().min(120)]].concat())?;
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

fn open_after_replies(mut peer: Peer) -> io::Result<()> {
    peer.upgrade("")?;
    let number = peer.number;
    read(&mut peer, "hello")?;
    peer.frame(0x81, br#"{"type":"wait"}"#)?;
    peer.frame(0x81, br#"{"type":"ready"}"#)?;
    read(&mut peer, "join")?;
    if number % 2 == 1 {
        peer.frame(0x88, b"\x11\x31unauthorized")?;
        return peer.read_frame().map(drop);
    }
    peer.frame(0x81, b"you may listen now")?;
    read(&mut peer, "go")?;
    forever(|| peer.frame(0x81, b"1"))
}

#[test]
fn connections_are_established_after_their_replies_and_refused_without_them() {
    undisturbed(|| {
        let opening = vec![
            send("hello"),
            OpeningStep::expect("type=ready"),
            send("join"),
            OpeningStep::expect("may listen"),
            send("go"),
        ];
        let url = format!("ws://{}/", serve(script(open_after_replies)));
        let received = received(&Typed { opening, ..typed(url) }, 6);
        assert_eq!((received.connections, received.established), (6, 3), "{received:?}");
        assert_eq!(received.refused.first, [("closed with 4401: unauthorized".to_owned(), 3)]);
        assert_eq!(received.ended_early.count, 0);
        // Replies are no events.
        assert_eq!(received.payload_bytes, received.events);
        assert!(received.events_per_connection_min > 0, "{received:?}");
    });
}

#[test]
fn a_connection_without_any_reply_says_so() {
    undisturbed(|| {
        let silent = script(|mut peer| {
            peer.upgrade("")?;
            read(&mut peer, "hello")?;
            peer.read_frame().map(drop)
        });
        let opening = vec![send("hello"), OpeningStep::expect("type=ready")];
        let url = format!("ws://{}/", serve(silent));
        let error = visit(&Typed { opening, ..typed(url) }, 1).unwrap_err().to_string();
        assert!(error.contains("1× no reply with type=ready within 10 s"), "{error}");
    });
}
