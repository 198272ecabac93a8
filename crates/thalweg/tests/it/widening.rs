//! Queries over topics without declared columns continue when values of other types arrive, without losing rows.

use serde_json::{Value, json};

use crate::harness::{Server, Subscriber, Transport, wait_for};

/// Publishes events one by one, so that each is a batch.
fn post(server: &Server, topic: &str, events: &[&str]) {
    for event in events {
        server.post(topic, "application/json", event).published();
    }
}

fn rows(subscriber: &mut Subscriber, count: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    while rows.len() < count {
        rows.extend(subscriber.envelope().events);
    }
    rows
}

fn at(second: u32, members: &str) -> String {
    format!(r#"{{"time":"2022-07-13T21:00:{second:02}Z",{members}}}"#)
}

#[test]
fn values_behind_the_first_batch_count_however_events_are_cut_into_batches() {
    let prices = "prices=SELECT count(price) AS n, sum(price) AS sum, round(avg(price), 2) AS avg FROM tumble(trades, 1s) GROUP BY window_start";
    let errors = "errors=SELECT err FROM lines WHERE err IS NOT NULL";
    let mut events = vec![at(0, r#""price":1"#), at(1, r#""price":10"#)];
    let tenths = (101..=139).step_by(4).map(|tenths| (tenths / 10, tenths % 10));
    events.extend(tenths.map(|(whole, tenths)| at(1, &format!(r#""price":{whole}.{tenths}"#))));
    events.push(at(2, r#""price":null"#));
    for size in [1, 2, 5, events.len()] {
        let server = Server::start(&["--query", prices, "--query", errors]);
        for batch in events.chunks(size) {
            server.post("trades", "application/x-ndjson", batch.join("\n")).published();
        }
        let mut subscriber = server.subscribe(Transport::WebSocket, "/prices?cursor=earliest");
        assert_eq!(rows(&mut subscriber, 1), [json!([11, 129.0, 11.73])], "{size}");
        let lines = [r#"{"err":null}"#, r#"{"err":"disk full"}"#];
        for batch in lines.chunks(size) {
            server.post("lines", "application/x-ndjson", batch.join("\n")).published();
        }
        let mut subscriber = server.subscribe(Transport::Sse, "/errors?cursor=earliest");
        assert_eq!(rows(&mut subscriber, 1), [json!(["disk full"])], "{size}");
        server.has_counted("thalweg_query_changes_total", 2);
        assert_eq!(server.count("thalweg_query_unreadable_total"), 0);
        assert_eq!(server.count("thalweg_query_windows_lost_total"), 0);
    }
}

#[test]
fn a_query_that_a_client_asks_for_goes_on_with_wider_columns() {
    let server = Server::start(&["--shards", "2"]);
    post(&server, "values", &[r#"{"v":1}"#]);
    let target = "query=SELECT%20v%20FROM%20values";
    let described = |server: &Server| {
        server.get(&format!("/v1/topics?{target}")).json()["columns"][0]["type"].clone()
    };
    assert_eq!(described(&server), "int");
    let mut subscriber = server.subscribe(Transport::Sse, &format!("?{target}"));
    assert_eq!(rows(&mut subscriber, 1), [json!([1])]);
    post(&server, "values", &[r#"{"v":2.5}"#, r#"{"v":"x"}"#]);
    assert_eq!(rows(&mut subscriber, 2), [json!([2.5]), json!(["x"])]);
    wait_for("the columns to be wider", || (described(&server) == "json").then_some(()));
}

#[test]
fn groups_that_cannot_be_widened_are_a_gap() {
    let query =
        "last=SELECT window_start, last(v) AS v FROM tumble(values, 1s) GROUP BY window_start";
    let server = Server::start(&["--query", query]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/last");
    subscriber.confirmed();
    let events = ["1", "2", "\"x\"", "3", "4"];
    let events: Vec<String> = [0, 1, 1, 2, 3]
        .into_iter()
        .zip(events)
        .map(|(s, v)| at(s, &format!(r#""v":{v}"#)))
        .collect();
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    post(&server, "values", &events);
    subscriber.gap();
    assert_eq!(rows(&mut subscriber, 1), [json!(["2022-07-13T21:00:02Z", 3])]);
    server.has_counted("thalweg_query_windows_lost_total", 1);
}

#[test]
fn a_query_waits_for_events_over_which_it_can_run() {
    let query = "sums=SELECT sum(v) AS sum FROM tumble(values, 1s) GROUP BY window_start";
    let server = Server::start(&["--query", query]);
    post(&server, "values", &["\"hello\"", r#"{"version":1}"#]);
    wait_for("the query to fail", || (server.count("thalweg_queries_failed") == 1).then_some(()));
    server.has_said("neither objects nor arrays");
    let events = [at(0, r#""v":1"#), at(1, r#""v":2"#), at(1, r#""v":3.5"#), at(2, r#""v":4"#)];
    post(&server, "values", &events.each_ref().map(String::as_str));
    let mut subscriber = server.subscribe(Transport::Sse, "/sums?cursor=earliest");
    assert_eq!(rows(&mut subscriber, 1), [json!([5.5])]);
    assert_eq!(server.count("thalweg_queries_failed"), 0);
    server.has_counted("thalweg_query_refused_total", 2);
}
