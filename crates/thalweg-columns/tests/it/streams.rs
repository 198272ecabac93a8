use proptest::prelude::*;
use serde_json::{Map, Value, json};
use thalweg_columns::{Columns, Misfit};

use crate::reading::{Stream, read};

fn joined(rows: &[Value]) -> Vec<u8> {
    rows.iter().map(Value::to_string).collect::<Vec<_>>().join(",").into_bytes()
}

/// Writes a stream of these batches, the first row at offset 1.
fn stream(columns: &Columns, batches: &[&[Value]]) -> Vec<u8> {
    let mut out = Vec::new();
    columns.write_schema(&[("thalweg.topic", "cars"), ("thalweg.epoch", "9f")], &mut out);
    columns.write_no_rows(None, &mut out);
    let mut first = 1;
    for rows in batches {
        columns.write_rows(first, &joined(rows), &mut out).expect("rows that fit");
        first += rows.len() as u64;
    }
    columns.write_end(Some(("thalweg.close", "{}")), &mut out);
    out
}

/// Returns the expected values of `row`, column by column.
fn expected(row: &Value, stream: &Stream) -> Vec<Value> {
    let fields = stream.schema.fields().iter().skip(1).enumerate();
    let cells = fields.map(|(index, field)| {
        let cell = match row {
            _ if field.name() == "value" => Some(row),
            Value::Object(members) => members.get(field.name()),
            Value::Array(elements) => elements.get(index),
            other => Some(other),
        };
        let cell = cell.cloned().unwrap_or_default();
        match (field.data_type().to_string().as_str(), &cell) {
            ("Float64", Value::Number(number)) => json!(number.as_f64()),
            (kind, Value::String(text)) if kind.starts_with("Timestamp") => {
                let instant = humantime::parse_rfc3339(text).expect("an instant");
                json!({ "ms": instant.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as u64 })
            }
            _ => cell,
        }
    });
    cells.collect()
}

fn check(batches: &[&[Value]]) -> Stream {
    let all = joined(&batches.concat());
    let columns = Columns::infer(&all);
    let read = read(&stream(&columns, batches));
    let rows: Vec<(u64, Vec<Value>)> =
        (1..).zip(batches.concat()).map(|(offset, row)| (offset, expected(&row, &read))).collect();
    assert_eq!(read.rows(), rows);
    read
}

#[test]
fn rows_of_every_type_come_as_they_were() {
    let batch = [
        json!({ "id": 7, "speed": 73.5, "on": true, "at": "2022-07-13T21:04:08.419Z", "car": "c1", "at2": [1, {"x": "]"}] }),
        json!({ "id": -9007199254740993_i64, "speed": 39, "on": null, "car": "a \"quote\" \u{1F600}\n", "late": null }),
        json!({}),
    ];
    let read = check(&[&batch, &batch[1..]]);
    assert_eq!(
        read.columns(),
        [
            "at:Timestamp(ms, \"UTC\")",
            "at2:Utf8",
            "car:Dictionary(Int32, Utf8)",
            "id:Int64",
            "on:Boolean",
            "speed:Float64",
            "late:Null",
        ]
    );
    assert_eq!(read.schema.metadata()["thalweg.topic"], "cars");
    assert_eq!(read.schema.metadata()["thalweg.epoch"], "9f");
    assert!(!read.schema.field(0).is_nullable());
}

#[test]
fn arrays_scalars_and_mixtures_are_rows_too() {
    check(&[&[json!([1, "a"]), json!([]), json!([2.5, "b", [0]])]]);
    check(&[&[json!(1), json!(null), json!(3)]]);
    check(&[&[json!({ "a": 1 }), json!([1]), json!("x")]]);
    check(&[&[json!(null)]]);
}

#[test]
fn a_stream_without_rows_is_one() {
    let columns = Columns::infer(br#"{"a":"x","b":1,"c":[],"d":true}"#);
    let read = read(&stream(&columns, &[]));
    assert_eq!((read.rows().len(), read.batches.len()), (0, 2));
}

#[test]
fn a_member_that_comes_twice_counts_once() {
    let rows = br#"{"a":1,"b":"x","a":2},{"b":"y","b":null},{"a":null,"a":5,"b":"x"}"#;
    let columns = Columns::infer(rows);
    let mut out = Vec::new();
    columns.write_schema(&[], &mut out);
    columns.write_rows(1, rows, &mut out).expect("rows that fit");
    columns.write_end(None, &mut out);
    let rows = [
        (1, vec![json!(2), json!("x")]),
        (2, vec![json!(null); 2]),
        (3, vec![json!(5), json!("x")]),
    ];
    assert_eq!(read(&out).rows(), rows);
}

#[test]
fn rows_that_do_not_fit_are_refused_whole() {
    let columns = Columns::infer(b"[1,\"x\"]");
    for misfit in ["[1.5]", "[1,2]", "[1,\"x\",3]", "{}", "1", "[[]]", "[1],[\"x\"]"] {
        let mut out = b"before".to_vec();
        assert_eq!(columns.write_rows(1, misfit.as_bytes(), &mut out), Err(Misfit), "{misfit}");
        assert_eq!(out, b"before");
        assert!(columns.widened(misfit.as_bytes()).is_some(), "{misfit}");
    }
}

/// Returns whether a row has an integer that a double does not hold exactly.
fn has_large_integers(rows: &[Value]) -> bool {
    let is_large = |cell: &Value| cell.as_i64().is_some_and(|int| int.unsigned_abs() > 1 << 53);
    rows.iter().any(|row| match row {
        Value::Array(cells) => cells.iter().any(is_large),
        Value::Object(members) => members.values().any(is_large),
        cell => is_large(cell),
    })
}

/// Values with many nulls and few distinct strings: types meet.
fn cell() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(Value::Null),
        3 => any::<i64>().prop_map(Value::from),
        3 => (-1000..1000_i32).prop_map(Value::from),
        3 => any::<f64>().prop_map(Value::from),
        3 => any::<bool>().prop_map(Value::from),
        3 => "[a-c]{0,2}".prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
        2 => (0..4_000_000_000_000_u64).prop_map(|ms| {
            let instant = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
            Value::from(humantime::format_rfc3339_millis(instant).to_string())
        }),
        1 => Just(json!([1, { "a": "}" }])),
    ]
}

/// A kind of row, and values of one type per column or of any type.
fn rows() -> impl Strategy<Value = Vec<Value>> {
    let object = proptest::collection::vec(("[a-d]|_{1,2}offset|\\PC", cell()), 0..5)
        .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()));
    let array = proptest::collection::vec(cell(), 0..5).prop_map(Value::from);
    prop_oneof![
        5 => proptest::collection::vec(object, 1..40),
        5 => proptest::collection::vec(array, 1..40),
        1 => proptest::collection::vec(cell(), 1..40),
    ]
}

proptest! {
    #[test]
    fn any_rows_in_any_batches_come_as_they_were(rows in rows(), cut in 0..40_usize) {
        let is_renamed = |row: &Value| {
            row.as_object().is_some_and(|row| row.keys().any(|name| name.ends_with("offset")))
        };
        let cut = cut.min(rows.len() - 1);
        if !rows.iter().any(is_renamed) {
            check(&[&rows[..cut], &rows[cut..]].into_iter().filter(|rows| !rows.is_empty()).collect::<Vec<_>>());
        } else {
            let columns = Columns::infer(&joined(&rows));
            prop_assert_eq!(read(&stream(&columns, &[&rows])).rows().len(), rows.len());
        }
    }

    #[test]
    fn columns_that_were_widened_fit_both(before in rows(), after in rows()) {
        let columns = Columns::infer(&joined(&before));
        let wider = columns.widened(&joined(&after));
        let fits = columns.write_rows(1, &joined(&after), &mut Vec::new()).is_ok();
        prop_assert_eq!(fits, wider.is_none());
        if let Some(wider) = wider {
            let fits = wider.write_rows(1, &joined(&before), &mut Vec::new()).is_ok();
            prop_assert!(fits || has_large_integers(&before));
            prop_assert!(wider.write_rows(1, &joined(&after), &mut Vec::new()).is_ok());
            prop_assert!(wider.widened(&joined(&after)).is_none());
        }
    }

    #[test]
    fn the_same_rows_are_the_same_bytes(rows in rows()) {
        let (columns, rows) = (Columns::infer(&joined(&rows)), joined(&rows));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        columns.write_rows(1, &rows, &mut one).unwrap();
        Columns::infer(&rows).write_rows(1, &rows, &mut other).unwrap();
        prop_assert_eq!(one, other);
    }

    #[test]
    fn malformed_json_does_not_panic(bytes: Vec<u8>) {
        let columns = Columns::infer(&bytes);
        let _ = columns.write_rows(1, &bytes, &mut Vec::new());
        let _ = columns.widened(&bytes);
        let declared = Columns::declared(["a:int", "b:string", "c:time"]).unwrap();
        let _ = declared.write_rows(1, &bytes, &mut Vec::new());
    }
}
