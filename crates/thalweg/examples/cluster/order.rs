//! Three nodes publish to one topic, R3, on disk before the confirmation: the rate, and whether all nodes
//! have all events in the same order, and each publisher's in its order.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    http::{Publisher, Subscriber},
    nodes::Node,
    servers::Servers,
};

/// The number of publishers on each node.
const PUBLISHERS: usize = 4;
/// The number of events in a request.
const EVENTS: u64 = 256;
const EVENT_BYTES: usize = 128;
const TOPIC: &str = "cars";

/// The events that a subscriber has received.
#[derive(Debug, Default)]
struct Got {
    events: u64,
    /// FNV-1a over publishers and numbers: it is the same only for the same order.
    order: u64,
    /// Events that arrived before one with a smaller number of their publisher, or twice.
    out_of_order: u64,
    gaps: u64,
}

pub(crate) fn run(seconds: u64) -> Option<Value> {
    let conf = std::env::temp_dir().join(format!("thalweg-cluster-{}.conf", std::process::id()));
    fs::write(&conf, "jetstream { sync_interval: always }\n").expect("write a file");
    let servers = Servers::start_with(3, &["-c", conf.to_str().expect("a path")])?;
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&servers, &[])).collect();
    let subscribers = nodes.iter().map(|node| {
        let mut subscriber = Subscriber::open(node.address, &format!("/{TOPIC}")).expect("a node");
        subscriber.envelope().expect("a confirmation");
        thread::spawn(move || read(&mut subscriber))
    });
    let subscribers: Vec<_> = subscribers.collect();
    let begun = Instant::now();
    let publishers = (0..3 * PUBLISHERS).map(|publisher| {
        let address = nodes[publisher % 3].address;
        thread::spawn(move || {
            let mut publishing = Publisher::open(address, TOPIC).expect("a node");
            let mut requests = Vec::new();
            let mut number = 0;
            while begun.elapsed() < Duration::from_secs(seconds) {
                let status = publishing.post(&lines(publisher, &mut number)).expect("an answer");
                assert_eq!(status, 200, "publisher {publisher}");
                requests.push(begun.elapsed().as_micros() as u64);
            }
            // This is the last event, with a special number.
            let end = format!("{{\"p\":{publisher},\"n\":0}}\n");
            assert_eq!(publishing.post(&end).expect("an answer"), 200);
            requests
        })
    });
    let publishers: Vec<_> = publishers.collect();
    let answered: Vec<Vec<u64>> =
        publishers.into_iter().map(|publisher| publisher.join().expect("a publisher")).collect();
    let last_us = answered.iter().flatten().max().copied().unwrap_or(1);
    let events = answered.iter().flatten().count() as u64 * EVENTS;
    let got: Vec<Got> = subscribers
        .into_iter()
        .map(|subscriber| subscriber.join().expect("a subscriber"))
        .collect();
    let is_whole = |got: &Got| got.events == events && got.out_of_order == 0 && got.gaps == 0;
    let is_same = got.iter().all(|found| found.order == got[0].order);
    drop(nodes);
    // The file is not needed any more.
    let _ = fs::remove_file(&conf);
    Some(json!({
        "what": "three nodes publish to one topic, three replicas, sync_interval: always",
        "publishers_per_node": PUBLISHERS,
        "events_per_request": EVENTS,
        "event_bytes": EVENT_BYTES,
        "events": events,
        "events_per_s": events as f64 * 1e6 / last_us as f64,
        "order_held": is_same && got.iter().all(is_whole),
        "at_each_node": got.iter().map(|got| json!({
            "events": got.events, "order": format!("{:016x}", got.order),
            "out_of_order": got.out_of_order, "gaps": got.gaps,
        })).collect::<Vec<_>>(),
        "answered_at_us": answered,
    }))
}

fn lines(publisher: usize, number: &mut u64) -> String {
    let mut lines = String::new();
    for _ in 0..EVENTS {
        *number += 1;
        let start = lines.len();
        write!(lines, "{{\"p\":{publisher},\"n\":{number},\"pad\":\"").expect("memory");
        let pad = (start + EVENT_BYTES - 2).saturating_sub(lines.len());
        lines.extend(std::iter::repeat_n('x', pad));
        lines.push_str("\"}\n");
    }
    lines
}

/// Reads until each publisher has ended.
fn read(subscriber: &mut Subscriber) -> Got {
    let mut got = Got { order: 0xcbf2_9ce4_8422_2325, ..Got::default() };
    let (mut last, mut ended) = (HashMap::new(), 0);
    while ended < 3 * PUBLISHERS {
        let envelope = subscriber.envelope().expect("an envelope");
        got.gaps += u64::from(envelope.starts_with("{\"gap\"") || envelope.contains("\"gap\":{"));
        for event in envelope.split("{\"p\":").skip(1) {
            let (publisher, number) = event_of(event).expect("an event");
            if number == 0 {
                ended += 1;
                continue;
            }
            got.events += 1;
            for part in [publisher, number] {
                got.order = (got.order ^ part).wrapping_mul(0x100_0000_01b3);
            }
            let before = last.insert(publisher, number).unwrap_or(0);
            got.out_of_order += u64::from(number != before + 1);
        }
    }
    got
}

/// `3,"n":17…`
fn event_of(text: &str) -> Option<(u64, u64)> {
    let (publisher, rest) = text.split_once(",\"n\":")?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    Some((publisher.parse().ok()?, rest[..end].parse().ok()?))
}
