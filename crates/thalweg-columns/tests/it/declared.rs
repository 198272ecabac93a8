use serde_json::{Value, json};
use thalweg_columns::Columns;

use crate::reading::read;

fn check(declarations: &[&str], rows: &str, expected: &[Value], unreadable: u64) {
    let columns = Columns::declared(declarations.iter().copied()).expect("columns");
    let mut out = Vec::new();
    columns.write_schema(&[], &mut out);
    assert_eq!(columns.write_rows(5, rows.as_bytes(), &mut out), Ok(unreadable), "{rows}");
    columns.write_end(None, &mut out);
    let rows: Vec<Value> = read(&out).rows().into_iter().map(|(_, row)| Value::from(row)).collect();
    assert_eq!(rows, expected);
}

#[test]
fn values_are_read_as_declared() {
    check(
        &["in_use:int", "speed:double", "car:string", "time:time", "gas:bool"],
        r#"[1,"73.12","c7","2022-07-13T21:04:08.419Z",0],["2",39,7,1657746248419,true]"#,
        &[
            json!([1, 73.12, "c7", { "ms": 1657746248419_u64 }, false]),
            json!([2, 39.0, "7", { "ms": 1657746248419_u64 }, true]),
        ],
        0,
    );
    // The form of JSON.stringify(1e20).
    let huge = "[100000000000000000000],[-18446744073709551616]";
    check(&["a:double"], huge, &[json!([1e20]), json!([-18_446_744_073_709_551_616.0])], 0);
    let whole =
        "[1.50e1],[-0.0],[9007199254740993.0],[0.0e-999],[92233720368547758.07e2],[12000e-3]";
    let exact = [15, 0, 9_007_199_254_740_993, 0, i64::MAX, 12];
    check(&["a:int"], whole, &exact.map(|number: i64| json!([number])), 0);
    check(&["a:int", "b:json"], r#"{"b":[1],"c":5,"a":2.0}"#, &[json!([2, [1]])], 0);
}

#[test]
fn a_batch_says_how_many_of_its_values_are_null_for_that() {
    let columns = Columns::declared(["a:int"]).expect("columns");
    let told = |rows: &[u8]| {
        let mut out = Vec::new();
        columns.write_rows(1, rows, &mut out).expect("rows that fit");
        let len = u32::from_le_bytes([out[4], out[5], out[6], out[7]]) as usize;
        let message = arrow_ipc::root_as_message(&out[8..8 + len]).expect("a message");
        let pair = message.custom_metadata().map(|pairs| pairs.get(0));
        pair.map(|pair| (pair.key().map(str::to_owned), pair.value().map(str::to_owned)))
    };
    let expected = (Some("thalweg.unreadable".to_owned()), Some("2".to_owned()));
    assert_eq!(told(br#"["x"],[1],[1e400],[null]"#), Some(expected));
    assert_eq!(told(b"[1],[null]"), None);
}

#[test]
fn numbers_of_times_count_their_unit() {
    let expected = json!({ "ms": 1657746248419_u64 });
    for (declared, number) in [
        ("t:time_s", "1657746248.419"),
        ("t:time_s", "1657746248.4199999"),
        ("t:time", "1657746248419"),
        ("t:time", r#""1657746248419""#),
        ("t:time_ms", "1657746248419"),
        ("t:time_us", "1657746248419999"),
        ("t:time_ns", "1657746248419999999"),
        ("t:time_ns", r#""2022-07-13T21:04:08.419999+00:00""#),
    ] {
        check(&[declared], &format!("[{number}]"), &[json!([expected])], 0);
    }
    let day = json!({ "ms": 1657670400000_u64 });
    check(&["t:time"], r#"["2022-07-13"]"#, &[json!([day])], 0);
}

#[test]
fn times_that_readers_do_not_have_are_null_and_counted() {
    // DuckDB, pyarrow and apache-arrow reject a whole batch with an instant outside the years 1 to 9999.
    let first = json!({ "ms": -62135596800000_i64 });
    let last = json!({ "ms": 253402300799999_i64 });
    for (declared, rows, expected, unreadable) in [
        ("t:time", "[9223372036854775807],[-9223372036854775808]", [json!(null), json!(null)], 2),
        ("t:time", "[-62135596800001],[253402300800000]", [json!(null), json!(null)], 2),
        ("t:time", "[-62135596800000],[253402300799999]", [first.clone(), last], 0),
        ("t:time_s", "[253402300800],[-62135596800]", [json!(null), first], 1),
        ("t:time", r#"["0000-01-01T00:00:00Z"],[1e400]"#, [json!(null), json!(null)], 2),
    ] {
        check(&[declared], rows, &expected.map(|cell| json!([cell])), unreadable);
    }
}

#[test]
fn values_that_no_type_holds_are_null_and_counted() {
    check(&["a:double"], r#"[1e400],[-1e400],["1e400"]"#, &[(); 3].map(|()| json!([null])), 3);
    let half = r#"["\ud800"],["a\udc00b"],["\ud83d\ude00"]"#;
    check(&["a:string"], half, &[json!([null]), json!([null]), json!(["😀"])], 2);
    check(&["a:string", "\u{fffd}:int"], r#"{"a":"x","\ud800":1}"#, &[json!(["x", null])], 0);
}

#[test]
fn unreadable_values_are_null_and_counted() {
    check(&["a:double"], r#"["NaN"],["-inf"]"#, &[json!([null]), json!([null])], 2);
    // A double would round these to integers.
    let fractions = "[4503599627370497.25],[1e-400],[1e19],[1e99999999999999999999],[12e-1]";
    check(&["a:int"], fractions, &[(); 5].map(|()| json!([null])), 5);
    check(
        &["a:int", "b:time"],
        r#"["x","yesterday"],[1.5,null],[[],{}],[7,0,"more"],9"#,
        &[
            json!([null, null]),
            json!([null, null]),
            json!([null, null]),
            json!([7, { "ms": 0 }]),
            json!([null, null]),
        ],
        6,
    );
}
