use serde_json::{Map, Value, json};

use super::{
    publish,
    stream::{Columns, Row, StreamItem},
};
use crate::harness::{Server, at, offset};

fn numbers(count: u64) -> String {
    (1..=count).map(|number| format!("{{\"n\":{number},\"car\":\"c{}\"}}\n", number % 7)).collect()
}

#[test]
fn a_stream_goes_on_at_any_offset_also_within_a_batch() {
    const COUNT: u64 = 60;
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let position = publish(&server, "cars", &numbers(COUNT / 2)).position;
        publish(&server, "cars", &numbers(COUNT / 2));
        for before in 0..=COUNT {
            let cursor = at(&position, before);
            let mut stream = Columns::open(&server, &format!("cars?cursor={cursor}"));
            assert_eq!(stream.resume(), Some("exact"), "{cursor}");
            assert_eq!(stream.cursor, cursor);
            assert_eq!(stream.next(), StreamItem::NoRows);
            if before < COUNT {
                let expected: Vec<Row> = (before + 1..=COUNT)
                    .map(|offset| {
                        let n = (offset - 1) % (COUNT / 2) + 1;
                        (offset, json!({"n": n, "car": format!("c{}", n % 7)}))
                    })
                    .collect();
                assert_eq!(stream.take(expected.len()), expected, "{cursor}");
            }
        }
    }
}

/// Without a position in the request, the response does not say how the stream continues.
#[test]
fn a_stream_that_is_new_says_only_where_it_begins() {
    let server = Server::start(&[]);
    let position = publish(&server, "cars", &numbers(3)).position;
    for (cursor, expected) in [("", 3), ("?cursor=latest", 3), ("?cursor=earliest", 0)] {
        let stream = Columns::open(&server, &format!("cars{cursor}"));
        assert_eq!((stream.resume(), &*stream.cursor), (None, &*at(&position, expected)));
    }
}

#[test]
fn another_epoch_is_a_gap_of_unknown_size() {
    let server = Server::start(&[]);
    publish(&server, "cars", &numbers(3));
    for cursor in ["9f3c21.2", "9f3c21.9000"] {
        let mut stream = Columns::open(&server, &format!("cars?cursor={cursor}"));
        assert_eq!(stream.resume(), Some("gap; reason=epoch"));
        assert_eq!(offset(&stream.cursor), 0);
        assert_eq!(stream.take_after_confirmation(3).len(), 3);
    }
}

#[test]
fn a_topic_without_events_has_its_head_at_once_and_its_body_with_the_first() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards, "--heartbeat", "100ms"]);
        let http2 = server.http2();
        for over_http2 in [false, true] {
            let mut stream = match over_http2 {
                true => Columns::answered(http2.start("GET", "/v1/topics/cars", ACCEPT, b"")),
                false => Columns::open(&server, "cars"),
            };
            assert_eq!(offset(&stream.cursor), 0);
            // This is longer than a heartbeat: without a schema there is none.
            assert!(stream.is_silent(std::time::Duration::from_millis(300)));
            publish(&server, "cars", "{\"n\":1}\n");
            assert_eq!(stream.next(), StreamItem::NoRows);
            assert_eq!(stream.columns, ["n:Int64"]);
            assert_eq!(stream.rows_next(), vec![(1, json!({"n": 1}))]);
            server.ask("DELETE", "/v1/topics/cars", &[], "");
        }
    }
}

const ACCEPT: &[(&str, &str)] = &[("Accept", super::stream::MEDIA_TYPE)];

#[test]
fn a_position_that_is_still_to_come_is_waited_for() {
    let server = Server::start(&[]);
    let position = publish(&server, "cars", &numbers(3)).position;
    let mut stream = Columns::open(&server, &format!("cars?cursor={}", at(&position, 5)));
    assert_eq!((stream.resume(), &*stream.cursor), (Some("exact"), &*at(&position, 5)));
    publish(&server, "cars", &numbers(4));
    assert_eq!(stream.take_after_confirmation(2)[0].0, 6);
}

#[test]
fn wider_columns_of_a_query_end_its_streams_and_the_next_ones_have_them() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        publish(&server, "values", "{\"v\":1,\"k\":\"a\"}\n");
        let query = "/v1/topics?query=SELECT%20k,%20v%20FROM%20values";
        let described = server.get(query).json();
        let topic = described["topic"].as_str().expect("a topic");
        let mut stream = Columns::open(&server, &format!("{topic}?cursor=earliest"));
        assert_eq!(stream.rows_next(), vec![(1, json!({"k": "a", "v": 1}))]);
        assert_eq!(stream.columns, ["k:Dictionary(Int32, Utf8)", "v:Int64"]);
        // The rows are one batch. Only the first of them fits the schema.
        publish(&server, "values", "{\"v\":2,\"k\":\"b\"}\n{\"v\":2.5,\"k\":\"c\"}\n");
        assert_eq!(stream.rows_next(), vec![(2, json!({"k": "b", "v": 2}))]);
        assert_eq!(stream.next(), StreamItem::Close(4003, "reload".into(), true));
        let mut next = Columns::open(&server, &format!("{topic}?cursor={}", stream.cursor));
        assert_eq!(next.resume(), Some("schema"));
        assert_eq!(next.rows_next(), vec![(3, json!({"k": "c", "v": 2.5}))]);
        assert_eq!(next.columns, ["k:Dictionary(Int32, Utf8)", "v:Float64"]);
        server.has_counted("thalweg_columns_unreadable_total", 0);
    }
}

#[test]
fn another_schema_ends_the_stream_and_the_next_one_says_so() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        publish(&server, "cars", "{\"n\":1}\n");
        let mut streams: Vec<Columns> =
            (0..4).map(|_| Columns::open(&server, "cars?cursor=earliest")).collect();
        for stream in &mut streams {
            assert_eq!(stream.take_after_confirmation(1), vec![(1, json!({"n": 1}))]);
        }
        publish(&server, "cars", "{\"n\":2}\n");
        publish(&server, "cars", "{\"n\":\"three\",\"car\":\"c1\"}\n");
        for stream in &mut streams {
            assert_eq!(stream.rows_next(), vec![(2, json!({"n": 2}))]);
            assert_eq!(stream.next(), StreamItem::Close(4003, "reload".into(), true));
            let mut next = Columns::open(&server, &format!("cars?cursor={}", stream.cursor));
            assert_eq!(next.resume(), Some("schema"));
            assert_eq!(next.next(), StreamItem::NoRows);
            assert_eq!(next.columns, ["n:Utf8", "car:Dictionary(Int32, Utf8)"]);
            assert_eq!(next.rows_next(), vec![(3, json!({"n": "three", "car": "c1"}))]);
            // The client has received the close, so nothing is repeated.
            let again = Columns::open(&server, &format!("cars?cursor={}", next.cursor));
            assert_eq!(again.resume(), Some("exact"));
        }
        // The change counts once, however many shards and streams there are.
        server.has_counted("thalweg_columns_changed_total", 1);
    }
}

/// Members appear and change their types at random. Two streams, one of which starts late, receive all of it once.
#[test]
fn schema_changes_lose_and_repeat_no_row() {
    for (seed, shards) in [(1, "1"), (2, "2"), (3, "2")] {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = Server::start(&["--shards", shards]);
        let mut published: Vec<Value> = Vec::new();
        let first = publish(&server, "cars", "{\"n\":0}\n").position;
        published.push(json!({"n": 0}));
        let mut early = Columns::open(&server, &format!("cars?cursor={}", at(&first, 0)));
        let (mut received, mut reasons) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let rows: Vec<Value> = (0..random.usize(1..6))
                .map(|row| random_row(published.len() + row, &mut random))
                .collect();
            let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
            publish(&server, "cars", &lines);
            published.extend(rows);
            if random.bool() {
                follow(&server, &mut early, published.len(), &mut received, &mut reasons);
            }
        }
        follow(&server, &mut early, published.len(), &mut received, &mut reasons);
        assert_eq!(received.len(), published.len(), "seed {seed}");
        for ((offset, row), expected) in received.iter().zip(&published) {
            assert_same(row, expected, *offset);
        }
        assert!(reasons.len() > 3, "seed {seed}: the schema changes: {reasons:?}");
        assert!(reasons.iter().all(|reason| reason == "schema"), "seed {seed}: {reasons:?}");
        let (mut late, mut again) = (Vec::new(), Vec::new());
        let mut stream = Columns::open(&server, &format!("cars?cursor={}", at(&first, 0)));
        follow(&server, &mut stream, published.len(), &mut late, &mut again);
        assert_eq!(late, received, "seed {seed}: who comes late hears the same");
        assert_eq!(again, reasons, "seed {seed}: for the same reasons");
    }
}

/// Reads up to `head`. It resumes after each end of the stream.
fn follow(
    server: &Server,
    stream: &mut Columns,
    head: usize,
    received: &mut Vec<Row>,
    reasons: &mut Vec<String>,
) {
    while received.len() < head {
        match stream.next() {
            StreamItem::Rows(rows) => received.extend(rows),
            StreamItem::NoRows => {}
            last => {
                assert_eq!(last, StreamItem::Close(4003, "reload".into(), true));
                *stream = Columns::open(server, &format!("cars?cursor={}", stream.cursor));
                reasons.push(stream.resume().unwrap_or_default().to_owned());
            }
        }
    }
}

/// Returns an object with some of a few members, mostly of their usual types.
fn random_row(number: usize, random: &mut fastrand::Rng) -> Value {
    let mut row = Map::from_iter([("n".to_owned(), json!(number))]);
    for name in ["a", "b", "c", "d"].iter().take(number / 20) {
        let value = match (*name, random.u8(0..30)) {
            (_, 0) => json!([number, {"x": null}]),
            (_, 1..4) => Value::Null,
            ("a", 4) => json!(0.5),
            ("a", _) => json!(number),
            ("b", _) => json!(format!("s{}", number % 5)),
            ("c", _) => json!(number.is_multiple_of(2)),
            _ => continue,
        };
        row.insert((*name).to_owned(), value);
    }
    Value::Object(row)
}

/// Compares an object with a row: columns have no nulls, and an int may have become a double.
fn assert_same(row: &Value, expected: &Value, offset: u64) {
    let row = match row.get("value") {
        Some(whole) => whole,
        None => row,
    };
    let members = |row: &Value| {
        let members = row.as_object().expect("an object").iter();
        let members = members.filter(|(_, value)| !value.is_null());
        let members = members.map(|(name, value)| (name.clone(), value.clone()));
        members.collect::<Map<String, Value>>()
    };
    let (row, expected) = (members(row), members(expected));
    assert_eq!(row.len(), expected.len(), "{offset}: {row:?} and {expected:?}");
    for (name, value) in expected {
        let is_same = match (row[&name].as_f64(), value.as_f64()) {
            (Some(one), Some(other)) => one == other,
            _ => row[&name] == value,
        };
        assert!(is_same, "{offset}, {name}: {} and {value}", row[&name]);
    }
}

/// The topic belongs to a query that could not make some of its rows.
#[test]
fn rows_that_were_never_made_are_a_gap_and_the_next_stream_goes_on() {
    let query = "twice=SELECT car, car AS again FROM cars";
    for policy in ["skip", "latest"] {
        let server = Server::start(&["--topic", "cars,columns=car:string", "--query", query]);
        let large = "x".repeat(600_000);
        let lines = ["a", &large, "b"].map(|car| format!("[\"{car}\"]\n")).concat();
        publish(&server, "cars", &lines);
        let path = |cursor: &str| format!("twice?policy={policy}&cursor={cursor}");
        let mut stream = Columns::open(&server, &path("earliest"));
        let row = |offset: u64, car: &str| (offset, json!({ "car": car, "again": car }));
        assert_eq!(stream.take_after_confirmation(1), [row(1, "a")]);
        assert_eq!(stream.next(), StreamItem::Close(4003, "reload".into(), true));
        let mut next = Columns::open(&server, &path(&stream.cursor));
        assert_eq!(next.resume(), Some("gap; reason=trimmed"));
        assert_eq!(next.take_after_confirmation(1), [row(3, "b")]);
    }
}
