//! Keyed topics, which a broker may keep.

use std::collections::BTreeMap;

use thalweg_broker::{AppendError, Broker, Content};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_wire::{EndCode, Offset};

use super::{Rig, node};
use crate::{Node, node::answer};

/// An event: its offset, its key, and when the key expires.
type Event = (Offset, String, String, i64);

fn keeps_keys<B: Broker>(node: &Node<B>) -> bool {
    node.streams.get(2).is_some_and(|stream| stream.kind == FeedKind::Keyed)
}

/// Makes the events of a record: keys, events and when the keys expire.
fn keyed(events: &[(&str, &str, i64)]) -> Content {
    let lines: Vec<&str> = events.iter().map(|(_, event, _)| *event).collect();
    let mut payloads = Payloads::from_lines(lines.join("\n").into()).expect("events");
    events.iter().for_each(|(key, ..)| payloads.push_key(key));
    for (at, (.., expiry)) in events.iter().enumerate().filter(|(_, (.., expiry))| *expiry > 0) {
        payloads.set_expiry(at, *expiry);
    }
    Content::Events(payloads)
}

fn events_of(first: Offset, payloads: &Payloads) -> Vec<Event> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let expiry = |at: usize| payloads.expiries().get(at).copied().unwrap_or(0);
    let events = payloads.keyed_events().enumerate();
    let events: Vec<Event> = events
        .map(|(at, (key, event))| (first + at as Offset, text(key), text(event), expiry(at)))
        .collect();
    assert_eq!(events.len(), payloads.count(), "each event has a key");
    events
}

fn read<B: Broker>(node: &Node<B>, topic: &str, until: Offset) -> Vec<Event> {
    let pages = node.pages(topic, 0, until);
    let records = pages.iter().flat_map(|(_, page)| &page.records);
    records.flat_map(|(first, payloads)| events_of(*first, payloads)).collect()
}

/// Returns the newest event of each key.
fn newest(events: &[Event]) -> BTreeMap<String, Event> {
    events.iter().map(|event| (event.1.clone(), event.clone())).collect()
}

/// Appends records, and returns their events with the offsets that they got.
fn append<B: Broker>(node: &Node<B>, topic: &str, records: &[&[(&str, &str, i64)]]) -> Vec<Event> {
    let mut stored = Vec::new();
    for record in records {
        let first = node.append_content(topic, keyed(record), None).expect("stored").first;
        let Content::Events(payloads) = keyed(record) else { unreachable!("events") };
        stored.extend(events_of(first, &payloads));
    }
    stored
}

const RECORDS: [&[(&str, &str, i64)]; 4] = [
    &[("a", "1", 0), ("b", "{\"x\":[2]}", 9_000_000_000_000), ("a,\"\\", "3", 0)],
    &[("a", "null", 0)],
    &[("c", "4", 9_000_000_000_001), ("a", "5", 0)],
    &[("c", "null", 0), ("d", "6", 0)],
];

/// Events are read with their keys and expiries, also after a crash.
pub fn keyed_records<R: Rig>(rig: &mut R) {
    let first = node(rig);
    if !keeps_keys(&first) {
        return;
    }
    let stored = append(&first, "keys/a", &RECORDS);
    append(&first, "keys/b", &[&[("a", "0", 0)]]);
    let end = stored.last().expect("an event").0 + 1;
    assert_eq!(newest(&read(&first, "keys/a", end)), newest(&stored));
    drop(first);
    rig.restart();
    let second = node(rig);
    assert_eq!(newest(&read(&second, "keys/a", end)), newest(&stored));
    // The end of a topic ends all its keys.
    let ended = second.append_content("keys/a", Content::End(EndCode::Deleted), None);
    let again = append(&second, "keys/a", &[&[("e", "7", 0)]]);
    assert_eq!(read(&second, "keys/a", again[0].0 + 1), again);
    let page = second.read("keys/a", 0, again[0].0 + 1);
    assert!(page.stored_from > ended.expect("stored").first, "{page:?}");
}

/// Retention leaves the newest event of each key, and its key.
pub fn keyed_trims<R: Rig>(rig: &mut R) {
    let first = node(rig);
    if !keeps_keys(&first) {
        return;
    }
    let mut stored = append(&first, "keys/a", &RECORDS);
    first.append("log/a", &["0"], None).expect("stored");
    rig.trim();
    stored.extend(append(&first, "keys/a", &[&[("f", "7", 0)], &[("f", "8", 0)]]));
    for _ in 0..2 {
        rig.restart();
        let node = node(rig);
        let end = stored.last().expect("an event").0 + 1;
        assert_eq!(newest(&read(&node, "keys/a", end)), newest(&stored));
        stored.extend(append(&node, "keys/a", &[&[("b", "9", 0)]]));
        rig.trim();
    }
}

/// A repetition has the same key of its event, and not only the same event.
pub fn keyed_repetitions<R: Rig>(rig: &mut R) {
    let node = node(rig);
    if !keeps_keys(&node) {
        return;
    }
    let append = |key: &str, expiry: i64| {
        let record = node.record("keys/a", keyed(&[(key, "1", expiry)]), Some("once"));
        answer(&node.caller().start_append(record, None))
    };
    let first = append("a", 9_000_000_000_000).expect("stored").first;
    // It expires later than it did before.
    let again = append("a", 9_000_000_000_007).expect("a repetition");
    assert_eq!((again.first, again.is_repetition), (first, true));
    assert_eq!(append("b", 0), Err(AppendError::KeyReused));
}

/// The end of a topic leaves none of its keys, also of those that were stored long before.
pub fn keyed_ends<R: Rig>(rig: &mut R) {
    let node = node(rig);
    if !keeps_keys(&node) {
        return;
    }
    append(&node, "keys/a", &RECORDS);
    rig.trim();
    append(&node, "keys/a", &[&[("a", "8", 0)]]);
    let ended = node.append_content("keys/a", Content::End(EndCode::Deleted), None);
    let again = append(&node, "keys/a", &[&[("e", "7", 0)]]);
    let pages = node.pages("keys/a", 0, again[0].0 + 1);
    let stored_from = pages.last().map_or(0, |(_, page)| page.stored_from);
    assert!(stored_from > ended.expect("stored").first, "{pages:?}");
    let events = read(&node, "keys/a", again[0].0 + 1).into_iter();
    assert_eq!(events.filter(|event| event.0 >= stored_from).collect::<Vec<_>>(), again);
}

/// One of two servers that append with the same newest record stores its events. An append that is outdated leaves its idempotency key
/// free.
pub fn keyed_conditions<R: Rig>(rig: &mut R) {
    let nodes = [node(rig), node(rig)];
    if !keeps_keys(&nodes[0]) || nodes[0].caller().broker.compare_and_set().is_none() {
        return;
    }
    let start = |node: &Node<R::Broker>, record: (&str, &str, i64), key, newest| {
        let record = node.record("keys/a", keyed(&[record]), key);
        node.caller().start_append(record, Some(newest))
    };
    let mut newest = 0;
    for round in 0..20 {
        if round == 10 {
            // The newest record of a topic stays.
            rig.trim();
        }
        let event = round.to_string();
        let pending = nodes.each_ref().map(|node| start(node, ("a", &event, 0), None, newest));
        let both = pending.map(|pending| answer(&pending));
        let stored: Vec<_> = both.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(stored.len(), 1, "{both:?}");
        newest = stored[0].first;
    }
    let append = |key, newest| answer(&start(&nodes[0], ("b", "1", 0), Some(key), newest));
    assert_eq!(append("k", 0), Err(AppendError::Outdated(Some(newest))));
    let stored = append("k", newest).expect("it is the newest");
    // A known key has its answer, whatever the condition.
    let again = append("k", Offset::MAX).expect("a repetition");
    assert_eq!((again.first, again.is_repetition), (stored.first, true));
    assert_eq!(append("l", Offset::MAX), Err(AppendError::Outdated(Some(stored.first))));
}
