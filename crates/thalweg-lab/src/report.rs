//! Results in every form. Pure: samples in, text out.
//!
//! - `summary`: the results of a run; `part_summary`: of a scenario; in it a `row` for each subject of a cell
//! - `choice`: which samples count
//! - `comparisons`: every subject beside its baseline, decided once; `phrases`: a comparison in words
//! - `connections`: notes about them; `received`: results of an endpoint that does not cooperate
//! - `standings`: where each of many subjects stands beside the baseline
//! - `equality`: what subjects agreed on, and what they differ in
//! - `faults`, `fault_hits`: faults of an endpoint, which fail a run; those of all rows
//! - `findings`: the results and their certainty, in words; `deliveries`: a sentence about fan-out
//! - `curves`: data for charts only
//! - `blanks`: subjects without a figure, and the reasons
//! - `browser`: resources of a browser that was the load; `most`: the highest rate that it can process
//! - `held`: how many clients a ramp held; `cost`: what connections, messages and bytes cost
//! - `as_published`: experiment C in the lines of its published program; `published`: published figures of the same experiments
//! - `workload`: what is shown of each workload; `columns`: the columns of tables
//! - `table`: for a terminal; `page`: for the report page; `csv`, `junit`
//! - `unsettled`: rows of a suite that are missing, worse or undecided
//! - `threshold`: limits of metrics that fail a run; `entry`: a run in a list of runs
//! - `words`: other texts of a report; `number`: how figures are written

mod as_published;
mod blanks;
mod browser;
mod choice;
mod columns;
mod comparisons;
mod connections;
mod cost;
mod csv;
mod curves;
mod deliveries;
mod entry;
mod equality;
mod fault_hits;
mod faults;
mod findings;
mod held;
mod junit;
mod most;
mod number;
mod page;
mod part_summary;
mod phrases;
mod published;
mod received;
mod row;
mod standings;
mod summary;
mod table;
mod threshold;
mod unsettled;
mod words;
mod workload;

pub use as_published::{as_published, has_published_program};
pub use browser::BrowserFigures;
pub use comparisons::{current_comparisons, far_off, next};
pub use cost::{CostModel, models};
pub use csv::csv;
pub use curves::{Curve, Curves, Spreads};
pub use deliveries::deliveries;
pub use entry::{Entry, State};
pub use equality::{DifferentSetting, Equality};
pub use fault_hits::faults;
pub use faults::Faults;
pub use junit::junit;
pub use most::Most;
pub use number::short;
pub use page::{Document, html};
pub use part_summary::{BlankCell, PartSummary};
pub use row::{Cpu, Delayed, Lateness, LoadFigures, MemoryFigures, Row, Throughput, Trips, Wire};
pub use standings::Standing;
pub use summary::{Addition, Manifest, Summary};
pub use table::table;
pub use threshold::{Hit, Threshold, metric_table, metrics};
pub use words::{COLUMNS, manifest, wrapped};

#[cfg(test)]
mod tests;
