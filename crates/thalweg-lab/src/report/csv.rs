//! The summary as CSV (RFC 4180): one line per subject and cell, figures
//! unrounded.

use super::summary::{PartSummary, Row, Summary};
use crate::measure::statistics::Estimate;

const HEAD: &str = "scenario,cell,subject,samples,valid,verdict,throughput_counts,\
cpu_us_per_event,cpu_us_per_event_low,cpu_us_per_event_high,\
cpu_ratio,cpu_ratio_low,cpu_ratio_high,cpu_noise_factor,\
events_per_s,share_of_schedule,latency_us_p50,latency_us_p99,latency_us_p999,\
p99_ratio,p99_ratio_low,p99_ratio_high,p99_noise_factor,\
wire_bytes_per_event,events_per_envelope,events_per_read,envelopes_per_read,\
rss_bytes,rss_bytes_per_connection,open_ms,subject_busy,swarm_busy,\
stopped_bytes_max,stopped_bytes_mean,\
round_trip_us_mean,round_trip_us_mean_worst,round_trip_us_p50,round_trip_us_p99,\
round_trip_ratio,round_trip_ratio_low,round_trip_ratio_high,round_trips_ms,\
received_mb_per_s\n";

/// The whole summary.
pub fn csv(summary: &Summary) -> String {
    let mut text = HEAD.to_owned();
    for part in &summary.parts {
        for row in &part.rows {
            text += &line(part, row).join(",");
            text.push('\n');
        }
    }
    text
}

fn line(part: &PartSummary, row: &Row) -> Vec<String> {
    let mut fields = vec![
        quoted(&part.name),
        quoted(&row.cell),
        quoted(&row.subject),
        row.samples.to_string(),
        row.valid.to_string(),
        quoted(&row.verdict),
        row.is_ranked.to_string(),
    ];
    let mut figures = Vec::new();
    figures.extend(spread(row.cpu_us_per_event));
    figures.extend(spread(row.cpu_ratio));
    figures.extend([
        part.cpu_noise,
        row.events_per_s,
        row.share_of_schedule,
        row.latency_us_p50,
        row.latency_us_p99,
        row.latency_us_p999,
    ]);
    figures.extend(spread(row.p99_ratio));
    figures.extend([
        part.p99_noise,
        row.wire_bytes_per_event,
        row.events_per_envelope,
        row.events_per_read,
        row.envelopes_per_read,
        row.rss_bytes,
        row.rss_bytes_per_connection,
        row.open_ms,
        row.subject_busy,
        row.swarm_busy,
        row.stopped_bytes_max,
        row.stopped_bytes_mean,
        row.talk.mean_us,
        row.talk.mean_us_worst,
        row.talk.p50_us,
        row.talk.p99_us,
    ]);
    figures.extend(spread(row.talk.mean_ratio));
    figures.extend([row.talk.total_ms, row.talk.received_mb_per_s]);
    let written =
        figures.into_iter().map(|figure| figure.map_or(String::new(), |it| it.to_string()));
    fields.extend(written);
    fields
}

fn spread(estimate: Option<Estimate>) -> [Option<f64>; 3] {
    [estimate.map(|it| it.median), estimate.map(|it| it.low), estimate.map(|it| it.high)]
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
