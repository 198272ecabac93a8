//! What was found, in every form. Pure: samples in, text out.
//!
//! - `summary`: medians, ratios and their intervals
//! - `talk`: the same of round trips
//! - `connections`: what a reader must know of them
//! - `table`: for a terminal
//! - `csv`, and JSON through serde
//! - `number`: how figures are written

mod connections;
mod csv;
mod number;
mod summary;
mod table;
mod talk;

pub use csv::csv;
pub use number::short;
pub use summary::{Manifest, PartSummary, Row, Summary};
pub use table::table;
pub use talk::Talk;

#[cfg(test)]
mod tests;

use crate::measure::Sample;

/// A sample's latencies as one line of JSON: every bucket that is not empty, as
/// latency in µs and number of events.
pub fn histogram_line(sample: &Sample) -> String {
    let buckets: Vec<(u64, u64)> = sample.latency.buckets().collect();
    serde_json::json!({
        "part": sample.part,
        "cell": sample.cell,
        "subject": sample.subject,
        "repeat": sample.repeat,
        "latency_us": buckets,
    })
    .to_string()
}
