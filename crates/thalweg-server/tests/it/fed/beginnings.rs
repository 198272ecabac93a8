//! Beginnings and ends of topics: events that a node lacks, for each kind of topic.

use std::{io::Write, net::TcpStream, thread};

use serde_json::Value;
use thalweg_server::config::{Config, Limits, SourceConfig};

use super::{Streams, broker, hear, history, json, node, poll, publish, until_subscribed};
use crate::running::{Running, wait_for};

fn until_gone(node: &Running, topic: &str) {
    let path = format!("/v1/topics/{topic}?limit=1");
    wait_for("the end of a topic", || (node.get(&path, &[]).status == 404).then_some(()));
}

#[test]
fn a_topic_that_is_deleted_has_ended_at_every_node() {
    let streams = Streams::new(&["**"]);
    let nodes = [node(&streams, 2), node(&streams, 1)];
    let delete =
        |nth: usize, topic: &str| nodes[nth].ask("DELETE", &format!("/v1/topics/{topic}"), &[], "");
    let missing = delete(0, "cars");
    assert_eq!((missing.status, &json(&missing)["error"]["code"]), (404, &"no_such_topic".into()));
    let before = json(&publish(&nodes[0], "cars", "1\n2"))["position"].clone();
    let before = before.as_str().expect("a position");
    let told = thread::scope(|scope| {
        let connected = nodes.each_ref().map(|node| scope.spawn(|| poll(node, "cars", before)));
        until_subscribed(&nodes, 2);
        assert_eq!(delete(1, "cars").status, 204);
        connected.map(|thread| thread.join().expect("a poll"))
    });
    for told in told {
        let is_end = |message: &&Value| message["end"]["code"] == "deleted";
        assert!(told.iter().any(|message| is_end(&message)), "{told:?}");
    }
    for node in &nodes {
        until_gone(node, "cars");
    }
    assert_eq!(delete(0, "cars").status, 404);
    // New events belong to another topic. Readers of the earlier topic are told.
    publish(&nodes[0], "cars", "3");
    history(&nodes[1], "cars", 1);
    let page = json(&nodes[1].get(&format!("/v1/topics/cars?limit=9&cursor={before}"), &[]));
    assert_eq!(page["gap"], serde_json::json!({"missed": null, "reason": "trimmed"}));
    assert_eq!(page["events"], serde_json::json!([3]));
    let told = poll(&nodes[1], "cars", before);
    assert!(told.iter().any(|message| message["gap"]["reason"] == "trimmed"), "{told:?}");
    assert_eq!(hear(&nodes[1], "cars", "earliest", 1).0, [3]);
}

#[test]
fn the_earliest_event_is_the_streams_and_not_the_nodes() {
    let streams = Streams::new(&["**"]);
    let old = node(&streams, 1);
    (0..20).for_each(|event| drop(publish(&old, "cars", &event.to_string())));
    streams.forget_for_new();
    streams.expire(5);
    let new = node(&streams, 2);
    publish(&old, "cars", "20");
    let expected: Vec<Value> = (5..21).map(Value::from).collect();
    for node in [&old, &new, &new] {
        assert_eq!(hear(node, "cars", "earliest", 16).0, expected);
    }
}

#[test]
fn a_position_that_was_never_given_is_an_epoch_gap() {
    let streams = Streams::new(&["log/**", "=value/**"]);
    let nodes = [node(&streams, 1), node(&streams, 2)];
    let last = json(&publish(&nodes[0], "log/a", "1\n2"))["position"].clone();
    let (epoch, offset) = last.as_str().expect("a position").split_once('.').expect("two");
    let beyond = format!("{epoch}.{}", offset.parse::<u64>().expect("a number") + 1000);
    for node in &nodes {
        history(node, "log/a", 2);
        let page = json(&node.get(&format!("/v1/topics/log/a?limit=9&cursor={beyond}"), &[]));
        assert_eq!(page["gap"], serde_json::json!({"missed": null, "reason": "epoch"}));
        assert_eq!(page["events"], serde_json::json!([1, 2]));
        let told = poll(node, "log/a", &beyond);
        assert_eq!(told[0]["gap"], serde_json::json!({"missed": null, "reason": "epoch"}));
        let position = told[0]["position"].as_str().expect("a position");
        assert_eq!(hear(node, "log/a", position, 2).0, [1, 2]);
    }
    // A value topic sends its newest version.
    publish(&nodes[0], "value/a", "{\"v\":1}");
    for node in &nodes {
        history(node, "value/a", 1);
        let told = poll(node, "value/a", &beyond.replace(offset, "9000000000"));
        let message = told.last().expect("a message");
        assert_eq!(message["events"], serde_json::json!([{"v": 1}]), "{told:?}");
    }
}

#[test]
fn a_value_topic_has_its_newest_version_at_every_node() {
    let streams = Streams::new(&["=scores/**", "log"]);
    let nodes = [node(&streams, 2), node(&streams, 1)];
    let version = |number: usize| format!("{{\"version\":{number}}}");
    let mut cursor = "earliest".to_owned();
    for number in 0..6 {
        let published = json(&publish(&nodes[number % 2], "scores/a", &version(number)));
        publish(&nodes[0], "log", "1");
        let position = published["position"].as_str().expect("a position").to_owned();
        wait_for("a version", || {
            let told = poll(&nodes[(number / 2) % 2], "scores/a", &cursor);
            let message = told.last().expect("a message");
            let had = cursor.split_once('.').map_or("0", |(_, offset)| offset);
            assert_eq!(message["previous"].to_string(), had, "{message}");
            cursor = message["position"].as_str().expect("a position").to_owned();
            assert_eq!(message["events"].to_string(), format!("[{}]", version(number)));
            (cursor == position).then_some(())
        });
    }
    let page = history(&nodes[0], "scores/a", 1);
    wait_for("the value at the other node", || {
        (history(&nodes[1], "scores/a", 1) == page).then_some(())
    });
    // A node that joined later has the value, too, with one read for all subscribers.
    streams.forget_for_new();
    let late = node(&streams, 2);
    assert_eq!(late.get("/v1/topics/scores/a?limit=9", &[]).text(), page);
    assert_eq!(late.get("/v1/topics/scores/b?limit=9", &[]).status, 404);
    let before = streams.reads();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let told = poll(&late, "scores/a", "earliest");
                let message = told.last().expect("a message");
                assert_eq!(message["events"].to_string(), format!("[{}]", version(5)), "{told:?}");
            });
        }
    });
    let reads = streams.reads() - before;
    assert!((1..=3).contains(&reads), "{reads} reads");
    // A subscriber that has the value waits for the next one.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| poll(&late, "scores/a", &cursor));
        until_subscribed(std::slice::from_ref(&late), 9);
        publish(&nodes[0], "scores/a", &version(6));
        let told = waiting.join().expect("a poll");
        let message = told.last().expect("a message");
        assert_eq!(message["events"].to_string(), format!("[{}]", version(6)), "{told:?}");
    });
    assert_eq!(nodes[0].ask("DELETE", "/v1/topics/scores/a", &[], "").status, 204);
    until_gone(&late, "scores/a");
}

#[test]
fn sources_outlive_the_stream_of_their_topic() {
    let streams = Streams::new(&["**"]);
    let sources = ["cars=cars,interval=1ms", "run=runner,ack=acks"];
    let sources = sources.map(|text| SourceConfig::parse(text).expect("a source")).into();
    let config = Config { shards: 2, sources, ..Config::default() };
    let node = Running::start(config, Some(broker(&streams)));
    let mut newest = 0;
    for restarts in 0..4 {
        if restarts > 0 {
            streams.restart();
        }
        history(&node, "cars", 3);
        // Events published while the topic ends may be lost with it.
        newest = wait_for("a newer event", || {
            publish(&node, "acks", r#"{"id":1000000}"#);
            let page = node.get("/v1/topics/run?limit=10000", &[]);
            let events = json(&page)["events"].as_array().cloned().unwrap_or_default();
            let last = events.last().map(|event| event["id"].as_u64().expect("an id"));
            last.filter(|last| *last != newest)
        });
    }
}

#[test]
fn a_source_whose_topic_has_no_room_any_more_ends() {
    let streams = Streams::new(&["**"]);
    let source = SourceConfig::parse("cars=cars,interval=1ms").expect("a source");
    let limits = Limits { topics: 1, ..Limits::default() };
    let config = Config { shards: 1, sources: vec![source], limits, ..Config::default() };
    let node = Running::start(config, Some(broker(&streams)));
    history(&node, "cars", 3);
    // While a subscriber reads the ended topic, there is no room for the next topic.
    let mut reader = TcpStream::connect(node.address).expect("connect");
    let request =
        "GET /v1/topics/cars HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    reader.write_all(request.as_bytes()).expect("send");
    until_subscribed(std::slice::from_ref(&node), 1);
    streams.restart();
    // Another topic gets the room, and gets no event of the source.
    wait_for("room for another topic", || {
        (publish(&node, "boats", "0").status == 200).then_some(())
    });
    (1..50).for_each(|event| drop(publish(&node, "boats", &event.to_string())));
    let page: Value = serde_json::from_str(&history(&node, "boats", 50)).expect("JSON");
    assert_eq!(page["events"], (0..50).collect::<Value>());
}
