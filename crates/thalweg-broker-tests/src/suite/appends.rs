//! Appends: batches, keys and conditions; and tickets.

use std::collections::BTreeMap;

use thalweg_broker::{AppendError, Broker, Content, TicketDigest};
use thalweg_testing::{skipped, wait_for};

use super::{Rig, node};
use crate::{
    Node,
    node::{answer, event_content},
};

/// Appends in flight together are all stored, each once.
pub fn concurrent_appends<R: Rig>(rig: &mut R) {
    let mut nodes = [node(rig), node(rig)];
    let in_flight = nodes[0].streams[0].in_flight_max.clamp(1, 64);
    let mut expected = BTreeMap::new();
    for round in 0..4 {
        let pending = (0..in_flight).map(|nth| {
            let (node, event) = (&nodes[nth % 2], format!("[{round},{nth}]"));
            let record = node.record("log/a", event_content(&[&event]), Some(&event));
            (node.caller().start_append(record, None), event)
        });
        for (pending, event) in pending.collect::<Vec<_>>() {
            let stored = answer(&pending).expect("stored");
            assert_eq!(expected.insert(stored.first, event), None, "two at {}", stored.first);
        }
    }
    let expected: Vec<_> = expected.into_iter().collect();
    for node in &mut nodes {
        let delivered = node.records(expected.len()).into_iter();
        assert_eq!(delivered.map(|(first, _, event)| (first, event)).collect::<Vec<_>>(), expected);
    }
}

/// A record may be as large as the stream says, and its events have consecutive offsets.
pub fn batches<R: Rig>(rig: &mut R) {
    let mut node = node(rig);
    let most = node.streams[0].events_max.min(5000);
    let mut expected = Vec::new();
    for count in [1, 2, most, 1, most] {
        let events: Vec<String> = (0..count).map(|nth| format!("[{count},{nth}]")).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let stored = node.append("log/a", &events, None).expect("stored");
        let last = expected.last().map_or(0, |(offset, _)| *offset);
        assert!(stored.first > last, "{} after {last}", stored.first);
        expected.extend((stored.first..).zip(events.iter().map(|event| (*event).to_owned())));
        assert_eq!(node.records(1), [(stored.first, "log/a".to_owned(), events.join(","))]);
    }
    let end = expected.last().expect("some").0 + 1;
    assert_eq!(node.read_all("log/a", 0, end), expected);
    let large = format!("\"{}\"", "x".repeat(node.streams[0].bytes_max - 2));
    node.append("log/a", &[&large], None).expect("stored");
    assert_eq!(node.records(1)[0].2, large);
}

/// A repetition has the key of an earlier append, and is not stored again.
pub fn duplicates<R: Rig>(rig: &mut R) {
    let mut node = node(rig);
    let first = node.append("log/a", &["1"], Some("k")).expect("stored");
    let again = |key: &str| node.append("log/a", &["1"], Some(key));
    let repeated = again("k").expect("known");
    assert_eq!((repeated.first, repeated.is_repetition), (first.first, true));
    let reused = node.append("log/a", &["2"], Some("k"));
    assert_eq!(reused, Err(AppendError::KeyReused));
    assert!(!again("l").expect("stored").is_repetition, "another key");
    let other = node.append("log/b", &["1"], Some("k")).expect("stored");
    assert!(!other.is_repetition, "another topic");
    // Both are in flight at once, as when a publisher retries before the answer.
    let record = || node.record("log/a", event_content(&["3"]), Some("m"));
    let pending = [(); 2].map(|()| node.caller().start_append(record(), None));
    let both = pending.map(|pending| answer(&pending).expect("stored"));
    assert_eq!(both[0].first, both[1].first);
    assert_eq!(both.iter().filter(|stored| stored.is_repetition).count(), 1);
    assert_eq!(node.records(4).len(), 4);
    rig.trim();
    let trimmed = node.append("log/a", &["1"], Some("k")).expect("known");
    assert_eq!((trimmed.first, trimmed.is_repetition), (first.first, true));
    let last = node.append("log/a", &["4"], None).expect("stored");
    assert_eq!(node.records(1)[0].0, last.first, "no repetition was delivered");
}

/// All servers know the same keys, which survive a crash of the broker.
pub fn keys_across_servers<R: Rig>(rig: &mut R) {
    let mut first = node(rig);
    let stored = first.append("log/a", &["1"], Some("k")).expect("stored");
    first.stop();
    rig.restart();
    let other = node(rig);
    let again = wait_for("an answer", || other.append("log/a", &["1"], Some("k")).ok());
    assert_eq!((again.first, again.is_repetition), (stored.first, true));
    assert_eq!(other.append("log/a", &["2"], Some("k")), Err(AppendError::KeyReused));
}

/// A conditional append stores its record only behind the newest record that it names.
pub fn compare_and_set<R: Rig>(rig: &mut R) {
    let nodes = [node(rig), node(rig)];
    if nodes[0].caller().broker.compare_and_set().is_none() {
        return skipped("the broker does not compare and set");
    }
    let after = |topic: &str, content: Content, newest| {
        nodes[0].append_content(topic, content, Some(newest))
    };
    let first = after("values/a", event_content(&["1"]), 0).expect("there is none").first;
    assert_eq!(
        after("values/a", event_content(&["2"]), 0),
        Err(AppendError::Outdated(Some(first)))
    );
    assert_eq!(
        after("values/b", event_content(&["2"]), first),
        Err(AppendError::Outdated(Some(0)))
    );
    let second = after("values/a", event_content(&["2"]), first).expect("it is the newest").first;
    assert!(second > first);
    let mut newest = after("log/a", event_content(&["1"]), 0).expect("there is none").first;
    newest = after("log/a", Content::Paused(300), newest).expect("it is the newest").first;
    // One of two servers stores its record.
    for round in 0..20 {
        let pending = nodes.each_ref().map(|node| {
            let record = node.record("log/a", event_content(&[&round.to_string()]), None);
            node.caller().start_append(record, Some(newest))
        });
        let both = pending.map(|pending| answer(&pending));
        let stored: Vec<_> = both.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(stored.len(), 1, "{both:?}");
        newest = stored[0].first;
    }
}

/// A ticket is valid once, at any server.
pub fn tickets<R: Rig>(rig: &mut R) {
    let nodes = [node(rig), node(rig)];
    let callers = nodes.each_ref().map(Node::caller);
    if callers[0].broker.tickets().is_none() {
        return skipped("the broker keeps no tickets");
    }
    for number in 0..20 {
        let ticket = TicketDigest::new([number; 32]);
        let [issuer, other] = [0, 1].map(|nth| &callers[(number as usize + nth) % 2]);
        assert_eq!(other.redeem(ticket), Ok(None), "a ticket that was not issued");
        issuer.keep(ticket, "somebody").expect("kept");
        let answers = std::thread::scope(|scope| {
            let both = [issuer, other].map(|caller| scope.spawn(move || caller.redeem(ticket)));
            both.map(|redeemed| redeemed.join().expect("no panic"))
        });
        let valid =
            answers.iter().filter(|found| **found == Ok(Some("somebody".to_owned()))).count();
        assert_eq!(valid, 1, "{answers:?}");
        assert_eq!(other.redeem(ticket), Ok(None));
    }
}
