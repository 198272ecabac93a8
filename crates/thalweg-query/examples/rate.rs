//! Measures how many rows per second one core takes through a query, decoding included: `cargo run --release -p
//! thalweg-query --example rate`. Prints the best of nine runs by CPU time (`/proc/self/schedstat`).

use std::{fs, sync::Arc};

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, Running, Sink, Unbroken};

const COLUMNS: [&str; 11] = [
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

const QUERIES: [&str; 5] = [
    "SELECT window_start, max(speed_kmh) AS speed_kmh FROM tumble(cars, INTERVAL 1 s) GROUP BY window_start",
    "SELECT window_start, car, max(speed_kmh), count(*) FROM tumble(cars, 1s) GROUP BY window_start, car",
    "SELECT window_start, max(speed_kmh), avg(fuel_percent) FROM hop(cars, 1s, 5s) WHERE speed_kmh > 20 AND locked = false \
     GROUP BY window_start HAVING count(*) > 10",
    "SELECT * FROM cars WHERE speed_kmh > 90",
    "SELECT car, speed_kmh / 3.6 AS meters_per_second, time FROM cars",
];

const ROWS: usize = 1_000_000;

/// Counts bytes, which keeps the optimizer from removing work.
#[derive(Default)]
struct Bytes(usize);

impl Sink for Bytes {
    fn begins(&mut self, _offset: u64) {}

    fn row(&mut self, _offset: u64, row: &[u8]) {
        self.0 += row.len();
    }

    fn lost(&mut self, _offset: u64) {}
}

/// The time of all rows' publication, in ms since 1970.
const PUBLISHED_MS: i64 = 1_657_746_248_000;

/// Returns this thread's CPU time in seconds, which excludes other processes.
fn cpu_seconds() -> f64 {
    let schedstat = fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let ns = schedstat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("a number") / 1e9
}

fn main() {
    let columns = Arc::new(Columns::declared(COLUMNS).expect("columns"));
    // A hundred cars, each with ten rows per second.
    let row = |index: usize| {
        let (car, ms) = (index % 100, index as u64 / 1000 * 1000 + index as u64 % 1000);
        let time = thalweg_columns::time_text(1_657_746_248_000 + ms as i64).expect("a time");
        let (speed, longitude) = ((index * 7919 % 1300) as f64 / 10.0, 16.0 + index as f64 / 1e7);
        format!(
            r#"[1,{longitude},54.12955095924333,{speed},"73.12",934.1228226766616,{},"c{car:05}","{time}","{time}","1970-01-01T00:00:00Z"]"#,
            index % 2
        )
    };
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    for query in QUERIES {
        let plan =
            Arc::new(Query::parse(query).and_then(|query| query.plan(&columns)).expect("a plan"));
        let mut rates: Vec<f64> = (0..9)
            .map(|_| {
                let (mut running, mut bytes) = (
                    Running::new(Arc::clone(&plan), Bounds::default(), Beginning::First),
                    Bytes::default(),
                );
                let begun = cpu_seconds();
                for (index, row) in rows.iter().enumerate() {
                    running
                        .take(index as u64 + 1, row.as_bytes(), PUBLISHED_MS, 0, &mut bytes)
                        .expect("within bounds");
                }
                running.close_all(&mut bytes);
                running.finish(&mut bytes, &mut Unbroken).expect("within bounds");
                let seconds = cpu_seconds() - begun;
                assert!(bytes.0 > 0);
                ROWS as f64 / seconds / 1e6
            })
            .collect();
        rates.sort_unstable_by(f64::total_cmp);
        println!("{:5.2} million rows/s  {query}", rates[8]);
    }
}
