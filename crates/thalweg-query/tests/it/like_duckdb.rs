//! Checks that results are DuckDB's where the SQL standard leaves a choice. The expected values come from DuckDB 2.0.1.
//! The cases of `differs` are those that docs/reference/sql.md lists as different.

use crate::running::{check, made};

const COLUMNS: &[&str] = &["t:time", "i:int", "d:double", "s:string", "b:bool", "n:int"];
const ROW: &str = r#"["2022-07-13T21:04:08.123Z",7,2.5,"hello",true,null]"#;

fn value(expression: &str, expected: &str) {
    check(
        &format!("SELECT {expression} AS r FROM t"),
        COLUMNS,
        &[ROW],
        &[&format!("[{expected}]")],
    );
}

fn values(expected: &[(&str, &str)]) {
    expected.iter().for_each(|(expression, expected)| value(expression, expected));
}

/// Checks the result of an aggregate over these values.
fn aggregated(function: &str, kind: &str, values: &[&str], expected: &str) {
    let query = format!("SELECT {function}(v) AS r FROM tumble(t, 1s) GROUP BY window_start");
    let rows: Vec<String> =
        values.iter().map(|value| format!(r#"["2022-07-13T21:04:08Z",{value}]"#)).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let columns = ["t:time", &format!("v:{kind}")];
    assert_eq!(made(&query, &columns, &rows).rows(), [format!("[{expected}]")], "{values:?}");
}

#[test]
fn rounding_before_the_decimal_point() {
    values(&[
        ("round(50001, -5)", "100000"),
        ("round(49999, -5)", "0"),
        ("round(-50000, -5)", "-100000"),
        ("round(25, -1)", "30"),
        ("round(9223372036854775807, -18)", "9000000000000000000"),
        ("round(9223372036854775807, -19)", "null"),
        ("round(9223372036854775807, -25)", "0"),
        ("round(50001.0, -5)", "100000.0"),
        ("round(-1250.0, -2)", "-1300.0"),
        ("round(1e300, -299)", "1e300"),
        ("round(1e300, -301)", "0.0"),
        ("round(5.0, 400)", "5.0"),
        ("round(5.0, -400)", "0.0"),
        ("round(2.675, 2)", "2.67"),
        ("round(2.345, 2)", "2.35"),
        ("round(0.285, 2)", "0.28"),
        ("round(0.125, 2)", "0.13"),
        ("round(123456789.123456789, 17)", "123456789.12345679"),
        ("round(-0.4)", "-0.0"),
    ]);
}

#[test]
fn a_date_is_the_beginning_of_its_day() {
    values(&[
        ("CAST(t AS DATE)", "\"2022-07-13T00:00:00Z\""),
        ("t::DATE + INTERVAL 1 HOUR", "\"2022-07-13T01:00:00Z\""),
        ("CAST('2022-07-13 21:04:08' AS DATE)", "\"2022-07-13T00:00:00Z\""),
        ("CAST('1969-12-31 23:59:59.5' AS DATE)", "\"1969-12-31T00:00:00Z\""),
        ("DATE '2022-07-13 21:04:08'", "\"2022-07-13T00:00:00Z\""),
        ("CAST(n AS DATE)", "null"),
        ("CAST('soon' AS DATE)", "null"),
        ("t::DATE = '2022-07-13'", "true"),
    ]);
}

#[test]
fn integers_that_a_type_does_not_hold_are_null() {
    values(&[
        ("CAST(3000000000 AS SMALLINT)", "null"),
        ("CAST(32767 AS SMALLINT)", "32767"),
        ("CAST(32768 AS SMALLINT)", "null"),
        ("CAST(-32768 AS SMALLINT)", "-32768"),
        ("CAST(-32769 AS SMALLINT)", "null"),
        ("CAST(128 AS TINYINT)", "null"),
        ("CAST(-128 AS TINYINT)", "-128"),
        ("CAST(127.4 AS TINYINT)", "127"),
        ("CAST(127.5 AS TINYINT)", "null"),
        ("CAST(-128.5 AS TINYINT)", "-128"),
        ("CAST('127.5' AS TINYINT)", "null"),
        ("CAST(2147483647 AS INT)", "2147483647"),
        ("CAST(2147483648 AS INTEGER)", "null"),
        ("TRY_CAST('2147483648' AS INT)", "null"),
        ("CAST(9223372036854775807 AS BIGINT)", "9223372036854775807"),
        ("CAST(9223372036854775808.0 AS BIGINT)", "null"),
        ("CAST(-9223372036854775808.0 AS BIGINT)", "-9223372036854775808"),
        ("CAST(1e30 AS BIGINT)", "null"),
    ]);
}

#[test]
fn doubles_of_32_bits() {
    values(&[
        ("CAST(0.1 AS REAL)", "0.10000000149011612"),
        ("CAST(16777217 AS FLOAT)", "16777216.0"),
        ("CAST(1e39 AS REAL)", "null"),
        ("CAST(1e39 AS FLOAT(24))", "null"),
        ("CAST(1e39 AS FLOAT(53))", "1e39"),
        ("CAST('1e39' AS REAL)", "null"),
    ]);
}

#[test]
fn doubles_as_integers_have_halves_at_the_even_one() {
    values(&[
        ("CAST(d AS INT)", "2"),
        ("CAST(d + 1 AS INT)", "4"),
        ("CAST(-d AS INT)", "-2"),
        ("CAST(d - 2 AS BIGINT)", "0"),
        ("CAST(2.4999 AS BIGINT)", "2"),
        ("CAST(d + 0.1 AS BIGINT)", "3"),
    ]);
}

#[test]
fn texts_as_numbers() {
    values(&[
        ("CAST('12.5' AS INT)", "13"),
        ("CAST('-2.5' AS BIGINT)", "-3"),
        ("CAST(' 12 ' AS INT)", "12"),
        ("CAST('1e3' AS INT)", "1000"),
        ("CAST('25e-1' AS BIGINT)", "3"),
        ("CAST('12.' AS INT)", "12"),
        ("CAST('.5' AS INT)", "1"),
        ("CAST('.' AS INT)", "null"),
        ("CAST('+5' AS INT)", "5"),
        ("CAST('--5' AS INT)", "null"),
        ("CAST('' AS INT)", "null"),
        ("CAST('1e' AS INT)", "null"),
        ("CAST('9223372036854775808' AS BIGINT)", "null"),
        ("CAST(' 1.5e3 ' AS DOUBLE)", "1500.0"),
        ("CAST('+.5' AS DOUBLE)", "0.5"),
        ("CAST('1e-400' AS DOUBLE)", "0.0"),
        ("CAST('0x10' AS DOUBLE)", "null"),
        ("CAST('1d' AS DOUBLE)", "null"),
    ]);
}

#[test]
fn texts_as_booleans() {
    for (text, expected) in [
        ("TRUE", "true"),
        ("true", "true"),
        ("tRuE", "true"),
        ("t", "true"),
        ("T", "true"),
        ("yes", "true"),
        ("Y", "true"),
        ("1", "true"),
        ("FALSE", "false"),
        ("f", "false"),
        ("No", "false"),
        ("n", "false"),
        ("0", "false"),
        ("on", "null"),
        ("2", "null"),
        ("", "null"),
    ] {
        value(&format!("CAST('{text}' AS BOOLEAN)"), expected);
    }
    values(&[
        ("CAST(2 AS BOOLEAN)", "true"),
        ("CAST(0.5 AS BOOLEAN)", "true"),
        ("CAST(-0.0 AS BOOLEAN)", "false"),
        ("CAST(b AS INT)", "1"),
        ("CAST(b AS DOUBLE)", "1.0"),
        ("CAST(b AS STRING)", "\"true\""),
    ]);
}

#[test]
fn doubles_as_texts() {
    values(&[
        ("CAST(1.0 AS STRING)", "\"1.0\""),
        ("CAST(1e300 AS STRING)", "\"1e+300\""),
        ("CAST(1e15 AS STRING)", "\"1000000000000000.0\""),
        ("CAST(1e16 AS STRING)", "\"1e+16\""),
        ("CAST(123456789012345680.0 AS STRING)", "\"1.2345678901234568e+17\""),
        ("CAST(0.0001 AS STRING)", "\"0.0001\""),
        ("'' || 1e-5", "\"1e-05\""),
        ("concat(-1e-100)", "\"-1e-100\""),
    ]);
}

#[test]
fn sums_of_ints_are_exact() {
    let powers = ["1", "4611686018427387904", "-4611686018427387904"];
    aggregated("avg", "int", &powers, "0.3333333333333333");
    aggregated("sum", "int", &powers, "1");
    let [one, large, small] = powers;
    aggregated("avg", "int", &[large, one, small], "0.3333333333333333");
    aggregated("avg", "int", &["9223372036854775807"; 3], "9.223372036854776e18");
    aggregated("avg", "int", &["9007199254740992", "1"], "4503599627370496.0");
    aggregated("avg", "int", &["null", "null"], "null");
    aggregated("avg", "int", &["null", "3"], "3.0");
    aggregated("avg", "double", &["0.1"; 10], "0.09999999999999999");
    aggregated("sum", "double", &["0.1"; 10], "0.9999999999999999");
    aggregated("sum", "double", &["-0.0", "-0.0"], "0.0");
}

#[test]
fn the_least_integer_is_one() {
    values(&[
        ("-9223372036854775808", "-9223372036854775808"),
        ("-(9223372036854775808)", "-9223372036854775808"),
        ("-9223372036854775808 = CAST('-9223372036854775808' AS BIGINT)", "true"),
        ("-9223372036854775807", "-9223372036854775807"),
        ("abs(-9223372036854775808)", "null"),
        ("-9223372036854775808 - 1", "null"),
        ("- 5", "-5"),
        ("1 -5", "-4"),
        ("-1.5", "-1.5"),
    ]);
}

#[test]
fn null_and_lengths_of_time() {
    for expression in [
        "NULL + INTERVAL 1 s",
        "INTERVAL 1 s + NULL",
        "NULL - INTERVAL 1 s",
        "t + NULL",
        "NULL + t",
        "t - NULL",
        "t + INTERVAL 1 s * NULL",
        "t + NULL * INTERVAL 1 s",
        "t + INTERVAL 1 s / NULL",
        "t + (INTERVAL 1 s + NULL)",
        "t + (INTERVAL 1 s - NULL)",
        "t - (NULL + INTERVAL 1 s)",
    ] {
        value(expression, "null");
    }
    values(&[
        ("(NULL + INTERVAL 1 s) IS NULL", "true"),
        ("t + INTERVAL 1 s / 2", "\"2022-07-13T21:04:08.623Z\""),
        ("t + -INTERVAL 1 s", "\"2022-07-13T21:04:07.123Z\""),
    ]);
}

#[test]
fn bounds_of_windows_over_a_windowed_query() {
    const ROWS: &[&str] = &["window_start:time", "window_end:time", "fastest:int"];
    let row = |second: u32| {
        format!(
            r#"["2022-07-13T21:04:{second:02}Z","2022-07-13T21:04:{:02}Z",{second}]"#,
            second + 1
        )
    };
    let rows = [row(1), row(2), row(11)];
    let rows = rows.each_ref().map(String::as_str);
    let query = "SELECT window_start, window_end, max(fastest) AS fastest FROM tumble(per_second, window_start, 10s) GROUP BY window_start, window_end";
    let expected = [
        r#"["2022-07-13T21:04:00Z","2022-07-13T21:04:10Z",2]"#,
        r#"["2022-07-13T21:04:10Z","2022-07-13T21:04:20Z",11]"#,
    ];
    check(query, ROWS, &rows, &expected);
    // The column needs the topic as prefix, or quotes.
    let query = "SELECT window_start, max(per_second.window_start) AS newest, min(\"window_start\") AS oldest FROM tumble(per_second, window_start, 10s) WHERE window_start < '2022-07-13T21:04:09Z' GROUP BY window_start";
    let expected = [r#"["2022-07-13T21:04:00Z","2022-07-13T21:04:02Z","2022-07-13T21:04:01Z"]"#];
    check(query, ROWS, &rows, &expected);
    // Without windows the name means the column.
    let query = "SELECT window_start FROM per_second WHERE fastest = 1";
    check(query, ROWS, &rows, &[r#"["2022-07-13T21:04:01Z"]"#]);
}

#[test]
fn parts_of_texts() {
    values(&[
        ("substr(s, 2)", "\"ello\""),
        ("substr(s, 0)", "\"hello\""),
        ("substr(s, 0, 2)", "\"h\""),
        ("substr(s, -2)", "\"lo\""),
        ("substr(s, -2, 1)", "\"l\""),
        ("substr(s, -10)", "\"hello\""),
        ("substr(s, -10, 3)", "\"\""),
        ("substr(s, -10, 7)", "\"he\""),
        ("substr(s, 2, -1)", "\"h\""),
        ("substr(s, 3, -2)", "\"he\""),
        ("substr(s, -1, -2)", "\"ll\""),
        ("substr(s, 9)", "\"\""),
        ("substr(s, 9, -7)", "\"ello\""),
        ("substr(s, 5, -10)", "\"hell\""),
        ("substr(s, 0, -2)", "\"\""),
        ("substr(s, 1, 3000000000)", "\"hello\""),
        ("substring(s FROM -2 FOR 1)", "\"l\""),
        ("substr(s, 9223372036854775807, 9223372036854775807)", "\"\""),
        ("substr('héllo', -4, 2)", "\"él\""),
        ("strpos(s, '')", "1"),
        ("strpos('héllo', 'l')", "3"),
        ("length('🇩🇪')", "2"),
        ("replace('', '', 'x')", "\"\""),
        ("concat(NULL, NULL)", "\"\""),
        ("'a' || 1 || true", "\"a1true\""),
        ("starts_with(s, '')", "true"),
    ]);
}

#[test]
fn patterns() {
    values(&[
        ("'a!c' LIKE 'a!!c' ESCAPE '!'", "true"),
        ("'abc' LIKE 'ab!c' ESCAPE '!'", "true"),
        ("'a%c' LIKE 'a\\%c'", "false"),
        ("'abc' LIKE 'a%' ESCAPE ''", "true"),
        ("'abc' LIKE NULL", "null"),
        ("NULL LIKE 'a'", "null"),
        ("'abc' LIKE 'a' ESCAPE NULL", "null"),
        ("'' LIKE '%'", "true"),
        ("'ß' ILIKE 'SS'", "false"),
        ("'İ' ILIKE 'i%'", "true"),
    ]);
}

#[test]
fn numbers_and_null() {
    values(&[
        ("-5 % 3", "-2"),
        ("5 % -3", "2"),
        ("5.5 % 2", "1.5"),
        ("-5.5 % 2", "-1.5"),
        ("mod(5.5, 2)", "1.5"),
        ("0.0 = -0.0", "true"),
        ("0.0 * -1", "-0.0"),
        ("abs(-0.0)", "0.0"),
        ("sign(-0.0)", "0"),
        ("ceil(-0.5)", "-0.0"),
        ("power(0, 0)", "1.0"),
        ("nullif(1, 1.0)", "null"),
        ("nullif(1, NULL)", "1"),
        ("nullif(NULL, 1)", "null"),
        ("least(1, NULL, 2)", "1"),
        ("greatest(1, NULL, 2)", "2"),
        ("least(1, 2.5)", "1.0"),
        ("least(NULL, NULL)", "null"),
        ("2 IN (1, NULL)", "null"),
        ("2 NOT IN (1, NULL)", "null"),
        ("NULL IN (1, 2)", "null"),
        ("3 BETWEEN NULL AND 2", "false"),
        ("1 BETWEEN NULL AND 2", "null"),
        ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", "2"),
        ("CASE WHEN NULL THEN 1 ELSE 2 END", "2"),
        ("'a' < 'B'", "false"),
        ("true > false", "true"),
    ]);
}

#[test]
fn parts_of_times() {
    values(&[
        ("extract(epoch FROM t)", "1657746248.123"),
        ("extract(epoch FROM TIMESTAMP '1969-12-31 23:59:58.123')", "-1.877"),
        ("extract(millisecond FROM t)", "8123"),
        ("extract(second FROM t)", "8"),
        ("extract(week FROM TIMESTAMP '2024-12-30 23:59:58')", "1"),
        ("extract(isoyear FROM TIMESTAMP '2024-12-30 23:59:58')", "2025"),
        ("extract(week FROM TIMESTAMP '2021-01-03')", "53"),
        ("extract(quarter FROM TIMESTAMP '2024-12-30')", "4"),
        ("extract(dow FROM TIMESTAMP '2024-02-25')", "0"),
        ("extract(isodow FROM TIMESTAMP '2024-02-25')", "7"),
        ("date_part('HOUR', t)", "21"),
        ("date_trunc('Week', TIMESTAMP '1969-12-31 23:59:58')", "\"1969-12-29T00:00:00Z\""),
        ("date_trunc('quarter', TIMESTAMP '2024-12-30 23:59:58')", "\"2024-10-01T00:00:00Z\""),
    ]);
}

#[test]
fn differs() {
    values(&[
        ("7 / 2", "3"),
        ("1 / 0", "null"),
        ("0.0 / 0", "null"),
        ("sqrt(-1)", "null"),
        ("CAST('inf' AS DOUBLE)", "null"),
        ("9223372036854775807 + 1", "null"),
        ("9223372036854775808", "9.223372036854776e18"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("CAST(2.5 AS INT)", "2"),
        ("9007199254740993 = 9007199254740992.0", "false"),
        ("floor(5)", "5"),
        ("upper('ß')", "\"SS\""),
        ("lower('ΑΣ')", "\"ας\""),
        ("CAST(t AS STRING)", "\"2022-07-13T21:04:08.123Z\""),
        ("CAST(t AS BIGINT)", "1657746248123"),
        ("CAST(0 AS TIMESTAMP)", "\"1970-01-01T00:00:00Z\""),
        ("CAST(' true ' AS BOOLEAN)", "true"),
        ("CAST('1_000' AS INT)", "null"),
        ("CAST('0x10' AS INT)", "null"),
        ("CAST('2022-07-13T23:04:08Z' AS DATE)", "\"2022-07-13T00:00:00Z\""),
        ("t + INTERVAL 1 ms / 2", "\"2022-07-13T21:04:08.123Z\""),
    ]);
    aggregated("sum", "int", &["9223372036854775807"; 3], "null");
    aggregated("sum", "double", &["1e308", "1e308"], "null");
}
