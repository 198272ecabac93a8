use std::process::Command;

use serde_json::{Value, json};

use super::{
    publish,
    stream::{Columns, Row, StreamItem},
};
use crate::harness::Server;

/// Rows as lines, their columns, and the result.
type Case = (&'static str, &'static [&'static str], Value);

const STRING: &str = "Dictionary(Int32, Utf8)";

/// Returns the type of a column, as Arrow's reader names it.
fn column(name: &str, kind: &str) -> String {
    let kind = match kind {
        "string" => STRING,
        "time" => "Timestamp(ms, \"UTC\")",
        "int" => "Int64",
        "double" => "Float64",
        "bool" => "Boolean",
        "json" => "Utf8",
        other => other,
    };
    format!("{name}:{kind}")
}

fn columns(declared: &[&str]) -> Vec<String> {
    let split = declared.iter().map(|column| column.rsplit_once(':').expect("name:type"));
    split.map(|(name, kind)| column(name, kind)).collect()
}

/// Numbers rows from the first offset on.
fn rows(values: &Value) -> Vec<Row> {
    (1..).zip(values.as_array().expect("rows").clone()).collect()
}

fn check(server: &Server, topic: &str, (lines, expected, read): Case) {
    publish(server, topic, lines);
    let mut stream = Columns::open(server, &format!("{topic}?cursor=earliest"));
    assert_eq!(stream.next(), StreamItem::NoRows, "{lines}");
    assert_eq!(stream.columns, columns(expected), "{lines}");
    assert_eq!(stream.rows_next(), rows(&read), "{lines}");
}

#[test]
fn columns_are_inferred_from_existing_events() {
    let server = Server::start(&[]);
    let cases: &[Case] = &[
        (
            "{\"a\":1,\"b\":\"x\",\"c\":null}\n{\"b\":\"y \\\"z\\\"\",\"d\":[1,{\"e\":2}]}\n",
            &["a:int", "b:string", "c:Null", "d:json"],
            json!([{"a": 1, "b": "x"}, {"b": "y \"z\"", "d": [1, {"e": 2}]}]),
        ),
        (
            "[1,2.5,true]\n[9007199254740993,3]\n[]\n",
            &["column0:int", "column1:double", "column2:bool"],
            json!([
                {"column0": 1, "column1": 2.5, "column2": true},
                {"column0": 9_007_199_254_740_993_i64, "column1": 3.0},
                {},
            ]),
        ),
        ("1\n2.5\nnull\n", &["value:double"], json!([{"value": 1.0}, {"value": 2.5}, {}])),
        ("\"x\"\n\"y\"\n", &["value:string"], json!([{"value": "x"}, {"value": "y"}])),
        (
            "{\"a\":1}\n[2]\n\"three\"\n",
            &["value:json"],
            json!([{"value": {"a": 1}}, {"value": [2]}, {"value": "three"}]),
        ),
        (
            "{\"at\":\"2022-07-13T21:04:08.419Z\"}\n{\"at\":\"1969-12-31T23:59:59Z\"}\n",
            &["at:time"],
            json!([{"at": {"ms": 1_657_746_248_419_i64}}, {"at": {"ms": -1000}}]),
        ),
        (
            "{\"at\":\"2022-07-13 23:04:08.419123+02\"}\n{\"at\":\"2022-07-13T21:04:08\"}\n",
            &["at:time"],
            json!([{"at": {"ms": 1_657_746_248_419_i64}}, {"at": {"ms": 1_657_746_248_000_i64}}]),
        ),
        (
            "{\"a\":1.5,\"b\":\"x\",\"c\":\"0000-01-01T00:00:00Z\"}\n{\"a\":1e400,\"b\":\"\\ud800\"}\n",
            &["a:json", "b:json", "c:string"],
            json!([
                {"a": 1.5, "b": "x", "c": "0000-01-01T00:00:00Z"},
                {"a": {"as written": "1e400"}, "b": {"as written": "\"\\ud800\""}},
            ]),
        ),
        (
            "{\"_offset\":1,\"\":2,\"\\u00e9\\ud83d\\ude00\":3}\n",
            &["__offset:int", ":int", "é😀:int"],
            json!([{"__offset": 1, "": 2, "é😀": 3}]),
        ),
        (
            "{\"a\":123456789012345678901234567890,\"b\":9007199254740993}\n{\"b\":0.5}\n",
            &["a:json", "b:json"],
            json!([
                {"a": 123_456_789_012_345_678_901_234_567_890_f64, "b": 9_007_199_254_740_993_i64},
                {"b": 0.5},
            ]),
        ),
    ];
    for (number, case) in cases.iter().enumerate() {
        check(&server, &format!("inferred/{number}"), case.clone());
    }
}

#[test]
fn declared_columns_count_unreadable_values() {
    let declared = "declared/*,columns=id:int speed:double on:bool at:time car:string more:json";
    let server = Server::start(&["--topic", declared]);
    // The schema exists before any event.
    let mut stream = Columns::open(&server, "declared/a");
    assert_eq!(stream.next(), StreamItem::NoRows);
    let names = ["id:int", "speed:double", "on:bool", "at:time", "car:string", "more:json"];
    assert_eq!(stream.columns, columns(&names));
    let lines = concat!(
        r#"["7","73.5",1,1657746248419,{"a":1},[2]]"#,
        "\n",
        r#"{"id":8.0,"car":null,"unknown":1,"at":"2022-07-13T21:04:08.419Z"}"#,
        "\n",
        r#"{"id":"seven","speed":"fast","on":"yes","at":"today","car":"c1","id":9}"#,
        "\n",
        "5\n",
    );
    publish(&server, "declared/a", lines);
    let at = json!({"ms": 1_657_746_248_419_i64});
    let expected = json!([
        {"id": 7, "speed": 73.5, "on": true, "at": at, "car": "{\"a\":1}", "more": [2]},
        {"id": 8, "at": at},
        {"id": 9, "car": "c1"},
        {},
    ]);
    assert_eq!(stream.rows_next(), rows(&expected));
    // "seven" arrived before 9; then "fast", "yes", "today", and the row that is not an object.
    server.has_counted("thalweg_columns_unreadable_total", 5);
    // A declared schema never changes.
    publish(&server, "declared/a", "{\"id\":[],\"new\":true}\n");
    assert_eq!(stream.rows_next(), vec![(5, json!({}))]);
    server.has_counted("thalweg_columns_unreadable_total", 6);
    server.has_counted("thalweg_columns_changed_total", 0);
}

#[test]
fn wrong_declarations_are_refused_at_the_start_in_one_sentence() {
    let many: Vec<String> = (0..257).map(|number| format!("c{number}:int")).collect();
    let many = format!("t,columns={}", many.join(" "));
    for (topic, says) in [
        ("t,columns=speed", "speed is not a column: write name:type"),
        ("t,columns=speed:float", "float is not a column type: write bool, int"),
        ("t,columns=a:int a:string", "two columns are named a"),
        ("t,columns=_offset:int", "two columns are named _offset"),
        ("t,columns=", "declare 1 to 256 columns"),
        (&many, "declare 1 to 256 columns"),
        ("t,kind=value,columns=a:int", "only topics of kind=log have rows"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["serve", "--check", "--topic", topic]);
        let output = command.output().expect("run the binary");
        let said = String::from_utf8(output.stderr).expect("text");
        let sentence = said.lines().next().unwrap_or_default();
        assert!(!output.status.success() && sentence.contains(says), "{topic}: {said}");
    }
}

#[test]
fn sources_have_columns_of_their_own() {
    let server = Server::start(&[
        "--source",
        "cars=cars,cars=3,interval=20ms",
        "--source",
        "constant=constant,interval=20ms",
    ]);
    for (topic, expected) in [
        ("cars", &["in_use:int", "longitude:double", "time:time", "car:string"][..]),
        ("constant", &["sequence:int", "due_us:int", "car:string", "never:time"]),
    ] {
        let mut stream = Columns::open(&server, topic);
        assert_eq!(stream.next(), StreamItem::NoRows);
        for column in columns(expected) {
            assert!(stream.columns.contains(&column), "{column} in {:?}", stream.columns);
        }
        let row = stream.rows_next().remove(0).1;
        assert_eq!(row.as_object().expect("a row").len(), stream.columns.len(), "{row}");
    }
    server.has_counted("thalweg_columns_unreadable_total", 0);
}

#[test]
fn declared_columns_have_precedence_over_those_of_a_source() {
    let server = Server::start(&[
        "--topic",
        "cars,columns=used:bool longitude:string",
        "--source",
        "cars=cars,cars=3,interval=20ms",
    ]);
    let mut stream = Columns::open(&server, "cars");
    assert_eq!(stream.next(), StreamItem::NoRows);
    assert_eq!(stream.columns, columns(&["used:bool", "longitude:string"]));
    let row = stream.rows_next().remove(0).1;
    assert!(row["longitude"].is_string() && row["used"].is_boolean(), "{row}");
}
