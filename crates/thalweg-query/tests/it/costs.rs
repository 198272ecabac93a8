//! Checks that every function, operator and aggregate counts its cost, and that no text exceeds its limit.

use std::{collections::BTreeSet, sync::Arc};

use thalweg_query::{
    AGGREGATES, Beginning, Bounds, Counts, FUNCTIONS, Failure, Query, Running,
    limits::VALUE_BYTES_MAX,
};

use crate::running::{Made, PUBLISHED_MS, columns};

const COLUMNS: [&str; 7] =
    ["t:time", "s:string", "r:string", "i:int", "d:double", "b:bool", "j:json"];

/// Operators and forms that are no functions, over the same columns.
const OPERATORS: [&str; 24] = [
    "s || s",
    "s || i || d || t",
    "j || s",
    "CAST(j AS STRING)",
    "CAST(s AS STRING)",
    "CAST(s AS BIGINT)",
    "CAST(s AS DOUBLE)",
    "CAST(s AS BOOLEAN)",
    "CAST(s AS TIMESTAMP)",
    "s = r",
    "s < r",
    "s <> r",
    "s IN (r, r)",
    "s BETWEEN r AND r",
    "s IS DISTINCT FROM r",
    "s LIKE '%aa_b'",
    "s LIKE '%a%b%c%'",
    "s ILIKE '%ÿÿ'",
    "CASE s WHEN r THEN 'x' ELSE 'y' END",
    "CASE WHEN s > r THEN upper(s) ELSE lower(s) END",
    "if(s > r, s || r, r || s)",
    "NOT (s = r)",
    "s IS NULL",
    "-i + d * 2 - 1 % 7 / 3",
];

/// Characters of which functions make the longest texts: characters whose other case is several characters, characters
/// escaped in JSON, spaces, digits.
const LETTERS: [&str; 8] = ["a", "ΐ", "İ", "\u{1}", "\"", " ", "7", "ÿ"];

/// A call of every function with each kind of accepted arguments, a text among the first two if accepted.
fn calls() -> Vec<(&'static str, String)> {
    let arguments = ["s", "r", "i", "d", "t", "b", "j", "'hour'"];
    let planned = |expression: &str| {
        let query = Query::parse(&format!("SELECT {expression} AS x FROM t"));
        query.is_ok_and(|query| query.plan(&columns(&COLUMNS)).is_ok())
    };
    let mut calls = Vec::new();
    for function in FUNCTIONS {
        let (name, before) = (function.names[0], calls.len());
        let mut lists: Vec<String> = arguments.map(str::to_owned).to_vec();
        for one in arguments {
            lists.extend(["r", "i", "t"].map(|two| format!("{one}, {two}")));
            lists.extend(["i, i", "r, r", "'a', 'bcd'"].map(|others| format!("{one}, {others}")));
        }
        let found = lists.into_iter().map(|list| format!("{name}({list})"));
        calls.extend(found.filter(|call| planned(call)).map(|call| (name, call)));
        assert!(calls.len() > before, "{name} is called in some way");
    }
    calls
}

/// Returns the row that a query makes of one event with a text in `s`, and its counts.
fn one(query: &str, text: &str, bounds: Bounds) -> (Result<Option<String>, Failure>, Counts) {
    let parsed = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let plan = parsed.plan(&columns(&COLUMNS)).unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut running = Running::new(Arc::new(plan), bounds, Beginning::First);
    let text = serde_json::to_string(text).expect("a text");
    let event = format!(r#"["2022-07-13T21:00:00Z",{text},{text},7,-2.5,true,{text}]"#);
    let mut made = Made::default();
    let taken = running.take(1, event.as_bytes(), PUBLISHED_MS, 0, &mut made);
    let row = made.rows().first().map(|row| (*row).to_owned());
    (taken.map(|()| row), running.counts())
}

fn unbounded() -> Bounds {
    Bounds {
        row_steps: u64::MAX,
        event_steps: u64::MAX,
        row_text_bytes: usize::MAX,
        ..Bounds::default()
    }
}

fn text_bytes(row: &str) -> Option<usize> {
    let row: Vec<serde_json::Value> = serde_json::from_str(row).expect("a row");
    row[0].as_str().map(str::len)
}

/// Returns the longest text of one character.
fn longest(letter: &str, bytes: usize) -> String {
    letter.repeat(bytes / letter.len())
}

#[test]
fn no_function_makes_a_text_that_is_longer_than_it_may_be_and_these_make_longer_ones() {
    let mut growing = BTreeSet::new();
    let calls = calls();
    for letter in LETTERS {
        let (short, long) = (longest(letter, 300), longest(letter, VALUE_BYTES_MAX));
        for (name, call) in &calls {
            let query = format!("SELECT {call} AS x FROM t");
            let row = one(&query, &short, unbounded()).0.unwrap().expect("a row");
            let was_short = text_bytes(&row);
            if was_short.is_some_and(|bytes| bytes > short.len()) {
                growing.insert(*name);
            }
            let (row, counts) = one(&query, &long, unbounded());
            let row = row.unwrap().expect("a row");
            assert!(text_bytes(&row).is_none_or(|bytes| bytes <= VALUE_BYTES_MAX), "{call}");
            // A text that is missing because of its length is counted.
            assert!(
                was_short.is_none() || text_bytes(&row).is_some() || counts.oversized > 0,
                "{call}: {counts:?}"
            );
        }
    }
    // A new function with longer results needs a look.
    assert_eq!(growing.into_iter().collect::<Vec<_>>(), ["concat", "lower", "replace", "upper"]);
}

#[test]
fn no_result_is_missing_without_being_counted() {
    let calls = calls();
    let calls = calls.iter().map(|(_, call)| call.as_str());
    let casts: Vec<String> =
        ["BOOLEAN", "TINYINT", "INT", "BIGINT", "REAL", "DOUBLE", "TIMESTAMP", "DATE"]
            .iter()
            .flat_map(|target| {
                ["s", "j", "i", "d"].map(|value| format!("CAST({value} AS {target})"))
            })
            .filter(|cast| {
                let query = Query::parse(&format!("SELECT {cast} AS x FROM t"));
                query.is_ok_and(|query| query.plan(&columns(&COLUMNS)).is_ok())
            })
            .collect();
    let others =
        ["i / 0", "i % 0", "d / 0", "-(i - 9223372036854775807 - 8)", "9223372036854775807 * i"];
    let constants = ["1 / 0", "sqrt(-1)", "CAST('x' AS INT)", "ln(0)", "1 + CAST('x' AS INT)"];
    let casts = casts.iter().map(String::as_str);
    let mut missing = BTreeSet::new();
    for expression in calls.chain(OPERATORS).chain(others).chain(constants).chain(casts) {
        // NULL is its regular result.
        if expression.starts_with("nullif") {
            continue;
        }
        for letter in LETTERS {
            let query = format!("SELECT {expression} AS x FROM t");
            let (row, counts) = one(&query, &longest(letter, 40), unbounded());
            if row.unwrap().as_deref() == Some("[null]") {
                assert!(counts.without_result + counts.oversized > 0, "{expression}");
                missing.insert(expression.to_owned());
            } else {
                assert_eq!(counts.without_result, 0, "{expression}");
            }
        }
    }
    for expected in others.iter().chain(&constants).chain(&["CAST(s AS INT)", "sqrt(d)", "ln(d)"]) {
        assert!(missing.contains(*expected), "{expected}: {missing:?}");
    }
}

#[test]
fn an_expected_null_and_a_null_from_a_null_are_not_counted() {
    for expression in [
        "TRY_CAST(s AS INT)",
        "TRY_CAST(TRY_CAST(s AS INT) AS STRING)",
        "CAST(TRY_CAST(s AS INT) AS BIGINT)",
        "i / nullif(i, 7)",
        "sqrt(nullif(d, -2.5))",
        "nullif(s, s)",
        "TRY_CAST('x' AS INT)",
    ] {
        let (row, counts) = one(&format!("SELECT {expression} AS x FROM t"), "x", unbounded());
        assert_eq!(
            (row, counts.without_result),
            (Ok(Some("[null]".to_owned())), 0),
            "{expression}"
        );
    }
}

#[test]
fn a_sum_without_a_result_is_counted_with_its_window() {
    let query = "SELECT sum(i) AS a, avg(d) AS b, sum(d) AS c, avg(i) AS e FROM tumble(t, 1s) GROUP BY window_start";
    let plan = Query::parse(query).unwrap().plan(&columns(&COLUMNS)).unwrap();
    let mut running = Running::new(Arc::new(plan), Bounds::default(), Beginning::First);
    let mut made = Made::default();
    for offset in 1..3 {
        let event = r#"["2022-07-13T21:00:00Z","","",9223372036854775807,1.7e308,true,null]"#;
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    }
    assert_eq!(running.counts().without_result, 0);
    running.close_all(&mut made);
    running.finish(&mut made, &mut thalweg_query::Unbroken).unwrap();
    assert_eq!(made.rows(), ["[null,null,null,9.223372036854776e18]"]);
    assert_eq!(running.counts().without_result, 3);
}

#[test]
fn functions_that_read_a_text_count_its_bytes() {
    let calls = calls();
    let calls = calls.iter().map(|(_, call)| call.as_str());
    let aggregates = AGGREGATES.iter().flat_map(|(names, ..)| *names);
    let aggregates: Vec<String> = aggregates
        .map(|name| format!("SELECT {name}(s) AS x FROM tumble(t, 1s) GROUP BY window_start"))
        .filter(|query| {
            Query::parse(query).is_ok_and(|query| query.plan(&columns(&COLUMNS)).is_ok())
        })
        .chain(["SELECT count(*) AS x FROM tumble(t, 1s) GROUP BY window_start, s".to_owned()])
        .collect();
    assert!(aggregates.len() > 5, "{aggregates:?}");
    let queries = calls.chain(OPERATORS).map(|expression| {
        // The query does not write the result.
        (expression.to_owned(), format!("SELECT i FROM t WHERE ({expression}) IS NULL"))
    });
    let queries: Vec<(String, String)> =
        queries.chain(aggregates.into_iter().map(|query| (query.clone(), query))).collect();
    for (expression, query) in queries {
        // Those that do not read a text, or return an argument unchanged.
        let passes_on = ["coalesce(", "least(s)", "greatest(s)", "count(s)", "s IS NULL", " AS STRING)"]
            .iter()
            .any(|name| expression.contains(name))
            // JSON is not parsed.
            || ["least(j", "greatest(j", "nullif(j"].iter().any(|name| expression.starts_with(name))
            // A comparison with a short text reads few bytes.
            || expression.starts_with("least(") && expression.contains('\'')
            || expression.starts_with("greatest(") && expression.contains('\'');
        let is_read =
            ["(s", "(j", "s ", "j "].iter().any(|read| expression.contains(read)) && !passes_on;
        for letter in ["a", "ÿ"] {
            let event = |bytes: usize| {
                let text = longest(letter, bytes);
                let counts = one(&query, &text, unbounded()).1;
                // Without the cost of reading the event.
                let event_bytes = 3 * text.len() + 50;
                counts.steps.saturating_sub(event_bytes as u64 / 64)
            };
            let (few, many) = (event(100), event(20_000));
            assert!(!is_read || many >= few + 20_000 / 64 - 10, "{expression}: {few} {many}");
        }
    }
}

#[test]
fn the_attacks_of_the_review_fail_or_stay_small() {
    let nested = |levels: usize, text: &str| {
        (0..levels).fold(text.to_owned(), |inner, _| format!("replace({inner}, 'a', 'aa')"))
    };
    // A text doubled seventeen times has no value.
    let (row, counts) =
        one(&format!("SELECT {} AS x FROM t", nested(17, "s")), "aa", Bounds::default());
    assert_eq!((row, counts.rows), (Err(Failure::RowSteps(100_000)), 0));
    let tripled = "replace(replace(replace(s, 'a', 'aa'), 'aa', r), 'b', r)";
    let text = "a".repeat(500);
    let (row, counts) = one(&format!("SELECT {tripled} AS x FROM t"), &text, Bounds::default());
    assert_eq!((row, counts.oversized), (Ok(Some("[null]".to_owned())), 1));
    let columns: Vec<String> =
        (0..5).map(|column| format!("{} AS c{column}", nested(15, "s"))).collect();
    let (row, _) = one(&format!("SELECT {} FROM t", columns.join(", ")), "aa", Bounds::default());
    assert!(matches!(row, Err(Failure::RowSteps(100_000))), "{row:?}");
    let likes = vec!["s LIKE '%a%a%a%aaaaaaaaaaaaaaaaaaaaab'"; 22].join(" OR ");
    let text = "a".repeat(60_000);
    let (row, counts) = one(&format!("SELECT i FROM t WHERE {likes}"), &text, Bounds::default());
    assert_eq!((row, counts.rows), (Err(Failure::RowSteps(100_000)), 0));
    let columns: Vec<String> =
        (0..17).map(|column| format!("s || '{column}' AS c{column}")).collect();
    let (row, _) = one(
        &format!("SELECT {} FROM t", columns.join(", ")),
        &"x".repeat(65_500),
        Bounds::default(),
    );
    assert_eq!(row, Err(Failure::RowBytes(1 << 20)));
    let (row, _) = one(
        "SELECT s, window_start FROM hop(t, 1s, 64s)",
        &"x".repeat(1_000_000),
        Bounds::default(),
    );
    assert_eq!(row, Err(Failure::EventSteps(400_000)));
    let wide = Bounds { event_steps: u64::MAX, ..Bounds::default() };
    let (row, counts) =
        one("SELECT s, window_start FROM hop(t, 1s, 64s)", &"x".repeat(1_000_000), wide);
    assert_eq!((row, counts.rows), (Err(Failure::EventBytes(16 << 20)), 16));
}

#[test]
fn a_window_that_closes_has_steps_for_each_of_its_groups_and_not_for_any_work() {
    let close = |expression: &str, groups: u64| {
        let query =
            format!("SELECT i, {expression} AS x FROM tumble(t, 1s) GROUP BY window_start, i");
        let plan = Query::parse(&query).unwrap().plan(&columns(&COLUMNS)).unwrap();
        let mut running = Running::new(Arc::new(plan), Bounds::default(), Beginning::First);
        let mut made = Made::default();
        let text = "a".repeat(1_000);
        for group in 1..=groups {
            let event = format!(r#"["2022-07-13T21:00:00Z","{text}","b",{group},0,true,null]"#);
            running.take(group, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
        }
        running.close_all(&mut made);
        let closed = running.finish(&mut made, &mut thalweg_query::Unbroken);
        (closed, running.counts().rows)
    };
    assert_eq!(close("count(*)", 10_000), (Ok(true), 10_000));
    assert_eq!(close("upper(max(s)) || lower(min(s))", 400), (Ok(true), 400));
    let (closed, rows) =
        close("replace(replace(replace(max(s), 'a', 'aaa'), 'a', 'aaa'), 'aaaa', 'b')", 400);
    assert_eq!(closed, Err(Failure::EventSteps(400_000)));
    assert!((10..100).contains(&rows), "{rows}");
}

#[test]
fn groups_rows_and_functions_count_steps_without_texts() {
    let steps = |query: &str| {
        let (taken, counts) = one(query, "a", Bounds::default());
        assert!(taken.is_ok(), "{query}");
        counts.steps
    };
    let group = "SELECT count(*) FROM hop(t, 1s, 64s) GROUP BY window_start";
    assert!(steps(group) >= 64 * 8, "{}", steps(group));
    let keyed = "SELECT count(*) FROM hop(t, 1s, 64s) GROUP BY window_start, i";
    assert!(steps(keyed) >= 64 * 16, "{}", steps(keyed));
    let rows = "SELECT window_start, i, d FROM hop(t, 1s, 64s)";
    assert!(steps(rows) >= 64 * (8 + 3 * 16), "{}", steps(rows));
    assert!(steps("SELECT coalesce(i, 1) FROM t") >= steps("SELECT i FROM t") + 6);
    let closed = "SELECT count(*) FROM tumble(t, 1s) GROUP BY window_start";
    let mut running = crate::running::begin(closed, &COLUMNS, Bounds::default());
    let event = r#"["2022-07-13T21:00:00Z","a","a",7,-2.5,true,"a"]"#;
    running.take(1, event.as_bytes(), PUBLISHED_MS, 0, &mut Made::default()).unwrap();
    let before = running.counts().steps;
    crate::running::close_all(&mut running, &mut Made::default());
    assert!(running.counts().steps >= before + 32 + 8 + 16);
}

#[test]
fn constant_expressions_stay_within_the_limit_without_events() {
    let nested = (0..12).fold("'aa'".to_owned(), |inner, _| format!("replace({inner}, 'a', 'aa')"));
    // Each row evaluates it instead, and counts its steps.
    let (row, counts) = one(&format!("SELECT {nested} = s AS x FROM t"), "", Bounds::default());
    assert_eq!(row, Ok(Some("[false]".to_owned())));
    assert!(counts.steps > 5_000, "{counts:?}");
    let likes = vec![format!("'{}' LIKE '%a%a%aaaaaaab'", "a".repeat(100)); 20].join(" OR ");
    assert_eq!(
        one(&format!("SELECT {likes} AS x FROM t"), "", Bounds::default()).0,
        Ok(Some("[false]".to_owned()))
    );
}
