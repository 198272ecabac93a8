//! Tests `EXPLAIN`, and the canonical form of queries with the same meaning.

use thalweg_query::Query;

use crate::running::columns;

fn explained(query: &str) -> String {
    let query = Query::parse(query).expect("a query");
    assert!(query.is_explain());
    query.explain(&columns(&["speed:double", "car:string", "time:time"])).expect("a plan")
}

#[test]
fn an_explanation_describes_the_query() {
    let cases = [
        "EXPLAIN SELECT * FROM cars",
        "EXPLAIN SELECT car, speed * 2 double FROM \"a/cars\" WHERE speed > 100",
        "EXPLAIN SELECT window_start, car, max(speed) AS speed, count(*) FROM hop(cars, 1s, 1m) WHERE car LIKE 'c%' \
         GROUP BY window_start, car HAVING count(*) > 2 EMIT AFTER WATERMARK AND DELAY 2s",
        "EXPLAIN SELECT max(speed) FROM tumble(cars, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 0s AND TIMEOUT 1m",
        "EXPLAIN SELECT car, max(speed) FROM cars GROUP BY car HAVING count(*) > 2 EMIT PERIODIC 1s",
        "EXPLAIN SELECT count(*) FROM cars EMIT CHANGES",
    ];
    let said: Vec<String> = cases.into_iter().map(explained).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn equal_queries_have_one_form() {
    let canonical = |text: &str| Query::parse(text).expect(text).canonical();
    let forms = [
        "select window_start,max(speed)  s from tumble(cars,INTERVAL 1 s) group by window_start",
        "SELECT window_start, max(speed) AS s FROM tumble(\"cars\", 1000ms) GROUP BY window_start;",
        "SELECT window_start, max(speed) s FROM TUMBLE(TABLE cars, INTERVAL '1 second') GROUP BY window_start -- so",
    ];
    for form in forms {
        assert_eq!(
            canonical(form),
            "SELECT window_start, max(speed) AS s FROM tumble(cars, 1s) GROUP BY window_start"
        );
    }
    // It is a query, too.
    let all = [
        "SELECT * FROM \"a/b\" WHERE x LIKE 'a''b' AND t > now() - 5s",
        "SELECT x FROM hop(\"a/b\", \"two words\", 1s, 3s) AS c EMIT AFTER WINDOW CLOSE AND TIMEOUT 5s",
    ];
    for text in all {
        let once = canonical(text);
        assert_eq!(canonical(&once), once);
    }
    assert_ne!(canonical("SELECT a FROM t"), canonical("SELECT a b FROM t"));
    let identity = |text: &str| Query::parse(text).expect(text).identity();
    let texts =
        ["'a''b'", "'a''''b'", "'a\\''b'"].map(|text| format!("SELECT a FROM t WHERE s = {text}"));
    for (index, text) in texts.iter().enumerate() {
        assert_eq!(identity(text), identity(&text.replace("SELECT", "select ")));
        assert!(texts[..index].iter().all(|other| identity(other) != identity(text)), "{text}");
    }
}
