//! Sources that run only while their topics have subscribers or a query reads them, and the topics of the demo.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::harness::{Server, Subscriber, Transport, at, offset};

/// The clock of intended times. All processes share it.
fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Several topics, so that with several shards each shard owns one.
const TOPICS: [&str; 4] = ["a", "b", "c", "d"];

fn with_sources(shards: &str, source: &str) -> Server {
    let sources = TOPICS.map(|topic| format!("{topic}={source}"));
    let flags = sources.iter().flat_map(|source| ["--source", source.as_str()]);
    Server::start(&[&["--shards", shards], &flags.collect::<Vec<_>>()[..]].concat())
}

/// Returns the number and the intended time of the first row.
fn first_row(subscriber: &mut Subscriber) -> (u64, u64) {
    loop {
        if let Some(row) = subscriber.envelope().events.first() {
            return (row[0].as_u64().expect("a number"), row[1].as_u64().expect("a time"));
        }
    }
}

fn head(server: &Server, topic: &str) -> u64 {
    let topics = server.get("/v1/topics").json();
    let mut topics = topics["topics"].as_array().expect("topics").iter();
    let found = topics.find(|listed| listed["topic"] == topic).expect("the topic");
    offset(found["position"].as_str().expect("a position"))
}

fn await_idle(server: &Server, count: usize) {
    server.await_metric("thalweg_sources_idle", |value| value == count as f64);
}

#[test]
fn it_ticks_from_the_first_subscriber_to_the_last() {
    for shards in ["1", "2"] {
        let server = with_sources(shards, "constant,interval=1ms,when=subscribed");
        await_idle(&server, TOPICS.len());
        for (topic, transport) in TOPICS.into_iter().zip(Transport::ALL) {
            assert_eq!(head(&server, topic), 0, "nobody has subscribed yet");
            let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
            subscriber.confirmed();
            first_row(&mut subscriber);
            await_idle(&server, TOPICS.len() - 1);
            drop(subscriber);
            await_idle(&server, TOPICS.len());
        }
        // The sources stay idle, whatever is requested meanwhile.
        let ticks = || server.metric("thalweg_source_ticks_total");
        let before = ticks();
        server.get("/v1/topics/a?limit=10");
        server.get("/v1/topics");
        assert_eq!(ticks(), before);
    }
}

#[test]
fn the_last_of_several_ends_it_and_commands_count() {
    let server = with_sources("1", "constant,interval=1ms,when=subscribed");
    let mut first = server.subscribe(Transport::WebSocket, "");
    let answer = first.command(r#"{"command":"subscribe","id":1,"topic":"a"}"#);
    assert_eq!(answer["answer"]["topic"], "a");
    let mut second = server.subscribe(Transport::Sse, "/a");
    second.confirmed();
    first_row(&mut second);
    drop(second);
    server.await_connections(1);
    let before = head(&server, "a");
    server.await_metric("thalweg_source_ticks_total", |ticks| ticks > before as f64 + 1_500.0);
    first.command(r#"{"command":"unsubscribe","id":2,"topic":"a"}"#);
    await_idle(&server, TOPICS.len());
}

#[test]
fn its_schedule_restarts_without_rows_of_the_pause() {
    for shards in ["1", "2"] {
        let server = with_sources(shards, "constant,interval=1ms,when=subscribed");
        for topic in TOPICS {
            let mut subscriber = server.subscribe(Transport::HttpStreaming, &format!("/{topic}"));
            subscriber.confirmed();
            first_row(&mut subscriber);
            drop(subscriber);
        }
        await_idle(&server, TOPICS.len());
        for topic in TOPICS {
            let before = head(&server, topic);
            let again_us = monotonic_us();
            let topics = server.get("/v1/topics").json();
            let mut all = topics["topics"].as_array().expect("topics").iter();
            let position =
                all.find(|listed| listed["topic"] == topic).expect("the topic")["position"].clone();
            let cursor = at(position.as_str().expect("a position"), before);
            let mut subscriber =
                server.subscribe(Transport::HttpStreaming, &format!("/{topic}?cursor={cursor}"));
            subscriber.confirmed();
            let (number, due_us) = first_row(&mut subscriber);
            assert_eq!(number, before + 1, "none is left out");
            assert!(due_us > again_us, "{} µs before it was asked for", again_us - due_us);
        }
    }
}

#[test]
fn polls_keep_it_awake_between_them() {
    let server = with_sources("1", "constant,interval=1ms,when=subscribed");
    let mut poller = server.subscribe(Transport::LongPolling, "/a");
    let begun = poller.confirmed();
    let (first, first_due_us) = first_row(&mut poller);
    let mut last = (first, first_due_us);
    for _ in 0..200 {
        last = first_row(&mut poller);
    }
    // The rows are one millisecond apart, without a break during the pause.
    assert_eq!(last.1 - first_due_us, (last.0 - first) * 1_000, "{begun}");
}

#[test]
fn a_query_wants_the_topic_that_it_reads() {
    let source = ["--source", "cars=cars,cars=5,interval=20ms,when=subscribed"];
    let count = "SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start";
    for shards in ["1", "2", "4"] {
        let source = [&["--shards", shards], &source[..]].concat();
        let query = format!("count={count}");
        let server = Server::start(&[&source[..], &["--query", &query]].concat());
        await_idle(&server, 0);
        let mut subscriber = server.subscribe(Transport::Sse, "/count");
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events[0][0].as_u64().map(|rows| rows % 5), Some(0));
        // A source that a client requests runs while the client is connected.
        let server = Server::start(&source);
        await_idle(&server, 1);
        let asked = format!("?query={}", count.replace(' ', "%20"));
        let mut subscriber = server.subscribe(Transport::Sse, &asked);
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events[0][0].as_u64().map(|rows| rows % 5), Some(0));
        drop(subscriber);
        await_idle(&server, 1);
    }
}

#[test]
fn the_published_queries_run_over_the_demo() {
    for shards in ["1", "2", "4"] {
        let server = Server::start(&["--demo", "--shards", shards]);
        let all = "?query=select%20*%20from%20car_live_data&cursor=earliest";
        let mut all = server.subscribe(Transport::WebSocket, all);
        all.confirmed();
        let mut chart = server.subscribe(Transport::Sse, "/max-speed?cursor=earliest");
        let mut told = Vec::new();
        while told.len() < 2 {
            told.extend(chart.envelope().events);
        }
        let second = |time: &Value| time.as_str().expect("a time")[..19].to_owned();
        let mut highest = BTreeMap::<String, f64>::new();
        while highest.last_key_value().is_none_or(|(last, _)| *last <= second(&told[1][0])) {
            for row in all.envelope().events {
                let kmh = row[3].as_f64().expect("km/h");
                let so_far = highest.entry(second(&row[8])).or_default();
                *so_far = so_far.max(kmh);
            }
        }
        for row in &told {
            let start = row[0].as_str().and_then(|start| start.strip_suffix('Z')).expect("a start");
            assert_eq!(highest.get(start).copied(), row[1].as_f64(), "{row} of {highest:?}");
        }
        assert!(told[0][0].as_str() < told[1][0].as_str());
    }
}

#[test]
fn the_demo_has_the_topics_of_the_pages() {
    let server = Server::start(&["--demo", "--shards", "2"]);
    let lab = ["1", "10", "100", "1000"].map(|rows| format!("lab/rows/{rows}"));
    let listed = server.get("/v1/topics?prefix=lab/runner/").json();
    let runners = listed["topics"].as_array().expect("topics").iter();
    let runners: Vec<&str> = runners.filter_map(|source| source["topic"].as_str()).collect();
    assert_eq!(runners, ["lab/runner/0", "lab/runner/1", "lab/runner/2", "lab/runner/3"]);
    let numbers = 1;
    await_idle(&server, lab.len() + numbers);
    for (topic, rows) in lab.iter().zip([1, 10, 100, 1000]) {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}"));
        subscriber.confirmed();
        let events = subscriber.envelope().events;
        assert_eq!(events.len() % rows, 0, "{topic}: as many in each millisecond");
        assert_eq!(events[0][0].as_u64().map(|number| number % rows as u64), Some(1 % rows as u64));
    }
    let mut cars = server.subscribe(Transport::Sse, "/car_live_data");
    cars.confirmed();
    assert_eq!(cars.envelope().events[0].as_array().map(Vec::len), Some(11));
}
