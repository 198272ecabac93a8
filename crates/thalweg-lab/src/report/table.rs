//! The summary as a table for a terminal.

use super::heard;
use super::number::{digits, short};
use super::row::Row;
use super::summary::{PartSummary, Summary};
use super::words::{pinned, printable};
use crate::measure::comparison::{Comparison, Metric, Word};
use crate::scenario::Drive;

/// A column: the two lines of its head, and what it shows of a part's row. An empty first
/// line continues the one before.
pub(super) type Column = (&'static str, &'static str, fn(&PartSummary, &Row) -> String);

/// Columns of this name are there only where somebody is compared.
const TO_BASELINE: &str = "× baseline";
/// Columns of this name are there only where the swarm had a schedule.
const LATE: &str = "p99 µs";
const CPU: &[Column] = &[
    ("CPU µs", "per event", |_, row| figure(row.cpu.us_per_event.map(|it| it.median))),
    ("CPU", TO_BASELINE, |part, row| compared(part, row, Metric::Cpu)),
];
const THROUGHPUT: &[Column] = &[("events", "per s", |_, row| match row.throughput.events_per_s {
    Some(events) if row.is_at_least => format!("≥ {}", short(events.median)),
    Some(events) if row.is_ranked => short(events.median),
    Some(events) => format!("({})", short(events.median)),
    None => String::new(),
})];
const SCHEDULE: &[Column] = &[("% of", "schedule", |_, row| {
    row.throughput.share_of_schedule.map_or(String::new(), percent)
})];
const LATENCY: &[Column] = &[
    ("latency µs", "p50", |_, row| whole(row.latency.p50_us)),
    ("", "p99", |_, row| match withholds_p99(row) {
        true => "–".to_owned(),
        false => whole(row.latency.p99_us),
    }),
    ("", "p99.9", |_, row| whole(row.latency.p999_us)),
    ("published late", LATE, |_, row| whole(row.latency.published_late_p99_us)),
    ("p99", TO_BASELINE, |part, row| compared(part, row, Metric::P99)),
];
/// Of a closed loop the same is the time of service.
const SERVICE: &[Column] =
    &[("service time µs", LATENCY[0].1, LATENCY[0].2), LATENCY[1], LATENCY[2], LATENCY[4]];
const CEILING: &[Column] =
    &[("events/s", TO_BASELINE, |part, row| compared(part, row, Metric::Throughput))];
const BATCHING: &[Column] = &[
    ("wire B", "per event", |_, row| figure(row.wire.bytes_per_event)),
    ("events per", "envelope", |_, row| figure(row.wire.events_per_envelope)),
    ("", "read", |_, row| figure(row.wire.events_per_read)),
];
const CONNECTING: &[Column] = &[
    ("connections", "per s", |_, row| {
        row.throughput.events_per_s.map_or(String::new(), |it| short(it.median))
    }),
    ("CPU µs", "each", CPU[0].2),
    ("CPU", TO_BASELINE, CPU[1].2),
];
/// From when a connection was due to when its subscriptions stood.
const CONNECTING_LATE: &[Column] =
    &[("due to standing µs", LATENCY[0].1, LATENCY[0].2), LATENCY[1], LATENCY[2], LATENCY[4]];
const TOPICS: &[Column] =
    &[("envelopes", "per read", |_, row| figure(row.wire.envelopes_per_read))];
const MEMORY: &[Column] =
    &[("RSS", "MB", |_, row| figure(row.memory.rss_bytes.map(|it| it / 1e6)))];
const STOPPED: &[Column] = &[
    ("KiB per stopped", "mean", |_, row| {
        figure(row.memory.stopped_bytes_mean.map(|it| it / 1024.0))
    }),
    ("", "max", |_, row| figure(row.memory.stopped_bytes_max.map(|it| it / 1024.0))),
];
const IDLE: &[Column] = &[
    ("RSS KiB per", "connection", |_, row| {
        figure(row.memory.rss_bytes_per_connection.map(|it| it / 1024.0))
    }),
    ("RSS", TO_BASELINE, |part, row| compared(part, row, Metric::Memory)),
    ("opened", "in ms", |_, row| whole(row.load.open_ms)),
];
const ROUND_TRIP: &[Column] = &[
    ("round trip µs", "mean", |_, row| figure(row.round_trip.mean_us)),
    ("", "worst run", |_, row| figure(row.round_trip.mean_us_worst)),
    ("", "p50", |_, row| whole(row.round_trip.p50_us)),
    ("", "p99", |_, row| whole(row.round_trip.p99_us)),
    ("mean", TO_BASELINE, |part, row| compared(part, row, Metric::RoundTrip)),
];
const TOTAL: &[Column] = &[("total", "ms", |_, row| figure(row.round_trip.total_ms))];
const FROM_INTENDED: &[Column] = &[
    ("from intended µs", "p50", |_, row| whole(row.latency.p50_us)),
    ("", "p99", |_, row| whole(row.latency.p99_us)),
];
const RECEIVED: &[Column] = &[("received", "MB/s", |_, row| figure(row.throughput.mb_per_s))];
const LOAD: &[Column] = &[
    ("% of core", "subject", |_, row| row.load.subject_busy.map_or(String::new(), percent)),
    ("", "swarm", |_, row| row.load.swarm_busy.map_or(String::new(), percent)),
    ("limited", "by", |_, row| row.verdict.clone()),
];

/// The whole summary.
pub fn table(summary: &Summary) -> String {
    let machine = &summary.manifest.machine;
    let mut text = format!(
        "{} · {} cores · Linux {} · {}\n",
        machine.cpu,
        machine.cores,
        machine.kernel,
        pinned(machine)
    );
    for remark in &machine.remarks {
        text += &format!("{remark}\n");
    }
    for part in summary.parts.iter().filter(|part| !part.rows.is_empty()) {
        let (repeats, span_s) = (part.repeats, part.measured_ms as f64 / 1000.0);
        let effort = match part.budget_s {
            Some(_) => format!("spans of {span_s:.1} s until a cell is decided"),
            None => format!("{repeats} × {span_s:.1} s per subject"),
        };
        text += &format!("\n{}: {} ({effort})\n\n", part.name, part.title);
        text += &draw(&grid(part));
        for row in &part.rows {
            text += &heard::lines(row);
        }
        text += &notes(part);
    }
    printable(&text)
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

/// What a table of this part has, in any form.
pub(super) fn columns(part: &PartSummary) -> Vec<Column> {
    let has_topics = part.rows.iter().any(|row| row.cell.contains("topics"));
    let has_stopped = part.rows.iter().any(|row| row.memory.stopped_bytes_max.is_some());
    let mut groups: Vec<&[Column]> = match part.drive {
        Drive::Posted if part.is_closed_loop() => {
            vec![CPU, THROUGHPUT, SERVICE, BATCHING, MEMORY]
        }
        Drive::Posted => vec![CPU, THROUGHPUT, LATENCY, BATCHING, MEMORY],
        Drive::Ceiling => vec![CPU, THROUGHPUT, CEILING, LATENCY, BATCHING, MEMORY],
        Drive::SelfDriven => vec![CPU, THROUGHPUT, SCHEDULE, LATENCY, BATCHING, MEMORY],
        Drive::Idle => vec![IDLE, MEMORY],
        Drive::Ramp | Drive::Churn | Drive::Stampede => vec![CONNECTING, CONNECTING_LATE, MEMORY],
        Drive::Listen => vec![THROUGHPUT, RECEIVED, LATENCY, MEMORY],
        Drive::Publish => vec![CPU, THROUGHPUT, MEMORY],
        Drive::Echo => vec![ROUND_TRIP, FROM_INTENDED, RECEIVED, SCHEDULE, MEMORY],
        Drive::RoundTrip => vec![TOTAL, ROUND_TRIP, CPU, MEMORY],
    };
    if has_topics {
        groups.push(TOPICS);
    }
    if has_stopped {
        groups.push(STOPPED);
    }
    groups.push(LOAD);
    let mut columns = groups.concat();
    columns.retain(|(_, name, show)| {
        let is_empty =
            |row: &Row| show(part, row).is_empty() || *name == TO_BASELINE && row.is_baseline;
        ![TO_BASELINE, LATE].contains(name) || !part.rows.iter().all(is_empty)
    });
    columns
}

/// Columns as wide as they need; the first and the last begin at the left,
/// figures end at the right.
pub(super) fn draw(lines: &[Vec<String>]) -> String {
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

/// What a reader of this part's table must know, what holds over all cells first.
pub(super) fn notes(part: &PartSummary) -> String {
    let told = told(part);
    let mut text = String::new();
    for pooled in part.pooled.iter().filter(|it| !it.is_control && told.contains(&it.metric)) {
        text += &format!("All cells: {}\n", part.sentence(pooled));
    }
    if part.rows.iter().any(|row| row.is_noise) {
        text += "“Again” is the baseline once more (A/A): the noise. Others stand beside the mean of \
                 both.\n";
    }
    let asked = || told.iter().flat_map(|metric| part.asked(*metric));
    if asked().any(|it| it.word == Word::Undecided && it.not_excluded.is_some()) {
        text += "“% not excluded”: undecided, for the interval contains 1 and reaches so far.\n";
    }
    if asked().any(Comparison::is_corrected_away) {
        text += "“*”: its own interval excludes 1, but beside as many cells and subjects (Holm) \
                 that is no surprise.\n";
    }
    if part.drive != Drive::Echo
        && !part.drive.is_connecting()
        && part.rows.iter().any(|row| row.throughput.events_per_s.is_some() && !row.is_ranked)
    {
        text += "(events/s) in brackets: no throughput, for not the subject alone was saturated, or it \
                 left gaps.\n";
    }
    if part.rows.iter().any(|row| row.is_at_least) {
        text += "“≥”: the swarm could not offer more.\n";
    }
    if part.rows.iter().any(withholds_p99) {
        text +=
            "“–”: withheld, for the swarm itself published late by more than a tenth of the p99.\n";
    }
    text += &reasons(part);
    text += &differences(part);
    if !text.is_empty() {
        text.insert(0, '\n');
    }
    text
}

fn withholds_p99(row: &Row) -> bool {
    row.latency.published_late_p99_us.is_some() && row.latency.p99_us.is_none()
}

/// What this part's table compares.
fn told(part: &PartSummary) -> Vec<Metric> {
    match part.drive {
        Drive::Idle => vec![Metric::Memory],
        Drive::Echo => vec![Metric::RoundTrip],
        Drive::RoundTrip => vec![Metric::Cpu, Metric::RoundTrip],
        Drive::Ceiling => vec![Metric::Cpu, Metric::P99, Metric::Throughput],
        Drive::Publish => vec![Metric::Cpu],
        Drive::Listen => vec![Metric::P99],
        Drive::Posted | Drive::SelfDriven | Drive::Ramp | Drive::Churn | Drive::Stampede => {
            vec![Metric::Cpu, Metric::P99]
        }
    }
}

/// Why figures do not count as they might, an example of each.
fn reasons(part: &PartSummary) -> String {
    let example = |kind: &&str| {
        let row = part.rows.iter().find(|row| row.verdict.starts_with(*kind))?;
        let Row { cell, subject, why, .. } = row;
        (!why.is_empty()).then(|| format!("{kind}, e.g. {cell} · {subject}: {why}.\n"))
    };
    ["both", "swarm", "machine", "gaps"].iter().filter_map(example).collect()
}

/// What subjects differ in: once if it is the same in every cell, else by cell.
fn differences(part: &PartSummary) -> String {
    let told: Vec<String> = part.equality.iter().map(|cell| cell.differences()).collect();
    match told.first() {
        Some(first) if told.iter().all(|other| other == first) => match first.as_str() {
            "" => String::new(),
            _ => format!("differs: {first}.\n"),
        },
        _ => {
            let cells = part.equality.iter().zip(&told).filter(|(_, told)| !told.is_empty());
            cells.map(|(of, told)| format!("{} differs: {told}.\n", of.cell)).collect()
        }
    }
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

fn compared(part: &PartSummary, row: &Row, metric: Metric) -> String {
    match part.comparison(metric, row) {
        _ if row.is_baseline => "baseline".to_owned(),
        Some(comparison) => comparison.in_short(),
        None => String::new(),
    }
}
