//! A cluster of three servers, one of which fails.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Instant,
};

use thalweg_broker::AppendError;
use thalweg_nats::Settings;

use crate::harness::{Call, Node, Servers, Writer, settings, wait_for};

#[test]
fn a_frozen_server_is_left() {
    let Some(servers) = Servers::start(3) else { return };
    let all = settings(&servers);
    // The node learns the other addresses from the first server.
    let mut node = Node::start(&Settings { servers: vec![all.servers[0].clone()], ..all });
    node.await_ready();
    node.store("t", "1", None).unwrap();
    let start = Instant::now();
    servers.freeze(0, true);
    wait_for("stored", || node.store("t", "2", Some("k")).ok());
    eprintln!("stored {:?} after its server was frozen", start.elapsed());
    assert_eq!(node.next(), Call::batch(1, "t", "1"));
    assert_eq!(node.next(), Call::batch(2, "t", "2"));
    node.await_ready();
    servers.freeze(0, false);
    node.store("t", "3", None).unwrap();
    assert_eq!(node.next(), Call::batch(3, "t", "3"));
}

#[test]
fn a_node_that_receives_nothing_is_not_ready() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    node.await_ready();
    servers.freeze(0, true);
    wait_for("not ready", || (!node.is_ready()).then_some(()));
    servers.freeze(0, false);
    node.await_ready();
}

#[test]
fn a_leader_that_is_killed_loses_nothing_that_was_answered() {
    let Some(mut servers) = Servers::start(3) else { return };
    let mut writer = Node::start(&settings(&servers));
    let mut reader = Node::start(&settings(&servers));
    writer.await_ready();
    reader.await_ready();
    let leader = servers.leader("thalweg-s");

    let is_over = AtomicBool::new(false);
    let topics: Vec<_> = std::thread::scope(|scope| {
        let write = |topic| {
            let (writer, is_over) = (writer.writer(), &is_over);
            scope.spawn(move || write(&writer, topic, is_over))
        };
        let writing: Vec<_> = (0..8).map(write).collect();
        let stored = || writer.counts.stored.load(Relaxed);
        wait_for("some to be stored", || (stored() > 500).then_some(()));
        servers.kill(leader);
        let (killed, before) = (Instant::now(), stored());
        wait_for("stored again", || (stored() > before + 100).then_some(()));
        eprintln!("100 stored {:?} after the leader was killed", killed.elapsed());
        wait_for("more to be stored", || (stored() > before + 500).then_some(()));
        is_over.store(true, Relaxed);
        writing.into_iter().map(|topic| topic.join().unwrap()).collect()
    });

    let answered = topics.iter().flat_map(|topic| &topic.stored);
    let last = answered.map(|(sequence, _)| *sequence).max().unwrap();
    for node in [&mut writer, &mut reader] {
        let read = read_until(node, last);
        topics.iter().for_each(|topic| topic.check(&read));
    }
}

/// The answers to appends of one topic.
struct Topic {
    name: String,
    /// Sequence number and event.
    stored: Vec<(u64, usize)>,
    unknown: Vec<usize>,
}

/// Stores one event after the other, with keys in every second topic.
fn write(writer: &Writer, topic: usize, is_over: &AtomicBool) -> Topic {
    let mut answers = Topic { name: format!("t/{topic}"), stored: Vec::new(), unknown: Vec::new() };
    for n in 0.. {
        if is_over.load(Relaxed) {
            break;
        }
        let event = n.to_string();
        let key = topic.is_multiple_of(2).then_some(event.as_str());
        match writer.store(&answers.name, &event, key) {
            Ok(stored) => answers.stored.push((stored.sequence, n)),
            Err(AppendError::Unknown) => answers.unknown.push(n),
            Err(AppendError::Unavailable) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    answers
}

/// Reads up to a sequence number. Returns topic and event of each message.
fn read_until(node: &mut Node, last: u64) -> BTreeMap<u64, (String, String)> {
    let mut read = BTreeMap::new();
    for expected in 1..=last {
        let Call::Batch { sequence, topic, events } = node.next() else { panic!("another stream") };
        assert_eq!(sequence, expected, "each once, none missing");
        read.insert(sequence, (topic, events));
    }
    read
}

impl Topic {
    fn check(&self, read: &BTreeMap<u64, (String, String)>) {
        for (sequence, n) in &self.stored {
            assert_eq!(read.get(sequence), Some(&(self.name.clone(), n.to_string())));
        }
        let of_topic = read.values().filter(|(topic, _)| *topic == self.name);
        let events: Vec<usize> =
            of_topic.map(|(_, events)| events.parse().expect("a number")).collect();
        assert!(events.is_sorted_by(|a, b| a < b), "in order, each once: {events:?}");
        let stored: HashSet<_> = self.stored.iter().map(|(_, n)| n).collect();
        let known = |n: &usize| stored.contains(n) || self.unknown.contains(n);
        assert!(
            events.iter().all(known),
            "a message that was answered \"not stored\" is not stored"
        );
    }
}

#[test]
fn a_leader_whose_disk_is_full_is_left() {
    let Some(mut servers) = Servers::start_on_disks(3, &[]) else { return };
    let mut nodes = [(); 2].map(|()| Node::start(&settings(&servers)));
    nodes.iter().for_each(Node::await_ready);
    let leader = servers.leader("thalweg-s");
    let mut last = nodes[0].store("t", "0", None).unwrap().sequence;
    servers.fill(leader);
    // Each with a key: a message in flight when the leader fails is stored once.
    for number in 1..50 {
        let (event, key) = (number.to_string(), format!("k{number}"));
        last = wait_for("stored", || nodes[0].store("t", &event, Some(&key)).ok()).sequence;
    }
    for node in &mut nodes {
        assert_eq!(read_until(node, last).len(), 50);
        assert_eq!(node.counts.restarts.load(Relaxed), 0, "no false gap");
        node.await_ready();
    }
    servers.restart_with_room(leader);
    let after = wait_for("stored", || nodes[1].store("t", "50", Some("k50")).ok()).sequence;
    for node in &mut nodes {
        assert_eq!(node.next(), Call::batch(after, "t", "50"));
    }
}
