//! Streams that are deleted, restored, trimmed or created again.

use std::{
    fs,
    path::Path,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use thalweg_testing::undisturbed;

use crate::harness::{Call, Node, Operator, Servers, settings};

/// The interval of a node's checks of its streams.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

#[test]
fn a_stream_that_is_created_again_has_another_epoch() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    for n in 1..=3 {
        node.store("t", &n.to_string(), None).unwrap();
    }
    let operator = Operator::new(&servers);
    let config = operator.info()["config"].clone();
    operator.delete_stream();
    operator.create_stream(&config);
    let (epoch, from) = node.restarted();
    assert_ne!(epoch, node.stream.epoch);
    assert_eq!(from, 1);
    node.await_ready();
    let stored = node.store("t", "4", None).unwrap();
    assert_eq!((stored.epoch, stored.sequence), (epoch, 1));
    assert_eq!(node.next(), Call::batch(1, "t", "4"));
    assert_eq!(Node::start(&settings(&servers)).stream.epoch, epoch);
}

#[test]
fn a_stream_that_is_deleted_is_made_again() {
    let Some(servers) = Servers::start(1) else { return };
    let mut nodes = [(); 2].map(|()| Node::start(&settings(&servers)));
    nodes[0].store("t", "1", None).unwrap();
    for node in &mut nodes {
        assert_eq!(node.next(), Call::batch(1, "t", "1"));
    }
    Operator::new(&servers).delete_stream();
    let [one, other] = nodes.each_mut().map(|node| node.restarted());
    assert_eq!(one, other);
    assert_ne!(one.0, nodes[0].stream.epoch);
    nodes.iter().for_each(Node::await_ready);
    let stored = nodes[1].store("t", "2", None).unwrap();
    assert_eq!((stored.epoch, stored.sequence), (one.0, 1));
    for node in &mut nodes {
        assert_eq!(node.next(), Call::batch(1, "t", "2"));
    }
}

#[test]
fn a_purge_is_no_other_stream() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    for n in 1..=3 {
        node.store("t", &n.to_string(), None).unwrap();
        assert_eq!(node.next(), Call::batch(n, "t", &n.to_string()));
    }
    operator.purge_stream();
    let consumer = operator.consumers().remove(0);
    operator.delete_consumer(consumer["name"].as_str().unwrap());
    node.store("t", "4", None).unwrap();
    assert_eq!(node.next(), Call::batch(4, "t", "4"));
    assert_eq!(node.counts.restarts.load(Relaxed), 0);
}

#[test]
fn messages_removed_before_they_are_read_are_a_gap() {
    let Some(mut servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    node.store("t", "1", None).unwrap();
    assert_eq!(node.next(), Call::batch(1, "t", "1"));
    // A slow node alone does not suffice: JetStream has sent the messages before the purge.
    node.take_batches(false);
    let body = format!("\"{}\"", "x".repeat(100_000));
    operator.publish_all("thalweg.t", (0..400).map(|_| body.clone()));
    servers.kill(0);
    servers.run(0);
    operator.purge_stream();
    node.take_batches(true);
    let after = node.store("t", "2", None).unwrap();
    let (epoch, from) = node.restarted();
    assert_eq!((epoch, from), (node.stream.epoch, after.sequence));
    assert_eq!(node.next(), Call::batch(after.sequence, "t", "2"));
}

#[test]
fn a_raised_generation_is_another_stream() {
    undisturbed(|| {
        let Some(servers) = Servers::start(1) else { return };
        let mut node = Node::start(&settings(&servers));
        node.store("t", "1", None).unwrap();
        assert_eq!(node.next(), Call::batch(1, "t", "1"));
        let operator = Operator::new(&servers);
        let mut config = operator.info()["config"].clone();
        config["metadata"]["generation"] = "2".into();
        let raised = Instant::now();
        let updated = operator.api("STREAM.UPDATE.thalweg-s", &config);
        assert!(updated["error"].is_null(), "{updated}");
        let (epoch, from) = node.restarted();
        let is_told = raised.elapsed() < LOOK_INTERVAL / 2;
        assert!(is_told, "it was noticed by chance alone");
        assert_eq!((epoch.get(), from), (node.stream.epoch.get() + 1, 1));
        assert_eq!(node.next(), Call::batch(1, "t", "1"));
    });
}

#[test]
fn a_stream_that_went_back_begins_a_new_epoch() {
    let Some(mut servers) = Servers::start(1) else { return };
    let (mut a, mut b) = (Node::start(&settings(&servers)), Node::start(&settings(&servers)));
    for n in 1..=3 {
        a.store("t", &n.to_string(), None).unwrap();
    }
    let (store, backup) = (servers.store(0), servers.store(100));
    servers.kill(0);
    copy(&store, &backup);
    servers.run(0);
    // With a key, because the connection may be lost.
    for n in 4..=6 {
        a.store("t", &n.to_string(), Some(&n.to_string())).unwrap();
    }
    for node in [&mut a, &mut b] {
        for n in 1..=6 {
            assert_eq!(node.next(), Call::batch(n, "t", &n.to_string()));
        }
    }
    servers.kill(0);
    fs::remove_dir_all(&store).unwrap();
    copy(&backup, &store);
    servers.run(0);
    // Both nodes notice it, and may both raise the generation.
    let (mut epochs, generation) = (Vec::new(), || {
        let info = Operator::new(&servers).info();
        info["config"]["metadata"]["generation"].as_str().map(str::to_owned)
    });
    for node in [&mut a, &mut b] {
        let (epoch, from) = node.restarted();
        assert_eq!(from, 1);
        assert!(epoch.get() > node.stream.epoch.get());
        epochs.push(epoch);
    }
    assert!(matches!(generation().as_deref(), Some("2" | "3")), "{:?}", generation());
    let after = a.store("t", "7", None).unwrap();
    assert_eq!(after.sequence, 4);
    assert!(a.counts.regressions.load(Relaxed) + b.counts.regressions.load(Relaxed) >= 1);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make a folder");
    for entry in fs::read_dir(from).expect("list a folder") {
        let entry = entry.expect("list a folder");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copy a file");
        }
    }
}
