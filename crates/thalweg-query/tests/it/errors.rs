//! Checks that errors of queries name their position and the remedy.

use proptest::prelude::*;
use thalweg_query::{Query, QueryError};
use thalweg_testing::{CpuTimer, assert_growth};

use crate::running::columns;

/// A text of double length may take this much longer: more than quadratic, less than exponential.
const SIZE_DOUBLES: u32 = 8;

/// A text may take this much longer than a plain query.
const HARDER_THAN_PLAIN: u32 = 100;

const CARS: &[&str] =
    &["car:string", "speed:double", "gears:int", "time:time", "locked:bool", "more:json"];

fn error(query: &str) -> QueryError {
    let planned = Query::parse(query).and_then(|query| query.plan(&columns(CARS)).map(drop));
    planned.expect_err(query)
}

/// Checks that the error is about the text between ⟨ and ⟩, in its line, with this message.
fn check(query: &str, says: &str) {
    let (before, rest) = query.split_once('⟨').unwrap_or((query, ""));
    let (about, behind) = rest.split_once('⟩').unwrap_or((rest, ""));
    let plain = format!("{before}{about}{behind}");
    let found = error(&plain);
    let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
    let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
    let expected = (line as u32, column as u32, about.chars().count().max(1) as u32);
    assert_eq!((found.line, found.column, found.length), expected, "{plain}: {found}");
    assert!(found.message.contains(says), "{plain}: {found}");
}

#[test]
fn unsupported_clauses_are_refused_by_name() {
    for (query, says) in [
        ("SELECT * FROM cars ⟨JOIN⟩ b ON true", "joins are not supported: publish"),
        ("SELECT * FROM cars⟨,⟩ b", "name one topic"),
        ("SELECT * FROM (⟨SELECT⟩ 1)", "subqueries are not supported"),
        ("SELECT (⟨SELECT⟩ 1) FROM cars", "subqueries are not supported"),
        ("SELECT * FROM cars WHERE car IN (⟨SELECT⟩ 1)", "subqueries are not supported"),
        ("SELECT * FROM cars ORDER BY ⟨time⟩", "ORDER BY needs groups"),
        ("SELECT first(car ⟨ORDER⟩ BY time) FROM cars", "ORDER BY is not supported here"),
        ("SELECT ⟨order⟩ FROM cars", "a column of this name in double quotes"),
        ("SELECT * FROM cars ⟨LIMIT⟩ 10", "LIMIT is not supported"),
        ("SELECT ⟨DISTINCT⟩ car FROM cars", "DISTINCT is not supported"),
        (
            "SELECT sum(⟨DISTINCT⟩ speed) FROM tumble(cars, 1s) GROUP BY window_start",
            "or write count(DISTINCT x)",
        ),
        (
            "SELECT ⟨count(DISTINCT car, speed)⟩ FROM tumble(cars, 1s) GROUP BY window_start",
            "DISTINCT takes one value here: join them",
        ),
        (
            "SELECT ⟨count(DISTINCT more)⟩ FROM tumble(cars, 1s) GROUP BY window_start",
            "JSON has no distinct values: name a member",
        ),
        ("SELECT * FROM cars ⟨UNION⟩ SELECT 1", "subscribe to both"),
        ("⟨WITH⟩ a AS (SELECT 1) SELECT * FROM a", "WITH is not supported"),
        ("⟨CREATE⟩ VIEW a AS SELECT 1", "only SELECT is a query"),
        ("⟨INSERT⟩ INTO cars VALUES (1)", "publish with POST"),
        ("SELECT max(speed) ⟨OVER⟩ (PARTITION BY car) FROM cars", "window functions (OVER)"),
        ("SELECT window_start FROM ⟨session⟩(cars, 5s) GROUP BY window_start", "use tumble or hop"),
        ("SELECT * FROM cars EMIT ⟨PERIODIC⟩ 1s", "EMIT PERIODIC needs groups: remove it"),
        (
            "SELECT count() FROM tumble(cars, 1s) GROUP BY window_start EMIT ⟨PERIODIC⟩",
            "EMIT PERIODIC is for groups without windows: write EMIT AFTER WINDOW CLOSE",
        ),
        ("SELECT count() FROM cars EMIT PERIODIC ⟨199ms⟩", "write EMIT PERIODIC 1s, with 200ms"),
        ("SELECT count() FROM cars EMIT PERIODIC ⟨often⟩", "write EMIT PERIODIC 1s, with 200ms"),
        ("SELECT count() FROM cars EMIT PERIODIC 1s ⟨LIMIT⟩ 5", "write EMIT PERIODIC 1s"),
        (
            "SELECT count() FROM cars ⟨EMIT⟩ AFTER WINDOW CLOSE",
            "needs a window: write EMIT PERIODIC, or FROM tumble(topic, 1s)",
        ),
        (
            "SELECT car, count() FROM cars GROUP BY car ORDER BY ⟨car⟩",
            "ORDER BY needs a window: remove it",
        ),
        ("SELECT car, ⟨gears⟩, max(speed) FROM cars GROUP BY car", "gears is neither in GROUP BY"),
        ("SELECT * FROM ⟨cars⟩ GROUP BY car", "SELECT * is not allowed in a query with groups"),
        ("SELECT * FROM cars EMIT ⟨CHANGELOG⟩", "CHANGELOG is not supported"),
        ("SELECT * FROM cars EMIT ⟨ON⟩ WINDOW CLOSE", "write EMIT AFTER WINDOW CLOSE"),
        ("SELECT * FROM cars EMIT ⟨FINAL⟩", "write EMIT AFTER WINDOW CLOSE"),
        ("SELECT * FROM cars EMIT ⟨CHANGES⟩ LIMIT 5", "EMIT CHANGES takes no further words"),
        (
            "SELECT count() FROM tumble(cars, 1s) GROUP BY window_start EMIT ⟨CHANGES⟩",
            "EMIT CHANGES would emit each change of a window",
        ),
        (
            "SELECT ⟨my_function(speed)⟩ FROM cars",
            "there is no function my_function: there are abs,",
        ),
    ] {
        check(query, says);
    }
}

#[test]
fn expressions_that_need_a_window_say_so() {
    for (query, says) in [
        (
            "SELECT ⟨max(speed)⟩ FROM tumble(cars, 1s)",
            "write GROUP BY window_start, or name the topic alone after FROM",
        ),
        ("SELECT car, max(speed) FROM tumble(cars, 1s) GROUP BY ⟨car⟩", "GROUP BY needs a window"),
        ("SELECT ⟨window_start⟩ FROM cars", "there is no window"),
        ("SELECT * FROM cars ⟨EMIT⟩ AFTER WINDOW CLOSE", "EMIT needs a window"),
        ("SELECT * FROM cars WHERE ⟨max(speed)⟩ > 1", "max is an aggregate"),
        ("SELECT * FROM tumble(cars, 1s) WHERE ⟨window_start⟩ > time", "WHERE applies to events"),
        (
            "SELECT ⟨car⟩ FROM tumble(cars, 1s) GROUP BY window_start",
            "car is neither in GROUP BY nor in an aggregate",
        ),
        ("SELECT * FROM tumble(⟨cars⟩, 1s) GROUP BY window_start", "SELECT * is not allowed"),
    ] {
        check(query, says);
    }
}

#[test]
fn an_order_that_rows_do_not_have_is_refused() {
    for order in [
        "⟨window_start⟩ DESC",
        "⟨car⟩",
        "⟨car⟩, window_start",
        "window_start, ⟨gears⟩",
        "window_start, ⟨car⟩ NULLS LAST",
        "window_start, ⟨car⟩ DESC",
        "⟨count(*)⟩ DESC",
        "⟨3⟩ DESC",
        "⟨fast⟩",
    ] {
        let query = format!(
            "SELECT window_start, car, count(*) AS n, max(speed) AS fast FROM tumble(cars, 1s) GROUP BY window_start, car, gears ORDER BY {order}"
        );
        check(&query, "rows do not have this order: write ORDER BY window_start or remove it");
    }
    let grouped = "SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start";
    check(&format!("{grouped} ORDER BY ⟨missing⟩"), "there is no column missing");
    check(&format!("{grouped} ORDER ⟨BY⟩"), "something is missing");
    check(&format!("{grouped} EMIT AFTER WINDOW CLOSE ⟨ORDER⟩ BY window_start"), "is not expected");
}

#[test]
fn numbers_of_results_are_checked() {
    for (query, says) in [
        (
            "SELECT window_start, car FROM tumble(cars, 1s) GROUP BY 1, ⟨3⟩",
            "there is no result 3: write a number from 1 to 2",
        ),
        ("SELECT window_start FROM tumble(cars, 1s) GROUP BY ⟨0⟩", "there is no result 0"),
        ("SELECT window_start FROM tumble(cars, 1s) GROUP BY ⟨1.5⟩", "there is no result 1.5"),
        (
            "SELECT window_start, 1 + max(speed) FROM tumble(cars, 1s) GROUP BY 1, ⟨2⟩",
            "result 2 is an aggregate: group by other results, this is 1 + max(speed)",
        ),
        ("SELECT * FROM tumble(cars, 1s) GROUP BY ⟨1⟩", "result 1 is *"),
        ("SELECT ⟨car⟩, count(*) FROM tumble(cars, 1s) GROUP BY 1", "GROUP BY needs a window"),
    ] {
        check(query, says);
    }
}

#[test]
fn windows_of_other_systems_are_checked() {
    for (query, says) in [
        ("SELECT * FROM TABLE(⟨cars⟩)", "TABLE(…) needs a window"),
        ("SELECT * FROM TABLE(⟨session⟩(TABLE cars, DESCRIPTOR(time), 1s))", "use tumble or hop"),
        ("SELECT * FROM TABLE(tumble(cars, 1s) ⟨AS⟩ c)", "close the bracket of TABLE("),
        (
            "SELECT * FROM TUMBLE(DATA => TABLE cars, TIMECOL => DESCRIPTOR(time), ⟨OFFSET⟩ => 1s, SIZE => 1s)",
            "windows begin at whole multiples of their step",
        ),
        (
            "SELECT * FROM TUMBLE(TABLE cars, ⟨SLIDE⟩ => 1s, SIZE => 1s)",
            "write tumble(topic, size)",
        ),
        ("SELECT * FROM TUMBLE(TABLE cars, SIZE => ⟨car⟩)", "write tumble(topic, size)"),
        (
            "SELECT * FROM TUMBLE(TABLE cars, SIZE => ⟨0s⟩)",
            "this length of a window is not supported",
        ),
        ("SELECT * FROM ⟨TUMBLE(TABLE cars, 1s, SIZE => 1s)⟩", "write tumble(topic, size)"),
        ("SELECT * FROM ⟨TUMBLE(SIZE => 1s)⟩", "write tumble(topic, size)"),
    ] {
        check(query, says);
    }
}

#[test]
fn names_and_types_are_checked() {
    for (query, says) in [
        ("SELECT ⟨sped⟩ FROM cars", "there is no column sped: there are car, speed, gears"),
        ("SELECT\n  car,\n  ⟨x.speed⟩\nFROM cars", "x.speed is not a column: write speed"),
        ("SELECT * FROM cars WHERE ⟨speed⟩", "WHERE needs a condition, and this is a double"),
        ("SELECT * FROM cars WHERE ⟨car > 5⟩", "a string and an int cannot be compared"),
        ("SELECT * FROM cars WHERE ⟨time > 'yesterday'⟩", "this is not a time"),
        ("SELECT ⟨time + 5⟩ FROM cars", "this operation is not supported for times"),
        ("SELECT ⟨car + 5⟩ FROM cars", "a number is needed here, and this is a string"),
        ("SELECT * FROM cars WHERE ⟨more = 1⟩", "JSON and an int cannot be compared: cast"),
        (
            "SELECT ⟨lower(speed)⟩ FROM cars",
            "no function lower(double) exists: call it as lower(string)",
        ),
        ("SELECT ⟨date_trunc('century', time)⟩ FROM cars", "write one of second, minute"),
        (
            "SELECT CASE WHEN locked THEN 1 ELSE ⟨'x'⟩ END FROM cars",
            "the results of CASE need one type",
        ),
        (
            "SELECT ⟨sum(car)⟩ FROM tumble(cars, 1s) GROUP BY window_start",
            "the argument is a string: call this as sum(number)",
        ),
        ("SELECT CAST(⟨time⟩ AS DOUBLE) FROM cars", "a time cannot be cast to DOUBLE"),
        ("SELECT CAST(⟨car⟩ AS UUID) FROM cars", "there is no type UUID"),
        ("SELECT car, ⟨gears⟩ AS car FROM cars", "two results are named car"),
        ("SELECT * FROM tumble(cars, ⟨car⟩, 1s)", "car is not a time: declare it as one"),
        (
            "SELECT * FROM tumble(cars, ⟨gears + 1⟩, 1s)",
            "cast it, as in CAST(gears + 1 AS TIMESTAMP)",
        ),
        ("SELECT * FROM tumble(cars, DESCRIPTOR(⟨missing⟩), 1s)", "there is no column missing"),
        ("SELECT * FROM tumble(cars, ⟨now(⟩), 1s)", "use the events' own time"),
        (
            "SELECT * FROM tumble(cars, TIMESTAMP ⟨'2022-07-13T21:04:08Z'⟩, 1s)",
            "the same for all events",
        ),
        ("SELECT * FROM tumble(cars, time, ⟨car⟩, 1s)", "write tumble(topic, size)"),
        ("SELECT * FROM ⟨hop(cars, 1s, 90s)⟩", "1 to 64 times its step"),
        ("SELECT * FROM ⟨tumble(cars, 1s, 2s)⟩", "write tumble(topic, size)"),
        ("SELECT * FROM tumble(cars, ⟨INTERVAL 1 month⟩)", "this is not an interval"),
    ] {
        check(query, says);
    }
}

#[test]
fn malformed_queries_are_refused_with_the_right_form() {
    for (query, says) in [
        ("⟨⟩", "the query is empty: a query is SELECT"),
        ("⟨hello⟩ world", "hello is not expected here: a query is SELECT"),
        ("SELECT car⟨⟩", "FROM is missing"),
        ("SELECT max⟨(⟩speed FROM cars", "( is not closed"),
        ("SELECT round⟨(⟩abs(speed) FROM cars", "( is not closed"),
        ("SELECT round(abs⟨(⟩speed FROM cars", "( is not closed"),
        ("SELECT car FROM tumble⟨(⟩cars, 1s WHERE (speed > 5)", "( is not closed"),
        ("SELECT car FROM cars WHERE ⟨(⟩speed > 5", "( is not closed"),
        ("SELECT abs⟨(⟩speed FROM cars WHERE gears > 5)", "FROM is inside this bracket"),
        ("SELECT extract(hour FROM time) IS DISTINCT FROM 5⟨⟩", "FROM is missing"),
        ("SELECT abs(speed⟨]⟩ FROM cars", "] closes no bracket"),
        ("SELECT abs(speed)⟨)⟩ FROM cars", ") closes no bracket"),
        (
            "SELECT car FROM cars WHERE car LIKE ⟨'abc!'⟩ ESCAPE '!'",
            "ends with the character of ESCAPE",
        ),
        ("SELECT car FROM cars WHERE car LIKE 'abc' ESCAPE ⟨'!!'⟩", "ESCAPE takes one character"),
        ("SELECT ⟨,⟩ FROM cars", "something is missing before it"),
        ("SELECT car⟨,⟩ FROM cars", "something is missing"),
        ("SELECT car FROM cars ⟨WHERE⟩", "something is missing"),
        ("SELECT speed *⟨⟩ FROM cars", "Expected: an expression"),
        ("SELECT car FROM cars WHERE speed > 5 ⟨6⟩", "6 is not expected here"),
        ("SELECT car FROM cars HAVING true ⟨WHERE⟩ true", "WHERE is not expected here"),
        ("SELECT car FROM ⟨'cars'⟩", "FROM needs a topic"),
        ("SELECT car FROM matches⟨/⟩8", "needs quotes: write \"a/b\""),
        ("SELECT ⟨⟩'", "this is not SQL"),
    ] {
        check(query, says);
    }
}

#[test]
fn windows_that_cannot_all_be_open_are_refused() {
    for (query, says) in [
        (
            "SELECT count(*) FROM tumble(cars, 1s) GROUP BY window_start ⟨EMIT⟩ AFTER WINDOW CLOSE WITH DELAY 40m",
            "2402 windows would be open at a time, with one every 1s and a delay of 40m, and the limit is 1000: write a shorter delay",
        ),
        (
            "SELECT count(*) FROM hop(cars, 1s, 60s) GROUP BY window_start ⟨EMIT⟩ AFTER WINDOW CLOSE WITH DELAY 940s",
            "1001 windows",
        ),
    ] {
        check(query, says);
    }
    let query = "SELECT count(*) FROM hop(cars, 1s, 60s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 939s";
    Query::parse(query).and_then(|query| query.plan(&columns(CARS))).expect("1000 windows");
}

#[test]
fn oversized_queries_are_refused() {
    let deep = format!("SELECT {}1{} FROM cars", "(".repeat(30), ")".repeat(30));
    assert!(error(&deep).message.contains("nested more than 24 times"));
    let long = format!("SELECT '{}' FROM cars", "x".repeat(5000));
    assert!(error(&long).message.contains("longer than 4096 characters"));
    let wide = format!("SELECT gears{} FROM cars", " + gears".repeat(400));
    assert!(error(&wide).message.contains("more than 100 operators"));
    let terms = ["gears"; 90].join(" + ");
    let all: Vec<String> = (0..5).map(|number| format!("{terms} AS a{number}")).collect();
    assert!(
        error(&format!("SELECT {} FROM cars", all.join(", "))).message.contains("the limit is 400")
    );
    let many: Vec<String> = (0..300).map(|number| format!("1 AS a{number}")).collect();
    assert!(
        error(&format!("SELECT {} FROM cars", many.join(",")))
            .message
            .contains("256 columns at most")
    );
}

#[test]
fn the_deepest_allowed_nesting_is_read_in_time() {
    for (open, close) in [
        ("(", ")"),
        ("abs(", ")"),
        ("CASE WHEN true THEN ", " END"),
        ("- (", ")"),
        ("CAST(", " AS INT)"),
        ("1 IN (", ")"),
        ("CASE ", " WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 3 THEN 3 END"),
    ] {
        assert_growth(open, &[3, 6, 12, 24], SIZE_DOUBLES, |depth| {
            let text = format!("SELECT {}1{} FROM cars", open.repeat(depth), close.repeat(depth));
            let _ = Query::parse(&text).and_then(|query| query.plan(&columns(CARS)));
        });
    }
}

#[test]
fn queries_that_grow_when_they_are_read_are_refused_in_time() {
    let between = |size: usize| {
        let between = " BETWEEN 1 AND 2 BETWEEN TRUE AND TRUE".repeat(size);
        format!("SELECT gears{between} FROM cars")
    };
    let aliases = |size: usize| {
        let sum = vec!["gears"; 4 * size].join(" + ");
        let names = vec!["a"; 60 * size].join(",");
        format!(
            "SELECT {sum} AS a, max(speed) FROM tumble(cars, 1s) GROUP BY window_start, gears HAVING coalesce({names}) > 1"
        )
    };
    let constants = |size: usize| {
        let (from, to) = ("a".repeat(40 * size), "b".repeat(40 * size));
        let all = vec!["a"; 12 * size].join(",");
        format!("SELECT replace('{from}', 'a', '{to}') AS a, concat({all}) FROM cars")
    };
    let texts: [&dyn Fn(usize) -> String; 3] = [&between, &aliases, &constants];
    for text in texts {
        assert_growth(&text(1), &[3, 6, 12, 25], SIZE_DOUBLES, |size| {
            let _ = Query::parse(&text(size)).and_then(|query| query.plan(&columns(CARS)));
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_or_takes_long(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60), text in ".{0,60}", at in 0..60_usize,
    ) {
        let timer = CpuTimer::start();
        Query::parse("SELECT car, speed + 1 FROM cars").and_then(|query| query.explain(&columns(CARS))).unwrap();
        let plain = timer.used().max(CpuTimer::SHORTEST);
        let mut words: Vec<&str> = words;
        words.insert(at.min(words.len()), &text);
        for text in [words.join(" "), format!("SELECT {} FROM cars", words.join(" ")), text.clone()] {
            let timer = CpuTimer::start();
            let found = Query::parse(&text).and_then(|query| query.explain(&columns(CARS)));
            if let Err(QueryError { line, column, length, .. }) = found {
                prop_assert!(line >= 1 && column >= 1 && length >= 1);
            }
            prop_assert!(timer.used() < plain * HARDER_THAN_PLAIN, "{}", text);
        }
    }
}

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "EMIT",
    "AFTER",
    "WINDOW",
    "CLOSE",
    "WITH",
    "DELAY",
    "AND",
    "OR",
    "NOT",
    "IS",
    "NULL",
    "IN",
    "(",
    ")",
    "((",
    "))",
    "[",
    "]",
    ",",
    "*",
    "+",
    "-",
    "/",
    "||",
    "=",
    "<",
    ">=",
    "cars",
    "car",
    "speed",
    "time",
    "window_start",
    "tumble(cars, 1s)",
    "hop(cars, 1s, 2s)",
    "max(",
    "count(*)",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "BETWEEN",
    "LIKE",
    "'x'",
    "'",
    "\"",
    "1",
    "2.5",
    "1e999",
    "INTERVAL",
    "1s",
    "SECOND",
    "CAST(",
    "AS",
    "DOUBLE",
    "::",
    "extract(",
    "day",
    "coalesce(",
    "date_trunc(",
    "--",
    "/*",
    ";",
    "EXPLAIN",
    "DISTINCT",
    ".",
    "a.b",
    "TIMESTAMP",
    "substring(",
    "trim(",
    "ARRAY[",
    "{",
    "}",
    "x ->",
    "AT TIME ZONE",
    "ORDER BY",
    "TABLE(",
    "SIZE =>",
    "EMIT CHANGES",
    "GROUP BY 1",
    "->> 'a'",
    "j.a.b",
    "count()",
    "DIV",
];

#[test]
fn operators_and_functions_of_other_systems_are_refused_by_name() {
    for (query, says) in [
        ("SELECT gears ⟨DIV⟩ 2 FROM cars", "the operator DIV is not supported: write /"),
        ("SELECT gears ⟨div⟩ 2 FROM cars", "the operator DIV is not supported: write /"),
        ("SELECT gears ⟨<<⟩ 2 FROM cars", "the operator << is not supported: write *"),
        (
            "SELECT * FROM cars WHERE car ⟨GLOB⟩ 'a*'",
            "the operator GLOB is not supported: write LIKE",
        ),
        ("SELECT * FROM cars WHERE car ⟨MATCH⟩ 'a*'", "the operator MATCH is not supported"),
        ("SELECT * FROM cars WHERE car ⟨@⟩ 'a'", "the operator @ is not supported"),
        ("SELECT * FROM cars WHERE ⟨car ~ 'a'⟩", "the operator ~ is not supported: docs"),
        (
            "SELECT * FROM cars WHERE ⟨car RLIKE 'a'⟩",
            "a regular expression is not supported: use LIKE",
        ),
        ("SELECT * FROM cars WHERE ⟨car SIMILAR TO 'a'⟩", "SIMILAR TO is not supported: use LIKE"),
        ("SELECT * FROM cars WHERE ⟨locked XOR true⟩", "the operator XOR is not supported"),
        ("SELECT ⟨gears ^ 2⟩ FROM cars", "the operator ^ is not supported"),
        ("SELECT * FROM cars WHERE ⟨gears = ANY(1⟩)", "ANY or ALL is not supported: use IN"),
        (
            "SELECT ⟨time AT TIME ZONE 'UTC'⟩ AS a FROM cars",
            "AT TIME ZONE is not supported: add an interval to the time in UTC",
        ),
        ("SELECT ⟨median_of(speed)⟩ FROM cars", "and the aggregates count, sum, avg,"),
        (
            "SELECT ⟨stddev(speed)⟩ FROM tumble(cars, 1s) GROUP BY window_start",
            "there is no function stddev: select",
        ),
        (
            "SELECT count(*) FROM cars GROUP BY ⟨tumble(time, 1s)⟩",
            "write it in FROM, as in FROM tumble(topic, 1s)",
        ),
        ("SELECT car FROM cars ⟨WINDOW⟩ TUMBLING (SIZE 1s)", "a window comes with the topic"),
        ("SELECT ⟨cars.*⟩ FROM cars", "* has no prefix here: write SELECT * alone"),
    ] {
        check(query, says);
    }
    let found = Query::parse("SELECT * FROM tumble(cars, missing, 1s)").unwrap();
    let found = found.plan(&columns(&["car:string"])).unwrap_err();
    assert!(
        found
            .message
            .ends_with("no column missing and no time column: declare one, as in time:time")
    );
}

/// sqlparser quotes its own types in some messages. No message shows them.
#[test]
fn no_message_shows_how_the_parser_is_made() {
    let operators = [
        "DIV",
        "XOR",
        "GLOB",
        "MATCH",
        "RLIKE",
        "REGEXP",
        "SIMILAR TO",
        "MEMBER OF",
        "OVERLAPS",
        "OPERATOR",
        "COLLATE",
        "NOTNULL",
        "ISNULL",
        "AT TIME ZONE",
        "AT",
        "ESCAPE",
        "NOT",
        "IS",
        "IS NOT",
        "IS JSON",
        "IN",
        "NOT NULL",
        "BETWEEN",
        "^",
        "&",
        "|",
        "#",
        "<<",
        ">>",
        "==",
        "<=>",
        "~",
        "!~",
        "~*",
        "@",
        "@>",
        "<@",
        "?",
        "//",
        ":=",
        ":",
        "**",
        "!",
        "!!",
        "^@",
        "&&",
        "||/",
        "=>",
        "->",
        "->>",
        "#>",
        "[",
        "::",
        ".",
        "..",
        "\\",
        "$1",
        "%%",
        "<->",
    ];
    for operator in operators {
        for behind in ["2", "'a'", "car", "(1)", "(1, 2)", "", "ANY(1)", "]", "INT"] {
            let query = format!("SELECT gears {operator} {behind} FROM cars");
            let planned =
                Query::parse(&query).and_then(|query| query.plan(&columns(CARS)).map(drop));
            let said = planned.err().map_or(String::new(), |error| error.message);
            for internal in ["Word(", "{ ", "infix", "Some(", "::", "Internal", "token"] {
                assert!(!said.contains(internal), "{query}: {said}");
            }
            assert!(said.is_empty() || said.contains(": "), "{query}: {said}");
        }
    }
}
