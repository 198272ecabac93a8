use std::time::Duration;

use crate::harness::{
    Frame, Received, Server, Subscriber, Transport, opcode, ticking, unharmed, wait_for,
};

fn connect(server: &Server) -> Subscriber {
    let mut subscriber = server.subscribe(Transport::WebSocket, "/t");
    subscriber.confirmed();
    subscriber
}

/// Connects eight clients whose messages come in two parts, which are answered.
fn answered_in_halves(server: &Server, bytes: usize) {
    let echo = format!(r#"{{"command":"echo","data":"{}"}}"#, "x".repeat(bytes));
    let echo = Frame::new(opcode::TEXT, &echo).bytes();
    let mut clients: Vec<Subscriber> = (0..8).map(|_| connect(server)).collect();
    for half in [&echo[..bytes / 2], &echo[bytes / 2..]] {
        for client in &mut clients {
            client.socket.send(half);
        }
        server.get("/healthz");
    }
    for client in &mut clients {
        assert!(matches!(client.next(), Received::Answer(_)));
    }
}

fn closed(subscriber: &mut Subscriber) -> u16 {
    loop {
        match subscriber.next() {
            Received::Close(code, ..) => return code,
            Received::Pong(_) | Received::Heartbeat | Received::Answer(_) => {}
            other => panic!("a close was due, not {other:?}"),
        }
    }
}

const ECHO: &str = r#"{"command":"echo","id":1,"data":"all of this is one message"}"#;

#[test]
fn a_message_not_finished_in_time_is_1008() {
    let server = ticking(&["--body-timeout", "300ms"]);
    let whole = Frame::new(opcode::TEXT, ECHO).bytes();
    unharmed(&server, || {
        // This message is never completed.
        let mut begun = connect(&server);
        begun.socket.send(&whole[..whole.len() / 2]);
        // These send only a header, or half of one.
        let mut header = connect(&server);
        header.socket.send(&whole[..6]);
        let mut half_header = connect(&server);
        half_header.socket.send(&whole[..1]);
        // Fragments of a byte each, with pings between them.
        let mut pinging = connect(&server);
        let first = Frame::new(opcode::TEXT, &ECHO[..1]).not_final().bytes();
        pinging.socket.send(first);
        for byte in ECHO[1..].chars().cycle().take(300) {
            let fragment = Frame::new(opcode::CONTINUATION, &byte.to_string()).not_final().bytes();
            let ping = Frame::new(opcode::PING, "still here").bytes();
            pinging.socket.send_if_open([fragment, ping].concat());
            thalweg_testing::let_pass(Duration::from_millis(5));
        }
        // One byte at a time, 200 times per second.
        let mut dripping = connect(&server);
        let long = Frame::new(opcode::TEXT, &"x".repeat(1000)).bytes();
        for byte in long.chunks(1).take(400) {
            dripping.socket.send_if_open(byte);
            thalweg_testing::let_pass(Duration::from_millis(5));
        }
        for one in [&mut begun, &mut header, &mut half_header, &mut pinging, &mut dripping] {
            assert_eq!(closed(one), 1008);
        }
    });
    server.has_closed(1008, 5);
    server.has_counted("thalweg_unfinished_bytes", 0);
}

#[test]
fn messages_that_overlap_reads_are_not_slow() {
    let server = ticking(&["--body-timeout", "300ms"]);
    let whole = Frame::new(opcode::TEXT, ECHO).bytes();
    let mut steady = connect(&server);
    let (mut sent, stream) = (0, whole.repeat(60));
    // Each piece ends one message and begins the next.
    for piece in stream.chunks(whole.len() / 2 + 3) {
        steady.socket.send(piece);
        sent += piece.len();
        thalweg_testing::let_pass(Duration::from_millis(20));
    }
    assert_eq!(sent, stream.len());
    for _ in 0..60 {
        assert!(matches!(steady.next(), Received::Answer(_)));
    }
    server.has_closed(1008, 0);
}

/// The room for a command around an event (`thalweg-wire/src/limits.rs`) is larger than the largest event of this test.
#[test]
fn a_message_over_the_limit_is_1009() {
    const EVENT_BYTES: usize = 64 << 10;
    let server = ticking(&["--set", "limits.event-bytes=64KiB"]);
    let large = "x".repeat(4 * EVENT_BYTES);
    unharmed(&server, || {
        let mut whole = connect(&server);
        // The header is enough.
        whole.socket.send(&Frame::new(opcode::TEXT, &large).bytes()[..20]);
        let mut fragments = connect(&server);
        fragments.send(&Frame::new(opcode::TEXT, &large[..EVENT_BYTES / 2]).not_final());
        for _ in 0..8 {
            let next = &large[..EVENT_BYTES / 2];
            fragments.send(&Frame::new(opcode::CONTINUATION, next).not_final());
        }
        let mut endless = connect(&server);
        let mut header = vec![0x81, 0xff];
        header.extend_from_slice(&(1_u64 << 62).to_be_bytes());
        header.extend_from_slice(&[1, 2, 3, 4]);
        endless.socket.send(header);
        for one in [&mut whole, &mut fragments, &mut endless] {
            assert_eq!(closed(one), 1009);
        }
        // An event above the limit in a message below it: the command is refused.
        let mut event = connect(&server);
        let pad = &large[..EVENT_BYTES];
        let command = format!(r#"{{"command":"publish","id":1,"topic":"t","event":"{pad}"}}"#);
        let answer = event.command(&command);
        assert_eq!(answer["error"]["code"], "event_too_large", "{answer}");
    });
    server.has_closed(1009, 3);
    server.has_refused("event_too_large", 1);
}

#[test]
fn malformed_frames_are_1002_and_what_is_not_utf8_1007() {
    let server = ticking(&[]);
    let text = |payload: &'static str| Frame::new(opcode::TEXT, payload);
    let length_2_63 = [&[0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], &[1, 2, 3, 4][..]].concat();
    // The length has a longer encoding than necessary (RFC 6455 §5.2).
    let long_short = [&[0x81, 0xfe, 0, 5], &[0; 9][..]].concat();
    let long_long = [&[0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 5], &[0; 9][..]].concat();
    let too_long_ping = "x".repeat(126);
    let wrong: Vec<(&str, u16, Vec<u8>)> = vec![
        ("unmasked", 1002, text("{}").unmasked().bytes()),
        ("rsv1 without compression", 1002, text("{}").with_reserved_bits(0x40).bytes()),
        ("rsv2", 1002, text("{}").with_reserved_bits(0x20).bytes()),
        ("rsv3", 1002, text("{}").with_reserved_bits(0x10).bytes()),
        ("opcode 3", 1002, Frame::new(3, "").bytes()),
        ("opcode 7", 1002, Frame::new(7, "").bytes()),
        ("opcode 11", 1002, Frame::new(11, "").bytes()),
        ("opcode 15", 1002, Frame::new(15, "").bytes()),
        ("nothing to continue", 1002, Frame::new(opcode::CONTINUATION, "x").bytes()),
        ("text within text", 1002, [text("a").not_final().bytes(), text("b").bytes()].concat()),
        ("ping in fragments", 1002, Frame::new(opcode::PING, "x").not_final().bytes()),
        ("close in fragments", 1002, Frame::new(opcode::CLOSE, "").not_final().bytes()),
        ("ping over 125 bytes", 1002, Frame::new(opcode::PING, &too_long_ping).bytes()),
        ("close code of one byte", 1002, Frame::new(opcode::CLOSE, "x").bytes()),
        ("close code 999", 1002, Frame::new(opcode::CLOSE, &[3, 231]).bytes()),
        ("close code 1005", 1002, Frame::new(opcode::CLOSE, &[3, 237]).bytes()),
        ("close code 1006", 1002, Frame::new(opcode::CLOSE, &[3, 238]).bytes()),
        ("close code 5000", 1002, Frame::new(opcode::CLOSE, &[19, 136]).bytes()),
        ("2^63 bytes", 1009, length_2_63),
        ("5 bytes as 16 bits", 1002, long_short),
        ("5 bytes as 64 bits", 1002, long_long),
        ("not UTF-8", 1007, Frame::new(opcode::TEXT, b"\xff").bytes()),
        ("UTF-16 surrogate", 1007, Frame::new(opcode::TEXT, b"\xed\xa0\x80").bytes()),
        ("cut off in a character", 1007, Frame::new(opcode::TEXT, b"\xe2\x82").bytes()),
        ("begun wrongly", 1007, Frame::new(opcode::TEXT, b"\xc0\xaf").not_final().bytes()),
        ("reason not UTF-8", 1007, Frame::new(opcode::CLOSE, b"\x03\xe8\xff").bytes()),
        ("binary", 1003, Frame::new(opcode::BINARY, "x").bytes()),
    ];
    unharmed(&server, || {
        for (what, code, bytes) in &wrong {
            let mut subscriber = connect(&server);
            subscriber.socket.send_if_open(bytes);
            assert_eq!(closed(&mut subscriber), *code, "{what}");
            assert_eq!(subscriber.next(), Received::End, "{what}");
        }
    });
    for code in [1002, 1003, 1007, 1009] {
        let times = wrong.iter().filter(|(_, its, _)| *its == code).count();
        server.has_closed(code, times as u64);
    }
}

#[test]
fn thousands_of_pings_are_answered_each() {
    const PINGS: usize = 20_000;
    let server = ticking(&[]);
    unharmed(&server, || {
        let mut subscriber = connect(&server);
        for number in 0..PINGS {
            subscriber.send(&Frame::new(opcode::PING, &number.to_string()));
            // The client reads replies from time to time; otherwise both ends would wait.
            if number % 1000 == 999 {
                for expected in number - 999..=number {
                    let pong = Received::Pong(expected.to_string().into_bytes());
                    assert_eq!(subscriber.next(), pong);
                }
            }
        }
    });
}

#[test]
fn unfinished_messages_over_their_memory_are_1013() {
    const HELD: usize = 32 << 10;
    let server =
        ticking(&["--set", "limits.event-bytes=64KiB", "--set", "limits.unfinished-bytes=256KiB"]);
    let begun = &Frame::new(opcode::TEXT, &"x".repeat(2 * HELD)).bytes()[..HELD];
    unharmed(&server, || {
        let mut holders: Vec<Subscriber> = (0..16).map(|_| connect(&server)).collect();
        for holder in &mut holders {
            holder.socket.send_if_open(begun);
        }
        // The connections with most bytes are closed, until there is room again.
        wait_for("half of them to be closed", || {
            (server.count("thalweg_closed_total{code=\"1013\"}") >= 8).then_some(())
        });
        let unfinished = server.count("thalweg_unfinished_bytes");
        assert!(unfinished <= 256 << 10, "{unfinished}");
        // The small message of another client is not affected.
        let mut other = connect(&server);
        assert!(other.command(ECHO)["answer"]["data"].is_string());
        // Neither is a message in two parts, which exceeds the limit again.
        answered_in_halves(&server, 8000);
        drop(holders);
    });
    server.has_counted("thalweg_unfinished_bytes", 0);
}

/// If a client does not read replies, its messages wait unprocessed. They count under the same bound, and
/// such a client is closed before others with fewer bytes.
#[test]
fn messages_of_a_client_that_does_not_read_count_against_it() {
    const ROOM: u64 = 1 << 20;
    let server = ticking(&[
        "--set",
        "limits.event-bytes=64KiB",
        "--set",
        "limits.unfinished-bytes=1MiB",
        "--set",
        "tuning.send-buffer-bytes=8KiB",
    ]);
    // Each is refused with a reply that is far longer than itself.
    let many = Frame::new(opcode::TEXT, "{}").bytes().repeat(24_000);
    unharmed(&server, || {
        let mut holders = Vec::new();
        wait_for("them to hold what may be held", || {
            let mut holder = connect(&server);
            holder.socket.send_if_open(&many);
            holders.push(holder);
            (server.count("thalweg_unfinished_bytes") > ROOM * 9 / 10).then_some(())
        });
        answered_in_halves(&server, 40_000);
    });
    server.has_counted("thalweg_unfinished_bytes", 0);
}
