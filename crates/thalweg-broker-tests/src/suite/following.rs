//! Deliveries: order, times, readiness and slow servers.

use std::time::SystemTime;

use thalweg_testing::wait_for;

use super::{Rig, node};
use crate::{Call, Node};

/// Servers have one order, and answers say where a record is in it.
pub fn order<R: Rig>(rig: &mut R) {
    let mut nodes = [node(rig), node(rig)];
    let mut expected = Vec::new();
    for nth in 0..60 {
        let (topic, event) = (format!("log/{}", nth % 3), nth.to_string());
        let stored = nodes[nth % 2].append(&topic, &[&event], None).expect("stored");
        assert_eq!(stored.epoch, nodes[0].streams[0].epoch);
        assert!(!stored.is_repetition);
        expected.push((stored.first, topic, event));
    }
    assert!(expected.is_sorted_by(|a, b| a.0 < b.0), "one after the other: {expected:?}");
    assert!(expected[0].0 >= thalweg_broker::OFFSET_FIRST);
    let last = nodes[0].append("log/last", &["0"], None).expect("stored").first;
    for node in &mut nodes {
        assert_eq!(node.records(60), expected);
        assert_eq!(node.records(1)[0].0, last, "each once");
    }
}

/// A follower that takes no records for a while gets all of them afterwards, and others do not wait for it.
pub fn slow_readers<R: Rig>(rig: &mut R) {
    let (mut slow, mut other) = (node(rig), node(rig));
    slow.await_ready(true);
    slow.take_records(false);
    let body = format!("\"{}\"", "x".repeat(1000));
    let mut stored = Vec::new();
    for round in 0..100 {
        let topic = format!("log/{round}");
        let events = [body.as_str(); 20];
        stored.push(other.append(&topic, &events, None).expect("stored").first);
    }
    assert_eq!(other.records(100).iter().map(|record| record.0).collect::<Vec<_>>(), stored);
    wait_for("a delivery", || (slow.delivering() > 0).then_some(()));
    assert_eq!(slow.delivering(), 1, "one record after the other");
    slow.take_records(true);
    assert_eq!(slow.records(100).iter().map(|record| record.0).collect::<Vec<_>>(), stored);
}

/// Events say when they were stored, to all servers and readers the same.
pub fn times<R: Rig>(rig: &mut R) {
    const HOUR_MS: i64 = 3_600_000;
    let mut nodes = [node(rig), node(rig)];
    for nth in 0..10 {
        let stored = nodes[nth % 2].append("log/a", &["1", "2"], None).expect("stored");
        let page = nodes[0].read("log/a", stored.first, stored.first + 1);
        let read = page.records[0].1.published_ms();
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as i64;
        // The clocks of this machine and of the broker may differ a little.
        let is_plausible = read.is_some_and(|ms| (now - ms).abs() < HOUR_MS);
        assert!(is_plausible, "a record of now was stored at {read:?} ms, and it is {now} ms");
        for node in &mut nodes {
            let Call::Record { stored_ms, .. } = node.next_call() else { panic!("no record") };
            assert_eq!(stored_ms, read, "delivered and read");
        }
    }
}

/// A server has not caught up before it has all records, neither when it starts nor when it is slow.
pub fn readiness<R: Rig>(rig: &mut R) {
    const RECORDS: usize = 200;
    let writer = node(rig);
    let append = |nth: usize| writer.append("log/a", &[&nth.to_string()], None).expect("stored");
    let stored: Vec<_> = (0..RECORDS).map(|nth| append(nth).first).collect();
    let mut slow = Node::start_with(rig.open(), false).expect("the broker opens");
    // A server reads records from before the offset that it follows from.
    let delivered = stored.iter().filter(|first| **first >= slow.streams[0].from).count();
    if delivered == RECORDS {
        wait_for("a delivery", || (slow.delivering() == 1).then_some(()));
        assert!(!slow.is_ready(), "no record was delivered yet");
    }
    slow.take_records(true);
    slow.records(delivered);
    slow.await_ready(true);
    slow.take_records(false);
    (0..RECORDS).for_each(|nth| _ = append(nth));
    slow.take_record();
    slow.await_ready(false);
    slow.take_records(true);
    slow.records(RECORDS);
    slow.await_ready(true);
}
