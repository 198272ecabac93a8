//! Queries over shared topics: each node makes the same rows by itself, at the same positions.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use thalweg_columns::Columns;
use thalweg_server::config::{Config, QueryConfig, TopicSettings};
use thalweg_testing::wait_for_value;

use super::{broker, hear, history, memory::Streams, poll, publish};
use crate::running::{Running, wait_for};

const QUERIES: [&str; 6] = [
    "waits=SELECT window_start, count(*) FROM tumble(cars, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE AND TIMEOUT 200ms",
    "max=SELECT window_start, max(speed) AS speed, count(*) FROM tumble(cars, 1s) GROUP BY window_start",
    "hops=SELECT window_start, car, sum(speed) FROM hop(cars, 1s, 3s) GROUP BY window_start, car EMIT AFTER WINDOW CLOSE WITH DELAY 1s",
    "all=SELECT * FROM cars WHERE speed > 3",
    "fast=SELECT window_start, speed FROM max WHERE speed > 6",
    "cars_of=SELECT car, count(*) AS n, sum(speed) AS s FROM cars GROUP BY car",
];

fn node(streams: &Streams, shards: usize) -> Running {
    node_that(streams, shards, false)
}

/// A node that may also tell the time.
fn node_that(streams: &Streams, shards: usize, tells_time: bool) -> Running {
    let mut config = Config { shards, tells_time, ..Config::default() };
    let columns = Columns::declared(["car:string", "speed:int", "time:time"]).expect("columns");
    let settings = TopicSettings { columns: Some(Arc::new(columns)), ..TopicSettings::default() };
    config.topics.push(("cars".parse().expect("a pattern"), settings));
    let query = |text: &&str| {
        let (topic, text) = text.split_once('=').expect("a topic");
        QueryConfig::new(topic.parse().expect("a topic"), text.to_owned())
    };
    config.queries = QUERIES.iter().map(query).collect();
    Running::start(config, Some(broker(streams)))
}

/// Rows of four in a second, some of which are a little late.
fn rows(range: std::ops::Range<u64>) -> Vec<String> {
    let row = |nth: u64| {
        let ms = 1_657_746_248_000 + nth * 250 - if nth % 7 == 3 { 600 } else { 0 };
        format!(r#"["c{}",{},{ms}]"#, nth % 3, nth * 37 % 10)
    };
    range.map(row).collect()
}

/// Publishes rows, a few at a time, alternating between nodes.
fn publish_to(nodes: &[&Running], rows: &[String]) {
    let mut rest = rows;
    let mut size = 1;
    while !rest.is_empty() {
        let (some, others) = rest.split_at(size.min(rest.len()));
        let answer = publish(nodes[size % nodes.len()], "cars", &some.join("\n"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        publish(nodes[0], "others", "1");
        (rest, size) = (others, size % 5 + 1);
    }
}

/// Publishes rows in one request: the topic does not pause between two of them.
fn publish_at_once(node: &Running, range: std::ops::Range<u64>) {
    let answer = publish(node, "cars", &rows(range).join("\n"));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Returns the messages of a topic's history, from its beginning here.
fn read(node: &Running, topic: &str, events: usize) -> Value {
    serde_json::from_str(&history(node, topic, events)).expect("JSON")
}

/// Returns how many rows a topic has on a node that has all of them.
fn count(topic: &str, rows: usize) -> usize {
    match topic {
        // The window of the newest row is open.
        "max" => (rows - 1) / 4,
        other => panic!("{other}"),
    }
}

#[test]
fn every_node_makes_the_same_rows_at_the_same_positions() {
    let streams = Streams::new(&["**"]);
    let nodes = [node(&streams, 1), node(&streams, 3)];
    publish_to(&[&nodes[0], &nodes[1]], &rows(0..400));
    assert_eq!(
        read(&nodes[0], "max", count("max", 400))["events"].as_array().map(Vec::len),
        Some(99)
    );
    // All have read all rows when both have the last one of this.
    for topic in ["max", "hops", "all", "fast"] {
        let events = read(&nodes[0], topic, 30)["events"].as_array().map_or(0, Vec::len);
        let same = nodes.each_ref().map(|node| history(node, topic, events));
        assert_eq!(same[0], same[1], "{topic}");
    }
}

/// Groups without windows count from where a node begins, so each node has an epoch of its own.
#[test]
fn each_node_counts_groups_without_windows_by_itself() {
    let streams = Streams::new(&["cars"]);
    let first = node(&streams, 2);
    publish_to(&[&first], &rows(0..300));
    // It reads the earlier events from the stream.
    streams.forget_for_new();
    let later = node(&streams, 1);
    publish_to(&[&first, &later], &rows(300..400));
    let mut expected: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for row in rows(0..400) {
        let row: Value = serde_json::from_str(&row).expect("JSON");
        let (count, sum) = expected.entry(row[0].as_str().expect("a car").into()).or_default();
        (*count, *sum) = (*count + 1, *sum + row[1].as_i64().expect("a speed"));
    }
    let expected: BTreeMap<String, Value> = expected
        .into_iter()
        .map(|(car, (count, sum))| (car.clone(), serde_json::json!([car, count, sum])))
        .collect();
    let epochs = [&first, &later].map(|node| {
        wait_for("all events to be counted", || {
            let page = read(node, "cars_of", 3);
            let keys = page["keys"].as_array().expect("keys").iter();
            let keys = keys.map(|key| key.as_str().expect("a key").to_owned());
            let rows = keys.zip(page["events"].as_array().expect("rows").iter().cloned());
            let position = page["position"].as_str().expect("a position").to_owned();
            (rows.collect::<BTreeMap<_, _>>() == expected).then_some(position)
        })
    });
    let [one, other] =
        epochs.map(|position| position.split_once('.').map(|(epoch, _)| epoch.to_owned()));
    assert!(one.is_some() && one != other, "{one:?} {other:?}");
}

/// Returns each of two nodes' history of a topic, when both are at the same position and have this many events.
fn until_same_position(
    one: &Running,
    other: &Running,
    topic: &str,
    events: usize,
) -> (Vec<Value>, Vec<Value>) {
    wait_for(&format!("{topic} at the same position"), || {
        let pages = [one, other].map(|node| read(node, topic, events));
        let of = |page: &Value| page["events"].as_array().expect("events").clone();
        (pages[0]["position"] == pages[1]["position"]).then(|| (of(&pages[0]), of(&pages[1])))
    })
}

#[test]
fn a_later_subscriber_continues_at_the_same_positions() {
    let streams = Streams::new(&["cars"]);
    let first = node(&streams, 2);
    publish_to(&[&first], &rows(0..1200));
    read(&first, "max", count("max", 1200));
    // It receives none of the earlier events, and backfills them.
    streams.forget_for_new();
    let later = node(&streams, 2);
    publish_to(&[&first], &rows(1200..1300));
    for topic in ["max", "hops", "all", "fast"] {
        let (all, newer) = until_same_position(&first, &later, topic, 10);
        assert!(all.ends_with(&newer) && newer.len() < all.len(), "{topic}: {newer:?} of {all:?}");
    }
    // It reports the rows that it has not made.
    let oldest = read(&first, "max", 1)["first"].to_string();
    let epoch = read(&first, "max", 1)["position"]
        .as_str()
        .and_then(|text| text.split_once('.'))
        .map(|(epoch, _)| epoch.to_owned())
        .expect("a position");
    let told = poll(&later, "max", &format!("{epoch}.{oldest}"));
    assert_eq!(told[0]["gap"]["reason"], "trimmed", "{:?}", told[0]);
}

#[test]
fn subscribers_of_a_node_killed_in_mid_window_miss_no_row_at_another() {
    let streams = Streams::new(&["cars"]);
    let mut nodes = vec![node(&streams, 2)];
    let mut cursor = "earliest".to_owned();
    let mut received = Vec::new();
    for round in 0..10 {
        // Rounds end within windows.
        publish_to(&[&nodes[0]], &rows(90 * round..90 * round + 90));
        let expected = count("max", 90 * (round as usize + 1));
        let (newer, at) = hear(&nodes[0], "max", &cursor, expected - received.len());
        received.extend(newer);
        cursor = at;
        if round % 2 == 0 {
            streams.forget_for_new();
        }
        drop(nodes.remove(0));
        nodes.push(node(&streams, 1 + round as usize % 3));
    }
    // No window is missing or doubled: windows follow each other.
    let starts = received.iter().map(|row| row[0].as_str().expect("a time").to_owned());
    let starts: Vec<String> = starts.collect();
    assert!(starts.is_sorted() && starts.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(received[1..].iter().all(|row| row[2].as_u64() >= Some(3)), "{received:?}");
}

#[test]
fn windows_close_on_all_nodes_where_one_says_that_the_topic_has_paused() {
    for shards in [1, 3] {
        let streams = Streams::new(&["cars"]);
        let nodes = [node_that(&streams, shards, true), node(&streams, 2)];
        // The last open window would never be announced. Its later events are late everywhere.
        for (range, node) in [0..10, 10..11, 11..20].into_iter().zip([0, 1, 0]) {
            publish_at_once(&nodes[node], range.clone());
            let closed = range.end as usize / 4 + 1;
            let events = closed - usize::from(range.end == 20);
            let same = nodes.each_ref().map(|node| history(node, "waits", events));
            assert_eq!(same[0], same[1], "{shards} {range:?}");
        }
        // Also for a backfill.
        streams.forget_for_new();
        let later = node(&streams, 1);
        publish_at_once(&nodes[1], 20..30);
        let same = [&nodes[1], &later].map(|node| history(node, "waits", 8));
        assert_eq!(same[0], same[1], "{shards}");
        let page: Value = serde_json::from_str(&same[0]).expect("JSON");
        let counts: Vec<u64> = page["events"]
            .as_array()
            .expect("events")
            .iter()
            .filter_map(|row| row[1].as_u64())
            .collect();
        // Rows 10 and 17 belong to windows that have ended, row 11 to one that the pause has closed.
        assert_eq!(counts, [4, 4, 2, 4, 3, 5, 3, 2]);
    }
}

#[test]
fn a_stream_that_becomes_another_one_begins_its_queries_again() {
    let streams = Streams::new(&["cars"]);
    let nodes = [node(&streams, 2), node(&streams, 1)];
    let mut positions = Vec::new();
    for _ in 0..2 {
        publish_to(&[&nodes[0], &nodes[1]], &rows(0..100));
        let same = nodes.each_ref().map(|node| history(node, "max", count("max", 100)));
        assert_eq!(same[0], same[1]);
        let page: Value = serde_json::from_str(&same[0]).expect("JSON");
        positions.push(page["position"].as_str().expect("a position").to_owned());
        streams.restart();
    }
    let epoch = |position: &str| position.split_once('.').map(|(epoch, _)| epoch.to_owned());
    assert_ne!(epoch(&positions[0]), epoch(&positions[1]));
}

#[test]
fn columns_of_shared_topics_are_declared() {
    let streams = Streams::new(&["cars"]);
    let node = Running::start(Config::default(), Some(broker(&streams)));
    publish(&node, "cars", r#"{"speed":1}"#);
    let answer = node.get("/v1/topics?query=SELECT%20speed%20FROM%20cars", &[]);
    let said = answer.text();
    assert!(answer.status == 400 && said.contains("each must declare its columns"), "{said}");
}

/// Returns the rows of a topic by offset, from the oldest of a node.
fn by_offset(node: &Running, topic: &str) -> BTreeMap<u64, Value> {
    let mut found = BTreeMap::new();
    for message in poll(node, topic, "earliest") {
        let first = message["first"].as_u64().unwrap_or_default();
        let events = message["events"].as_array().cloned().unwrap_or_default();
        found.extend((first..).zip(events));
    }
    found
}

#[test]
fn a_query_whose_beginning_is_gone_has_no_row_at_anothers_offset() {
    for (published, expired) in [(120, 30), (120, 5), (900, 40)] {
        let streams = Streams::new(&["cars"]);
        let first = node(&streams, 1);
        publish_to(&[&first], &rows(0..published));
        read(&first, "max", count("max", published as usize));
        streams.expire(expired);
        streams.forget_for_new();
        let later = node(&streams, 3);
        publish_to(&[&first], &rows(published..published + 120));
        read(&first, "max", count("max", published as usize + 120));
        for topic in ["max", "hops", "all", "fast", "waits"] {
            // One of them may have read more than the other at that time, but not for long.
            let what = format!("the same rows: {topic} {published} {expired}");
            let look = || (by_offset(&first, topic), by_offset(&later, topic));
            wait_for_value(&what, look, |(all, some)| {
                let begin = some.first_key_value().map(|(begin, _)| begin);
                some.len() > 5 && begin.is_some_and(|begin| all.range(begin..).eq(some))
            });
        }
    }
}

#[test]
fn a_query_continues_after_lost_events_of_its_source() {
    let streams = Streams::new(&["cars"]);
    let first = node(&streams, 1);
    publish_to(&[&first], &rows(0..400));
    read(&first, "max", count("max", 400));
    let first_of = |nth: u64| 256 * (nth + 1);
    streams.lose(first_of(20)..first_of(22));
    streams.lose(first_of(40)..first_of(41));
    streams.forget_for_new();
    let later = node(&streams, 2);
    publish_to(&[&first], &rows(400..520));
    read(&first, "max", count("max", 520));
    for topic in ["max", "all"] {
        let what = format!("no row at another's offset: {topic}");
        let look = || (by_offset(&first, topic), by_offset(&later, topic));
        wait_for_value(&what, look, |(all, some)| {
            let has_last = all.last_key_value() == some.last_key_value();
            has_last && some.len() > 5 && some.iter().all(|(at, row)| all.get(at) == Some(row))
        });
    }
}

#[test]
fn a_query_begins_also_where_little_of_its_source_fits_into_memory() {
    let streams = Streams::new(&["cars"]);
    let first = node(&streams, 1);
    // A node keeps less of a backfill than the events that together tell how far time has come.
    let padding = "x".repeat(20_000);
    for row in rows(0..700) {
        let row = row.replace(r#""c"#, &format!(r#""{padding}"#));
        assert_eq!(publish(&first, "cars", &row).status, 200);
    }
    read(&first, "max", count("max", 700));
    streams.forget_for_new();
    let later = node(&streams, 2);
    publish_to(&[&first], &rows(700..740));
    read(&later, "max", 5);
}

#[test]
fn a_poll_without_a_wait_delays_no_other_client() {
    let streams = Streams::new(&["cars"]);
    let node = node_that(&streams, 1, true);
    let query = QUERIES[0].split_once('=').expect("two").1.replace("200ms", "0s");
    let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| node.get(&format!("/v1/topics?query={query}&wait=5s"), &[]));
        publish_to(&[&node], &rows(0..6));
        history(&node, "max", 1);
        publish_to(&[&node], &rows(6..8));
        assert_eq!(asked.join().expect("an answer").status, 200);
    });
    assert_eq!(node.get("/healthz", &[]).status, 200);
}

#[test]
fn a_query_that_was_asked_for_ends_with_the_stream_and_can_be_asked_for_again() {
    let streams = Streams::new(&["cars"]);
    let node = node(&streams, 2);
    let query = "SELECT%20window_start%20FROM%20tumble(cars,1s)%20GROUP%20BY%20window_start";
    let ask = || node.get(&format!("/v1/topics?query={query}&wait=5s&cursor=earliest"), &[]);
    for _ in 0..3 {
        publish_to(&[&node], &rows(0..20));
        read(&node, "max", count("max", 20));
        wait_for("its rows", || ask().text().contains("2022-07-13T21:04:09Z").then_some(()));
        streams.restart();
    }
}
