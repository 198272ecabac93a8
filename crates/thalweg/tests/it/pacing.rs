//! Heartbeats and intervals: the times at which a subscriber receives them.

use std::time::{Duration, Instant};

use crate::harness::{Received, Server, Transport};

#[test]
fn an_idle_subscriber_hears_a_heartbeat() {
    let server = Server::start(&["--heartbeat", "200ms"]);
    let begin = Instant::now();
    let mut subscribers =
        Transport::STREAMING.map(|transport| server.subscribe(transport, "/idle"));
    for subscriber in &mut subscribers {
        subscriber.confirmed();
        assert_eq!(subscriber.next(), Received::Heartbeat);
        // A heartbeat follows after half an interval to a whole one without data.
        assert!(begin.elapsed() > Duration::from_millis(80), "{:?}", begin.elapsed());
    }
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.next(), Received::Heartbeat);
    }
    server.publish("idle", 0..1);
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.numbers(1).0, [0]);
    }
}

#[test]
fn the_answer_to_a_request_comes_before_the_first_heartbeat() {
    let server = Server::start(&["--heartbeat", "10ms"]);
    for _ in 0..200 {
        for transport in Transport::STREAMING {
            let first = server.subscribe(transport, "/idle").next();
            assert_ne!(first, Received::Heartbeat, "{transport:?}");
        }
    }
}

#[test]
fn a_websocket_without_topics_hears_heartbeats_too() {
    let server = Server::start(&["--heartbeat", "200ms"]);
    assert_eq!(server.subscribe(Transport::WebSocket, "").next(), Received::Heartbeat);
}

#[test]
fn an_interval_delays_and_loses_nothing() {
    const INTERVAL: Duration = Duration::from_millis(400);
    let server = Server::start(&[]);
    for transport in Transport::STREAMING {
        let topic = format!("{transport:?}");
        let mut slow = server.subscribe(transport, &format!("/{topic}?interval=400ms"));
        let mut fast = server.subscribe(transport, &format!("/{topic}"));
        slow.confirmed();
        fast.confirmed();
        // The first event is sent after this time.
        let first_at = Instant::now();
        server.publish(&topic, 0..1);
        assert_eq!(slow.numbers(1).0, [0]);
        for number in 1..5 {
            server.publish(&topic, number..number + 1);
        }
        assert_eq!(fast.numbers(5).0, [0, 1, 2, 3, 4]);
        let fast_after = first_at.elapsed();
        assert_eq!(slow.numbers(4).0, [1, 2, 3, 4]);
        let slow_after = first_at.elapsed();
        assert!(slow_after > INTERVAL, "{slow_after:?}");
        assert!(fast_after < slow_after, "{fast_after:?}");
    }
}

#[test]
fn a_flush_interval_of_the_topic_gathers_events_into_one_envelope() {
    let server = Server::start(&["--topic", "**,flush=300ms"]);
    let mut subscriber = server.subscribe(Transport::HttpStreaming, "/t");
    subscriber.confirmed();
    for number in 0..5 {
        server.publish("t", number..number + 1);
    }
    let envelope = subscriber.envelope();
    assert!(envelope.events.len() > 1, "{envelope:?}");
}
