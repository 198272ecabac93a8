//! Topics of a broker: several servers with the same streams act as one, and report what the broker does not know.

mod beginnings;
mod brokers;
mod memory;
mod queries;
mod tickets;

use std::{
    collections::BTreeSet,
    sync::mpsc::channel,
    thread,
    time::{Duration, SystemTime},
};

use memory::{Fault, Streams, broker, until_subscribed};
use serde_json::Value;
use thalweg_core::stream::FeedKind;
use thalweg_server::config::{Config, Limits, TopicSettings};
use thalweg_testing::{let_pass, receive};

use crate::running::{Answer, Running, wait_for};

fn node(streams: &Streams, shards: usize) -> Running {
    Running::start(Config { shards, ..Config::default() }, Some(broker(streams)))
}

fn publish(node: &Running, topic: &str, events: &str) -> Answer {
    let headers = ["Content-Type: application/x-ndjson"];
    node.ask("POST", &format!("/v1/topics/{topic}"), &headers, events)
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// Returns a node's history of a topic once it has `events` events.
fn history(node: &Running, topic: &str, events: usize) -> String {
    history_with(node, topic, events, &[])
}

/// Returns the history for a request with headers.
fn history_with(node: &Running, topic: &str, events: usize, headers: &[&str]) -> String {
    wait_for(&format!("{events} events of {topic}"), || {
        let answer = node.get(&format!("/v1/topics/{topic}?limit=10000"), headers);
        let has_all = answer.status == 200
            && json(&answer)["events"].as_array().is_some_and(|list| list.len() >= events);
        has_all.then(|| answer.text().to_owned())
    })
}

/// Returns the lines of a poll.
fn poll(node: &Running, topic: &str, cursor: &str) -> Vec<Value> {
    let answer = node.get(&format!("/v1/topics/{topic}?wait=5s&cursor={cursor}"), &[]);
    let lines = answer.text().lines();
    lines.map(|line| serde_json::from_str(line).expect("a message")).collect()
}

#[test]
fn every_node_gives_the_same_events_the_same_positions() {
    let streams = Streams::new(&["live/**", "cars"]);
    let nodes = [node(&streams, 1), node(&streams, 2)];
    let mut expected = Vec::new();
    for (nth, topic) in ["live/a", "cars", "live/a", "live/b", "live/a"].into_iter().enumerate() {
        let answer = publish(&nodes[nth % 2], topic, &format!("[{nth},1]\n[{nth},2]\n"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        expected.push((topic, json(&answer)));
    }
    for (topic, events) in [("live/a", 6), ("cars", 2), ("live/b", 2)] {
        let same = nodes.each_ref().map(|node| history(node, topic, events));
        assert_eq!(same[0], same[1]);
        let read: Value = serde_json::from_str(&same[0]).expect("JSON");
        let last = expected.iter().rfind(|(of, _)| *of == topic).expect("published");
        assert_eq!(read["position"], last.1["position"]);
    }
    let topics = BTreeSet::from(["own", "live/a"]);
    for topic in topics {
        let first = json(&publish(&nodes[0], topic, "1"))["first"].as_u64().expect("an offset");
        assert_eq!(first < 256, topic == "own", "{topic} at {first}");
    }
}

#[test]
fn a_subscriber_goes_on_at_any_node() {
    let streams = Streams::new(&["**"]);
    let nodes = [node(&streams, 2), node(&streams, 1)];
    let mut cursor = "earliest".to_owned();
    let mut received = Vec::new();
    for round in 0..20 {
        publish(&nodes[round % 2], "cars", &format!("{}\n{}", 2 * round, 2 * round + 1));
        publish(&nodes[round % 2], "boats", "0");
        let (newer, at) = hear(&nodes[(round / 3) % 2], "cars", &cursor, 2);
        received.extend(newer);
        cursor = at;
    }
    assert_eq!(received, (0..40).map(Value::from).collect::<Vec<_>>());
}

#[test]
fn publishers_of_many_nodes_keep_their_order() {
    let streams = Streams::new(&["**"]);
    let nodes = [node(&streams, 2), node(&streams, 2)];
    thread::scope(|scope| {
        for publisher in 0..8 {
            let node = &nodes[publisher % 2];
            scope.spawn(move || {
                let (mut last, mut from) = (0, 0);
                for round in 0..20 {
                    // Some do not fit into one message.
                    let count = if round % 10 == 9 { 300 } else { 3 };
                    let lines: String = (from..from + count)
                        .map(|event| format!("[{publisher},{event}]\n"))
                        .collect();
                    from += count;
                    let published = json(&publish(node, "cars", &lines));
                    let first = published["first"].as_u64().expect("an offset");
                    assert!(first > last, "{published} after {last}");
                    assert_eq!(published["count"], count);
                    let position = published["position"].as_str().expect("a position");
                    last = position.split_once('.').expect("two").1.parse().expect("a number");
                }
            });
        }
    });
    let events = 8 * (18 * 3 + 2 * 300);
    let same = nodes.each_ref().map(|node| history(node, "cars", events));
    assert_eq!(same[0], same[1]);
    let read: Value = serde_json::from_str(&same[0]).expect("JSON");
    let mut next = [0; 8];
    for event in read["events"].as_array().expect("events") {
        let (publisher, number) = (event[0].as_u64().expect("a number") as usize, &event[1]);
        assert_eq!(*number, next[publisher], "of publisher {publisher}");
        next[publisher] += 1;
    }
}

#[test]
fn the_outcome_of_a_publish_is_reported() {
    let streams = Streams::new(&["**"]);
    let node = node(&streams, 1);
    let ask = |key: &str, body: &str| {
        let key = format!("Idempotency-Key: {key}");
        node.ask("POST", "/v1/topics/cars", &["Content-Type: application/json", &key], body)
    };
    for (fault, code) in [(Fault::Unavailable, "unavailable"), (Fault::Unknown, "unknown")] {
        streams.fail_next(fault);
        let answer = publish(&node, "cars", "1");
        assert_eq!((answer.status, &json(&answer)["error"]["code"]), (503, &code.into()));
    }
    let first = ask("k", "7");
    let again = ask("k", "7");
    assert_eq!((first.status, first.text()), (200, again.text()));
    let replayed = [&first, &again].map(|answer| answer.header("idempotency-replayed"));
    assert_eq!(replayed, ["", "true"]);
    let other = ask("k", "8");
    assert_eq!((other.status, &json(&other)["error"]["code"]), (422, &"key_reused".into()));
    let empty = publish(&node, "cars", "");
    assert_eq!((empty.status, &json(&empty)["count"]), (200, &0.into()));
    // The "unknown" event was stored this time.
    let read: Value = serde_json::from_str(&history(&node, "cars", 2)).expect("JSON");
    assert_eq!(read["events"], serde_json::json!([1, 7]));
}

#[test]
fn a_publish_that_is_stored_in_part_names_the_stored_events() {
    let streams = Streams::new(&["**"]);
    let node = node(&streams, 2);
    // A record has at most 256 events.
    let lines = |events: std::ops::Range<u64>| -> String {
        events.map(|event| format!("{event}\n")).collect()
    };
    streams.pass_next();
    streams.fail_next(Fault::Unavailable);
    let answer = publish(&node, "cars", &lines(0..300));
    assert_eq!((answer.status, &json(&answer)["error"]["code"]), (503, &"unavailable".into()));
    let published = json(&answer)["published"].clone();
    assert_eq!(published["count"], 256);
    let page: Value = serde_json::from_str(&history(&node, "cars", 256)).expect("JSON");
    assert_eq!((&page["position"], &page["topic"]), (&published["position"], &published["topic"]));
    // The client publishes the other lines again.
    assert_eq!(publish(&node, "cars", &lines(256..300)).status, 200);
    let page: Value = serde_json::from_str(&history(&node, "cars", 300)).expect("JSON");
    assert_eq!(page["events"], (0..300).collect::<Value>());
    // Without stored events, or if more events than these may be stored, the answer names none.
    streams.fail_next(Fault::Unavailable);
    let none = publish(&node, "boats", &lines(0..300));
    streams.pass_next();
    streams.fail_next(Fault::Unknown);
    let unknown = publish(&node, "boats", &lines(0..300));
    for (answer, code) in [(none, "unavailable"), (unknown, "unknown")] {
        assert_eq!(json(&answer)["error"]["code"], code);
        assert_eq!(json(&answer)["published"], Value::Null);
    }
}

#[test]
fn a_key_of_events_that_are_not_sent_is_free_for_a_condition() {
    let streams = Streams::new(&["#**"]);
    let mut config = Config { shards: 2, ..Config::default() };
    let keyed = TopicSettings { kind: FeedKind::Keyed, ..TopicSettings::default() };
    config.topics.push(("**".parse().expect("a pattern"), keyed));
    let node = Running::start(config, Some(broker(&streams)));
    let lines: String = (0..300).map(|event| format!("{event}\n")).collect();
    streams.fail_next(Fault::Unavailable);
    assert_eq!(publish(&node, "cars?key=a", &lines).status, 503);
    let answer = node.ask("POST", "/v1/topics/cars?key=a&if=new", &[], "1");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Returns the events that a subscriber gets from `cursor` on, until it has this many; no gap.
fn hear(node: &Running, topic: &str, cursor: &str, events: usize) -> (Vec<Value>, String) {
    let (mut cursor, mut received) = (cursor.to_owned(), Vec::new());
    wait_for(&format!("{events} events of {topic}"), || {
        for message in poll(node, topic, &cursor) {
            assert!(message.get("gap").is_none(), "{message}");
            cursor = message["position"].as_str().expect("a position").to_owned();
            received.extend(message["events"].as_array().expect("events").clone());
        }
        (received.len() >= events).then_some(())
    });
    (received, cursor)
}

#[test]
fn an_answer_that_is_never_given_is_unknown_and_keeps_nobody_waiting() {
    let streams = Streams::new(&["**"]);
    // Longer than the patience of a test.
    let drain = Duration::from_secs(3600);
    let node = Running::start(
        Config { shards: 1, shutdown_timeout: drain, ..Config::default() },
        Some(broker(&streams)),
    );
    let first = json(&publish(&node, "cars", "1"))["position"].as_str().expect("one").to_owned();
    streams.fail_next(Fault::Panic);
    let answer = publish(&node, "cars", "2");
    assert_eq!((answer.status, &json(&answer)["error"]["code"]), (503, &"unknown".into()));
    // The topic continues.
    assert_eq!(publish(&node, "cars", "3").status, 200);
    // Readers of older events learn of it, too, and subscribers get them later.
    streams.forget_for_new();
    let new = self::node(&streams, 1);
    streams.fail_next(Fault::Panic);
    let answer = new.get("/v1/topics/cars?limit=9", &[]);
    assert_eq!((answer.status, &json(&answer)["error"]["code"]), (503, &"unavailable".into()));
    streams.fail_next(Fault::Panic);
    let told = poll(&new, "cars", &first);
    assert_eq!(told.last().expect("a message")["events"], serde_json::json!([3]), "{told:?}");
    // No store is in flight any more: it ends before its time is over.
    streams.fail_next(Fault::Panic);
    publish(&node, "cars", "4");
    let (ending, ended) = channel::<()>();
    thread::spawn(move || {
        drop(node);
        drop(ending);
    });
    assert_eq!(receive(&ended, "a node that waits for no answer"), None);
}

#[test]
fn a_stream_that_is_another_one_is_an_epoch_gap() {
    let streams = Streams::new(&["**"]);
    let node = node(&streams, 2);
    let before = json(&publish(&node, "cars", "1"))["position"].as_str().expect("one").to_owned();
    history(&node, "cars", 1);
    let told = thread::scope(|scope| {
        let connected = scope.spawn(|| poll(&node, "cars", &before));
        until_subscribed(std::slice::from_ref(&node), 1);
        streams.restart();
        connected.join().expect("a poll")
    });
    assert_eq!(told.last().expect("a message")["close"]["code"], 4005, "{told:?}");
    publish(&node, "cars", "2");
    let mut told = poll(&node, "cars", &before);
    assert_eq!(told[0]["gap"], serde_json::json!({"missed": null, "reason": "epoch"}));
    let position = told[0]["position"].as_str().expect("a position").to_owned();
    if told.len() == 1 {
        told.extend(poll(&node, "cars", &position));
    }
    assert_eq!(told.last().expect("an envelope")["events"], serde_json::json!([2]));
}

#[test]
fn a_node_is_ready_when_it_has_caught_up() {
    let streams = Streams::new(&["**"]);
    let node = node(&streams, 1);
    // The broker reports it first.
    wait_for("a node that is ready", || (node.get("/readyz", &[]).status == 200).then_some(()));
    // Its counts are shown.
    let metrics = node.get("/metrics", &[]);
    let shown: Vec<&str> =
        metrics.text().lines().filter(|line| line.contains("thalweg_memory_")).collect();
    assert_eq!(
        shown[1..],
        [
            "# TYPE thalweg_memory_seconds histogram",
            "thalweg_memory_seconds_bucket{le=\"0.001\"} 1",
            "thalweg_memory_seconds_bucket{le=\"0.01\"} 3",
            "thalweg_memory_seconds_bucket{le=\"+Inf\"} 6",
            "thalweg_memory_seconds_sum 0.5",
            "thalweg_memory_seconds_count 6",
        ]
    );
    streams.set_ready(false);
    let answer = wait_for("a node that is not ready", || {
        Some(node.get("/readyz", &[])).filter(|answer| answer.status != 200)
    });
    assert_eq!((answer.status, &json(&answer)["error"]["code"]), (503, &"unavailable".into()));
}

#[test]
fn a_node_backfills_missing_events() {
    let streams = Streams::new(&["**"]);
    let old = node(&streams, 1);
    let mut positions = Vec::new();
    for event in 0..20 {
        let published = json(&publish(&old, "cars", &event.to_string()));
        positions.push(published["position"].as_str().expect("a position").to_owned());
        publish(&old, "boats", "0");
    }
    streams.forget_for_new();
    let new = node(&streams, 2);
    // A read gets it, page by page.
    let (mut cursor, mut read, mut is_over) = ("earliest".to_owned(), Vec::new(), false);
    while !is_over {
        let answer = new.get(&format!("/v1/topics/cars?limit=100&cursor={cursor}"), &[]);
        let page = json(&answer);
        assert_eq!((answer.status, &page["gap"]), (200, &Value::Null), "{page}");
        cursor = page["position"].as_str().expect("a position").to_owned();
        is_over = page["position"] == page["head"];
        read.extend(page["events"].as_array().expect("events").clone());
    }
    assert_eq!(cursor, positions[19]);
    assert_eq!(read, (0..20).map(Value::from).collect::<Vec<_>>());
    assert_eq!(new.get("/v1/topics/bikes?limit=1", &[]).status, 404);
    // A subscription gets it too, and many at a time cause one read.
    let before = streams.reads();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (received, _) = hear(&new, "cars", &positions[3], 16);
                assert_eq!(received, (4..20).map(Value::from).collect::<Vec<_>>());
            });
        }
    });
    let reads = streams.reads() - before;
    assert!((2..=12).contains(&reads), "{reads} reads");
    // Newly published events come after it.
    publish(&old, "cars", "20");

    let told = poll(&new, "cars", &positions[19]);
    assert_eq!(told.last().expect("a message")["events"], serde_json::json!([20]), "{told:?}");
}

#[test]
fn deleted_records_are_a_gap_of_unknown_size() {
    let streams = Streams::new(&["**"]);
    let old = node(&streams, 1);
    let publish = |event: &str| json(&publish(&old, "cars", event))["position"].clone();
    let positions = ["0", "1", "2", "3"].map(publish);
    streams.forget_for_new();
    streams.expire(2);
    let new = node(&streams, 1);
    let cursor = positions[0].as_str().expect("a position");
    let page = json(&new.get(&format!("/v1/topics/cars?limit=9&cursor={cursor}"), &[]));
    assert_eq!(page["gap"], serde_json::json!({"missed": null, "reason": "trimmed"}));
    assert_eq!(page["events"], serde_json::json!([2, 3]));
    let gap = (0..9).find_map(|_| {
        let told = poll(&new, "cars", cursor);
        told.into_iter().find(|message| message.get("gap").is_some())
    });
    let gap = gap.expect("a gap");
    assert_eq!(gap["gap"]["missed"], Value::Null);
    // Stored events come after it.
    let position = gap["position"].as_str().expect("a position");
    assert_eq!(hear(&new, "cars", position, 2).0, [2, 3]);
}

/// Reads a topic from a cursor up to an event, by polls or by answers of history. Returns the events, and null for each gap.
fn walk(node: &Running, is_poll: bool, cursor: &str, last: u64) -> Vec<Value> {
    let (mut cursor, mut read) = (cursor.to_owned(), Vec::new());
    while read.last() != Some(&Value::from(last)) {
        let messages = match is_poll {
            true => poll(node, "cars", &cursor),
            false => {
                vec![json(&node.get(&format!("/v1/topics/cars?limit=100&cursor={cursor}"), &[]))]
            }
        };
        for message in messages {
            if message.get("gap").is_some_and(|gap| !gap.is_null()) {
                assert_eq!(
                    message["gap"],
                    serde_json::json!({"missed": null, "reason": "trimmed"})
                );
                read.push(Value::Null);
            }
            read.extend(message["events"].as_array().into_iter().flatten().cloned());
            cursor = message["position"].as_str().expect("a position").to_owned();
        }
    }
    read
}

#[test]
fn lost_records_are_a_gap_for_each_reader_and_those_before_stay() {
    let streams = Streams::new(&["**"]);
    let old = node(&streams, 1);
    let publish = |event: usize| {
        publish(&old, "bikes", "0");
        let published = json(&publish(&old, "cars", &event.to_string()));
        (
            published["position"].as_str().expect("a position").to_owned(),
            published["first"].as_u64(),
        )
    };
    let (positions, firsts): (Vec<_>, Vec<_>) = (0..20).map(publish).unzip();
    let first = |nth: usize| firsts[nth].expect("an offset");
    streams.lose(first(3)..first(4) + 1);
    streams.lose(first(12)..first(12) + 1);
    streams.forget_for_new();
    let new = node(&streams, 2);
    let expected = |from: u64| -> Vec<Value> {
        let gap_or_event = |nth: u64| match nth {
            3 | 12 => Some(Value::Null),
            4 => None,
            event => Some(event.into()),
        };
        let lost = (from == 4).then_some(Value::Null);
        lost.into_iter().chain((from..20).filter_map(gap_or_event)).collect()
    };
    for is_poll in [true, false, true, false] {
        assert_eq!(walk(&new, is_poll, "earliest", 19), expected(0), "{is_poll}");
        for (nth, position) in positions.iter().enumerate().take(15) {
            let expected = expected(nth as u64 + 1);
            assert_eq!(walk(&new, is_poll, position, 19), expected, "{is_poll}: after {nth}");
        }
    }
    // The subscription of a client that allows no gap ends there, and is refused afterwards.
    let answer =
        new.get(&format!("/v1/topics/cars?wait=5s&policy=close&cursor={}", positions[2]), &[]);
    assert!(answer.text().contains("trimmed"), "{}", answer.text());
}

#[test]
fn a_reader_begins_with_the_events_since_a_time() {
    let streams = Streams::new(&["**"]);
    let old = node(&streams, 1);
    for event in 0..60 {
        publish(&old, "cars", &event.to_string());
        publish(&old, "bikes", "0");
    }
    // The clock has steps of 4 ms.
    let_pass(Duration::from_millis(20));
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let_pass(Duration::from_millis(20));
    publish(&old, "cars", "60");
    streams.forget_for_new();
    let new = node(&streams, 2);
    publish(&old, "cars", "61");
    for node in [&old, &new] {
        wait_for("the newest event", || {
            let answer = node.get("/v1/topics/cars?newest=1", &[]);
            let is_newest =
                answer.status == 200 && json(&answer)["events"] == serde_json::json!([61]);
            is_newest.then_some(())
        });
    }
    // The old node has all events in memory, and the new one only the last.
    for node in [&old, &new] {
        let cases: [(&str, &[u64]); 2] = [(&time, &[60, 61]), ("0s", &[])];
        for (since, events) in cases {
            let page = json(&node.get(&format!("/v1/topics/cars?limit=9&since={since}"), &[]));
            assert_eq!((&page["events"], &page["gap"]), (&serde_json::json!(events), &Value::Null));
        }
        let told = poll(node, "cars", &format!("since.{time}"));
        let events =
            told.iter().flat_map(|message| message["events"].as_array().into_iter().flatten());
        assert_eq!(events.collect::<Vec<_>>(), [60, 61]);
        assert_eq!(hear(node, "cars", "since.1h", 62).0.len(), 62);
    }
}

#[test]
fn a_topic_that_goes_during_a_search_is_not_confused_with_another() {
    let streams = Streams::new(&["**"]);
    let node = node(&streams, 1);
    publish(&node, "few", "1");
    history(&node, "few", 1);
    streams.hold_reads(true);
    let before = streams.reads();
    thread::scope(|scope| {
        let target = "/v1/topics?topic=empty&topic=few&newest=10&wait=5s";
        let searching = scope.spawn(|| node.get(target, &[]));
        wait_for("the search", || (streams.reads() > before).then_some(()));
        // A sweep removes topics without events and readers.
        wait_for("the sweep", || {
            let listed = node.get("/v1/topics", &[]);
            (!listed.text().contains("\"empty\"")).then_some(())
        });
        publish(&node, "secret", "\"of others\"");
        streams.hold_reads(false);
        let answer = searching.join().expect("an answer");
        assert!(!answer.text().contains("secret"), "{}", answer.text());
        assert!(answer.text().contains("\"topic\":\"empty\""), "{}", answer.text());
    });
}

#[test]
fn the_history_of_a_node_survives_deletion_from_the_stream() {
    let streams = Streams::new(&["**"]);
    let old = node(&streams, 1);
    let before = json(&publish(&old, "cars", "0"))["position"].clone();
    publish(&old, "cars", "1");
    streams.forget_for_new();
    let new = node(&streams, 1);
    publish(&old, "cars", "2");
    publish(&old, "cars", "3");
    assert_eq!(hear(&new, "cars", "earliest", 4).0, [0, 1, 2, 3]);
    streams.expire(3);
    let cursor = before.as_str().expect("a position");
    let page = json(&new.get(&format!("/v1/topics/cars?limit=9&cursor={cursor}"), &[]));
    assert_eq!(page["gap"], serde_json::json!({"missed": null, "reason": "trimmed"}));
    assert_eq!(page["events"], serde_json::json!([2, 3]));
}

#[test]
fn a_node_without_room_for_a_topic_has_it_all_the_same() {
    let streams = Streams::new(&["**"]);
    let limits = Limits { topics: 4, ..Limits::default() };
    let small = [1, 2].map(|shards| {
        let config = Config { shards, limits, ..Config::default() };
        Running::start(config, Some(broker(&streams)))
    });
    let other = node(&streams, 1);
    let publish = |topic: usize, event: usize| {
        let answer = publish(&other, &format!("topics/{topic}"), &event.to_string());
        json(&answer)["position"].as_str().expect("a position").to_owned()
    };
    let first: Vec<String> = (0..30).map(|topic| publish(topic, 0)).collect();
    for (topic, position) in first.iter().enumerate() {
        publish(topic, 1);
        for small in &small {
            let told = poll(small, &format!("topics/{topic}"), position);
            let told = told.last().expect("a message");
            assert_eq!(told["events"], serde_json::json!([1]), "topic {topic}: {told}");
        }
    }
    // All of them read at once: there is no room for any, and they come all the same.
    thread::scope(|scope| {
        for (topic, position) in first.iter().enumerate() {
            for small in &small {
                scope.spawn(move || {
                    let (received, _) = hear(small, &format!("topics/{topic}"), position, 2);
                    assert_eq!(received, [1, 2], "topic {topic}");
                });
            }
        }
        until_subscribed(&small, 60);
        (0..first.len()).for_each(|topic| drop(publish(topic, 2)));
    });
}
