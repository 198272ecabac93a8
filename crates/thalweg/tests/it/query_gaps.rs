//! Missing rows of a query: subscribers receive a gap, the log has the reason, and `/metrics` counts it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::harness::{Received, Server, Subscriber, Transport};

const COLUMNS: &str = "cars,columns=time:time car:string speed:int";
const DAY_MS: u64 = 86_400_000;

/// Now, in ms since 1970.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn publish(server: &Server, rows: &[String]) {
    server.post("cars", "application/x-ndjson", rows.join("\n")).published();
}

fn row(time: impl std::fmt::Display, car: &str) -> String {
    format!(r#"[{time},"{car}",1]"#)
}

/// A row in a second of a minute in 2022.
fn at(second: u32, car: &str) -> String {
    row(format!("\"2022-07-13T21:00:{second:02}Z\""), car)
}

/// Receives this many events after the confirmation. `None` is a gap.
fn received(subscriber: &mut Subscriber, events: usize) -> Vec<Option<Value>> {
    let mut received: Vec<Option<Value>> = Vec::new();
    while received.iter().flatten().count() < events {
        match subscriber.news() {
            Received::Envelope(envelope) => received.extend(envelope.events.into_iter().map(Some)),
            Received::Gap(gap) => {
                assert_eq!((gap.missed, gap.reason.as_str()), (None, "trimmed"));
                received.push(None);
            }
            other => panic!("an event or a gap was due, not {other:?}"),
        }
    }
    received
}

#[test]
fn a_topic_that_pauses_for_days_loses_nothing() {
    let query = "daily=SELECT count(*) FROM tumble(cars, 1d) GROUP BY window_start EMIT AFTER WINDOW CLOSE AND TIMEOUT 300ms";
    let server = Server::start(&["--shards", "1", "--topic", COLUMNS, "--query", query]);
    let mut subscriber = server.subscribe(Transport::Sse, "/daily");
    subscriber.confirmed();
    let now = now_ms();
    let rows: Vec<String> = (1..=40).rev().map(|days| row(now - 3 * days * DAY_MS, "a")).collect();
    publish(&server, &rows);
    // The window of the first event is missing, because it may have had earlier events.
    assert_eq!(received(&mut subscriber, 39), vec![Some(json!([1])); 39]);
    assert_eq!(server.count("thalweg_query_ahead_total"), 0);
}

#[test]
fn a_wrong_clock_decides_for_no_client() {
    const COUNT: &str =
        "count=SELECT window_start, count(*) FROM tumble(cars, 1s) GROUP BY window_start";
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS, "--query", COUNT]);
        let mut subscriber = server.subscribe(Transport::WebSocket, "/count");
        subscriber.confirmed();
        // The very first event, and many consistent ones.
        publish(&server, &vec![row("\"2099-01-01T00:00:00Z\"", "wrong"); 20]);
        let rows: Vec<String> = (0..4).map(|second| at(second, "right")).collect();
        publish(&server, &rows);
        let window = |second: u32| Some(json!([format!("2022-07-13T21:00:{second:02}Z"), 1]));
        assert_eq!(received(&mut subscriber, 2), [None, window(1), window(2)]);
        server.has_counted("thalweg_query_ahead_total", 20);
        assert_eq!(server.count("thalweg_query_late_total"), 0);
        server.has_said("more than 3600 s ahead of when they were published");
        server.has_said("topic=count source=cars");
    }
}

#[test]
fn the_lead_of_a_time_is_a_setting() {
    let query = "count=SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE AND TIMEOUT 300ms";
    for (lead, left_out) in [("1h", 1), ("48h", 0)] {
        let server = Server::start(&[
            "--set",
            &format!("limits.query-lead={lead}"),
            "--topic",
            COLUMNS,
            "--query",
            query,
        ]);
        let now = now_ms();
        publish(&server, &[row(now, "a"), row(now + 5_000, "a"), row(now + DAY_MS, "a")]);
        let mut subscriber = server.subscribe(Transport::Sse, "/count?cursor=earliest");
        assert!(!received(&mut subscriber, 1).is_empty());
        server.has_counted("thalweg_query_events_total", 3);
        server.has_counted("thalweg_query_ahead_total", left_out);
    }
}

fn many(second: u32, cars: usize) -> Vec<String> {
    (0..cars).map(|car| at(second, &format!("c{car}"))).collect()
}

const BY_CAR: &str = "by-car=SELECT window_start, car, count(*) FROM tumble(cars, 1s) GROUP BY window_start, car HAVING car < 'c2'";

#[test]
fn a_window_beyond_a_bound_is_a_gap_over_every_transport() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS, "--query", BY_CAR]);
        let mut subscribers: Vec<Subscriber> = Transport::ALL
            .into_iter()
            .flat_map(|transport| ["", "?policy=latest"].map(|policy| (transport, policy)))
            .map(|(transport, policy)| server.subscribe(transport, &format!("/by-car{policy}")))
            .collect();
        subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
        publish(&server, &many(0, 1));
        publish(&server, &many(1, 2));
        // There are 12,000 groups, and at most 10,000 are allowed. The gap is announced although no row follows.
        publish(&server, &many(2, 12_000));
        publish(&server, &many(3, 1));
        let expected = |second: u32, car: u32| {
            Some(json!([format!("2022-07-13T21:00:{second:02}Z"), format!("c{car}"), 1]))
        };
        for subscriber in &mut subscribers {
            assert_eq!(received(subscriber, 2), [expected(1, 0), expected(1, 1)]);
            assert_eq!(subscriber.gap().reason, "trimmed");
        }
        publish(&server, &many(4, 1));
        for subscriber in &mut subscribers {
            assert_eq!(received(subscriber, 1), [expected(3, 0)]);
        }
        server.has_counted("thalweg_query_windows_lost_total", 1);
        server.has_counted("thalweg_query_refused_total", 1);
        server.has_said("there would be more than 10000 groups");
        // A client that resumes at an earlier position receives the gap as well, and continues.
        let mut late = server.subscribe(Transport::Sse, "/by-car?cursor=earliest");
        let all = [expected(1, 0), expected(1, 1), None, expected(3, 0)];
        assert_eq!(received(&mut late, 3), all);
    }
}

#[test]
fn a_row_that_is_too_large_is_a_gap() {
    let query = "double=SELECT car, car AS again FROM cars";
    let server = Server::start(&["--topic", COLUMNS, "--query", query]);
    let mut subscriber = server.subscribe(Transport::HttpStreaming, "/double");
    subscriber.confirmed();
    let large = "x".repeat(600_000);
    publish(&server, &[at(0, "a"), at(0, &large), at(0, "b")]);
    assert_eq!(
        received(&mut subscriber, 2),
        [Some(json!(["a", "a"])), None, Some(json!(["b", "b"]))]
    );
    server.has_said("rows are lost, because a row would have more than 1048576 bytes");
    server.has_counted("thalweg_query_refused_total", 1);
}

#[test]
fn late_events_and_those_without_a_time_are_logged_with_the_remedy() {
    let query = "count=SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start";
    let server = Server::start(&["--topic", COLUMNS, "--query", query]);
    publish(&server, &[at(5, "a"), at(1, "late"), row("null", "never"), row("\"soon\"", "soon")]);
    for words in ["use a longer delay", "because they have no time", "declare the columns"] {
        server.has_said(words);
    }
    server.has_counted("thalweg_query_late_total", 1);
    server.has_counted("thalweg_query_without_time_total", 2);
    server.has_counted("thalweg_query_unreadable_total", 1);
}

#[test]
fn a_cast_without_a_result_is_counted_and_logged_unless_it_is_tried() {
    let queries = [
        "cast=SELECT CAST(car AS INT) AS number FROM cars",
        "tried=SELECT TRY_CAST(car AS INT) AS number FROM cars",
    ];
    let server = Server::start(&["--topic", COLUMNS, "--query", queries[0], "--query", queries[1]]);
    publish(&server, &[at(0, "7"), at(0, "seven"), at(0, "")]);
    for topic in ["cast", "tried"] {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}?cursor=earliest"));
        let rows = [json!([7]), json!([null]), json!([null])];
        assert_eq!(received(&mut subscriber, 3), rows.map(Some));
    }
    server.has_said("has no result, like CAST('x' AS INT)");
    server.has_counted("thalweg_query_without_result_total", 2);
    let metrics = server.get("/metrics").text();
    for line in ["{query=\"cast\"} 2", "{query=\"tried\"} 0"] {
        let line = format!("thalweg_query_null_results_total{line}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

#[test]
fn a_query_whose_windows_cannot_all_be_open_is_refused() {
    let query = "q=SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 40m";
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["serve", "--check", "--topic", COLUMNS, "--query", query]);
    let output = command.output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("2402 windows would be open"), "{said}");
}
