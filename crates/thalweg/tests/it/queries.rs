//! Topics whose events are the rows of queries.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Server, Transport, wait_for};

const COLUMNS: &str = "cars,columns=speed:double car:string time:time";
const MAX: &str = "max=SELECT window_start, max(speed) AS speed FROM tumble(cars, INTERVAL 1 s) GROUP BY window_start";
const FAST: &str = "fast=SELECT window_start, speed FROM max WHERE speed > 50";
const ALL: &str = "all=select * from cars";

/// Rows of four seconds, of which the last closes the one before it.
fn rows() -> Vec<String> {
    let row = |index: usize| {
        let (second, ms) = (index / 10, index % 10 * 100);
        format!(
            r#"[{},"c{}","2022-07-13T21:09:{second:02}.{ms:03}Z"]"#,
            index * 37 % 100,
            index % 3
        )
    };
    (0..40).map(row).collect()
}

/// What the queries make of them, but for the last second.
fn expected() -> Vec<(u64, Value)> {
    let speed =
        |second: usize| (0..10).map(|at| (second * 10 + at) * 37 % 100).max().expect("rows");
    let row = |second: usize| {
        let start = format!("2022-07-13T21:09:{second:02}Z");
        (second as u64 + 1, json!([start, speed(second) as f64]))
    };
    (0..3).map(row).collect()
}

fn publish(server: &Server, rows: &[String]) {
    server.post("cars", "application/x-ndjson", rows.join("\n")).published();
}

/// The events of a topic and their offsets, from the beginning on.
fn events(server: &Server, transport: Transport, topic: &str, count: usize) -> Vec<(u64, Value)> {
    let mut subscriber = server.subscribe(transport, &format!("/{topic}?cursor=earliest"));
    let mut events = Vec::new();
    while events.len() < count {
        let envelope = subscriber.envelope();
        events.extend((envelope.first..).zip(envelope.events));
    }
    events
}

#[test]
fn a_query_is_a_topic_over_every_transport_and_its_offsets_are_always_the_same() {
    let rows = rows();
    for (shards, size) in [("1", 40), ("1", 1), ("2", 7), ("4", 13)] {
        let server = Server::start(&[
            "--shards", shards, "--topic", COLUMNS, "--query", FAST, "--query", MAX, "--query", ALL,
        ]);
        rows.chunks(size).for_each(|rows| publish(&server, rows));
        for transport in Transport::ALL {
            assert_eq!(
                events(&server, transport, "max", 3),
                expected(),
                "{shards} {size} {transport:?}"
            );
        }
        let mut fast = expected();
        fast.retain(|(_, row)| row[1].as_f64() > Some(50.0));
        assert_eq!(events(&server, Transport::Sse, "fast", fast.len()).len(), fast.len());
        let all: Vec<(u64, Value)> =
            (1..).zip(rows.iter().map(|row| serde_json::from_str(row).expect("JSON"))).collect();
        assert_eq!(events(&server, Transport::WebSocket, "all", 40), all);
        server.has_counted("thalweg_query_rows_total", 3 + fast.len() as u64 + 40);
    }
}

#[test]
fn a_window_closes_when_nothing_comes_any_more() {
    for shards in ["1", "2"] {
        let query = "max=SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE AND TIMEOUT 300ms";
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS, "--query", query]);
        let mut subscriber = server.subscribe(Transport::WebSocket, "/max");
        subscriber.confirmed();
        publish(&server, &rows()[..15]);
        assert_eq!(subscriber.envelope().events, [json!([10])]);
        assert_eq!(subscriber.envelope().events, [json!([5])]);
        // What comes for it now is late.
        publish(&server, &rows()[15..16]);
        server.has_counted("thalweg_query_late_total", 1);
    }
}

#[test]
fn columns_are_those_of_the_first_events_if_they_are_not_declared() {
    let query = "slow=SELECT car, speed * 2 AS twice FROM cars WHERE speed < 10";
    let server = Server::start(&["--query", query, "--query", "none=SELECT nothing FROM others"]);
    publish(
        &server,
        &[r#"{"car":"a","speed":7}"#, r#"{"car":"b","speed":70}"#, r#"{"speed":8,"car":null}"#]
            .map(str::to_owned),
    );
    assert_eq!(
        events(&server, Transport::Sse, "slow", 2),
        [(1, json!(["a", 14])), (2, json!([null, 16]))]
    );
    server.post("others", "application/json", r#"{"something":1}"#).published();
    wait_for("the query to fail", || (server.count("thalweg_queries_failed") == 1).then_some(()));
    server.has_said("there is no column nothing: there are something");
}

#[test]
fn nobody_publishes_rows_of_a_query_or_deletes_what_is_read() {
    let server = Server::start(&["--shards", "2", "--topic", COLUMNS, "--query", MAX]);
    let said = server.post("max", "application/json", "1").refused(409, "in_use");
    assert!(said.contains("has the rows of a query"), "{said}");
    for topic in ["max", "cars"] {
        server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "").refused(409, "in_use");
    }
}

#[test]
fn a_query_that_cannot_run_is_refused_at_the_start() {
    for (query, says) in [
        (
            "max=SELECT sped FROM cars",
            "query max: line 1, column 8: there is no column sped: there are speed, car, time",
        ),
        (
            "max=SELECT * FROM cars ORDER BY speed",
            "query max: line 1, column 20: ORDER BY is not supported",
        ),
        ("max", "a query is TOPIC=SELECT"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["serve", "--check", "--topic", COLUMNS, "--query", query]);
        let output = command.output().expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
}
