//! Sizes of messages, for clients with limits.

use crate::harness::{Server, Transport};

/// Go's `bufio.Scanner` limits lines to less than this; Python's `websockets` and coder/websocket have limits, too.
const MESSAGE_BYTES: usize = 64 << 10;

fn sizes(server: &Server, transport: Transport, target: &str, total: usize) -> Vec<usize> {
    let mut stream = server.subscribe(transport, target);
    let (mut events, mut sizes) = (0, Vec::new());
    while events < total {
        let envelope = stream.envelope();
        events += envelope.events.len();
        let json: usize = envelope.events.iter().map(|event| event.to_string().len() + 1).sum();
        sizes.push(json + around(&envelope.topic));
    }
    sizes
}

/// The maximum of bytes around the events of a message: names, two positions, two offsets, the frame of the transport.
fn around(topic: &str) -> usize {
    topic.len() + 256
}

#[test]
fn messages_of_many_events_are_below_64_kib() {
    let server = Server::start(&["--shards", "2"]);
    let topic = format!("{}/t", "long".repeat(49));
    // One body with more than one read of a socket, and many small bodies.
    let lines: String = (0..2_000).map(|n| format!("\"{n:01000}\"\n")).collect();
    server.post(&topic, "application/x-ndjson", &lines).published();
    let small: String = (0..30_000).map(|n| format!("{n}\n")).collect();
    server.post(&topic, "application/x-ndjson", &small).published();
    for transport in Transport::ALL {
        let target = format!("/{topic}?cursor=earliest");
        let sizes = sizes(&server, transport, &target, 32_000);
        let largest = sizes.iter().max();
        assert!(
            largest.is_some_and(|largest| *largest < MESSAGE_BYTES),
            "{transport:?}: {sizes:?}"
        );
        // Messages are not smaller than necessary.
        assert!(sizes.len() < 100, "{transport:?}: {sizes:?}");
    }
}

#[test]
fn a_larger_event_comes_alone() {
    let server = Server::start(&[]);
    let lines = format!("1\n2\n\"{}\"\n3\n", "x".repeat(100_000));
    server.post("t", "application/x-ndjson", &lines).published();
    let mut stream = server.subscribe(Transport::WebSocket, "/t?cursor=earliest");
    let mut counts = Vec::new();
    while counts.iter().sum::<usize>() < 4 {
        let envelope = stream.envelope();
        counts.push(envelope.events.len());
        let is_large = envelope.events.iter().any(|event| event.is_string());
        assert!(!is_large || envelope.events.len() == 1, "{}", envelope.events.len());
    }
    assert!(counts.len() >= 3, "{counts:?}");
}
