//! Endpoints that refuse, leave early, or break their protocol.

use super::server::{Peer, Script, script, serve};
use thalweg_testing::RefusingAddress;

use super::{SSE, forever, received, received_in, typed, visit, visit_for};
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg_lab::scenario::Typed;
use thalweg_testing::undisturbed;

fn events(mut peer: Peer) -> io::Result<()> {
    peer.upgrade("")?;
    forever(|| peer.frame(0x81, b"1"))
}

#[test]
fn a_limit_of_connections_is_found() {
    undisturbed(|| {
        let address = serve(script(|mut peer| {
            match peer.number {
        ..3 => events(peer),
        3 => peer.say("HTTP/1.1 429 Slow Down\r\n\r\n"),
        _ => peer.say(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n\r\ntoo many connections\n",
        ),
    }
        }));
        let received = received(&typed(format!("ws://{address}/")), 8);
        assert_eq!(
            (received.connections, received.established, received.ended_early.count),
            (8, 3, 0)
        );
        assert_eq!(received.refused.count, 5);
        let mut reasons = received.refused.first;
        reasons.sort();
        let full = "503 Service Unavailable: too many connections".to_owned();
        assert_eq!(reasons, [("429 Slow Down".to_owned(), 1), (full, 4)]);
        assert!(received.events_per_connection_min > 0);
    });
}

#[test]
fn connections_that_end_early_say_how() {
    undisturbed(|| {
        let (answered, answers) = channel();
        let answered = Mutex::new(answered);
        let address = serve(script(move |mut peer| {
            let number = peer.number;
            if number > 1 {
                return events(peer);
            }
            peer.upgrade("")?;
            for _ in 0..60 {
                peer.frame(0x81, b"1")?;
                thalweg_testing::let_pass(Duration::from_millis(1));
            }
            if number == 1 {
                return Ok(());
            }
            peer.frame(0x88, b"\x0f\xa1bye")?;
            let (first, _, shown) = peer.read_frame()?;
            let _ = answered.lock().map(|answered| answered.send((first, shown)));
            Ok(())
        }));
        let received = received_in(visit_for(&typed(format!("ws://{address}/")), 4, 0, 600));
        assert_eq!((received.established, received.ended_early.count), (4, 2));
        let mut reasons = received.ended_early.first;
        reasons.sort();
        let cut = "the connection was ended without a close frame (1006)";
        assert_eq!(reasons, [("closed with 4001: bye".to_owned(), 1), (cut.to_owned(), 1)]);
        assert_eq!(
            thalweg_testing::receive(&answers, "an answer").unwrap(),
            (0x88, b"\x0f\xa1".to_vec()),
            "a close is answered"
        );
    });
}

#[test]
fn the_span_is_over_when_all_have_left() {
    undisturbed(|| {
        let address = serve(script(|mut peer| {
            peer.say(&format!("{SSE}Transfer-Encoding: chunked\r\n\r\n"))?;
            for _ in 0..60 {
                peer.say("9\r\ndata: 1\n\n\r\n")?;
                thalweg_testing::let_pass(Duration::from_millis(1));
            }
            peer.say("0\r\n\r\n")
        }));
        // The visit would last an hour if no connection ended.
        let received =
            received_in(visit_for(&typed(format!("http://{address}/")), 2, 0, 3_600_000));
        assert_eq!((received.completed, received.ended_early.count), (2, 0));
        assert!(0 < received.events_per_connection_min && received.events_per_connection_max <= 60);
    });
}

/// Checks the reason why there is no result.
fn check(url: &str, script: Script, expected: &str) {
    let url = url.replace("HERE", &serve(script).to_string());
    let error = visit(&typed(url), 2).expect_err(expected);
    let shown = format!("{error:#}");
    assert!(shown.contains(expected), "{shown:?} should say {expected:?}");
}

/// Answers with this and waits for the client to leave.
fn answer(text: &'static str) -> Script {
    script(move |mut peer| {
        peer.say(text)?;
        let _ = peer.socket.read(&mut [0; 64])?;
        Ok(())
    })
}

#[test]
fn servers_that_keep_no_connection_are_reported() {
    undisturbed(|| {
        let wrong_key = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        check("ws://HERE/", answer(wrong_key), "2× its Sec-WebSocket-Accept does not belong");
        let moved = "HTTP/1.1 307 Temporary Redirect\r\nLocation: wss://h/x\r\n\r\n";
        check("ws://HERE/", answer(moved), "it redirects to wss://h/x; measure that URL");
        check("http://HERE/", answer("HTTP/1.1 404 Nowhere\r\n\r\nno\n"), "404 Nowhere: no");
        check("ws://HERE/", answer("HTTP/1.1 200 OK\r\n\r\n"), "no WebSocket is there");
        let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
        check("http://HERE/", answer(html), "text/html and not text/event-stream");
        check("http://HERE/", answer("+OK POP3\r\n"), "is not HTTP/1.1");
        check("http://HERE/", script(|_| Ok(())), "ended before there was an answer");
        let extended = script(|mut peer| peer.upgrade("Sec-WebSocket-Extensions: x\r\n"));
        check("ws://HERE/", extended, "the extension x");
        let typed = Typed {
            subprotocol: Some("mqtt".to_owned()),
            ..typed(format!("ws://{}/", serve(script(events))))
        };
        let error = visit(&typed, 1).unwrap_err().to_string();
        assert!(error.contains("does not speak the subprotocol mqtt"), "{error}");
    });
}

#[test]
fn malformed_messages_are_errors() {
    undisturbed(|| {
        let masked = script(|mut peer| {
            peer.upgrade("")?;
            forever(|| peer.frame(0xC1, b"1"))
        });
        check("ws://HERE/", masked, "it sent a frame of an extension that was not offered");
        let chunks = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                  Transfer-Encoding: chunked\r\n\r\nnone";
        check("http://HERE/", answer(chunks), "for the size of a chunk");
    });
}

#[test]
fn a_missing_endpoint_is_reported() {
    undisturbed(|| {
        let refusing = RefusingAddress::new().unwrap();
        let url = format!("ws://{}/", refusing.address());
        let error = visit(&typed(url.clone()), 100).unwrap_err().to_string();
        assert!(error.contains("nothing listens at ws://127.0.0.1:"), "{error}");
        let error = visit(&typed("ws://nowhere.invalid/".to_owned()), 1).unwrap_err().to_string();
        assert!(error.contains("no address is known for nowhere.invalid"), "{error}");
        let error = visit(&typed(url), 0).unwrap_err().to_string();
        assert!(error.contains("at least one connection"), "{error}");
    });
}

#[test]
fn an_end_before_the_span_is_reported() {
    undisturbed(|| {
        let address = serve(script(|mut peer| {
            peer.upgrade("")?;
            peer.frame(0x88, b"\x03\xf5")?;
            let _ = peer.read_frame()?;
            Ok(())
        }));
        let error = visit_for(&typed(format!("ws://{address}/")), 2, 3_600_000, 1).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("before the span: 2× closed with 1013"), "{error}");
    });
}
