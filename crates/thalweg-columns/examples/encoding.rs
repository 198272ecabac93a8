//! How many rows a second one core encodes: experiment A's rows, from JSON to a frame of a stream.
//!
//! ```sh
//! taskset -c 0 cargo run --release -p thalweg-columns --example encoding
//! ```

use std::time::{Duration, Instant};

use thalweg_columns::Columns;

const SPAN: Duration = Duration::from_secs(2);

/// `car_live_data` as published, with what changes from row to row.
fn cars(rows: usize) -> Vec<u8> {
    let row = |row: usize| {
        format!(
            r#"[{},16.{:014},54.{:014},39,"{}.{:02}",934.{:013},0,"c{:05}","2022-07-13T21:{:02}:{:02}.{:03}Z","2022-07-13T21:04:08.419Z","1970-01-01T00:00:00Z"]"#,
            row % 2,
            row * 7_919_333_871_044 % 100_000_000_000_000,
            row * 5_417_095_924_933 % 100_000_000_000_000,
            row % 120,
            row % 97,
            row * 1_228_226_776_661 % 10_000_000_000_000,
            row % 1000,
            row / 60_000 % 60,
            row / 1000 % 60,
            row % 1000,
        )
    };
    (0..rows).map(row).collect::<Vec<_>>().join(",").into_bytes()
}

const DECLARED: [&str; 11] = [
    "in_use:int",
    "longitude:double",
    "latitude:double",
    "gas_percent:int",
    "speed_kmh:double",
    "total_km:double",
    "locked:int",
    "cid:string",
    "time:time",
    "event_time:time",
    "trip:time",
];

fn main() {
    for count in [10, 100, 1000, 5000] {
        let rows = cars(count);
        let declared = Columns::declared(DECLARED).unwrap_or_else(|error| panic!("{error}"));
        for (name, columns) in [("declared", declared), ("inferred", Columns::infer(&rows))] {
            let mut frame = Vec::new();
            let (begun, mut frames) = (Instant::now(), 0_u32);
            while begun.elapsed() < SPAN {
                frame.clear();
                if columns.write_rows(1, &rows, &mut frame).is_err() {
                    panic!("the rows do not fit");
                }
                frames += 1;
            }
            let rows_per_s = f64::from(frames) * count as f64 / begun.elapsed().as_secs_f64();
            println!(
                "{count:>5} rows, {name}: {:.2} M rows/s, {:.0} MB/s of JSON, {} bytes for {}",
                rows_per_s / 1e6,
                rows_per_s * rows.len() as f64 / count as f64 / 1e6,
                frame.len(),
                rows.len(),
            );
        }
    }
}
