//! Checks that common spellings mean the same query.

use thalweg_query::Query;

use crate::running::{check, columns};

const COLUMNS: &[&str] = &["time:time", "car:string", "speed:double"];
const ROWS: &[&str] = &[
    r#"["2022-07-13T21:09:39.5Z","b",39]"#,
    r#"["2022-07-13T21:09:40Z","b",12.5]"#,
    r#"["2022-07-13T21:09:40.5Z","a",49.5]"#,
    r#"["2022-07-13T21:09:41Z",null,7]"#,
    r#"["2022-07-13T21:09:41Z","a",8]"#,
];
const MOST: [&str; 3] = [
    r#"["2022-07-13T21:09:39Z",39.0]"#,
    r#"["2022-07-13T21:09:40Z",49.5]"#,
    r#"["2022-07-13T21:09:41Z",8.0]"#,
];

#[test]
fn windows_of_other_systems() {
    for from in [
        "tumble(cars, time, INTERVAL 1 SECOND)",
        "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(time), INTERVAL '1' SECOND))",
        "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(time), INTERVAL '1' SECONDS)) AS c",
        "table(hop(table cars, descriptor(time), interval '1' second, interval '1' second))",
        "TUMBLE(DATA => TABLE cars, TIMECOL => DESCRIPTOR(time), SIZE => INTERVAL '1' SECOND)",
        "TABLE(HOP(SIZE => INTERVAL '1' SECOND, SLIDE => INTERVAL '1' SECOND, TIMECOL => DESCRIPTOR(time), DATA => TABLE cars))",
    ] {
        let query = format!("SELECT window_start, max(speed) FROM {from} GROUP BY window_start");
        check(&query, COLUMNS, ROWS, &MOST);
    }
}

#[test]
fn a_step_comes_before_a_size_unless_they_have_names() {
    let canonical =
        |from: &str| Query::parse(&format!("SELECT * FROM {from}")).unwrap().canonical();
    for from in [
        "TABLE(HOP(TABLE cars, DESCRIPTOR(time), INTERVAL '1' SECOND, INTERVAL '5' SECOND))",
        "HOP(DATA => TABLE cars, TIMECOL => DESCRIPTOR(time), SIZE => INTERVAL '5' SECOND, SLIDE => INTERVAL '1' SECOND)",
        "TABLE(HOP(TABLE cars, DESCRIPTOR(time), SIZE => 5s, SLIDE => 1s))",
    ] {
        assert_eq!(canonical(from), "SELECT * FROM hop(cars, time, 1s, 5s)", "{from}");
    }
}

#[test]
fn rows_are_counted_without_an_argument() {
    for count in ["count(*)", "count()", "COUNT( )"] {
        let query = format!(
            "SELECT {count} AS n FROM tumble(cars, 1s) GROUP BY window_start HAVING {count} > 1"
        );
        check(&query, COLUMNS, ROWS, &["[2]", "[2]"]);
    }
    let query =
        "SELECT count() FILTER (WHERE speed > 40) AS n FROM tumble(cars, 1s) GROUP BY window_start";
    check(query, COLUMNS, ROWS, &["[0]", "[1]", "[0]"]);
}

#[test]
fn groups_are_numbers_of_results() {
    let plain = "SELECT upper(car) AS c, window_start, max(speed) FROM tumble(cars, 1s) GROUP BY window_start, upper(car)";
    let rows = [
        r#"["B","2022-07-13T21:09:39Z",39.0]"#,
        r#"["A","2022-07-13T21:09:40Z",49.5]"#,
        r#"["B","2022-07-13T21:09:40Z",12.5]"#,
        r#"[null,"2022-07-13T21:09:41Z",7.0]"#,
        r#"["A","2022-07-13T21:09:41Z",8.0]"#,
    ];
    for by in ["window_start, upper(car)", "2, 1", "window_start, 1", "2, c", "1, 2"] {
        let query = format!(
            "SELECT upper(car) AS c, window_start, max(speed) FROM tumble(cars, 1s) GROUP BY {by}"
        );
        check(&query, COLUMNS, ROWS, &rows);
    }
    let canonical = |text: &str| Query::parse(text).unwrap().canonical();
    let numbers = plain.replace("GROUP BY window_start, upper(car)", "GROUP BY 2, 1");
    assert_eq!(canonical(&numbers), canonical(plain));
}

#[test]
fn an_order_that_rows_have_anyway_is_accepted() {
    let query = "SELECT window_start AS at, max(speed) FROM tumble(cars, 1s) GROUP BY window_start";
    for order in [
        "window_start",
        "window_start ASC",
        "window_end",
        "window_start NULLS LAST",
        "at",
        "1",
        "window_start, window_end",
    ] {
        check(&format!("{query} ORDER BY {order}"), COLUMNS, ROWS, &MOST);
        check(&format!("{query} ORDER BY {order} EMIT AFTER WINDOW CLOSE"), COLUMNS, ROWS, &MOST);
    }
    // The order has no effect: both queries share a topic.
    let identity = |text: &str| Query::parse(text).unwrap().identity();
    assert_eq!(identity(&format!("{query} ORDER BY window_start")), identity(query));
    let query = "SELECT window_start, car, speed > 9 AS fast, count() FROM tumble(cars, 1s) GROUP BY car, window_start, speed > 9";
    for order in ["window_start, car", "1, 2 NULLS FIRST", "window_end, car, window_start, fast"] {
        let query = format!("{query} ORDER BY {order}");
        Query::parse(&query).and_then(|parsed| parsed.plan(&columns(COLUMNS))).expect(&query);
    }
}

#[test]
fn changes_are_the_rows_of_a_query_without_groups() {
    let rows = [r#"["b"]"#, r#"["a"]"#];
    for emit in ["", " EMIT CHANGES", " emit changes;"] {
        let query = format!("SELECT car FROM cars WHERE speed > 20{emit}");
        check(&query, COLUMNS, ROWS, &rows);
        let query = format!("SELECT car FROM tumble(cars, 1s) WHERE speed > 20{emit}");
        check(&query, COLUMNS, ROWS, &rows);
    }
}
