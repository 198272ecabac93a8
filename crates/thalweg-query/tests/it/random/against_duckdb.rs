//! Compares random queries with DuckDB.

use std::{path::Path, process::Command};

use fastrand::Rng;
use serde_json::{Value, json};
use thalweg_testing::skipped;

use super::{cases::Dialect, compare, count, is_same_value, python, rows_of};
use crate::running::made;

const DUCKDB: Dialect = Dialect {
    div: "//",
    double: "::DOUBLE",
    first_or_last: |name, of| format!("{name}({of} ORDER BY n)"),
    quantile: "quantile_cont",
};

/// The start of all windows, in ms since 1970.
const START_MS: i64 = 1_657_746_000_000;

/// Returns the command that runs DuckDB, if it is installed.
fn duckdb() -> Option<Command> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/duckdb");
    if !packages.join("duckdb").exists() {
        skipped("make setup installs DuckDB for Python");
        return None;
    }
    let mut python = python("duckdb_rows.py");
    python.env("PYTHONPATH", packages);
    Some(python)
}

#[test]
fn the_same_rows() {
    if let Some(mut duckdb) = duckdb() {
        compare(&mut duckdb, &DUCKDB, 20_261_130, is_same_value);
    }
}

/// A row has the quantiles, and DuckDB returns the values between which they must be.
#[test]
fn quantiles_of_many_values_are_between_those_of_nearby_shares() {
    const SHARES: [f64; 5] = [0.05, 0.25, 0.5, 0.9, 0.99];
    let Some(mut duckdb) = duckdb() else { return };
    let mut rng = Rng::with_seed(20_261_130);
    let ours = SHARES.iter().enumerate().map(|(at, share)| match *share {
        0.5 => format!("median(d) AS r{at}"),
        share => format!("approx_percentile(d, {share}) AS r{at}"),
    });
    let ours = ours.collect::<Vec<_>>().join(", ");
    let ours = format!("SELECT {ours} FROM tumble(topic, t, 1h) GROUP BY window_start");
    let theirs = SHARES.iter().flat_map(|share| {
        [share - 0.02, share + 0.02]
            .map(|share| format!("quantile_cont(d, {:.2})", share.clamp(0.0, 1.0)))
    });
    let theirs = theirs.collect::<Vec<_>>().join(", ");
    let theirs = format!("SELECT {theirs} FROM events");
    let groups: Vec<Vec<f64>> = (0..count() / 50)
        .map(|nth| {
            let value = |rng: &mut Rng| match nth % 3 {
                0 => rng.f64() * 1000.0 - 500.0,
                1 => rng.f64().powi(9) * 1e6,
                _ => f64::from(rng.u8(0..20)),
            };
            (0..rng.usize(129..2000)).map(|_| value(&mut rng)).collect()
        })
        .collect();
    let lines = groups.iter().map(|values| {
        let row = |value| json!([START_MS, null, null, null, value, null, null]);
        let rows: Vec<Value> = values.iter().map(row).collect();
        json!({ "sql": theirs, "rows": rows, "size": 0, "step": 0, "delay": 0 }).to_string()
    });
    let mut compared = 0;
    for (expected, values) in rows_of(&mut duckdb, lines.collect()).zip(&groups) {
        let events: Vec<String> =
            values.iter().map(|value| json!([START_MS, value]).to_string()).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let made = made(&ours, &["t:time", "d:double"], &events);
        let row: Vec<f64> = serde_json::from_str(made.rows()[0]).expect("numbers");
        for (at, found) in row.iter().enumerate() {
            let [low, high] = [2 * at, 2 * at + 1].map(|at| expected[0][at].as_f64());
            let (low, high) = (low.expect("a number"), high.expect("a number"));
            let is_between = (low..=high).contains(found);
            let (share, count) = (SHARES[at], values.len());
            assert!(is_between, "{share} of {count} values: {found} is not in {low}..{high}");
        }
        compared += 1;
    }
    assert_eq!(compared, groups.len());
}
