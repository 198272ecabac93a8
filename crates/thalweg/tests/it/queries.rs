//! Topics whose events are the rows of queries.

use std::process::Command;

use serde_json::{Value, json};
use thalweg_testing::TemporaryPath;

use crate::harness::{Received, Server, Transport, wait_for};

const COLUMNS: &str = "cars,columns=speed:double car:string time:time";
const MAX: &str = "max=SELECT window_start, max(speed) AS speed FROM tumble(cars, INTERVAL 1 s) GROUP BY window_start";
const FAST: &str = "fast=SELECT window_start, speed FROM max WHERE speed > 50";
const ALL: &str = "all=select * from cars";

/// Rows of four seconds. The last row closes the second before it.
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

/// The rows of the queries, without those of the first second, which may be partial, and of the last one.
fn expected() -> Vec<(u64, Value)> {
    let speed =
        |second: usize| (0..10).map(|at| (second * 10 + at) * 37 % 100).max().expect("rows");
    let row = |second: usize| {
        let start = format!("2022-07-13T21:09:{second:02}Z");
        (second as u64, json!([start, speed(second) as f64]))
    };
    (1..3).map(row).collect()
}

fn publish(server: &Server, rows: &[String]) {
    server.post("cars", "application/x-ndjson", rows.join("\n")).published();
}

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
                events(&server, transport, "max", 2),
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
        server.has_counted("thalweg_query_rows_total", 2 + fast.len() as u64 + 40);
    }
}

#[test]
fn a_window_closes_when_nothing_comes_any_more() {
    for shards in ["1", "2"] {
        let query = "max=SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE AND TIMEOUT 300ms";
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS, "--query", query]);
        let mut subscriber = server.subscribe(Transport::WebSocket, "/max");
        subscriber.confirmed();
        publish(&server, &rows()[..25]);
        assert_eq!(subscriber.envelope().events, [json!([10])]);
        assert_eq!(subscriber.envelope().events, [json!([5])]);
        // Rows for this window are late now.
        publish(&server, &rows()[25..26]);
        server.has_counted("thalweg_query_late_total", 1);
    }
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_a_window_never_tells_of_it() {
    let mut seen = Vec::new();
    for (round, range) in [0..25, 25..40].into_iter().enumerate() {
        let server = Server::start(&["--shards", "2", "--topic", COLUMNS, "--query", MAX]);
        publish(&server, &rows()[range]);
        seen.extend(events(&server, Transport::Sse, "max", 1).into_iter().map(|(_, row)| row));
        if round == 0 {
            server.kill();
        } else {
            // The query makes rows only of windows after the one in which it began.
            server.has_counted("thalweg_query_rows_total", 1);
        }
    }
    let start = |second: usize| json!(format!("2022-07-13T21:09:{second:02}Z"));
    // Both servers have the third second in part, so neither has all of its rows. The last one waits for its end.
    assert_eq!((&seen[0][0], &seen[1][0], seen.len()), (&start(1), &start(3), 2));
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
    server.has_said("no event has the columns nothing yet");
    server.post("others", "application/json", r#"{"nothing":2}"#).published();
    assert_eq!(events(&server, Transport::Sse, "none", 2), [(1, json!([null])), (2, json!([2]))]);
}

#[test]
fn events_published_to_the_topic_of_a_source_do_no_harm() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS, "--query", MAX]);
        let (soon, last) =
            (r#"[9,"c","soon"]"#.to_owned(), r#"[1,"c","2022-07-13T21:09:02Z"]"#.to_owned());
        let lines = ["7", "{}", "[\"fast\"]", "[]", "null"].map(str::to_owned);
        publish(&server, &[&lines[..], &rows()[..20], &[soon, last]].concat());
        assert_eq!(events(&server, Transport::WebSocket, "max", 1)[0].1, expected()[0].1);
    }
}

#[test]
fn publishing_to_a_query_and_deleting_its_source_are_refused() {
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
            "query max: line 1, column 29: ORDER BY needs groups",
        ),
        ("max", "write TOPIC=SELECT"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["serve", "--check", "--topic", COLUMNS, "--query", query]);
        let output = command.output().expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
}

fn encoded(query: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    query.bytes().map(byte).collect()
}

fn asked(query: &str) -> String {
    format!("?query={}&cursor=earliest", encoded(query))
}

const ASKED: &str = "SELECT window_start, max(speed) AS speed FROM tumble(cars, INTERVAL 1 s) GROUP BY window_start";

#[test]
fn a_query_can_be_asked_for_over_every_transport_and_equal_ones_share_a_topic() {
    for (shards, declared) in [("1", true), ("2", true), ("4", false)] {
        let columns = if declared { COLUMNS } else { "other,columns=a:int" };
        let server = Server::start(&["--shards", shards, "--topic", columns]);
        // Without declared columns, the events determine them.
        let rows: Vec<String> = match declared {
            true => rows(),
            false => rows().iter().map(|row| as_object(row)).collect(),
        };
        publish(&server, &rows);
        let again = ASKED.replace("SELECT", "select  ").replace("INTERVAL 1 s", "1000ms");
        let mut subscribers = Vec::new();
        for (transport, query) in
            Transport::ALL.into_iter().zip([ASKED, &again].into_iter().cycle())
        {
            let mut subscriber = server.subscribe(transport, &asked(query));
            let mut events: Vec<(u64, Value)> = Vec::new();
            while events.len() < 2 {
                let envelope = subscriber.envelope();
                events.extend((envelope.first..).zip(envelope.events));
            }
            // The maximum of whole numbers is a whole number, too.
            events.iter_mut().for_each(|(_, row)| row[1] = json!(row[1].as_f64()));
            assert_eq!(events, expected(), "{shards} {transport:?}");
            subscribers.push(subscriber);
        }
        assert_eq!(server.count("thalweg_queries"), 1);
        drop(subscribers);
        wait_for("the query to end", || (server.count("thalweg_queries") == 0).then_some(()));
        // A reconnecting client receives it again.
        let mut subscriber = server.subscribe(Transport::WebSocket, &asked(ASKED));
        while subscriber.envelope().events.is_empty() {}
    }
}

fn as_object(row: &str) -> String {
    let row: Value = serde_json::from_str(row).expect("JSON");
    json!({ "speed": row[0], "car": row[1], "time": row[2] }).to_string()
}

#[test]
fn requested_history_continues_with_new_events() {
    let server = Server::start(&["--shards", "2", "--topic", COLUMNS]);
    let query = "SELECT car, speed FROM cars WHERE speed >= 50";
    let mut subscriber = server.subscribe(Transport::Sse, &format!("?query={}", encoded(query)));
    subscriber.confirmed();
    let row = |speed: u32| format!(r#"[{speed},"c","2022-07-13T21:09:00Z"]"#);
    publish(&server, &[row(49), row(50), row(51)]);
    let (mut rows, mut last) = (Vec::new(), None);
    while rows.len() < 2 {
        let envelope = subscriber.envelope();
        rows.extend((envelope.first..).zip(envelope.events));
        last = Some(envelope.position);
    }
    assert_eq!(rows, [(1, json!(["c", 50.0])), (2, json!(["c", 51.0]))]);
    // The topic is resumed like any other.
    let position = crate::harness::at(&last.expect("a position"), 1);
    let again = format!("?query={}&cursor={position}", encoded(query));
    let mut resumed = server.subscribe(Transport::HttpStreaming, &again);
    let mut rows = Vec::new();
    while rows.is_empty() {
        rows = resumed.envelope().events;
    }
    assert_eq!(rows, [json!(["c", 51.0])]);
    publish(&server, &[row(70)]);
    assert_eq!(resumed.envelope().events, [json!(["c", 70.0])]);
}

#[test]
fn invalid_queries_are_refused() {
    let server = Server::start(&["--topic", COLUMNS, "--topic", "value,kind=value"]);
    let get = |query: &str| {
        server.ask(
            "GET",
            &format!("/v1/topics?query={}", encoded(query)),
            &[("Accept", "text/event-stream")],
            "",
        )
    };
    for (query, says) in [
        (
            "SELECT sped FROM cars",
            "line 1, column 8: there is no column sped: there are speed, car, time",
        ),
        ("SELECT speed\nFROM cars ORDER BY 1", "line 2, column 20: ORDER BY needs groups"),
        ("SELECT * FROM unknown", "unknown has no events yet, so its columns are not known"),
        ("SELECT * FROM value", "value is a value topic"),
        ("SELECT * FROM \"query/0123456789abcdef01234567\"", "has the rows of an ad hoc query"),
        ("hello", "line 1, column 1: hello is not expected here"),
    ] {
        let said = get(query).refused(400, "bad_query");
        assert!(said.contains(says), "{said}");
    }
    assert!(get("SELECT * FROM \"//\"").refused(400, "bad_topic").contains("topic"));
    let twice = format!("/v1/topics?topic=cars&query={}", encoded(ASKED));
    server.ask("GET", &twice, &[("Accept", "text/event-stream")], "").refused(400, "bad_parameter");
    server.post("query/abc", "application/json", "1").refused(409, "in_use");
    // The explanation describes the query in words.
    let explained =
        server.get(&format!("/v1/topics?query={}", encoded(&format!("EXPLAIN {ASKED}"))));
    assert_eq!(explained.status, 200);
    let text = explained.text();
    assert!(
        text.contains("windows   1s each, by time:time\n")
            && text.contains("result    window_start:time speed:double\n"),
        "{text}"
    );
    assert_eq!(server.count("thalweg_queries"), 0);
}

#[test]
fn a_query_without_a_transport_is_described_and_a_forgotten_name_ends() {
    for shards in ["1", "3"] {
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS]);
        publish(&server, &rows());
        let described = server.get(&format!("/v1/topics{}", asked(ASKED))).json();
        let columns =
            json!([{"name": "window_start", "type": "time"}, {"name": "speed", "type": "double"}]);
        assert_eq!(described["columns"], columns);
        let topic = described["topic"].as_str().expect("a topic");
        assert_eq!(events(&server, Transport::Sse, topic, 2), expected());
        let mut lost = server.subscribe(Transport::WebSocket, "/query/0123456789abcdef01234567");
        loop {
            match lost.next() {
                Received::TopicEnd(topic, _, code) => {
                    assert_eq!((&*topic, &*code), ("query/0123456789abcdef01234567", "gone"));
                    break;
                }
                Received::Envelope(envelope) if envelope.events.is_empty() => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_query_needs_the_right_to_subscribe_to_its_source() {
    let tokens = [
        "--token",
        "publisher=p,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=s,subscribe=**",
    ];
    let server = Server::start(&[&tokens[..], &["--topic", COLUMNS]].concat());
    let target = format!("/v1/topics{}", asked(ASKED));
    let get = |target: &str, token: &str| {
        let headers = [("Accept", "text/event-stream"), ("Authorization", token)];
        server.ask("GET", target, &headers, "")
    };
    get(&target, "Bearer x").refused(401, "unauthorized");
    let explain = format!("/v1/topics?query={}", encoded(&format!("EXPLAIN {ASKED}")));
    get(&explain, "Bearer x").refused(401, "unauthorized");
    assert_eq!(get(&explain, "Bearer s").status, 200);
}

#[test]
fn queries_are_limited_and_running_ones_continue() {
    let server = Server::start(&["--topic", COLUMNS, "--set", "limits.queries=3"]);
    let query = |number: u32| asked(&format!("SELECT speed + {number} FROM cars"));
    let mut subscribers: Vec<_> =
        (0..3).map(|number| server.subscribe(Transport::WebSocket, &query(number))).collect();
    subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
    let refused = server.ask(
        "GET",
        &format!("/v1/topics{}", query(3)),
        &[("Accept", "text/event-stream")],
        "",
    );
    refused.refused(429, "too_many_queries");
    server.subscribe(Transport::Sse, &query(1)).confirmed();
    publish(&server, &rows()[..1]);
    for (number, subscriber) in (0..).zip(&mut subscribers) {
        assert_eq!(subscriber.envelope().events, [json!([f64::from(number)])]);
    }
}

#[test]
fn a_file_has_a_table_for_each_topic() {
    let path = TemporaryPath::new("queries");
    let write = |text: &str| std::fs::write(&*path, text).expect("the file");
    let file = path.text();
    write(&format!(
        "shards = 2\n[[topic]]\npattern = \"cars\"\n\
         columns = [\"speed:double\", \"car:string\", \"time:time\"]\n\
         [[query]]\ntopic = \"car/max\"\nsql = \"\"\"{ASKED}\"\"\"\n"
    ));
    let server = Server::start(&["--config", file]);
    publish(&server, &rows());
    assert_eq!(events(&server, Transport::WebSocket, "car/max", 2), expected());
    for (text, says) in [
        (
            "[[query]]\ntopic = \"a\"\nsql = \"SELECT x FROM cars LIMIT 5\"",
            "query a: line 1, column 20: LIMIT is not supported",
        ),
        (
            "[[topic]]\npattern = \"a\"\ncolums = []",
            "unknown key \"colums\", did you mean \"columns\"?",
        ),
        (
            "[[topic]]\npattern = \"a\"\ncolumns = [\"x:float\"]",
            "topic a: columns: float is not a column type",
        ),
        ("[[query]]\ntopic = \"a//b\"\nsql = \"SELECT\"", "query.topic: \"a//b\""),
        ("[topics.a]\ncolumns = []", "topics is now a [[topic]]"),
    ] {
        write(text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.args(["serve", "--check", "--config", file]).output().expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
}

#[test]
fn a_query_ends_with_its_readers_also_if_it_has_no_rows_and_another_can_take_its_place() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS]);
        publish(&server, &rows());
        for round in 0..3 {
            let none = asked(&format!("SELECT * FROM cars WHERE speed < {}", -round));
            drop(server.subscribe(Transport::WebSocket, &none));
            wait_for("the query to end", || (server.count("thalweg_queries") == 0).then_some(()));
            let mut subscriber = server.subscribe(Transport::Sse, &asked(ASKED));
            let mut events = Vec::new();
            while events.len() < 2 {
                events.extend(subscriber.envelope().events);
            }
            let expected: Vec<Value> = expected().into_iter().map(|(_, row)| row).collect();
            assert_eq!(events, expected, "{shards} {round}");
        }
        // No query reads the source any more, so it can be deleted.
        wait_for("the query to end", || (server.count("thalweg_queries") == 0).then_some(()));
        assert_eq!(server.ask("DELETE", "/v1/topics/cars", &[], "").status, 204);
    }
}

#[test]
fn a_source_that_is_deleted_ends_the_queries_of_clients() {
    for shards in ["1", "3"] {
        let server = Server::start(&["--shards", shards, "--topic", COLUMNS]);
        publish(&server, &rows());
        for _ in 0..2 {
            let mut subscriber = server.subscribe(Transport::WebSocket, &asked(ASKED));
            let mut count = 0;
            while count < 2 {
                count += subscriber.envelope().events.len();
            }
            assert_eq!(server.ask("DELETE", "/v1/topics/cars", &[], "").status, 204);
            loop {
                match subscriber.next() {
                    Received::TopicEnd(_, _, code) => break assert_eq!(code, "gone"),
                    Received::Envelope(_) | Received::Heartbeat => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(server.count("thalweg_queries"), 0);
            server.post("bystander", "application/json", "1").published();
            publish(&server, &rows());
        }
        assert_eq!(server.get("/v1/topics/bystander?limit=9").json()["events"], json!([1, 1]));
        let topic = server.get(&format!("/v1/topics{}", asked(ASKED))).json()["topic"].clone();
        let topic = topic.as_str().expect("a topic");
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}?cursor=earliest"));
        while subscriber.envelope().events.is_empty() {}
        server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "").refused(409, "in_use");
    }
}
