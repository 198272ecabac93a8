//! Compressed messages of clients: their size after decompression, and the time for which others wait meanwhile.

use std::io::Write as _;

use flate2::{Compression, write::DeflateEncoder};

use crate::harness::{
    Frame, PUBLISHER, Raw, Received, Server, Subscriber, Transport, opcode, request, ticking,
    unharmed,
};

const TOKEN: &str = "publish-secret-1234567890";
const DEFLATES: (&str, &str) = ("Sec-WebSocket-Extensions", "permessage-deflate");

/// RSV1 of a compressed message (RFC 7692 §6).
const RSV1: u8 = 0x40;

/// Compresses a command like a client (RFC 7692 §7.2.1), in one last block.
fn deflated(command: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(command.as_bytes()).expect("a Vec takes everything");
    let mut payload = encoder.finish().expect("a Vec takes everything");
    // After the last block the next message must begin at a byte.
    payload.push(0);
    Frame::new(opcode::TEXT, &payload).with_reserved_bits(RSV1).bytes()
}

/// Returns an echo command of this many bytes. Compressed it has a thousandth of them.
fn echo(bytes: usize) -> String {
    let around = r#"{"command":"echo","data":""}"#.len();
    format!(r#"{{"command":"echo","data":"{}"}}"#, "x".repeat(bytes - around))
}

fn deflating(server: &Server) -> Raw {
    let mut raw = Raw::connect(server.address);
    let headers = [&Transport::WebSocket.headers()[..], &[DEFLATES]].concat();
    raw.send(request("GET", "/v1/topics", &headers, b""));
    let head = raw.until(b"\r\n\r\n", "the handshake").expect("a handshake");
    assert!(String::from_utf8_lossy(&head).contains("permessage-deflate"));
    raw
}

fn deflating_subscriber(server: &Server, headers: &[(&str, &str)]) -> Subscriber {
    server.subscribe_with(Transport::WebSocket, "", &[&[DEFLATES], headers].concat())
}

/// A publisher may send large messages. The server decompresses one of them at a time.
#[test]
fn one_message_is_decompressed_at_a_time() {
    const CONNECTIONS: usize = 3;
    let server = ticking(&["--compression"]);
    let message = deflated(&echo(1 << 20));
    let piece = message.repeat((8 << 10) / message.len());
    assert!(piece.len() >= 7 * message.len());
    // The memory that the allocator keeps after the first message is not measured.
    let mut first = deflating_subscriber(&server, &[]);
    first.socket.send(&message);
    assert!(matches!(first.next(), Received::Answer(_)));
    let before = server.memory();
    unharmed(&server, || {
        let connections: Vec<Raw> = (0..CONNECTIONS)
            .map(|_| {
                let mut raw = deflating(&server);
                raw.send(&piece);
                raw
            })
            .collect();
        server.has_counted("thalweg_connections", 2 + CONNECTIONS as u64);
        // Each message has been processed when the command of another client is answered.
        assert!(first.command(&echo(100))["answer"]["data"].is_string());
        let grown = server.memory().saturating_sub(before);
        assert!(grown <= 8 << 20, "{grown} bytes for {CONNECTIONS} connections");
        // No message is lost: a client that reads gets every reply.
        for mut raw in connections {
            for _ in 0..piece.len() / message.len() {
                let header = raw.exact(10, "a frame's header").expect("an answer");
                assert_eq!(header[..2], [0x81, 127]);
                let length = u64::from_be_bytes(header[2..].try_into().expect("8 bytes"));
                raw.exact(length as usize, "an answer").expect("an answer");
            }
        }
    });
    server.has_counted("thalweg_unfinished_bytes", 0);
}

/// A loop iteration reads for a limited time. The remaining messages wait, from every client.
#[test]
fn others_are_served_while_much_is_inflated() {
    let server = ticking(&["--compression"]);
    let refused = format!(r#"{{"command":"{}"}}"#, "x".repeat(1_000_000));
    let message = deflated(&refused);
    unharmed(&server, || {
        let mut connections: Vec<Subscriber> =
            (0..40).map(|_| deflating_subscriber(&server, &[])).collect();
        let piece = message.repeat(8);
        for connection in &mut connections {
            connection.socket.send(&piece);
        }
        for connection in &mut connections {
            for _ in 0..8 {
                assert!(matches!(connection.next(), Received::Answer(_)));
            }
        }
    });
    server.has_refused("bad_command", 320);
}

#[test]
fn messages_without_the_right_to_publish_are_decompressed_in_proportion() {
    let server = ticking(&[&["--compression"], &PUBLISHER[..]].concat());
    let bearer = format!("Bearer {TOKEN}");
    unharmed(&server, || {
        // Commands of 16 KiB, a few hundred bytes compressed: some are processed.
        let message = deflated(&echo(16 << 10));
        let mut bomber = deflating_subscriber(&server, &[]);
        let mut answers = 0;
        let code = loop {
            bomber.socket.send_if_open(&message);
            match bomber.next() {
                Received::Answer(_) if answers < 100 => answers += 1,
                Received::Close(code, ..) => break code,
                other => panic!("an answer was due, not {other:?}"),
            }
        };
        assert_eq!((code, answers), (1009, 4));
        // Messages with the usual compression ratio have no limit.
        let mut honest = deflating_subscriber(&server, &[]);
        for number in 0..3000 {
            let ack = format!(
                r#"{{"command":"ack","id":{number},"topic":"tick","position":"9f3c21.{number}"}}"#
            );
            honest.socket.send(deflated(&ack));
            assert!(matches!(honest.next(), Received::Answer(_)));
        }
        // A publisher has no such limits.
        let mut publisher = deflating_subscriber(&server, &[("Authorization", &bearer)]);
        for _ in 0..20 {
            publisher.socket.send(deflated(&echo(1 << 20)));
            assert!(matches!(publisher.next(), Received::Answer(_)));
        }
    });
    server.has_closed(1009, 1);
}

#[test]
fn commands_without_the_right_to_publish_have_at_most_16_kib() {
    let server = ticking(&PUBLISHER);
    unharmed(&server, || {
        let mut subscriber = server.subscribe(Transport::WebSocket, "");
        let (fits, long) = (echo(16 << 10), echo((16 << 10) + 1));
        assert!(subscriber.command(&fits)["answer"]["data"].is_string());
        subscriber.socket.send(Frame::new(opcode::TEXT, &long).bytes());
        assert!(matches!(subscriber.next(), Received::Close(1009, ..)));
        let post = |command: &str| server.ask("POST", "/v1/commands", &[], command);
        assert_eq!(post(&fits).status, 200);
        let sentence = post(&long).refused(413, "event_too_large");
        assert!(sentence.contains("may not publish"), "{sentence}");
    });
    server.has_closed(1009, 1);
    server.has_refused("event_too_large", 1);
}
