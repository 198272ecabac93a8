//! Checks `count(DISTINCT x)`.

use thalweg_query::{Bounds, limits::DISTINCT_MAX};

use crate::running::{Made, PUBLISHED_MS, begin, check, close_all};

const COLUMNS: &[&str] =
    &["t:time", "i:int", "d:double", "s:string", "b:bool", "at:time", "j:json"];

const ROWS: [&str; 5] = [
    r#"[0,1,0.0,"a",true,1000,{"id":1}]"#,
    r#"[0,2,-0.0,"b",true,2000,{"id":1.0}]"#,
    r#"[0,1,0.5,"a",null,1000,{"id":"1"}]"#,
    r#"[0,null,null,"",true,null,{"id":null}]"#,
    r#"[0,9007199254740993,9007199254740992,"B",false,"1970-01-01T00:00:01Z",{}]"#,
];

fn count(of: &str, expected: &str) {
    let query = format!("SELECT {of} AS r FROM tumble(t, t, 1s) GROUP BY window_start");
    check(&query, COLUMNS, &ROWS, &[&format!("[{expected}]")]);
}

#[test]
fn equal_values_count_once_and_null_does_not() {
    for (of, expected) in [
        ("count(DISTINCT i)", "3"),
        ("count(distinct d)", "3"),
        ("count(DISTINCT s)", "4"),
        ("count(DISTINCT lower(s))", "3"),
        ("count(DISTINCT b)", "2"),
        ("count(DISTINCT at)", "2"),
        ("count(DISTINCT NULL)", "0"),
        ("count(DISTINCT i % 2)", "2"),
        ("count(DISTINCT i) FILTER (WHERE s <> 'a')", "2"),
        ("count(DISTINCT j.id)", "3"),
        ("count(DISTINCT j->>'id')", "2"),
        ("count(DISTINCT i) + count(i) + count(DISTINCT i)", "10"),
        ("count(DISTINCT concat(i, s))", "4"),
    ] {
        count(of, expected);
    }
}

#[test]
fn each_group_has_its_own_values() {
    let query = "SELECT s, count(DISTINCT i) AS n, count(i) AS m FROM tumble(t, t, 1s) GROUP BY window_start, s HAVING count(DISTINCT i) > 0";
    check(query, COLUMNS, &ROWS, &["[\"B\",1,1]", "[\"a\",1,2]", "[\"b\",1,1]"]);
}

#[test]
fn a_window_with_too_many_values_is_lost_as_a_whole_and_announced() {
    let query =
        "SELECT window_start, count(DISTINCT i) AS n FROM tumble(t, t, 1s) GROUP BY window_start";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut made = Made::default();
    let mut offset = 0;
    for (second, values) in [(0, DISTINCT_MAX), (1, DISTINCT_MAX + 1), (2, 3)] {
        for value in 0..2 * values {
            offset += 1;
            let event = format!("[{},{}]", second * 1000, value % values);
            running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
        }
        let most = DISTINCT_MAX * 100;
        assert!((values..most).contains(&running.held().1) || second == 1, "{:?}", running.held());
    }
    close_all(&mut running, &mut made);
    let full = format!(r#"["1970-01-01T00:00:00Z",{DISTINCT_MAX}]"#);
    assert_eq!(made.rows(), [&*full, r#"["1970-01-01T00:00:02Z",3]"#]);
    assert_eq!(made.0.iter().filter(|(_, row)| row.is_none()).count(), 1);
    let counts = running.counts();
    assert_eq!((counts.full_state, counts.windows_lost), (1, 1));
    assert_eq!(running.held(), (0, 0));
}

#[test]
fn values_count_in_the_memory_of_groups() {
    let query =
        "SELECT s, count(DISTINCT s || i) AS n FROM tumble(t, t, 1s) GROUP BY window_start, s";
    let bounds = Bounds { state_bytes: 100_000, ..Bounds::default() };
    let mut running = begin(query, COLUMNS, bounds);
    let mut made = Made::default();
    let mut held = Vec::new();
    for offset in 1..2000 {
        let event = format!("[0,{offset},null,\"{}\"]", "x".repeat(100));
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
        held.push(running.held().1);
    }
    assert!(held.iter().all(|bytes| *bytes <= 100_000));
    assert!(held.iter().any(|bytes| *bytes > 90_000), "{:?}", held.iter().max());
    assert_eq!(running.counts().full_state, 1);
    close_all(&mut running, &mut made);
    assert_eq!((made.rows().len(), running.held()), (0, (0, 0)));
}
