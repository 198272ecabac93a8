//! Measures the duration of a step of each operator and function on texts, of groups, and of rows: `cargo run --release
//! -p thalweg-query --example steps`. Prints the ns of a step, and the steps and ns of an event, minus those of the
//! same query without the expression. Each is the minimum of nine runs, because other processes can only prolong a run.

use std::{sync::Arc, time::Instant};

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, Running, Sink, Unbroken};

const COLUMNS: [&str; 7] =
    ["t:time", "s:string", "r:string", "i:int", "d:double", "b:bool", "n:string"];

/// Expressions over a text in `s`, a short text in `r` and a number in `n`.
const EXPRESSIONS: [&str; 39] = [
    "i",
    "s = r",
    "s < s || 'x'",
    "s IN (r, r, r, r)",
    "s LIKE '%aaab'",
    "s LIKE '%abc%'",
    "s LIKE '%a%a%aaaaaaaaaaaaaaab'",
    "s LIKE '%a_a_a_a_b'",
    "s ILIKE '%A%A%AAAAAAAAAAAAAAAB'",
    "s ILIKE '%ÿÿ%b'",
    "upper(s)",
    "lower(s)",
    "length(s)",
    "trim(s)",
    "substr(s, 3, 100000)",
    "substr(s, -3)",
    "concat(s, r)",
    "s || r",
    "replace(s, 'a', 'b')",
    "replace(s, 'aaaa', 'b')",
    "replace(s, 'q', 'b')",
    "replace(s, r, 'b')",
    "strpos(s, 'aaaab')",
    "strpos(s, 'q')",
    "strpos(s, r)",
    "starts_with(s, r)",
    "CAST(s AS BIGINT)",
    "CAST(n AS BIGINT)",
    "CAST(n AS DOUBLE)",
    "CAST(t AS STRING)",
    "CAST(d AS STRING)",
    "CAST(i AS STRING)",
    "date_trunc('month', t)",
    "extract(week FROM t)",
    "power(d, 1.7)",
    "round(d, 2)",
    "i + i * 2 - i",
    "CASE WHEN i > 3 AND d < 7 OR NOT b THEN 1 ELSE 2 END",
    "coalesce(i, 2) + least(i, 3)",
];

const ROWS: [&str; 6] = ["s", "s || r", "t", "d", "i", "t, d, i, b, s, r, n"];

const GROUPED: [&str; 6] = [
    "SELECT count(*) AS x FROM hop(t, 1s, 64s) GROUP BY window_start",
    "SELECT count(*) AS x, max(d) AS y, avg(i) AS z FROM hop(t, 1s, 64s) GROUP BY window_start",
    "SELECT count(*) AS x FROM hop(t, 1s, 64s) GROUP BY window_start, s",
    "SELECT count(*) AS x FROM tumble(t, 1s) GROUP BY window_start, s",
    "SELECT max(s) AS x, last(s) AS y FROM hop(t, 1s, 64s) GROUP BY window_start",
    "SELECT window_start, i FROM hop(t, 1s, 64s)",
];

struct Nothing;

impl Sink for Nothing {
    fn begins(&mut self, _offset: u64) {}

    fn row(&mut self, _offset: u64, row: &[u8]) {
        std::hint::black_box(row);
    }

    fn lost(&mut self, _offset: u64) {}
}

/// The time of all rows' publication, in ms since 1970.
const PUBLISHED_MS: i64 = 1_657_746_248_000;

const RUNS: usize = 9;

/// Returns the minimum ns of an event, and its steps.
fn cost(query: &str, event: &str, events: u64) -> Option<(f64, f64)> {
    let columns = Arc::new(Columns::declared(COLUMNS).expect("columns"));
    let plan = Query::parse(query).and_then(|query| query.plan(&columns));
    let plan = Arc::new(plan.unwrap_or_else(|error| panic!("{query}: {error}")));
    let bounds = Bounds {
        row_steps: u64::MAX,
        row_text_bytes: usize::MAX,
        event_steps: u64::MAX,
        ..Bounds::default()
    };
    let mut best: Option<(f64, f64)> = None;
    for _ in 0..RUNS {
        let mut running = Running::new(Arc::clone(&plan), bounds, Beginning::First);
        let begun = Instant::now();
        for offset in 1..=events {
            running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut Nothing).ok()?;
        }
        let ns = begun.elapsed().as_nanos() as f64 / events as f64;
        let steps = running.counts().steps as f64 / events as f64;
        best = best.filter(|(least, _)| *least < ns).or(Some((ns, steps)));
    }
    best
}

fn print(what: &str, bytes: usize, found: Option<(f64, f64)>, without: (f64, f64)) {
    let Some((ns, steps)) = found else { return println!("{:>44} {bytes:6} B {what}", "fails") };
    let (ns, steps) = (ns - without.0, steps - without.1);
    println!("{:8.1} ns/step {steps:10.0} steps {ns:12.0} ns {bytes:6} B {what}", ns / steps);
}

fn main() {
    for (letter, bytes) in [("a", 16), ("a", 1_000), ("a", 30_000), ("ÿ", 1_000), ("ÿ", 30_000)] {
        let text = letter.repeat(bytes / letter.len());
        let event = format!(
            r#"["2022-07-13T21:04:08.419Z","{text}","{}",7,-2.5,true,"12345.678"]"#,
            letter.repeat(8)
        );
        let events = (4_000_000 / (bytes + 400)) as u64;
        println!("{letter} × {}", bytes / letter.len());
        // Both queries read the event, and write nothing.
        for expression in EXPRESSIONS {
            // Both queries read these columns.
            let read: Vec<&str> = ["s", "r", "t", "d", "b", "n"]
                .into_iter()
                .filter(|name| names(expression).any(|named| named == *name))
                .collect();
            let read = read.iter().map(|name| format!(" AND {name} IS NULL"));
            let read: String = read.collect();
            let without =
                cost(&format!("SELECT i FROM t WHERE (i IS NULL OR i = 0){read}"), &event, events)
                    .expect("it is cheap");
            let query = format!("SELECT i FROM t WHERE (({expression}) IS NULL OR i = 0){read}");
            print(expression, bytes, cost(&query, &event, events), without);
        }
        let nothing = cost("SELECT i FROM t WHERE i = 0", &event, events).expect("it is cheap");
        print("reading an event", bytes, Some(nothing), (0.0, 0.0));
        for items in ROWS {
            let query = format!("SELECT {items} FROM t");
            print(&query, bytes, cost(&query, &event, events), nothing);
        }
        for query in GROUPED {
            print(query, bytes, cost(query, &event, events / 10 + 20), nothing);
        }
    }
    close();
}

/// Returns the words of an expression outside of quotes.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let outside = expression.split('\'').step_by(2);
    outside.flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
}

fn close() {
    let columns = Arc::new(Columns::declared(COLUMNS).expect("columns"));
    for query in [
        "SELECT i, count(*) AS x FROM tumble(t, 1s) GROUP BY window_start, i",
        "SELECT i, r, max(d) AS x, window_start FROM tumble(t, 1s) GROUP BY window_start, i, r",
        "SELECT i FROM tumble(t, 1s) GROUP BY window_start, i HAVING count(*) > 2",
    ] {
        const GROUPS: u64 = 9_999;
        let plan = Query::parse(query).and_then(|query| query.plan(&columns)).expect("a plan");
        let plan = Arc::new(plan);
        let mut best: Option<(f64, f64)> = None;
        for _ in 0..RUNS {
            let mut running = Running::new(Arc::clone(&plan), Bounds::default(), Beginning::First);
            for group in 1..=GROUPS {
                let mixed = group * 7919 % 10_007;
                let event = format!(
                    r#"["2022-07-13T21:04:08.419Z","","{mixed}",{mixed},-2.5,true,"12345.678"]"#
                );
                running.take(group, event.as_bytes(), PUBLISHED_MS, 0, &mut Nothing).expect("room");
            }
            let before = running.counts().steps;
            let begun = Instant::now();
            running.close_all(&mut Nothing);
            running.finish(&mut Nothing, &mut Unbroken).expect("within bounds");
            let ns = begun.elapsed().as_nanos() as f64 / GROUPS as f64;
            let steps = (running.counts().steps - before) as f64 / GROUPS as f64;
            best = best.filter(|(least, _)| *least < ns).or(Some((ns, steps)));
        }
        print(&format!("closing, a group of {query}"), 0, best, (0.0, 0.0));
    }
}
