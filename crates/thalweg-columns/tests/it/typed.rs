//! Columns whose values mostly have one type, with rare exceptions.

use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::{Map, Value, json};
use thalweg_columns::Columns;

use crate::reading::read;

/// A column's value: its JSON, and the value read from a declared column.
type Cell = (String, Value);

fn said(value: Value) -> Cell {
    (value.to_string(), value)
}

/// A type's usual values, one exception, or null.
fn cells(kind: &'static str) -> BoxedStrategy<Cell> {
    let null = Just(said(Value::Null));
    let usual = match kind {
        "int" => prop_oneof![
            (any::<i64>(), 0..63_u32).prop_map(|(number, shift)| said(json!(number >> shift))),
            // In quotes, and as a number without a fraction.
            any::<i64>().prop_map(|number| (format!(r#""{number}""#), json!(number))),
            any::<i32>().prop_map(|number| (format!("{number}.0"), json!(number))),
            Just((r#""1.""#.to_owned(), Value::Null)),
            Just(("0.5".to_owned(), Value::Null)),
        ]
        .boxed(),
        "double" => prop_oneof![
            "-?(0|[1-9][0-9]{0,17})\\.[0-9]{1,20}".prop_map(double),
            "-?[1-9][0-9]{0,17}".prop_map(double),
            any::<f64>().prop_filter_map("finite", |number| Some(double(finite(number)?))),
            "-?[1-9]\\.[0-9]{1,20}[eE]-?[0-9]{1,2}".prop_map(double),
            "-?(0|[1-9][0-9]{0,5})\\.[0-9]{1,14}"
                .prop_map(|number| (format!(r#"" {number}""#), double(number).1)),
            "-?(0|[1-9][0-9]{0,5})\\.[0-9]{1,14}"
                .prop_map(|number| (format!(r#""{number}""#), double(number).1)),
            Just((r#""-""#.to_owned(), Value::Null)),
        ]
        .boxed(),
        "string" => prop_oneof![
            4 => "[ab]{0,2}".prop_map(|text| said(json!(text))),
            4 => "[ab\\\\\"]{0,3}".prop_map(|text| said(json!(text))),
            2 => "[a-b]{6,10}|[a-b]{14,18}".prop_map(|text| said(json!(text))),
            1 => any::<String>().prop_map(|text| said(json!(text))),
            1 => "[a-z]{0,70}".prop_map(|text| said(json!(text))),
            // The same letters, once with an escape.
            1 => Just((r#""\u0061""#.to_owned(), json!("a"))),
            1 => any::<bool>().prop_map(|bool| (bool.to_string(), json!(bool.to_string()))),
        ]
        .boxed(),
        "time" => prop_oneof![
            (0..400_000_u64).prop_map(instant),
            (0..4_000_000_000_000_u64).prop_map(instant),
            (0..4_000_000_000_u64).prop_map(|second| instant(second * 1000)),
            (0..1000_u64).prop_map(|ms| (ms.to_string(), json!({ "ms": ms }))),
            (0..4_000_000_000_000_u64, 0..6_usize).prop_map(written_elsewhere),
            Just(("253402300800000".to_owned(), Value::Null)),
            Just((r#""1970-01-01T00:00:60Z""#.to_owned(), Value::Null)),
            Just((r#""1970-01-01T00:00:0\"Z""#.to_owned(), Value::Null)),
        ]
        .boxed(),
        _ => prop_oneof![
            any::<bool>().prop_map(|bool| said(json!(bool))),
            (0..2_u8).prop_map(|bit| (bit.to_string(), json!(bit == 1))),
            Just(("2".to_owned(), Value::Null)),
        ]
        .boxed(),
    };
    prop_oneof![6 => usual, 1 => null].boxed()
}

fn finite(number: f64) -> Option<String> {
    number.is_finite().then(|| json!(number).to_string())
}

fn double(text: String) -> Cell {
    let number: f64 = text.parse().expect("a number");
    (text, json!(number))
}

fn instant(ms: u64) -> Cell {
    let instant = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
    let text = match ms % 1000 {
        0 => humantime::format_rfc3339_seconds(instant).to_string(),
        _ => humantime::format_rfc3339_millis(instant).to_string(),
    };
    (json!(text).to_string(), json!({ "ms": ms }))
}

/// An instant in the form of other languages.
fn written_elsewhere((ms, writer): (u64, usize)) -> Cell {
    let instant = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
    let utc = humantime::format_rfc3339_micros(instant).to_string();
    let bare = utc.trim_end_matches('Z');
    let text = match writer {
        0 => utc,
        1 => format!("{bare}+00:00"),
        2 => format!("{}999-00:00", bare.to_lowercase()),
        3 => bare.to_owned(),
        4 => format!("{}+00", bare.replace('T', " ")),
        _ => return (format!(r#""{bare}\u002b00:00""#), json!({ "ms": ms })),
    };
    (json!(text).to_string(), json!({ "ms": ms }))
}

const KINDS: [&str; 5] = ["int", "double", "string", "time", "bool"];

fn table() -> impl Strategy<Value = (Vec<&'static str>, Vec<Vec<Cell>>)> {
    vec(proptest::sample::select(&KINDS[..]), 1..5).prop_flat_map(|kinds| {
        let row: Vec<_> = kinds.iter().map(|kind| cells(kind)).collect();
        (Just(kinds), vec(row, 1..60))
    })
}

fn declared(kinds: &[&str]) -> Columns {
    let names = kinds.iter().enumerate().map(|(at, kind)| format!("column{at}:{kind}"));
    let names: Vec<String> = names.collect();
    Columns::declared(names.iter().map(String::as_str)).expect("columns")
}

fn as_arrays(rows: &[Vec<Cell>]) -> String {
    let row = |row: &Vec<Cell>| {
        let texts: Vec<&str> = row.iter().map(|(text, _)| &**text).collect();
        format!("[{}]", texts.join(","))
    };
    rows.iter().map(row).collect::<Vec<_>>().join(",")
}

/// Members mostly in their order.
fn as_objects(rows: &[Vec<Cell>]) -> String {
    let row = |(number, row): (usize, &Vec<Cell>)| {
        let texts = row.iter().enumerate();
        let mut members: Vec<String> =
            texts.map(|(at, (text, _))| format!(r#""column{at}":{text}"#)).collect();
        if number % 5 == 3 {
            members.reverse();
        }
        format!("{{{}}}", members.join(","))
    };
    rows.iter().enumerate().map(row).collect::<Vec<_>>().join(",")
}

fn encoded(columns: &Columns, rows: &str) -> Vec<u8> {
    let mut out = Vec::new();
    columns.write_schema(&[], &mut out);
    columns.write_rows(1, rows.as_bytes(), &mut out).expect("rows that fit");
    columns.write_end(None, &mut out);
    out
}

fn values(stream: &[u8]) -> Vec<Vec<Value>> {
    read(stream).rows().into_iter().map(|(_, row)| row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn values_are_as_declared_whatever_was_before((kinds, rows) in table()) {
        let columns = declared(&kinds);
        let expected: Vec<Vec<Value>> =
            rows.iter().map(|row| row.iter().map(|(_, value)| value.clone()).collect()).collect();
        prop_assert_eq!(&values(&encoded(&columns, &as_arrays(&rows))), &expected);
        prop_assert_eq!(&values(&encoded(&columns, &as_objects(&rows))), &expected);
    }

    #[test]
    fn inferred_values_are_those_of_the_json((_, rows) in table()) {
        // One column of JSON keeps them unchanged.
        let objects = as_objects(&rows);
        let parsed: Vec<Map<String, Value>> =
            serde_json::from_str(&format!("[{objects}]")).expect("JSON");
        let stream = read(&encoded(&Columns::infer(objects.as_bytes()), &objects));
        let names: Vec<String> = stream.columns();
        for ((_, cells), row) in stream.rows().into_iter().zip(parsed) {
            for (name, cell) in names.iter().zip(cells) {
                let (name, kind) = name.split_once(':').expect("a name and a type");
                let value = row.get(name).cloned().unwrap_or_default();
                match kind {
                    "Float64" => prop_assert_eq!(cell.as_f64(), value.as_f64()),
                    "Timestamp(ms, \"UTC\")" => prop_assert_eq!(cell.is_null(), value.is_null()),
                    _ => prop_assert_eq!(cell, value),
                }
            }
        }
    }

    #[test]
    fn broken_rows_do_not_panic(
        (kinds, rows) in table(), cut: Index, breaks in vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        for mut text in [as_arrays(&rows).into_bytes(), as_objects(&rows).into_bytes()] {
            let inferred = Columns::infer(&text);
            for (at, byte) in &breaks {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            for len in [text.len(), cut.index(text.len())] {
                for columns in [&inferred, &declared(&kinds)] {
                    let _ = columns.write_rows(1, &text[..len], &mut Vec::new());
                    let _ = columns.widened(&text[..len]);
                }
            }
        }
    }
}

#[test]
fn a_string_with_an_escape_is_not_the_one_before() {
    // The second and third begin with the text of the first.
    let rows =
        r#"["a\\"],["a\\"],["a\\\""],["a"],["a"],["\u0061"],["a"],[""],["aaaaaaaa"],["aaaaaaaaa"]"#;
    let expected: Vec<Vec<Value>> = serde_json::from_str(&format!("[{rows}]")).expect("JSON");
    assert_eq!(values(&encoded(&declared(&["string"]), rows)), expected);
}

#[test]
fn a_name_with_a_backslash_is_found() {
    let rows = r#"{"a\\":1,"b":2},{"a\":":3},{"a\\":4,"a\":":5}"#;
    let stream = encoded(&Columns::infer(rows.as_bytes()), rows);
    let parsed: Vec<Value> = serde_json::from_str(&format!("[{rows}]")).expect("JSON");
    let names = [r"a\", "b", r#"a":"#];
    let cells = |row: &Value| names.map(|name| row[name].clone()).to_vec();
    assert_eq!(values(&stream), parsed.iter().map(cells).collect::<Vec<_>>());
    assert_eq!(read(&stream).columns(), names.map(|name| format!("{name}:Int64")));
}

#[test]
fn a_name_with_quotes_is_no_json() {
    // The text of the first name also looks like the next row.
    let rows = r#"{"a\":1},{":1,"a":2},{"a":1},{"b":1},{"a":3}"#;
    let columns = Columns::infer(rows.as_bytes());
    let cells = |row: [i64; 3]| row.map(|cell| if cell == 0 { Value::Null } else { json!(cell) });
    let expected = [[1, 2, 0], [0, 1, 0], [0, 0, 1], [0, 3, 0]].map(cells);
    assert_eq!(values(&encoded(&columns, rows)), expected);
}

#[test]
fn a_dictionary_that_grows_keeps_its_strings() {
    let text = |number: usize| format!("{number}{}", "x".repeat(number % 40));
    let numbers = (0..2000).chain(0..2000).chain((0..2000).rev());
    let rows: Vec<Vec<Cell>> = numbers.map(|number| vec![said(json!(text(number)))]).collect();
    let expected: Vec<Vec<Value>> = rows.iter().map(|row| vec![row[0].1.clone()]).collect();
    let stream = encoded(&declared(&["string"]), &as_arrays(&rows));
    assert_eq!(values(&stream), expected);
}
