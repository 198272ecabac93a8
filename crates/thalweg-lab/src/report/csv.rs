//! The summary as CSV (RFC 4180): one line per subject and cell, figures unrounded. A missing figure is an empty field.

use super::part_summary::PartSummary;
use super::row::Row;
use super::summary::Summary;
use crate::measure::comparison::{Comparison, Metric};
use crate::measure::statistics::Estimate;

/// A column: its name, and its figure of a row.
type CsvColumn = (&'static str, fn(&Row) -> Option<f64>);

const COLUMNS: &[CsvColumn] = &[
    ("cpu_us_per_event", |row| median(row.cpu.us_per_event)),
    ("cpu_us_per_event_low", |row| low(row, row.cpu.us_per_event)),
    ("cpu_us_per_event_high", |row| high(row, row.cpu.us_per_event)),
    ("events_per_s", |row| median(row.throughput.events_per_s)),
    ("events_per_s_low", |row| low(row, row.throughput.events_per_s)),
    ("events_per_s_high", |row| high(row, row.throughput.events_per_s)),
    ("share_of_schedule", |row| row.throughput.share_of_schedule),
    ("mb_per_s", |row| row.throughput.mb_per_s),
    ("latency_p50_us", |row| row.latency.p50_us),
    ("latency_p90_us", |row| row.latency.p90_us),
    ("latency_p99_us", |row| row.latency.p99_us),
    ("latency_p999_us", |row| row.latency.p999_us),
    ("latency_max_us", |row| row.latency.max_us),
    ("published_late_p99_us", |row| row.latency.published_late_p99_us),
    ("wire_bytes_per_event", |row| row.wire.bytes_per_event),
    ("events_per_envelope", |row| row.wire.events_per_envelope),
    ("events_per_read", |row| row.wire.events_per_read),
    ("envelopes_per_read", |row| row.wire.envelopes_per_read),
    ("rss_bytes", |row| row.memory.rss_bytes),
    ("pss_bytes", |row| row.memory.pss_bytes),
    ("rss_bytes_per_connection", |row| row.memory.rss_bytes_per_connection),
    ("swarm_rss_bytes_per_connection", |row| row.memory.swarm_rss_bytes_per_connection),
    ("socket_bytes", |row| row.memory.socket_bytes),
    ("stopped_bytes_max", |row| row.memory.stopped_bytes_max),
    ("stopped_bytes_mean", |row| row.memory.stopped_bytes_mean),
    ("subject_busy", |row| row.load.subject_busy),
    ("swarm_busy", |row| row.load.swarm_busy),
    ("swarm_cpu", |row| row.load.swarm_cpu),
    ("open_ms", |row| row.load.open_ms),
    ("switches_per_s", |row| row.load.switches_per_s),
    ("system_calls_per_event", |row| row.load.system_calls_per_event),
    ("loop_delay_us", |row| row.load.loop_delay_us),
    ("steady", |row| row.load.steady),
    ("round_trip_mean_us", |row| row.round_trip.mean_us),
    ("round_trip_mean_us_worst", |row| row.round_trip.mean_us_worst),
    ("round_trip_p50_us", |row| row.round_trip.p50_us),
    ("round_trip_p99_us", |row| row.round_trip.p99_us),
    ("round_trips_ms", |row| row.round_trip.total_ms),
    ("held", |row| Some(row.held.as_ref()?.connections.median)),
    ("browser_us_per_event", |row| median(row.browser.as_ref()?.us_per_event)),
    ("browser_cpu", |row| median(row.browser.as_ref()?.cpu)),
    ("browser_tab_cpu", |row| row.browser.as_ref()?.tab_cpu),
    ("browser_network_cpu", |row| row.browser.as_ref()?.network_cpu),
    ("browser_browser_cpu", |row| row.browser.as_ref()?.browser_cpu),
    ("browser_gpu_cpu", |row| row.browser.as_ref()?.gpu_cpu),
    ("browser_other_cpu", |row| row.browser.as_ref()?.other_cpu),
    ("browser_long_tasks_per_s", |row| row.browser.as_ref()?.long_tasks_per_s),
    ("browser_long_task_share", |row| row.browser.as_ref()?.long_task_share),
    ("browser_heap_bytes", |row| row.browser.as_ref()?.heap_bytes),
    ("browser_tab_rss_bytes", |row| row.browser.as_ref()?.tab_rss_bytes),
    ("browser_tab_rss_grown_bytes", |row| row.browser.as_ref()?.tab_rss_grown_bytes),
];

/// Columns after these: ratios to the baseline, each with its interval and result.
const RATIOS: [(&str, Metric); 7] = [
    ("cpu", Metric::Cpu),
    ("p99", Metric::P99),
    ("round_trip", Metric::RoundTrip),
    ("events_per_s", Metric::Throughput),
    ("rss", Metric::Memory),
    ("held", Metric::Held),
    ("browser_cpu", Metric::BrowserCpu),
];

/// Returns the whole summary as CSV.
pub fn csv(summary: &Summary) -> String {
    let mut text = "scenario,cell,subject,samples,valid,verdict,throughput_counts".to_owned();
    for (name, _) in COLUMNS {
        text += &format!(",{name}");
    }
    for (name, _) in RATIOS {
        text += &format!(",{name}_ratio,{name}_ratio_low,{name}_ratio_high,{name}_word");
    }
    text.push('\n');
    for part in &summary.parts {
        for row in &part.rows {
            text += &line(part, row).join(",");
            text.push('\n');
        }
    }
    text
}

fn line(part: &PartSummary, row: &Row) -> Vec<String> {
    let words = [
        quoted(&part.name),
        quoted(&row.cell),
        quoted(&row.subject),
        row.samples.to_string(),
        row.valid.to_string(),
        quoted(&row.verdict),
        row.is_ranked.to_string(),
    ];
    let figures = COLUMNS.iter().map(|(_, of)| field(of(row)));
    let ratios = RATIOS.iter().flat_map(|(_, metric)| ratio(part.comparison(*metric, row)));
    words.into_iter().chain(figures).chain(ratios).collect()
}

fn ratio(comparison: Option<&Comparison>) -> [String; 4] {
    let word = comparison.map_or("", |comparison| comparison.word.name());
    let [ratio, low, high] = [
        comparison.map(|comparison| comparison.ratio),
        comparison.and_then(|comparison| comparison.low),
        comparison.and_then(|comparison| comparison.high),
    ];
    [field(ratio), field(low), field(high), word.to_owned()]
}

fn field(value: Option<f64>) -> String {
    value.map_or(String::new(), |found| found.to_string())
}

fn median(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|estimate| estimate.median)
}

/// One sample has no interval.
fn low(row: &Row, estimate: Option<Estimate>) -> Option<f64> {
    estimate.filter(|_| row.valid > 1).map(|estimate| estimate.low)
}

fn high(row: &Row, estimate: Option<Estimate>) -> Option<f64> {
    estimate.filter(|_| row.valid > 1).map(|estimate| estimate.high)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
