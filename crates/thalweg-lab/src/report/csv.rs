//! The summary as CSV (RFC 4180): one line per subject and cell, figures
//! unrounded. A figure that does not exist is an empty field.

use super::outcome::Comparison;
use super::row::Row;
use super::summary::Summary;
use crate::measure::statistics::Estimate;

/// A column: its name, and what it says of a row.
type Column = (&'static str, fn(&Row) -> Option<f64>);

const COLUMNS: &[Column] = &[
    ("cpu_us_per_event", |row| median(row.cpu.us_per_event)),
    ("cpu_us_per_event_low", |row| low(row.cpu.us_per_event)),
    ("cpu_us_per_event_high", |row| high(row.cpu.us_per_event)),
    ("cpu_ratio", |row| median(ratio(row.cpu.compared))),
    ("cpu_ratio_low", |row| low(ratio(row.cpu.compared))),
    ("cpu_ratio_high", |row| high(ratio(row.cpu.compared))),
    ("events_per_s", |row| median(row.throughput.events_per_s)),
    ("events_per_s_low", |row| low(row.throughput.events_per_s)),
    ("events_per_s_high", |row| high(row.throughput.events_per_s)),
    ("events_per_s_ratio", |row| median(ratio(row.throughput.compared))),
    ("events_per_s_ratio_low", |row| low(ratio(row.throughput.compared))),
    ("events_per_s_ratio_high", |row| high(ratio(row.throughput.compared))),
    ("share_of_schedule", |row| row.throughput.share_of_schedule),
    ("mb_per_s", |row| row.throughput.mb_per_s),
    ("latency_p50_us", |row| row.latency.p50_us),
    ("latency_p90_us", |row| row.latency.p90_us),
    ("latency_p99_us", |row| row.latency.p99_us),
    ("latency_p999_us", |row| row.latency.p999_us),
    ("latency_max_us", |row| row.latency.max_us),
    ("p99_ratio", |row| median(ratio(row.latency.compared))),
    ("p99_ratio_low", |row| low(ratio(row.latency.compared))),
    ("p99_ratio_high", |row| high(ratio(row.latency.compared))),
    ("wire_bytes_per_event", |row| row.wire.bytes_per_event),
    ("events_per_envelope", |row| row.wire.events_per_envelope),
    ("events_per_read", |row| row.wire.events_per_read),
    ("envelopes_per_read", |row| row.wire.envelopes_per_read),
    ("rss_bytes", |row| row.memory.rss_bytes),
    ("pss_bytes", |row| row.memory.pss_bytes),
    ("rss_bytes_per_connection", |row| row.memory.rss_bytes_per_connection),
    ("rss_ratio", |row| median(ratio(row.memory.compared))),
    ("rss_ratio_low", |row| low(ratio(row.memory.compared))),
    ("rss_ratio_high", |row| high(ratio(row.memory.compared))),
    ("socket_bytes", |row| row.memory.socket_bytes),
    ("stopped_bytes_max", |row| row.memory.stopped_bytes_max),
    ("stopped_bytes_mean", |row| row.memory.stopped_bytes_mean),
    ("subject_busy", |row| row.load.subject_busy),
    ("swarm_busy", |row| row.load.swarm_busy),
    ("open_ms", |row| row.load.open_ms),
    ("switches_per_s", |row| row.load.switches_per_s),
    ("system_calls_per_event", |row| row.load.system_calls_per_event),
    ("littles_ratio", |row| row.load.littles_ratio),
    ("steady", |row| row.load.steady),
    ("round_trip_mean_us", |row| row.round_trip.mean_us),
    ("round_trip_mean_us_worst", |row| row.round_trip.mean_us_worst),
    ("round_trip_p50_us", |row| row.round_trip.p50_us),
    ("round_trip_p99_us", |row| row.round_trip.p99_us),
    ("round_trip_ratio", |row| median(ratio(row.round_trip.compared))),
    ("round_trip_ratio_low", |row| low(ratio(row.round_trip.compared))),
    ("round_trip_ratio_high", |row| high(ratio(row.round_trip.compared))),
    ("round_trips_ms", |row| row.round_trip.total_ms),
];

/// The whole summary.
pub fn csv(summary: &Summary) -> String {
    let mut text = "scenario,cell,subject,samples,valid,verdict,throughput_counts".to_owned();
    for (name, _) in COLUMNS {
        text.push(',');
        text += name;
    }
    text.push('\n');
    for part in &summary.parts {
        for row in &part.rows {
            text += &line(&part.name, row).join(",");
            text.push('\n');
        }
    }
    text
}

fn line(part: &str, row: &Row) -> Vec<String> {
    let words = [
        quoted(part),
        quoted(&row.cell),
        quoted(&row.subject),
        row.samples.to_string(),
        row.valid.to_string(),
        quoted(&row.verdict),
        row.is_ranked.to_string(),
    ];
    let figures = COLUMNS.iter().map(|(_, of)| of(row).map_or(String::new(), |it| it.to_string()));
    words.into_iter().chain(figures).collect()
}

fn ratio(comparison: Option<Comparison>) -> Option<Estimate> {
    comparison.map(|it| it.ratio)
}

fn median(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|it| it.median)
}

fn low(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|it| it.low)
}

fn high(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|it| it.high)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
