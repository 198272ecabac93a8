//! Compares random queries with SQLite.

use serde_json::{Value, json};

use super::{cases::Dialect, compare, is_same_value, python};

const SQLITE: Dialect = Dialect {
    div: "/",
    double: "",
    first_or_last: |name, of| format!("{name}(n, {of})"),
    quantile: "approx_percentile",
};

#[test]
fn the_same_rows() {
    compare(&mut python("sqlite.py"), &SQLITE, 20_261_125, is_equal);
}

/// SQLite has no booleans.
fn is_equal(ours: &Value, theirs: &Value) -> bool {
    match ours {
        Value::Bool(ours) => *theirs == json!(i64::from(*ours)),
        ours => is_same_value(ours, theirs),
    }
}
