//! The report as one HTML file that needs nothing else: no script, no request.
//!
//! - `page`: the whole; its first screen, then `part` by part, then the manifest
//! - `overview`: the first screen's chart, made of `strips`; `kinds`: where a browser's CPU goes; `table`: every figure
//! - `against`: figures against the setting that varies, which `facets` finds
//! - `curve`: latency by percentile, memory over time, the search for a ceiling
//! - `metric`: what a chart shows of a row; `series`: how subjects and verdicts look
//! - `plot`, `scale`: axes; `markup`: elements, escaped

mod against;
mod curve;
mod facets;
mod kinds;
mod markup;
pub(super) mod metric;
mod overview;
mod page;
mod part;
mod plot;
mod scale;
mod series;
mod standings;
mod strips;
mod table;
#[cfg(test)]
mod tests;

use super::summary::Summary;

/// The whole report. The same summary gives the same bytes.
pub fn html(summary: &Summary) -> String {
    page::draw(summary)
}
