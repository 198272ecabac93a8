//! NATS is away: what subscribers and publishers are told.

use std::time::Instant;

use super::{Nodes, Servers};
use crate::harness::{Heard, Transport, close, request};

/// Reads on until something else comes than heartbeats.
fn next(subscriber: &mut crate::harness::Subscriber) -> Heard {
    loop {
        match subscriber.next() {
            Heard::Heartbeat => {}
            heard => return heard,
        }
    }
}

#[test]
fn subscribers_of_a_node_that_is_cut_off_are_sent_away_once() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start_with(&servers, 1, "all=live/**", &["--shards", "2"]);
    let node = nodes.at(0);
    let position = node.publish("live/a", 0..3).position;
    let target = format!("/live/a?cursor={position}");
    let mut subscribers = Transport::STREAMING.map(|transport| node.subscribe(transport, &target));
    let mut own = node.subscribe(Transport::WebSocket, "/own");
    for subscriber in subscribers.iter_mut().chain([&mut own]) {
        subscriber.confirmed();
    }
    // One poll that still waits by then.
    let mut poll = node.connect();
    poll.send(request("GET", &format!("/v1/topics{target}&wait=30s"), &[], b""));
    node.await_connections(subscribers.len() + 2);
    servers.kill(0);
    for (subscriber, transport) in subscribers.iter_mut().zip(Transport::STREAMING) {
        assert_eq!(next(subscriber), close(transport, 4006, "cut off", true), "{transport:?}");
    }
    let said = poll.response().text();
    assert!(said.contains(r#"{"close":{"code":4006,"#), "{said}");
    drop(subscribers);
    // The server still serves its own topics.
    node.publish("own", 0..1);
    assert_eq!(own.numbers(1).0, [0]);
    // Subscribers that come back find the events in memory, and stay.
    let mut back = Transport::STREAMING.map(|transport| node.subscribe(transport, &target));
    for subscriber in &mut back {
        assert_eq!(subscriber.confirmed(), position);
    }
    servers.run(0);
    nodes.await_ready();
    node.publish("live/a", 3..4);
    for subscriber in &mut back {
        assert_eq!(subscriber.numbers(1).0, [3]);
    }
    let told = node.count("thalweg_closed_total{code=\"4006\"}");
    assert_eq!(told, Transport::STREAMING.len() as u64 + 1);
}

#[test]
fn publishes_that_wait_for_each_other_wait_no_longer_for_that() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 1);
    servers.kill(0);
    let begun = Instant::now();
    // Each with a key is a message of its own, and one of a topic is under way at a time.
    let mut sockets: Vec<_> = (0..4)
        .map(|nth| {
            let key = nth.to_string();
            let headers = [("Content-Type", "application/json"), ("Idempotency-Key", &key)];
            let mut socket = nodes.at(0).connect();
            socket.send(request("POST", "/v1/topics/cars", &headers, b"1"));
            socket
        })
        .collect();
    let mut waited = sockets.iter_mut().map(|socket| {
        socket.response().refused(503, "unavailable");
        begun.elapsed()
    });
    let first = waited.next().expect("the first");
    let last = waited.next_back().expect("the last");
    assert!(last < first * 2, "{first:?} and {last:?}");
}
