//! Checks members of nested JSON.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Counts, Failure, Query, Running};

use crate::running::{Made, PUBLISHED_MS, check, close_all, columns, made};

const COLUMNS: &[&str] = &["t:time", "j:json", "i:int", "s:string"];
const ROW: &str = r#"{"t":"2022-07-13T21:04:08Z","i":7,"s":"x","j":{"a":{"b":7,"c":"x","n":null,"f":2.5,"q":"7","l":[1,{"z":2}]},"s":"q\"t","flag":true,"at":"2022-07-13T21:04:08Z","id":9007199254740993,"from":1,"two words":2,"d":1,"d":2}}"#;

fn value(expression: &str, expected: &str) {
    check(
        &format!("SELECT {expression} AS r FROM t"),
        COLUMNS,
        &[ROW],
        &[&format!("[{expected}]")],
    );
}

#[test]
fn members_are_json_and_texts() {
    for (expression, expected) in [
        ("j.a.b", "7"),
        ("t.j.a.c", "\"x\""),
        ("j->'a'->'b'", "7"),
        ("j.a->'f'", "2.5"),
        ("j->'s'", r#""q\"t""#),
        ("j->>'s'", r#""q\"t""#),
        ("length(j->>'s')", "3"),
        (
            "j->>'a'",
            r#""{\"b\":7,\"c\":\"x\",\"n\":null,\"f\":2.5,\"q\":\"7\",\"l\":[1,{\"z\":2}]}""#,
        ),
        ("j->'a'->>'f'", "\"2.5\""),
        ("j->>'flag'", "\"true\""),
        ("j.a.l", r#"[1,{"z":2}]"#),
        ("j->'a'->'l'->0", "1"),
        ("(j.a.l->1)->>'z'", "\"2\""),
        ("j.a.l->2", "null"),
        ("j->0", "null"),
        ("j.from", "1"),
        ("j.\"two words\"", "2"),
        ("j->'two words'", "2"),
        // The last of several counts.
        ("j.d", "2"),
        // A member that is null or missing is NULL, and so are its members.
        ("j.a.n", "null"),
        ("j.a.n IS NULL", "true"),
        ("j->'a'->>'n'", "null"),
        ("j.x.y.z", "null"),
        ("j.a.b.c", "null"),
        ("j.A", "null"),
    ] {
        value(expression, expected);
    }
}

#[test]
fn an_arrow_binds_more_than_all_operators() {
    for (expression, expected) in [
        ("j->'a'->>'q'::INT + 1", "8"),
        ("j->>'flag' = 'true' AND j->>'s' <> 'x'", "true"),
        ("j->'a'->>'n' IS NULL", "true"),
        ("j->>'s' || j->'a'->>'c'", r#""q\"tx""#),
        ("-j->'a'->'b'", "-7.0"),
        ("NOT j->'flag'", "false"),
        ("j->>'s' LIKE 'q%'", "true"),
        ("j->'a'->>'b' IN ('7', '8')", "true"),
        ("(j->>'at')::TIMESTAMP + 1s", "\"2022-07-13T21:04:09Z\""),
    ] {
        value(expression, expected);
    }
}

#[test]
fn a_member_is_read_as_the_type_with_which_it_is_computed() {
    for (expression, expected) in [
        ("j.a.b > 5", "true"),
        ("2.4 < j.a.f", "true"),
        ("j.a.f > 2", "true"),
        ("j.a.b = i", "true"),
        ("j.a.q = 7", "true"),
        ("j.a.c = 'x'", "true"),
        ("j.a.c = s", "true"),
        ("j.s = 'q\"t'", "true"),
        ("j.a.b = '7'", "true"),
        ("j.flag", "true"),
        ("j.flag = true", "true"),
        ("j.flag AND true", "true"),
        ("j.at > t - 1s", "true"),
        ("j.at = t", "true"),
        ("j.a.b + 1", "8.0"),
        ("j.a.b BETWEEN 7 AND 7.5", "true"),
        ("j.a.b IN (1, 7)", "true"),
        ("j.a.c LIKE 'x'", "true"),
        ("j.a.x = 7", "null"),
        ("j.a.n = 7", "null"),
        ("CASE j.a.b WHEN 7 THEN 'seven' END", "\"seven\""),
        ("CASE WHEN j.flag THEN 1 END", "1"),
        // Ints are compared exactly.
        ("j.id = 9007199254740993", "true"),
        ("j.id = 9007199254740992", "false"),
        ("CAST(j.a.f AS INT)", "3"),
        ("CAST(j.a.q AS INT)", "7"),
        ("CAST(j.at AS TIMESTAMP)", "\"2022-07-13T21:04:08Z\""),
        ("j.flag::BOOLEAN", "true"),
        ("CAST(j.a.c AS STRING)", r#""\"x\"""#),
        ("lower(j->>'s')", r#""q\"t""#),
    ] {
        value(expression, expected);
    }
}

#[test]
fn a_value_of_another_type_is_null_and_counted() {
    for expression in
        ["j.a.c + 1", "j.a.c > 5", "j.s = t", "j.a.b AND true", "j.a.c::INT", "j.a = 5"]
    {
        let made = one(&format!("SELECT {expression} AS r FROM t"), ROW, Bounds::default());
        assert_eq!((made.0.as_deref(), made.1.without_result), (Ok("[null]"), 1), "{expression}");
    }
    let made = one("SELECT j.x + 1 AS r, j.a.n > 5 AS q FROM t", ROW, Bounds::default());
    assert_eq!((made.0.as_deref(), made.1.without_result), (Ok("[null,null]"), 0));
}

#[test]
fn events_are_filtered_and_grouped_by_members() {
    const EVENTS: [&str; 6] = [
        r#"{"t":"2022-07-13T21:04:08Z","j":{"user":{"id":"b"},"ms":5}}"#,
        r#"{"t":"2022-07-13T21:04:08Z","j":{"user":{"id":"a"},"ms":7}}"#,
        r#"{"t":"2022-07-13T21:04:08Z","j":{"ms":1}}"#,
        r#"{"t":"2022-07-13T21:04:08Z","j":{"user":7,"ms":2}}"#,
        r#"{"t":"2022-07-13T21:04:08Z","j":{"user":{"id":"b"},"ms":2.5}}"#,
        r#"{"t":"2022-07-13T21:04:08Z"}"#,
    ];
    let from = "FROM tumble(t, 1s)";
    check("SELECT j.ms FROM t WHERE j.user.id = 'b'", COLUMNS, &EVENTS, &["[5]", "[2.5]"]);
    for key in ["j->'user'->>'id'", "j.user.id->>'x'", "upper(j.user->>'id')"] {
        let query = format!(
            "SELECT {key} AS k, count(*), sum(j.ms) AS s {from} GROUP BY window_start, {key}"
        );
        let expected: &[&str] = match key {
            "j.user.id->>'x'" => &["[null,6,17.5]"],
            "upper(j.user->>'id')" => &["[null,3,3.0]", "[\"A\",1,7.0]", "[\"B\",2,7.5]"],
            _ => &["[null,3,3.0]", "[\"a\",1,7.0]", "[\"b\",2,7.5]"],
        };
        check(&query, COLUMNS, &EVENTS, expected);
    }
    let query = format!(
        "SELECT j.user.id, avg(j.ms) AS m, count(j.user) AS n {from} GROUP BY window_start, j->'user'->'id' HAVING count(*) > 1"
    );
    check(&query, COLUMNS, &EVENTS, &["[null,1.5,1]", "[\"b\",3.75,2]"]);
    let query = format!(
        "SELECT max(CAST(j.ms AS DOUBLE)) AS m, first(j->'user') AS f, last(j.user) AS l {from} GROUP BY 1 + 0, window_start"
    );
    let query = query.replace("GROUP BY 1 + 0, ", "GROUP BY ");
    check(&query, COLUMNS, &EVENTS, &[r#"[7.0,{"id":"b"},null]"#]);
    // Groups of JSON are groups of its text.
    let numbers = [
        r#"{"j":{"a":1},"t":0}"#,
        r#"{"j":{"a":1.0},"t":0}"#,
        r#"{"j":{"a":"1"},"t":0}"#,
        r#"{"j":{"a":1},"t":0}"#,
    ];
    let query = format!("SELECT j.a, count(*) AS n {from} GROUP BY window_start, j.a");
    check(&query, COLUMNS, &numbers, &["[\"1\",1]", "[1,2]", "[1.0,1]"]);
}

#[test]
fn values_without_members_say_so() {
    for (query, at, says) in [
        ("SELECT i.x FROM t", 8, "i is an int, which has no members: write i alone"),
        ("SELECT t.i.x FROM t", 8, "i is an int, which has no members"),
        ("SELECT i->'x' FROM t", 8, "this is an int, which has no members"),
        ("SELECT j->>'a'->'b' FROM t", 8, "this is a text, which has no members: write ->"),
        ("SELECT j->s FROM t", 11, "an arrow needs the name of one member"),
        ("SELECT j->'$.a' FROM t", 11, "and x->'a'->>'b' for a member of a member"),
        ("SELECT j->1.5 FROM t", 11, "an arrow needs the name of one member"),
        ("SELECT x.a FROM t", 8, "there is no column x: there are t, j, i, s"),
        ("SELECT x.i FROM t", 8, "x.i is not a column: write i"),
        ("SELECT j['a'] FROM t", 8, "a subscript is not supported: write x->0"),
        ("SELECT json_extract(j, '$.a') FROM t", 8, "write x->'member'"),
        ("SELECT lower(j.a) FROM t", 8, "call it as lower(string), with a cast or x->>'member'"),
        ("SELECT j.a = j.b FROM t", 8, "JSON and JSON cannot be compared"),
        (
            "SELECT max(j.a) FROM tumble(t, 1s) GROUP BY window_start",
            8,
            "the argument is JSON: call this as max(value), with a cast",
        ),
        (
            "SELECT count(*) FROM tumble(t, 1s) GROUP BY window_start, j",
            59,
            "GROUP BY does not take JSON: name a member",
        ),
        (
            "SELECT j.a FROM tumble(t, 1s) GROUP BY window_start",
            8,
            "j is neither in GROUP BY nor in an aggregate",
        ),
        ("SELECT * FROM tumble(t, j.at, 1s)", 25, "cast it, as in CAST(j.at AS TIMESTAMP)"),
    ] {
        let found = Query::parse(query).and_then(|query| query.plan(&columns(COLUMNS)).map(drop));
        let found = found.expect_err(query);
        assert!(found.message.contains(says) && found.column == at, "{query}: {found}");
    }
}

/// Runs a query over one event. Returns its row, and its counts.
fn one(query: &str, event: &str, bounds: Bounds) -> (Result<String, Failure>, Counts) {
    let plan = Query::parse(query).and_then(|query| query.plan(&columns(COLUMNS))).expect(query);
    let mut running = Running::new(Arc::new(plan), bounds, Beginning::First);
    let mut made = Made::default();
    let taken = running.take(1, event.as_bytes(), PUBLISHED_MS, 0, &mut made);
    (taken.map(|()| made.rows().join("")), running.counts())
}

#[test]
fn a_member_costs_the_bytes_that_are_searched() {
    let event = |bytes: usize| {
        format!(r#"{{"t":0,"j":{{"x":"{}","a":{{"b":"é\u00e9"}}}}}}"#, "y".repeat(bytes))
    };
    for expression in ["j.a.b", "j->>'a'", "j->'a'->>'b'", "j.missing", "j.a.b = 'x'"] {
        let query = format!("SELECT {expression} AS r FROM t");
        let steps = |bytes: usize| one(&query, &event(bytes), Bounds::default()).1.steps;
        // Reading the event counts its bytes, too.
        assert!(steps(80_000) >= steps(0) + 80_000 / 8 + 80_000 / 64, "{expression}");
        let bounds = Bounds { row_steps: 1000, ..Bounds::default() };
        let (row, _) = one(&query, &event(80_000), bounds);
        assert_eq!(row, Err(Failure::RowSteps(1000)), "{expression}");
    }
    // A member of a long value is read; a long member is NULL in an expression, and passed on alone.
    let long = event(100_000);
    assert_eq!(
        one("SELECT j.a->>'b' AS r FROM t", &long, Bounds::default()).0.unwrap(),
        "[\"éé\"]"
    );
    let (row, counts) = one("SELECT j.x = 'x' AS r FROM t", &long, Bounds::default());
    assert_eq!((row.as_deref(), counts.oversized), (Ok("[null]"), 1));
    let (row, counts) = one("SELECT j.x FROM t", &long, Bounds::default());
    assert_eq!((row.unwrap().len(), counts.oversized), (100_004, 0));
}

#[test]
fn an_inferred_column_may_get_members_later() {
    let query = Query::parse("SELECT i, j.a, j->>'b' AS b FROM t WHERE i > 0").unwrap();
    let events = [
        r#"{"i":1}"#,
        r#"{"i":2,"j":{"a":[1],"b":"x"}}"#,
        r#"{"i":3,"j":7}"#,
        r#"{"i":4,"j":{"b":2}}"#,
    ];
    let plan = query.plan_inferred(&Columns::infer(events[0].as_bytes())).unwrap();
    assert_eq!(plan.absent().collect::<Vec<_>>(), ["j"]);
    let mut running = Running::new(Arc::new(plan), Bounds::default(), Beginning::First);
    let mut made = Made::default();
    for (offset, event) in (1..).zip(events) {
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    }
    close_all(&mut running, &mut made);
    let expected = ["[1,null,null]", "[2,[1],\"x\"]", "[3,null,null]", "[4,null,\"2\"]"];
    assert_eq!(made.rows(), expected);
}

#[test]
fn members_have_one_form() {
    let canonical = |text: &str| Query::parse(text).unwrap().canonical();
    for text in ["SELECT j -> 'a' ->> 'b'::INT FROM t", "SELECT t.j.a.b FROM t WHERE j->0 = 7"] {
        assert_eq!(canonical(&canonical(text)), canonical(text));
        assert_eq!(made(text, COLUMNS, &[ROW]), made(&canonical(text), COLUMNS, &[ROW]));
    }
}
