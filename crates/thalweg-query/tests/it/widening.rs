//! Checks that inferred columns change with events that do not fit, and that no counted value is lost.

use std::sync::Arc;

use proptest::prelude::*;
use thalweg_query::{Beginning, Bounds, Query, Running, Waiting};

use crate::running::{Made, PUBLISHED_MS, close_all};

struct Inferred {
    waiting: Waiting,
    running: Option<Running>,
    made: Made,
    offset: u64,
}

impl Inferred {
    fn new(query: &str) -> Self {
        let query = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        Self { waiting: Waiting::new(query), running: None, made: Made::default(), offset: 0 }
    }

    fn take(&mut self, event: &str) {
        self.offset += 1;
        if self.running.is_none()
            && let Some(Ok(plan)) = self.waiting.take(event.as_bytes())
        {
            let running = Running::new(Arc::new(plan), Bounds::default(), Beginning::First);
            self.running = Some(running);
        }
        if let Some(running) = &mut self.running {
            running
                .take(self.offset, event.as_bytes(), PUBLISHED_MS, 0, &mut self.made)
                .expect("within bounds");
        }
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("a query that runs")
    }

    /// Returns all rows, and `None` for each lost window.
    fn end(mut self) -> Vec<Option<String>> {
        let mut made = std::mem::take(&mut self.made);
        close_all(self.running(), &mut made);
        made.0.into_iter().map(|(_, row)| row).collect()
    }
}

fn run(query: &str, events: &[&str]) -> Inferred {
    let mut inferred = Inferred::new(query);
    events.iter().for_each(|event| inferred.take(event));
    inferred
}

fn check(query: &str, events: &[&str], expected: &[&str]) {
    let rows = run(query, events).end();
    let rows: Vec<&str> = rows.iter().map(|row| row.as_deref().unwrap_or("lost")).collect();
    assert_eq!(rows, expected, "{query} {events:?}");
}

/// Events of one second with these members.
fn second(members: &[&str]) -> Vec<String> {
    let event = |(at, members): (usize, &&str)| {
        format!(r#"{{"time":"2022-07-13T21:00:00.{at:03}Z",{members}}}"#)
    };
    members.iter().enumerate().map(event).collect()
}

/// Checks the rows of a query with one window over events with these members.
fn check_window(select: &str, members: &[&str], expected: &[&str]) {
    let events = second(members);
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let group_by = if select.contains('k') { ", k" } else { "" };
    let query = format!("SELECT {select} FROM tumble(t, 1s) GROUP BY window_start{group_by}");
    check(&query, &events, expected);
}

#[test]
fn ints_become_doubles_and_all_values_count() {
    check_window("median(v)", &[r#""v":1"#, r#""v":2"#, r#""v":2.5"#, r#""v":9"#], &["[2.25]"]);
    check_window(
        "count(DISTINCT v)",
        &[r#""v":1"#, r#""v":2"#, r#""v":2.5"#, r#""v":1.0"#],
        &["[3]"],
    );
    let prices: Vec<String> = std::iter::once("10".to_owned())
        .chain((0..9).map(|tenths| format!("1{}.{}", tenths / 3, 1 + tenths % 3)))
        .map(|price| format!("\"price\":{price}"))
        .collect();
    let prices: Vec<&str> = prices.iter().map(String::as_str).collect();
    check_window(
        "count(*), count(price), round(avg(price), 3), sum(price) > 110",
        &prices,
        &["[10,10,11.08,true]"],
    );
    check_window(
        "min(price), max(price), first(price), last(price), sum(price), avg(price)",
        &["\"price\":3", "\"price\":7", "\"price\":1.5"],
        &["[1.5,7.0,3.0,1.5,11.5,3.8333333333333335]"],
    );
    // Derived values change, too; before, 7 / 2 was 3.
    check_window("sum(p / 2)", &["\"p\":7", "\"p\":1.0"], &["[3.5]"]);
}

#[test]
fn null_becomes_any_type() {
    for (value, row) in [
        ("7", "[2,7,7,7]"),
        ("1.5", "[2,1.5,1.5,1.5]"),
        ("\"x\"", r#"[2,"x",null,"x"]"#),
        ("true", "[2,true,null,true]"),
    ] {
        let sum = if row.contains("null") { "NULL" } else { "sum(v)" };
        check_window(
            &format!("count(*), max(v), {sum}, last(v)"),
            &["\"v\":null", &format!("\"v\":{value}")],
            &[row],
        );
    }
    check_window("first(v), count(v)", &["\"v\":null", "\"v\":7"], &["[null,1]"]);
    let errors = [r#"{"err":null}"#, r#"{"err":"disk"}"#, r#"{"err":null}"#, r#"{"err":"net"}"#];
    check("SELECT err FROM t WHERE err IS NOT NULL", &errors, &[r#"["disk"]"#, r#"["net"]"#]);
}

#[test]
fn members_that_come_later_are_known_then() {
    let events = [r#"{"a":1}"#, r#"{"a":2,"Err":"x"}"#, r#"{"a":3,"other":[]}"#];
    check("SELECT a, err FROM t", &events, &["[1,null]", r#"[2,"x"]"#, "[3,null]"]);
    let running = run("SELECT a, err, none FROM t", &events);
    let absent = |running: &Running| running.plan().absent().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(absent(running.running.as_ref().expect("it runs")), ["none"]);
    // All columns.
    let windowed = [
        r#"{"t":"2022-07-13T21:00:00Z"}"#,
        r#"{"t":"2022-07-13T21:00:00Z","a":1}"#,
        r#"{"t":"2022-07-13T21:00:00Z","a":2,"b":null}"#,
    ];
    let bounds = r#""2022-07-13T21:00:00Z","2022-07-13T21:00:01Z""#;
    let expected = ["", ",1", ",2"];
    let expected = expected.map(|a| format!(r#"["2022-07-13T21:00:00Z"{a},{bounds}]"#));
    check("SELECT * FROM tumble(t, 1s)", &windowed, &expected.each_ref().map(String::as_str));
    let arrays = ["[1]", "[2,null,\"x\"]", "[3,4,\"y\"]"];
    let expected = ["[1,null]", r#"[2,"x"]"#, r#"[3,"y"]"#];
    check("SELECT column0, column2 FROM t", &arrays, &expected);
}

#[test]
fn keys_that_become_doubles_are_the_same_groups() {
    check_window(
        "k, count(*)",
        &["\"k\":1", "\"k\":null", "\"k\":2", "\"k\":1.0", "\"k\":0.5", "\"k\":2"],
        &["[null,1]", "[0.5,1]", "[1.0,2]", "[2.0,2]"],
    );
    // The order of two merged groups is unknown.
    check_window("k, last(v)", &["\"k\":9007199254740993,\"v\":1", "\"k\":0.5,\"v\":2"], &["lost"]);
}

#[test]
fn columns_that_cannot_widen_are_announced_and_the_query_continues() {
    let events = [
        r#"{"time":"2022-07-13T21:00:00.1Z","v":1}"#,
        r#"{"time":"2022-07-13T21:00:00.2Z","v":"x"}"#,
        r#"{"time":"2022-07-13T21:00:01.1Z","v":[2]}"#,
        r#"{"time":"2022-07-13T21:00:02.1Z","v":3}"#,
    ];
    let query = "SELECT last(v), count(*) FROM tumble(t, 1s) GROUP BY window_start";
    check(query, &events, &["lost", "[[2],1]", "[3,1]"]);
    let mut inferred = run(query, &events);
    assert_eq!(inferred.running().counts().windows_lost, 1);
    // Without windows no row is lost.
    check("SELECT v FROM t", &events, &["[1]", r#"["x"]"#, "[[2]]", "[3]"]);
}

#[test]
fn a_value_with_which_the_query_cannot_run_is_null_and_counted() {
    let events = [r#"{"v":1}"#, r#"{"v":"N/A"}"#, r#"{"v":"7"}"#, r#"{"v":2.5}"#, r#"{"v":1e400}"#];
    let query = "SELECT v * 2 FROM t";
    check(query, &events, &["[2]", "[null]", "[14]", "[5.0]", "[null]"]);
    let counts = run(query, &events).running().counts();
    assert_eq!((counts.unreadable, counts.events, counts.changes), (2, 5, 1));
    // A row of another shape has no columns.
    let counts = run("SELECT v FROM t", &[r#"{"v":1}"#, "[2]", "3"]).running().counts();
    assert_eq!((counts.unreadable, counts.rows), (2, 3));
}

#[test]
fn a_query_waits_for_events_over_which_it_can_run() {
    let events = [
        "\"hello\"",
        r#"{"hello":true}"#,
        r#"{"time":null,"v":1}"#,
        r#"{"time":"2022-07-13T21:00:00Z","v":2}"#,
        r#"{"time":"2022-07-13T21:00:00Z","v":2.5}"#,
    ];
    check("SELECT sum(v) FROM tumble(t, time, 1s) GROUP BY window_start", &events, &["[4.5]"]);
    let mut waiting = Waiting::new(Query::parse("SELECT v > 'x' FROM t").unwrap());
    let error = waiting.take(b"7").unwrap().unwrap_err();
    assert!(error.to_string().contains("neither objects nor arrays"), "{error}");
    assert!(waiting.take(b"8").is_none());
    let error = waiting.take(br#"{"v":1}"#).unwrap().unwrap_err();
    assert!(error.to_string().contains("cannot be compared"), "{error}");
    assert!(waiting.take(br#"{"v":2}"#).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn widened_groups_are_those_of_declared_doubles(
        events in proptest::collection::vec((0..40_i64, prop_oneof![
            8 => (-1000..1000_i64).prop_map(|int| int.to_string()),
            1 => (-1000..1000_i64).prop_map(|tenth| format!("{:.1}", tenth as f64 / 10.0)),
            1 => Just("null".to_owned()),
        ], 0..4_u8), 1..60),
    ) {
        let events: Vec<String> = events.iter().enumerate().map(|(at, (ms, value, key))| {
            let ms = 1_657_746_000_000 + at as i64 * 100 + ms;
            let time = thalweg_columns::time_text(ms).unwrap();
            format!(r#"{{"time":"{time}","v":{value},"k":{key}}}"#)
        }).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let query = "SELECT window_start, k, count(v) AS n, sum(v) + 0.0 AS s, round(avg(v), 6) AS a, min(v) + 0.0 AS mi, max(v) + 0.0 AS ma, first(v) + 0.0 AS f, last(v) + 0.0 AS l
            FROM tumble(t, 1s) GROUP BY window_start, k EMIT AFTER WINDOW CLOSE WITH DELAY 1s";
        let declared = crate::running::made(query, &["time:time", "v:double", "k:int"], &events);
        let inferred: Vec<String> = run(query, &events).end().into_iter().map(Option::unwrap).collect();
        prop_assert_eq!(inferred, declared.rows());
    }

    /// With any events a query continues, counts each event once, and makes the same rows of the same events.
    #[test]
    fn any_events_are_taken(
        events in proptest::collection::vec(proptest::sample::subsequence(MEMBERS.to_vec(), 0..5), 1..40),
        query in proptest::sample::select(QUERIES.to_vec()),
    ) {
        let events: Vec<String> = events.iter().map(|members| match &**members {
            ["[1]"] => "[1,2]".to_owned(),
            members => format!("{{{}}}", members.iter().filter(|member| **member != "[1]").copied().collect::<Vec<_>>().join(",")),
        }).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let (one, other) = (run(query, &events), run(query, &events));
        prop_assert_eq!(&one.made, &other.made);
        if let Some(running) = &one.running {
            let counts = running.counts();
            prop_assert!(counts.events <= events.len() as u64 && counts.changes < 20, "{:?}", counts);
            one.end();
        }
    }
}

const MEMBERS: [&str; 14] = [
    "[1]",
    r#""a":1"#,
    r#""a":1.5"#,
    r#""a":"x""#,
    r#""A":true"#,
    r#""a":null"#,
    r#""b":9007199254740993"#,
    r#""b":0.5"#,
    r#""b":[1e400]"#,
    r#""\ud800":1"#,
    r#""time":"2022-07-13T21:00:00.100Z""#,
    r#""time":"2022-07-13 21:00:01""#,
    r#""time":"soon""#,
    r#""c":"\udc00""#,
];

const QUERIES: [&str; 7] = [
    "SELECT * FROM t WHERE a > 1",
    "SELECT a, b, missing FROM t",
    "SELECT * FROM tumble(t, time, 1s)",
    "SELECT a, count(*), sum(b), last(c) FROM tumble(t, time, 1s) GROUP BY window_start, a",
    "SELECT max(a), min(b), first(a), avg(b) FROM hop(t, time, 500ms, 1s) GROUP BY window_start",
    "SELECT count(c), sum(b) FILTER (WHERE a > 1) FROM tumble(t, CAST(time AS TIMESTAMP), 1s) GROUP BY window_start",
    "SELECT coalesce(a, b), a + b FROM t WHERE c IS NULL",
];
