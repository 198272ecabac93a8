//! Several brokers of one server, and stores in flight together.

use std::thread;

use thalweg_core::stream::FeedKind;
use thalweg_server::config::{Config, NamedToken, SourceConfig, TopicSettings};
use thalweg_token::Rights;

use super::{
    history, json,
    memory::{Streams, broker},
    publish,
};
use crate::running::{Answer, Running, wait_for};

fn node(brokers: &[&Streams]) -> Running {
    let config = Config { shards: 2, ..Config::default() };
    Running::start(config, brokers.iter().map(|streams| broker(streams)))
}

#[test]
fn each_broker_has_the_topics_of_its_patterns() {
    let (first, second) = (Streams::new(&["cars", "live/**"]), Streams::dense(&["**"]));
    let nodes = [node(&[&first, &second]), node(&[&first, &second])];
    for topic in ["cars", "boats", "live/a", "other/a"] {
        for nth in 0..3 {
            let answer = publish(&nodes[nth % 2], topic, &format!("[{nth},1]\n[{nth},2]"));
            assert_eq!(answer.status, 200, "{}", answer.text());
            let first = json(&answer)["first"].as_u64().expect("an offset");
            let is_sparse = topic == "cars" || topic == "live/a";
            assert_eq!(first.is_multiple_of(256), is_sparse || first == 256, "{topic} at {first}");
        }
        assert_eq!(history(&nodes[0], topic, 6), history(&nodes[1], topic, 6));
    }
    // Events older than a node are backfilled from the broker that has them.
    first.forget_for_new();
    second.forget_for_new();
    let late = node(&[&first, &second]);
    for topic in ["cars", "boats"] {
        assert_eq!(history(&late, topic, 6), history(&nodes[0], topic, 6));
    }
    assert!(first.reads() > 0 && second.reads() > 0);
    let metrics = late.get("/metrics", &[]);
    let lines = metrics.text().lines().filter(|line| line.contains("memory_seconds"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with('#')).count(), 2, "{lines:?}");
    for broker in 0..2 {
        let line = format!("thalweg_memory_seconds_sum{{broker=\"{broker}\"}} 0.5");
        assert!(lines.contains(&line.as_str()), "{lines:?}");
    }
}

#[test]
fn a_broker_that_does_not_answer_holds_up_no_other() {
    let (first, second) = (Streams::new(&["cars"]), Streams::new(&["**"]));
    let node = node(&[&first, &second]);
    let is_ready = |expected: u16| {
        wait_for("readiness", || (node.get("/readyz", &[]).status == expected).then_some(()));
    };
    is_ready(200);
    first.set_ready(false);
    is_ready(503);
    first.hold(true);
    thread::scope(|scope| {
        let held = scope.spawn(|| publish(&node, "cars", "1").status);
        wait_for("a publish that waits", || (first.held() > 0).then_some(()));
        for _ in 0..3 {
            assert_eq!(publish(&node, "boats", "1").status, 200);
        }
        first.hold(false);
        assert_eq!(held.join().expect("no panic"), 200);
    });
    first.set_ready(true);
    is_ready(200);
    // This is another stream, and the stream of the other broker does not change.
    let before = history(&node, "boats", 3);
    first.restart();
    assert_eq!(publish(&node, "cars", "2").status, 200);
    assert_eq!(history(&node, "boats", 3), before);
}

#[test]
fn the_first_broker_keeps_the_tickets() {
    let (first, second) = (Streams::new(&["cars"]), Streams::new(&["**"]));
    let mut config = Config { shards: 1, ..Config::default() };
    config.access.tokens = vec![NamedToken::new("publisher", "publish-secret", Rights::all())];
    let node = Running::start(config, [broker(&first), broker(&second)]);
    let token = "Authorization: Bearer publish-secret";
    assert_eq!(node.ask("POST", "/v1/tickets", &[token], "").status, 200);
    assert_eq!((first.tickets(), second.tickets()), (1, 0));
}

#[test]
fn publishes_with_keys_are_in_flight_together() {
    let streams = Streams::new(&["**"]);
    let node = node(&[&streams]);
    let keyed = |key: usize| {
        let key = format!("Idempotency-Key: {key}");
        let headers = ["Content-Type: application/json", &key];
        node.ask("POST", "/v1/topics/cars", &headers, "1").status
    };
    streams.hold(true);
    thread::scope(|scope| {
        let keyed = &keyed;
        let asked: Vec<_> = (0..8).map(|key| scope.spawn(move || keyed(key))).collect();
        wait_for("all in flight", || (streams.held() == 8).then_some(()));
        // A publish without a key waits for the earlier ones, and later ones wait for it.
        let plain = scope.spawn(|| publish(&node, "cars", "2").status);
        streams.hold(false);
        assert!(asked.into_iter().all(|asked| asked.join().expect("no panic") == 200));
        assert_eq!(plain.join().expect("no panic"), 200);
    });
    let read = history(&node, "cars", 9);
    let read: serde_json::Value = serde_json::from_str(&read).expect("JSON");
    assert_eq!(read["events"].as_array().map(Vec::len), Some(9));
}

/// Returns the sum of a metric over shards.
fn metric(node: &Running, name: &str) -> u64 {
    let metrics = node.get("/metrics", &[]);
    let lines = metrics.text().lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Returns the code of an error.
fn code(answer: &Answer) -> String {
    json(answer)["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn publishes_to_a_broker_that_has_ended_are_answered() {
    let (first, second) = (Streams::new(&["cars", "#keys/**"]), Streams::new(&["**"]));
    let keyed = TopicSettings { kind: FeedKind::Keyed, ..TopicSettings::default() };
    let topics = vec![("keys/**".parse().expect("a pattern"), keyed)];
    let config = Config { shards: 2, topics, ..Config::default() };
    let node = Running::start(config, [broker(&first), broker(&second)]);
    first.hold(true);
    first.hold_reads(true);
    let before = metric(&node, "thalweg_unstored_bytes");
    thread::scope(|scope| {
        let sent = scope.spawn(|| publish(&node, "cars", "1"));
        wait_for("a publish in flight", || (first.held() > 0).then_some(()));
        let behind = scope.spawn(|| publish(&node, "cars", "2"));
        wait_for("a publish behind it", || {
            (metric(&node, "thalweg_unstored_bytes") == before + 2).then_some(())
        });
        let of_key = scope.spawn(|| publish(&node, "keys/a?key=k", "3"));
        wait_for("a publish that waits for the state", || (first.reads() > 0).then_some(()));
        first.end();
        let [sent, behind, of_key] =
            [sent, behind, of_key].map(|thread| code(&thread.join().expect("no panic")));
        assert_eq!(sent, "unknown", "the broker may have stored it");
        assert_eq!([behind, of_key], ["unavailable", "unavailable"], "the broker never had them");
    });
    for topic in ["cars", "keys/a?key=k", "keys/b?key=k"] {
        assert_eq!(code(&publish(&node, topic, "4")), "unavailable", "{topic}");
    }
    let read = node.get("/v1/topics/keys/a?limit=1", &[]);
    assert_eq!(code(&read), "unavailable");
    assert!(!read.text().contains("the event was not stored"), "{}", read.text());
    assert_eq!(publish(&node, "boats", "5").status, 200, "the other broker works");
    wait_for("no bytes that are not stored", || {
        (metric(&node, "thalweg_unstored_bytes") == 0).then_some(())
    });
}

#[test]
fn events_of_a_source_that_are_not_stored_are_counted() {
    let streams = Streams::new(&["cars"]);
    streams.cut(true);
    let source = SourceConfig::parse("cars=dummy,size=64B,interval=10ms").expect("a source");
    let config = Config { sources: vec![source], ..Config::default() };
    let node = Running::start(config, [broker(&streams)]);
    wait_for("refused events", || {
        let refused = metric(&node, "thalweg_source_events_refused_total");
        (refused > 2).then(|| assert!(refused <= metric(&node, "thalweg_source_ticks_total")))
    });
    streams.cut(false);
    history(&node, "cars", 3);
}
