//! `window=`: a WebSocket subscription receives at most this much ahead of its acks.

use serde_json::json;

use crate::harness::{Received, Server, Subscriber, Transport, offset};

/// Events of 1 KiB each; a frame has a little more.
const EVENT_BYTES: usize = 1024;

fn event(number: u64) -> String {
    let text = "x".repeat(EVENT_BYTES - 30);
    format!("{{\"n\":{number},\"text\":\"{text}\"}}\n")
}

fn publish(server: &Server, topic: &str, numbers: std::ops::Range<u64>) {
    for number in numbers {
        server.post(topic, "application/json", event(number)).published();
    }
}

/// Receives everything up to the reply to an echo. Returns the bytes of the envelopes, and the last position.
fn everything_due(socket: &mut Subscriber, seen: &mut u64) -> (Vec<usize>, Option<String>) {
    let mut frames = Vec::new();
    let mut position = None;
    // Replies overtake data. Everything up to the second reply is all that the server can send now.
    loop {
        let mut count = 0;
        socket.say(r#"{"command":"echo","data":1}"#);
        loop {
            match socket.next() {
                Received::Envelope(envelope) => {
                    assert_eq!(envelope.first, *seen + 1);
                    *seen = offset(&envelope.position);
                    frames.push(frame_bytes(envelope.text.len()));
                    position = Some(envelope.position);
                    count += 1;
                }
                Received::Answer(_) => break,
                other => panic!("{other:?}"),
            }
        }
        if count == 0 && socket.socket.is_silent(std::time::Duration::from_millis(100)) {
            return (frames, position);
        }
    }
}

/// The size of an unmasked frame (RFC 6455 §5.2).
fn frame_bytes(payload: usize) -> usize {
    payload + if payload < 126 { 2 } else { 4 }
}

fn ack(socket: &mut Subscriber, topic: &str, position: &str) {
    let ack = json!({"command": "ack", "topic": topic, "position": position});
    socket.say(&ack.to_string());
}

#[test]
fn never_more_than_the_window_is_under_way_and_acks_open_it() {
    const EVENTS: u64 = 200;
    const WINDOW: usize = 16 << 10;
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let client = server.http2();
        for (topic, mut socket) in [
            ("a", server.subscribe(Transport::WebSocket, "/a?window=16KiB")),
            ("b", server.subscribe(Transport::WebSocket, "?topic=b&window=16384")),
            ("c", client.subscribe(Transport::WebSocket, "/c?window=16KiB")),
        ] {
            socket.confirmed();
            publish(&server, topic, 0..EVENTS);
            let mut seen = 0;
            let mut rounds = 0;
            while seen < EVENTS {
                let (frames, position) = everything_due(&mut socket, &mut seen);
                let bytes: usize = frames.iter().sum();
                assert!(bytes <= WINDOW, "{bytes} B un-acked: {frames:?}");
                assert!(!frames.is_empty(), "it goes on after event {seen}");
                if seen < EVENTS {
                    assert!(bytes > WINDOW / 2, "the window is used: {bytes} B");
                }
                ack(&mut socket, topic, &position.expect("a position"));
                rounds += 1;
            }
            assert!(rounds > 10, "{rounds} windows for {EVENTS} KiB");
        }
    }
}

#[test]
fn an_ack_of_a_part_opens_that_part() {
    const WINDOW: usize = 16 << 10;
    let server = Server::start(&[]);
    let mut socket = server.subscribe(Transport::WebSocket, "/t?window=16KiB");
    let start = socket.confirmed();
    publish(&server, "t", 0..100);
    let mut seen = 0;
    let mut unacked = everything_due(&mut socket, &mut seen).0;
    let mut acked = 0;
    for _ in 0..5 {
        // Acks the older half of the bytes in flight, if they are whole frames.
        let count = unacked.len() / 2;
        acked += count as u64;
        unacked.drain(..count);
        let position = crate::harness::at(&start, acked);
        ack(&mut socket, "t", &position);
        unacked.extend(everything_due(&mut socket, &mut seen).0);
        let bytes: usize = unacked.iter().sum();
        assert!(bytes <= WINDOW, "{bytes} B un-acked");
        assert!(bytes > WINDOW / 2, "{bytes} B un-acked: it went on");
    }
}

#[test]
fn invalid_acks_do_not_open_the_window() {
    const WINDOW: usize = 4 << 10;
    let server = Server::start(&[]);
    let mut socket = server.subscribe(Transport::WebSocket, "/t?window=4KiB");
    let start = socket.confirmed();
    publish(&server, "t", 0..50);
    let mut seen = 0;
    let (frames, position) = everything_due(&mut socket, &mut seen);
    assert!(frames.iter().sum::<usize>() <= WINDOW);
    ack(&mut socket, "t", &start);
    ack(&mut socket, "t", &start);
    ack(&mut socket, "other", &position.clone().expect("a position"));
    ack(&mut socket, "t", "1.40");
    let before = seen;
    assert_eq!(everything_due(&mut socket, &mut seen).0, Vec::<usize>::new());
    assert_eq!(seen, before);
    ack(&mut socket, "t", &position.expect("a position"));
    assert!(!everything_due(&mut socket, &mut seen).0.is_empty());
}

#[test]
fn a_frame_larger_than_the_window_comes_alone() {
    let server = Server::start(&[]);
    // This is the smallest window. An event is a little larger.
    let mut socket = server.subscribe(Transport::WebSocket, "/t?window=1KiB");
    socket.confirmed();
    for number in 0..10 {
        let event = format!("\"{number}{}\"", "x".repeat(2_000));
        server.post("t", "application/json", event).published();
    }
    let mut seen = 0;
    for count in 1..=10 {
        let (frames, position) = everything_due(&mut socket, &mut seen);
        assert_eq!((frames.len(), seen), (1, count), "one frame, whatever the window");
        ack(&mut socket, "t", &position.expect("a position"));
    }
}

#[test]
fn an_invalid_window_is_refused_and_so_is_one_on_other_transports() {
    let server = Server::start(&[]);
    for bad in ["0", "1023", "-1", "x", "", "1PB"] {
        let headers = Transport::WebSocket.headers();
        let target = format!("/v1/topics/t?window={bad}");
        server.ask("GET", &target, &headers, "").refused(400, "bad_parameter");
        let mut socket = server.subscribe(Transport::WebSocket, "");
        let command = format!(r#"{{"command":"subscribe","topic":"t","window":"{bad}"}}"#);
        assert_eq!(socket.command(&command)["error"]["code"], json!("bad_parameter"), "{bad}");
    }
    for transport in Transport::ONE_WAY {
        let separator = transport.query().map_or(String::new(), |query| format!("&{query}"));
        let target = format!("/v1/topics/t?window=4KiB{separator}");
        let refused = server.ask("GET", &target, &transport.headers(), "");
        let sentence = refused.refused(400, "bad_parameter");
        assert!(sentence.contains("window"), "{transport:?}: {sentence}");
    }
}

/// Returns a subscriber with a window that acks only after most of its next events have left the history, and
/// the number of events that it had received.
fn acked_late(server: &Server, policy: &str) -> (Subscriber, u64) {
    let target = format!("/{policy}?policy={policy}&window=8KiB");
    let mut socket = server.subscribe(Transport::WebSocket, &target);
    socket.confirmed();
    publish(server, policy, 0..300);
    let mut seen = 0;
    let position = everything_due(&mut socket, &mut seen).1;
    assert!(seen > 0 && seen < 20, "{seen}");
    publish(server, policy, 300..400);
    ack(&mut socket, policy, &position.expect("a position"));
    (socket, seen)
}

const LITTLE: &[&str] = &["--topic", "**,history-bytes=64KiB"];

#[test]
fn a_late_ack_is_followed_by_a_gap_with_its_size() {
    let server = Server::start(LITTLE);
    for policy in ["skip", "latest"] {
        let (mut socket, seen) = acked_late(&server, policy);
        let gap = socket.gap();
        assert_eq!((gap.topic.as_str(), gap.reason.as_str()), (policy, "slow"));
        assert_eq!(gap.missed, Some(offset(&gap.position) - seen), "{gap:?}");
        let mut seen = offset(&gap.position);
        assert!(seen > 300, "{seen}: what is retained");
        let (frames, position) = everything_due(&mut socket, &mut seen);
        assert!(!frames.is_empty() && frames.iter().sum::<usize>() <= 8 << 10, "{frames:?}");
        if policy == "latest" {
            assert_eq!(offset(&position.expect("a position")), 400);
        }
    }
}

#[test]
fn a_topic_ends_for_a_client_that_acks_late_if_that_is_the_policy() {
    let server = Server::start(LITTLE);
    let (mut socket, _) = acked_late(&server, "close");
    match socket.next() {
        Received::TopicEnd(_, _, code) => assert_eq!(code, "slow"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_subscription_has_its_own_window() {
    let server = Server::start(&[]);
    let mut socket = server.subscribe(Transport::WebSocket, "/none");
    socket.confirmed();
    let answer = socket
        .command(r#"{"command":"subscribe","id":1,"topic":"t","window":"4KiB","cursor":"latest"}"#);
    assert_eq!(answer["answer"]["topic"], json!("t"));
    socket.confirmed();
    publish(&server, "t", 0..50);
    let mut seen = 0;
    let (frames, _) = everything_due(&mut socket, &mut seen);
    assert!(frames.iter().sum::<usize>() <= 4 << 10);
    assert!(seen < 50);
    // The other topic of the connection is not blocked.
    for number in 0..50 {
        server.publish("none", number..number + 1);
        let envelope = socket.envelope();
        assert_eq!((envelope.topic.as_str(), envelope.first), ("none", number + 1));
    }
}
