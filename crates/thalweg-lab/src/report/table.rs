//! The summary as a table for a terminal.

use super::number::{digits, short};
use super::summary::{PartSummary, Row, Summary};
use crate::measure::statistics::Estimate;
use crate::scenario::Drive;

/// A column: the two lines of its head, and what it shows of a row.
type Column = (&'static str, &'static str, fn(&PartSummary, &Row) -> String);

const CPU: &[Column] = &[
    ("CPU µs", "per event", |_, row| figure(row.cpu_us_per_event.map(|it| it.median))),
    ("CPU", "× baseline", |part, row| compared(row, row.cpu_ratio, part.cpu_noise)),
];
const THROUGHPUT: &[Column] = &[("events", "per s", |_, row| match row.events_per_s {
    Some(events) if row.is_ranked => short(events),
    Some(events) => format!("({})", short(events)),
    None => String::new(),
})];
const SCHEDULE: &[Column] =
    &[("% of", "schedule", |_, row| row.share_of_schedule.map_or(String::new(), percent))];
const LATENCY: &[Column] = &[
    ("latency µs", "p50", |_, row| whole(row.latency_us_p50)),
    ("", "p99", |_, row| whole(row.latency_us_p99)),
    ("", "p99.9", |_, row| whole(row.latency_us_p999)),
    ("p99", "× baseline", |part, row| compared(row, row.p99_ratio, part.p99_noise)),
];
const BATCHING: &[Column] = &[
    ("wire B", "per event", |_, row| figure(row.wire_bytes_per_event)),
    ("events per", "envelope", |_, row| figure(row.events_per_envelope)),
    ("", "read", |_, row| figure(row.events_per_read)),
];
const TOPICS: &[Column] = &[("envelopes", "per read", |_, row| figure(row.envelopes_per_read))];
const MEMORY: &[Column] = &[("RSS", "MB", |_, row| figure(row.rss_bytes.map(|it| it / 1e6)))];
const STOPPED: &[Column] = &[
    ("KiB per stopped", "mean", |_, row| figure(row.stopped_bytes_mean.map(|it| it / 1024.0))),
    ("", "max", |_, row| figure(row.stopped_bytes_max.map(|it| it / 1024.0))),
];
const IDLE: &[Column] = &[
    ("RSS KiB per", "connection", |_, row| {
        figure(row.rss_bytes_per_connection.map(|it| it / 1024.0))
    }),
    ("opened", "in ms", |_, row| whole(row.open_ms)),
];
const ROUND_TRIP: &[Column] = &[
    ("round trip µs", "mean", |_, row| figure(row.talk.mean_us)),
    ("", "worst run", |_, row| figure(row.talk.mean_us_worst)),
    ("", "p50", |_, row| whole(row.talk.p50_us)),
    ("", "p99", |_, row| whole(row.talk.p99_us)),
    ("mean", "× baseline", |part, row| compared(row, row.talk.mean_ratio, part.round_trip_noise)),
];
const TOTAL: &[Column] = &[("total", "ms", |_, row| figure(row.talk.total_ms))];
const FROM_INTENDED: &[Column] = &[
    ("from intended µs", "p50", |_, row| whole(row.latency_us_p50)),
    ("", "p99", |_, row| whole(row.latency_us_p99)),
];
const RECEIVED: &[Column] = &[("received", "MB/s", |_, row| figure(row.talk.received_mb_per_s))];
const LOAD: &[Column] = &[
    ("% of core", "subject", |_, row| row.subject_busy.map_or(String::new(), percent)),
    ("", "swarm", |_, row| row.swarm_busy.map_or(String::new(), percent)),
    ("limited", "by", |_, row| row.verdict.clone()),
];

/// The whole summary.
pub fn table(summary: &Summary) -> String {
    let machine = &summary.manifest.machine;
    let cores: Vec<String> = machine.subject_cores.iter().map(usize::to_string).collect();
    let mut text = format!(
        "{} · {} cores · Linux {} · subject on core {}, swarm on core {}\n",
        machine.cpu,
        machine.cores,
        machine.kernel,
        cores.join(", "),
        machine.swarm_core
    );
    for remark in &machine.remarks {
        text += &format!("{remark}\n");
    }
    for part in summary.parts.iter().filter(|part| !part.rows.is_empty()) {
        text += &format!(
            "\n{}: {} ({} × {:.1} s per subject)\n\n",
            part.name,
            part.title,
            part.repeats,
            part.measured_ms as f64 / 1000.0
        );
        text += &draw(&grid(part));
        text += &notes(part);
    }
    text
}

/// A line of fields; a line of one field is a heading.
fn grid(part: &PartSummary) -> Vec<Vec<String>> {
    let columns = columns(part);
    let head = |of: fn(&Column) -> &'static str| -> Vec<String> {
        let heads = columns.iter().map(|column| of(column).to_owned());
        std::iter::once(String::new()).chain(heads).collect()
    };
    let mut lines = vec![head(|column| column.0), head(|column| column.1)];
    let mut last_cell = "";
    for row in &part.rows {
        if row.cell != last_cell {
            lines.push(vec![row.cell.clone()]);
            last_cell = &row.cell;
        }
        let figures = columns.iter().map(|(_, _, show)| show(part, row));
        lines.push(std::iter::once(format!("  {}", row.subject)).chain(figures).collect());
    }
    lines
}

fn columns(part: &PartSummary) -> Vec<Column> {
    let has_topics = part.rows.iter().any(|row| row.cell.contains("topics"));
    let has_stopped = part.rows.iter().any(|row| row.stopped_bytes_max.is_some());
    let mut groups: Vec<&[Column]> = match part.drive {
        Drive::Posted | Drive::Ceiling => vec![CPU, THROUGHPUT, LATENCY, BATCHING, MEMORY],
        Drive::SelfDriven => vec![CPU, THROUGHPUT, SCHEDULE, LATENCY, BATCHING, MEMORY],
        Drive::Idle => vec![IDLE, MEMORY],
        Drive::Publish => vec![CPU, THROUGHPUT, MEMORY],
        Drive::Echo => vec![ROUND_TRIP, FROM_INTENDED, RECEIVED, MEMORY],
        Drive::RoundTrip => vec![TOTAL, ROUND_TRIP, CPU, MEMORY],
    };
    if has_topics {
        groups.push(TOPICS);
    }
    if has_stopped {
        groups.push(STOPPED);
    }
    groups.push(LOAD);
    groups.concat()
}

/// Columns as wide as they need; the first and the last begin at the left,
/// figures end at the right.
fn draw(lines: &[Vec<String>]) -> String {
    let count = lines.first().map_or(0, Vec::len);
    let full = || lines.iter().filter(|line| line.len() == count);
    let width = |column: usize| full().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let mut drawn = String::new();
        for (column, field) in line.iter().enumerate() {
            let width = widths[column];
            let is_text = column == 0 || column + 1 == count;
            let padded =
                if is_text { format!("{field:<width$}") } else { format!("{field:>width$}") };
            drawn += &padded;
            drawn += "  ";
        }
        text += drawn.trim_end();
        text.push('\n');
    }
    text
}

fn notes(part: &PartSummary) -> String {
    let mut text = String::new();
    if let Some(noise) = part.round_trip_noise {
        text += &format!(
            "Noise (A/A): two runs of one subject agree within {noise:.2} × in the mean round trip. \
             `=`: a tie, within the noise or the interval.\n"
        );
    } else if let Some(noise) = part.cpu_noise {
        text += &format!("Noise (A/A): two runs of one subject agree within {noise:.2} × in CPU");
        text += &part.p99_noise.map_or(String::new(), |p99| format!(", {p99:.2} × in p99"));
        text += ". `=`: a tie, within the noise or the interval.\n";
    }
    if part.rows.iter().any(|row| row.cpu_ratio.is_some()) {
        text += "Ratios: medians of paired repeats (interval of the median).\n";
    }
    let has_throughput = part.drive != Drive::Echo;
    if has_throughput && part.rows.iter().any(|row| row.events_per_s.is_some() && !row.is_ranked) {
        text += "(events/s) in brackets: no throughput, for the subject's core was not saturated or it left gaps.\n";
    }
    if !text.is_empty() {
        text.insert(0, '\n');
    }
    text
}

fn figure(value: Option<f64>) -> String {
    value.map_or(String::new(), digits)
}

fn percent(share: f64) -> String {
    digits(share * 100.0)
}

fn whole(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.0}"))
}

/// `1.04 (1.01–1.08)`, with `=` where it is a tie.
fn compared(row: &Row, ratio: Option<Estimate>, noise: Option<f64>) -> String {
    if row.is_baseline {
        return "baseline".to_owned();
    }
    let Some(ratio) = ratio else {
        return String::new();
    };
    let within_noise = noise.is_some_and(|noise| ratio.median.ln().abs() <= noise.ln());
    let tie = if !row.is_noise && (within_noise || ratio.is_tie()) { "= " } else { "" };
    format!("{tie}{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high)
}
