//! Checks `median` and `approx_percentile`.

use fastrand::Rng;
use thalweg_query::{Bounds, Query, limits::EXACT_VALUES_MAX};

use crate::running::{Made, PUBLISHED_MS, begin, check, close_all, columns};

const COLUMNS: &[&str] = &["t:time", "i:int", "d:double", "s:string", "j:json"];

const ROWS: [&str; 5] = [
    r#"[0,1,0.5,"a",{"ms":5}]"#,
    r#"[0,10,-1.5,"b",{"ms":7.5}]"#,
    r#"[0,2,2.5,"a",{"ms":"9"}]"#,
    r#"[0,null,null,"b",null]"#,
    r#"[0,4,3.5,"a",{"ms":"x"}]"#,
];

fn value(of: &str, expected: &str) {
    let query = format!("SELECT {of} AS r FROM tumble(t, t, 1s) GROUP BY window_start");
    check(&query, COLUMNS, &ROWS, &[&format!("[{expected}]")]);
}

#[test]
fn few_values_have_the_quantiles_of_duckdb() {
    for (of, expected) in [
        ("median(i)", "3.0"),
        ("median(d)", "1.5"),
        ("approx_percentile(i, 0.5)", "3.0"),
        ("approx_quantile(d, 0.9)", "3.2"),
        ("approx_percentile(i, 0)", "1.0"),
        ("approx_percentile(i, 1)", "10.0"),
        ("approx_percentile(i, 1 - 0.25)", "5.5"),
        ("approx_percentile(i, 0.5) FILTER (WHERE s = 'a')", "2.0"),
        ("median(i) - median(d)", "1.5"),
        ("median(j.ms)", "7.5"),
        ("median(NULL)", "null"),
        ("median(i) FILTER (WHERE false)", "null"),
    ] {
        value(of, expected);
    }
}

#[test]
fn a_share_is_a_number_from_0_to_1() {
    for (of, column, says) in [
        ("approx_percentile(i, 95)", 29, "write approx_percentile(x, 0.95)"),
        ("approx_percentile(i, -0.1)", 29, "from 0 to 1"),
        ("approx_percentile(i, d)", 29, "from 0 to 1"),
        ("approx_percentile(i, NULL)", 29, "from 0 to 1"),
        ("approx_percentile(i)", 8, "call this function as approx_percentile(number, share)"),
        ("median(i, 0.5)", 8, "call this function as median(number)"),
        ("median(*)", 8, "call this function as median(number)"),
        ("median(s)", 8, "the argument is a string: call this as median(number)"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY i)", 43, "ORDER BY is not supported here"),
        ("quantile(i, 0.5)", 8, "write approx_percentile(value, 0.95), or median(value)"),
    ] {
        let query = format!("SELECT {of} FROM tumble(t, t, 1s) GROUP BY window_start");
        let found = Query::parse(&query).and_then(|query| query.plan(&columns(COLUMNS)).map(drop));
        let found = found.expect_err(&query);
        assert!(
            found.message.contains(says) && found.column.abs_diff(column) <= 1,
            "{query}: {found}"
        );
    }
}

#[test]
fn many_values_have_a_rank_within_the_stated_error_in_bounded_memory() {
    let query = "SELECT window_start, median(d) AS m, approx_percentile(d, 0.99) AS p FROM tumble(t, t, 1s) GROUP BY window_start";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let (mut made, mut rng) = (Made::default(), Rng::with_seed(1));
    let mut values: Vec<f64> = (0..20_000).map(|_| (rng.f64() * 20.0).exp()).collect();
    let mut held = Vec::new();
    for (offset, value) in (1..).zip(&values) {
        let event = format!("[0,null,{value:?}]");
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
        held.push(running.held().1);
    }
    assert!(held[EXACT_VALUES_MAX - 1] < 4096 && held[19_999] < 11_000, "{:?}", held.last());
    close_all(&mut running, &mut made);
    assert_eq!(running.held(), (0, 0));
    let row: Vec<serde_json::Value> = serde_json::from_str(made.rows()[0]).unwrap();
    values.sort_unstable_by(f64::total_cmp);
    for (result, share) in [(&row[1], 0.5), (&row[2], 0.99)] {
        let result = result.as_f64().unwrap();
        let rank = values.partition_point(|value| *value < result) as f64 / 20_000.0;
        assert!((rank - share).abs() <= 0.02, "{share}: {rank}");
    }
}

#[test]
fn values_count_in_the_memory_of_groups() {
    let query = "SELECT i, median(d) AS m FROM tumble(t, t, 1s) GROUP BY window_start, i";
    let bounds = Bounds { state_bytes: 100_000, ..Bounds::default() };
    let mut running = begin(query, COLUMNS, bounds);
    let mut made = Made::default();
    for offset in 1..100_000 {
        let event = format!("[0,{},{offset}]", offset % 50);
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
        assert!(running.held().1 <= 100_000);
    }
    assert_eq!(running.counts().full_state, 1);
    close_all(&mut running, &mut made);
    assert_eq!((made.rows().len(), running.held()), (0, (0, 0)));
}
