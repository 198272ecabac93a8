//! Sources: generators that feed topics.

use std::collections::HashSet;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::harness::{Server, Transport};

fn first_events(source: &str, count: usize) -> Vec<Value> {
    let server = Server::start(&["--source", source]);
    let mut subscriber = server.subscribe(Transport::HttpStreaming, "/t?cursor=earliest");
    subscriber.confirmed();
    let mut events = Vec::new();
    while events.len() < count {
        let envelope = subscriber.envelope();
        assert_eq!(envelope.first, events.len() as u64 + 1);
        events.extend(envelope.events);
    }
    events.truncate(count);
    events
}

/// Removes columns that depend on the start of the server.
fn without_time(events: &[Value], columns: &[usize]) -> Vec<Value> {
    let mut events = events.to_vec();
    for event in &mut events {
        for column in columns {
            event[*column] = Value::Null;
        }
    }
    events
}

#[test]
fn dummy_sends_events_of_the_size_asked_for() {
    let events = first_events("t=dummy,size=100,interval=5ms", 20);
    let sequences: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(sequences, (1..=20).collect::<Vec<u64>>());
    let dues: Vec<u64> = events.iter().filter_map(|event| event["due"].as_u64()).collect();
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 5_000), "{dues:?}");
    for event in events {
        assert_eq!(event.to_string().len(), 100, "{event}");
    }
}

#[test]
fn an_event_is_sent_when_it_is_due_not_with_the_next() {
    const INTERVAL_US: u64 = 500_000;
    let server = Server::start(&["--source", "t=dummy,size=100,interval=500ms"]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/t");
    subscriber.confirmed();
    for _ in 0..4 {
        let envelope = subscriber.envelope();
        let now_us = monotonic_us();
        let due_us = envelope.events[0]["due"].as_u64().expect("the intended time");
        assert!(now_us - due_us < INTERVAL_US * 3 / 4, "{} µs late", now_us - due_us);
        assert_eq!(envelope.events.len(), 1);
    }
}

/// The clock of intended times. All processes share it.
fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

#[test]
fn constant_sends_rows_numbered_and_due_on_schedule() {
    let events = first_events("t=constant,batch=4,interval=2ms", 40);
    for (index, row) in events.iter().enumerate() {
        assert_eq!(row[0].as_u64(), Some(index as u64 + 1));
        let due_us = |row: &Value| row[1].as_u64().expect("the intended time");
        let tick = index as u64 / 4;
        assert_eq!(due_us(row) - due_us(&events[0]), tick * 2_000);
        assert_eq!(row.as_array().map(Vec::len), Some(12));
    }
}

#[test]
fn cars_drive_the_same_way_for_the_same_seed() {
    const TIMES: &[usize] = &[8, 9];
    let drive = |seed: u32| {
        let events = first_events(&format!("t=cars,seed={seed},interval=5ms"), 300);
        assert!(events.iter().all(|row| row.as_array().is_some_and(|row| row.len() == 11)));
        without_time(&events, TIMES)
    };
    let once = drive(7);
    assert_eq!(once, drive(7));
    assert_ne!(once, drive(8));
    let cars: HashSet<&str> = once.iter().filter_map(|row| row[7].as_str()).collect();
    assert!(cars.len() > 1, "{cars:?}");
}

#[test]
fn several_sources_feed_several_topics() {
    let arguments =
        ["--source", "a=dummy,size=100,interval=5ms", "--source", "b=constant,interval=5ms"];
    let server = Server::start(&arguments);
    for topic in ["a", "b"] {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}"));
        subscriber.confirmed();
        assert!(!subscriber.envelope().events.is_empty());
    }
}

#[test]
fn an_equals_sign_in_the_topic_of_a_flag_is_percent_encoded() {
    let source = "a%3Db@c|d+e=dummy,size=100,interval=5ms";
    let query = "q%3D1=SELECT seq FROM \"a=b@c|d+e\"";
    let server = Server::start(&["--source", source, "--query", query]);
    for topic in ["a=b@c%7Cd+e", "q=1"] {
        let mut subscriber = server.subscribe(Transport::HttpStreaming, &format!("/{topic}"));
        subscriber.confirmed();
        assert!(!subscriber.envelope().events.is_empty(), "{topic}");
    }
}

#[test]
fn a_source_that_is_not_understood_keeps_the_server_from_starting() {
    for source in [
        "t",
        "t=",
        "t=trains",
        "t=dummy,size=none",
        "t=dummy,sise=100",
        "a//b=cars",
        "t=constant,interval=0ms",
        "t=cars,interval=soon",
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["serve", "--listen", "127.0.0.1:0", "--source", source])
            .output()
            .expect("run the binary");
        assert!(!output.status.success(), "{source}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.trim().is_empty() && !said.contains("panicked"), "{source}: {said}");
    }
}
