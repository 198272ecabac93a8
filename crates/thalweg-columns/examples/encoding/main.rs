//! Measures how many rows per second one core encodes, from JSON to a frame of a stream.
//!
//! ```sh
//! taskset -c 0 cargo run --release -p thalweg-columns --example encoding
//! ```
//!
//! An argument sets the ms per sample: two builds can then alternate.

mod samples;

use std::time::{Duration, Instant};

use samples::SAMPLES;
use thalweg_columns::Columns;

const SPAN_MS: u64 = 500;

fn main() {
    let span_ms = std::env::args().nth(1).and_then(|ms| ms.parse().ok()).unwrap_or(SPAN_MS);
    for (sample, declarations, make) in SAMPLES {
        for count in [10, 100, 1000, 5000] {
            let rows = make(count);
            let declared = Columns::declared(declarations.iter().copied())
                .unwrap_or_else(|error| panic!("{error}"));
            for (name, columns) in [("declared", declared), ("inferred", Columns::infer(&rows))] {
                let name = format!("{sample}, {count} rows, {name}");
                measure(&name, &columns, &rows, count, Duration::from_millis(span_ms));
            }
        }
    }
}

fn measure(name: &str, columns: &Columns, rows: &[u8], count: usize, span: Duration) {
    let mut frame = Vec::new();
    let (begun, mut frames) = (Instant::now(), 0_u32);
    while begun.elapsed() < span {
        frame.clear();
        if columns.write_rows(1, rows, &mut frame).is_err() {
            panic!("the rows do not fit");
        }
        frames += 1;
    }
    let rows_per_s = f64::from(frames) * count as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{name}: {:.2} M rows/s, {:.0} MB/s of JSON, {} bytes for {}",
        rows_per_s / 1e6,
        rows_per_s * rows.len() as f64 / count as f64 / 1e6,
        frame.len(),
        rows.len(),
    );
}
