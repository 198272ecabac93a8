//! Reading continues while no consumer can be created.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use crate::harness::{Call, Node, Operator, Servers, settings, wait_for};

/// The consumer that takes the only place.
const OTHER: &str = "other";

/// Creates the stream of the nodes, but with a place for one consumer, which is taken.
fn full_stream(servers: &Servers) -> (Operator, Value) {
    drop(Node::start(&settings(servers)));
    let operator = Operator::new(servers);
    let mut config = operator.info()["config"].clone();
    config["max_consumers"] = 1.into();
    replace_stream(&operator, &config);
    (operator, config)
}

fn replace_stream(operator: &Operator, config: &Value) {
    operator.delete_stream();
    operator.create_stream(config);
    let consumer = json!({ "durable_name": OTHER, "ack_policy": "none" });
    let request = json!({ "stream_name": "thalweg-s", "config": consumer });
    let made = operator.api(&format!("CONSUMER.DURABLE.CREATE.thalweg-s.{OTHER}"), &request);
    assert!(made["error"].is_null(), "{made}");
}

#[test]
fn messages_come_once_and_in_order_and_a_consumer_takes_over() {
    let Some(servers) = Servers::start(1) else { return };
    let (operator, _) = full_stream(&servers);
    let mut node = Node::start(&settings(&servers));
    // More than a page.
    operator.publish_all("thalweg.t", (1..=3000).map(|n| n.to_string()));
    for n in 1..=3000 {
        assert_eq!(node.next(), Call::batch(n, "t", &n.to_string()));
    }
    node.await_ready();
    let direct = || node.counts.messages_direct.load(Relaxed);
    assert_eq!(direct(), 3000);
    assert_eq!(node.counts.recreations.load(Relaxed), 0);
    operator.delete_consumer(OTHER);
    let stored = wait_for("read by a consumer", || {
        let stored = node.store("t", "0", None).unwrap().sequence;
        (node.counts.messages.load(Relaxed) > direct()).then_some(stored)
    });
    let before = direct();
    operator.publish_all("thalweg.t", (0..500).map(|n| n.to_string()));
    for n in 3001..=stored {
        assert_eq!(node.next(), Call::batch(n, "t", "0"));
    }
    for n in 0..500 {
        assert_eq!(node.next(), Call::batch(stored + 1 + n, "t", &n.to_string()));
    }
    assert_eq!(node.counts.messages_direct.load(Relaxed), before);
    assert_eq!(operator.consumers().len(), 1);
}

#[test]
fn messages_that_were_removed_are_not_waited_for() {
    let Some(servers) = Servers::start(1) else { return };
    let (operator, _) = full_stream(&servers);
    operator.publish_all("thalweg.t", (1..=5).map(|n| n.to_string()));
    operator.publish("thalweg.t", None, "nonsense");
    operator.publish_marked("thalweg.t", "7");
    wait_for("stored", || (operator.info()["state"]["last_seq"] == 7).then_some(()));
    for sequence in [3, 4] {
        let deleted = operator.api("STREAM.MSG.DELETE.thalweg-s", &json!({ "seq": sequence }));
        assert_eq!(deleted["success"], true, "{deleted}");
    }
    let mut node = Node::start(&settings(&servers));
    for n in [1, 2, 5, 7] {
        assert_eq!(node.next(), Call::batch(n, "t", &n.to_string()));
    }
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
    assert_eq!((count(&node.counts.removed), count(&node.counts.skipped)), (1, 1));
    assert_eq!(count(&node.counts.restarts), 0);
}

#[test]
fn another_stream_is_not_read_as_this_one() {
    let Some(servers) = Servers::start(1) else { return };
    let (operator, config) = full_stream(&servers);
    let mut node = Node::start(&settings(&servers));
    operator.publish_all("thalweg.t", (1..=3).map(|n| n.to_string()));
    for n in 1..=3 {
        assert_eq!(node.next(), Call::batch(n, "t", &n.to_string()));
    }
    replace_stream(&operator, &config);
    // More messages than the former stream had.
    operator.publish_all("thalweg.t", (11..=20).map(|n| n.to_string()));
    let told = node.next();
    let Call::Restarted { epoch, from } = told else { panic!("{told:?}") };
    assert!(epoch != node.stream.epoch && from == 1);
    for n in 1..=10 {
        assert_eq!(node.next(), Call::batch(n, "t", &(n + 10).to_string()));
    }
}

#[test]
fn messages_that_the_replica_lacks_are_waited_for() {
    let Some(servers) = Servers::start(1) else { return };
    let (operator, mut config) = full_stream(&servers);
    let mut node = Node::start(&settings(&servers));
    let mut allow_direct = |is_allowed: bool| {
        config["allow_direct"] = is_allowed.into();
        let updated = operator.api("STREAM.UPDATE.thalweg-s", &config);
        assert!(updated["error"].is_null(), "{updated}");
    };
    // As if a replica answered that has lost the first four messages.
    allow_direct(false);
    operator.publish_all("thalweg.t", (1..=5).map(|n| n.to_string()));
    wait_for("stored", || (operator.info()["state"]["last_seq"] == 5).then_some(()));
    operator.answer_direct_gets(5, "thalweg.t", 5);
    assert_eq!(node.calls(), []);
    allow_direct(true);
    for n in 1..=5 {
        assert_eq!(node.next(), Call::batch(n, "t", &n.to_string()));
    }
    assert_eq!(node.counts.removed.load(Relaxed), 0);
}
