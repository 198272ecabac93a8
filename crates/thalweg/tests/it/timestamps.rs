//! Time formats of programs: in columns, and in windows of queries.

use serde_json::{Value, json};

use crate::harness::{Server, Transport};

/// One second and the next, in the formats of languages and databases.
const WRITTEN: [[&str; 2]; 10] = [
    ["2022-07-13T21:04:08.419Z", "2022-07-13T21:04:09Z"],
    // Python: datetime.isoformat(), with a zone and without one; str().
    ["2022-07-13T21:04:08.419123+00:00", "2022-07-13T21:04:09+00:00"],
    ["2022-07-13T21:04:08.419123", "2022-07-13T21:04:09"],
    ["2022-07-13 21:04:08.419123+00:00", "2022-07-13 21:04:09+00:00"],
    // Go: RFC3339Nano.
    ["2022-07-13T21:04:08.419123456Z", "2022-07-13T23:04:09+02:00"],
    // Java: Instant and OffsetDateTime.
    ["2022-07-13T21:04:08.419123Z", "2022-07-13T14:04:09.000001-07:00"],
    // PostgreSQL: timestamptz and timestamp as text.
    ["2022-07-13 21:04:08.419123+00", "2022-07-13 21:04:09+00"],
    ["2022-07-13 21:04:08.419123", "2022-07-13 21:04:09"],
    // RFC 3339 §5.6 with lower-case letters, and an offset that is escaped in the JSON.
    ["2022-07-13t21:04:08.4z", "2022-07-13t21:04:09z"],
    ["2022-07-13T21:04:08.4\\u002b00:00", "2022-07-13T21:04:09-00:00"],
];

fn post(server: &Server, topic: &str, values: impl IntoIterator<Item = String>) {
    let line = |value: String| format!("{{\"ts\":{value}}}\n");
    let lines: String = values.into_iter().map(line).collect();
    server.post(topic, "application/x-ndjson", lines).published();
}

fn row(server: &Server, topic: &str) -> Value {
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}?cursor=earliest"));
    loop {
        if let Some(row) = subscriber.envelope().events.into_iter().next() {
            return row;
        }
    }
}

fn counting(topic: &str, time: &str) -> String {
    format!(
        "{topic}-counted=SELECT window_start, count(*) AS n FROM tumble(\"{topic}\", {time}, 1s) GROUP BY window_start"
    )
}

/// Publishes events with these times, two of one second and one of the next. The second one is in no window
/// that began before the query.
fn second_of<T: ToString>(before: T, first: T, second: T, behind: T) -> [String; 4] {
    [before, first, second, behind].map(|value| value.to_string())
}

#[test]
fn text_timestamps_of_many_languages_work_in_windows() {
    for declared in [None, Some("time"), Some("string")] {
        let topics: Vec<String> = (0..WRITTEN.len()).map(|at| format!("times/{at}")).collect();
        let columns = declared.map(|kind| format!("times/*,columns=ts:{kind}"));
        let time = if declared == Some("string") { "CAST(ts AS TIMESTAMP)" } else { "ts" };
        let queries: Vec<String> = topics.iter().map(|topic| counting(topic, time)).collect();
        let mut arguments: Vec<&str> = Vec::new();
        arguments.extend(columns.iter().flat_map(|columns| ["--topic", &**columns]));
        arguments.extend(queries.iter().flat_map(|query| ["--query", &**query]));
        let server = Server::start(&arguments);
        for (topic, [time, next]) in topics.iter().zip(WRITTEN) {
            let quoted = |text: &str| format!("\"{text}\"");
            let earlier = quoted("2022-07-13T21:04:07Z");
            let values = second_of(earlier, quoted(time), quoted(time), quoted(next));
            post(&server, topic, values);
            let expected = json!(["2022-07-13T21:04:08Z", 2]);
            assert_eq!(row(&server, &format!("{topic}-counted")), expected, "{declared:?} {time}");
        }
        assert_eq!(server.count("thalweg_query_without_time_total"), 0);
    }
}

#[test]
fn numbers_are_times_of_the_unit_that_is_declared() {
    let units =
        [("time_s", 1), ("time", 1_000), ("time_us", 1_000_000), ("time_ns", 1_000_000_000)];
    let topics: Vec<String> =
        units.iter().map(|(unit, _)| format!("{unit},columns=ts:{unit}")).collect();
    let queries: Vec<String> = units.iter().map(|(unit, _)| counting(unit, "ts")).collect();
    let topics = topics.iter().flat_map(|topic| ["--topic", topic]);
    let arguments: Vec<&str> =
        topics.chain(queries.iter().flat_map(|query| ["--query", query])).collect();
    let server = Server::start(&arguments);
    for (unit, per_second) in units {
        let second = 1_657_746_248_i64 * per_second;
        let after = per_second - 1;
        let values = second_of(second - per_second, second, second + after, second + per_second);
        post(&server, unit, values);
        assert_eq!(row(&server, &format!("{unit}-counted")), json!(["2022-07-13T21:04:08Z", 2]));
        let columns = server.get(&format!("/v1/columns/{unit}")).json();
        assert_eq!(columns["columns"], json!([{ "name": "ts", "type": unit }]));
    }
}

#[test]
fn events_whose_time_cannot_be_read_are_counted_and_logged() {
    let query = counting("times", "ts");
    let server = Server::start(&["--topic", "times,columns=ts:time", "--query", &query]);
    post(&server, "times", ["\"yesterday\"", "\"13.07.2022\"", "null"].map(str::to_owned));
    server.has_counted("thalweg_query_without_time_total", 3);
    server.has_counted("thalweg_query_unreadable_total", 2);
    server.has_said("events are in no window, because they have no time");
    server.has_said("values are NULL in the query");
}
