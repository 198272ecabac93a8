//! What was found, in every form. Pure: samples in, text out.
//!
//! - `summary`: what a run found; in it a `row` for each subject of a cell
//! - `compare`: subjects next to each other, and which are ties
//! - `connections`: what a reader must know of them
//! - `curves`: what only a chart shows
//! - `findings`: what was found and how sure it is, in words
//! - `published`: what others have published of the same experiments
//! - `table`: for a terminal
//! - `html`: one page for everyone, with charts
//! - `markdown`: for a repository
//! - `csv`, and JSON through serde
//! - `words`: what a report says besides; `number`: how figures are written

mod compare;
mod connections;
mod csv;
mod curves;
mod findings;
mod html;
mod markdown;
mod number;
mod published;
mod row;
mod summary;
mod table;
mod words;

pub use csv::csv;
pub use curves::{Curves, Spreads};
pub use html::html;
pub use markdown::markdown;
pub use number::short;
pub use row::{Comparison, Cpu, Held, Lateness, Load, Row, Throughput, Trips, Wire};
pub use summary::{Manifest, PartSummary, Summary};
pub use table::table;

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
