//! Columns of tables: one for each figure of a row.

use super::browser::BrowserFigures;
use super::number::{digits, short};
use super::part_summary::PartSummary;
use super::row::Row;
use crate::measure::comparison::Metric;

/// A column: the two lines of its head, and its text for a part's row. An empty first line continues the one before.
pub(super) type Column = (&'static str, &'static str, fn(&PartSummary, &Row) -> String);

/// Columns of this name exist only if subjects are compared.
pub(super) const TO_BASELINE: &str = "× baseline";
/// Columns of this name exist only if the swarm had a schedule.
pub(super) const LATE: &str = "p99 µs";
/// The column of this name is there only if the run has the figure; older runs do not.
pub(super) const WITH_POLLS: &str = "with polls";
pub(super) const CPU: &[Column] = &[
    ("CPU µs", "per event", |_, row| figure(row.cpu.us_per_event.map(|estimate| estimate.median))),
    ("CPU", TO_BASELINE, |part, row| compared(part, row, Metric::Cpu)),
];
pub(super) const THROUGHPUT: &[Column] = &[("events", "per s", |_, row| per_s(row))];
/// An endpoint that the lab does not control sends messages: the lab cannot know which of them are events.
pub(super) const MESSAGES: &[Column] = &[("messages", "per s", |_, row| per_s(row))];
pub(super) const SCHEDULE: &[Column] = &[("% of", "schedule", |_, row| {
    row.throughput.share_of_schedule.map_or(String::new(), percent)
})];
pub(super) const LATENCY: &[Column] = &[
    ("latency µs", "p50", |_, row| whole(row.latency.p50_us)),
    ("", "p99", |_, row| match withholds_p99(row) {
        true => "–".to_owned(),
        false => whole(row.latency.p99_us),
    }),
    ("", "p99.9", |_, row| whole(row.latency.p999_us)),
    ("published late", LATE, |_, row| whole(row.latency.published_late_p99_us)),
    ("p99", TO_BASELINE, |part, row| compared(part, row, Metric::P99)),
];
/// In a closed loop, the latency is the service time.
pub(super) const SERVICE: &[Column] =
    &[("service time µs", LATENCY[0].1, LATENCY[0].2), LATENCY[1], LATENCY[2], LATENCY[4]];
pub(super) const CEILING: &[Column] =
    &[("events/s", TO_BASELINE, |part, row| compared(part, row, Metric::Throughput))];
pub(super) const BATCHING: &[Column] = &[
    ("wire B", "per event", |_, row| figure(row.wire.bytes_per_event)),
    ("events per", "envelope", |_, row| figure(row.wire.events_per_envelope)),
    ("", "read", |_, row| figure(row.wire.events_per_read)),
];
pub(super) const CONNECTING: &[Column] = &[
    ("connections", "per s", |_, row| {
        row.throughput.events_per_s.map_or(String::new(), |estimate| short(estimate.median))
    }),
    ("CPU µs", "each", CPU[0].2),
    ("CPU", TO_BASELINE, CPU[1].2),
];
/// From when a connection was due to when its subscriptions were confirmed.
pub(super) const CONNECTING_LATE: &[Column] =
    &[("due to standing µs", LATENCY[0].1, LATENCY[0].2), LATENCY[1], LATENCY[2], LATENCY[4]];
/// Delays of events that the lab publishes beside connections that come.
pub(super) const BESIDE: &[Column] = &[
    ("published beside µs", "p50", |_, row| whole(row.beside.and_then(|beside| beside.p50_us))),
    ("", "p99", |_, row| whole(row.beside.and_then(|beside| beside.p99_us))),
    ("", "max", |_, row| whole(row.beside.and_then(|beside| beside.max_us))),
    ("", "p99 before", |_, row| whole(row.beside.and_then(|beside| beside.before_p99_us))),
];
/// Time until all lost connections were established again and had all due events.
pub(super) const SERVED: &[Column] = &[("all served", "in s", |_, row| {
    figure((row.valid > 0).then(|| row.span_s / row.samples as f64))
})];
pub(super) const TOPICS: &[Column] =
    &[("envelopes", "per read", |_, row| figure(row.wire.envelopes_per_read))];
pub(super) const MEMORY: &[Column] =
    &[("RSS", "MB", |_, row| figure(row.memory.rss_bytes.map(|bytes| bytes / 1e6)))];
/// The CPU time of all processes beside a subject together.
pub(super) const PROCESSES: &[Column] =
    &[("processes beside", "CPU µs per event", |_, row| figure(row.cpu.beside_us_per_event))];
/// Further memory figures of a keyed load.
pub(super) const PROPORTIONAL: &[Column] = &[
    ("PSS", "MB", |_, row| figure(row.memory.pss_bytes.map(|bytes| bytes / 1e6))),
    ("kernel", "MB", |_, row| figure(row.memory.socket_bytes.map(|bytes| bytes / 1e6))),
];
/// From when the echo probe's request was due to when it was answered.
pub(super) const PROBE: &[Column] = &[
    ("echo probe µs", "p50", |_, row| whole(row.round_trip.p50_us)),
    ("", "p99", |_, row| whole(row.round_trip.p99_us)),
];
/// Only subjects that report it have a figure.
pub(super) const LOOP_DELAY: &[Column] =
    &[("loop delay µs", "mean", |_, row| whole(row.load.loop_delay_us))];
pub(super) const HELD: &[Column] = &[
    ("clients", "held", |_, row| {
        row.held.as_ref().map_or(String::new(), |held| {
            let least = if held.is_all { "≥ " } else { "" };
            format!("{least}{:.0}", held.connections.median)
        })
    }),
    ("clients", TO_BASELINE, |part, row| compared(part, row, Metric::Held)),
    ("bound", "by", |_, row| {
        row.held.as_ref().map_or(String::new(), |held| held.bound_by.to_owned())
    }),
];
pub(super) const STOPPED: &[Column] = &[
    ("KiB per stopped", "mean", |_, row| {
        figure(row.memory.stopped_bytes_mean.map(|bytes| bytes / 1024.0))
    }),
    ("", "max", |_, row| figure(row.memory.stopped_bytes_max.map(|bytes| bytes / 1024.0))),
];
pub(super) const IDLE: &[Column] = &[
    ("RSS KiB per", "connection", |_, row| {
        figure(row.memory.rss_bytes_per_connection.map(|bytes| bytes / 1024.0))
    }),
    ("RSS", TO_BASELINE, |part, row| compared(part, row, Metric::Memory)),
    ("opened", "in ms", |_, row| whole(row.load.open_ms)),
];
pub(super) const ROUND_TRIP: &[Column] = &[
    ("round trip µs", "mean", |_, row| figure(row.round_trip.mean_us)),
    ("", "worst run", |_, row| figure(row.round_trip.mean_us_worst)),
    ("", "p50", |_, row| whole(row.round_trip.p50_us)),
    ("", "p99", |_, row| whole(row.round_trip.p99_us)),
    ("mean", TO_BASELINE, |part, row| compared(part, row, Metric::RoundTrip)),
];
pub(super) const TOTAL: &[Column] = &[("total", "ms", |_, row| figure(row.round_trip.total_ms))];
pub(super) const FROM_INTENDED: &[Column] = &[
    ("from intended µs", "p50", |_, row| whole(row.latency.p50_us)),
    ("", "p99", |_, row| whole(row.latency.p99_us)),
];
pub(super) const RECEIVED: &[Column] =
    &[("received", "MB/s", |_, row| figure(row.throughput.mb_per_s))];
pub(super) const BROWSER_CPU: &[Column] = &[
    ("browser CPU µs", "per event", |_, row| {
        figure(
            row.browser
                .as_ref()
                .and_then(|browser| browser.us_per_event)
                .map(|estimate| estimate.median),
        )
    }),
    ("browser CPU", TO_BASELINE, |part, row| compared(part, row, Metric::BrowserCpu)),
];
pub(super) const BROWSER_KINDS: &[Column] = &[
    ("CPU, % of a core", "tab", |_, row| cores(row, |figures| figures.tab_cpu)),
    ("", "network", |_, row| cores(row, |figures| figures.network_cpu)),
    ("", "browser", |_, row| cores(row, |figures| figures.browser_cpu)),
    ("", "GPU", |_, row| cores(row, |figures| figures.gpu_cpu)),
    ("", "other", |_, row| cores(row, |figures| figures.other_cpu)),
    ("", "in all", |_, row| cores(row, |figures| figures.cpu.map(|cpu| cpu.median))),
    ("", "server", |_, row| cores(row, |figures| figures.subject_cpu.map(|cpu| cpu.median))),
];
/// Effects on the page.
pub(super) const BROWSER_PAGE: &[Column] = &[
    ("long tasks", "per s", |_, row| {
        figure(row.browser.as_ref().and_then(|browser| browser.long_tasks_per_s))
    }),
    ("", "% of time", |_, row| cores(row, |figures| figures.long_task_share)),
    ("JS heap", "MB", |_, row| {
        figure(row.browser.as_ref().and_then(|browser| browser.heap_bytes).map(|bytes| bytes / 1e6))
    }),
    ("RSS of tabs, MB", "at the end", |_, row| {
        figure(
            row.browser.as_ref().and_then(|browser| browser.tab_rss_bytes).map(|bytes| bytes / 1e6),
        )
    }),
    ("", "grown", |_, row| {
        figure(
            row.browser
                .as_ref()
                .and_then(|browser| browser.tab_rss_grown_bytes)
                .map(|bytes| bytes / 1e6),
        )
    }),
];
/// In a live page: from when a message was due to when its newest row was painted.
pub(super) const PAINTED: &[Column] = &[
    ("due to received µs", "p50", |_, row| page(row, |figures| figures.received_us).0),
    ("", "p99", |_, row| page(row, |figures| figures.received_us).1),
    ("to handled µs", "p50", |_, row| page(row, |figures| figures.handled_us).0),
    ("", "p99", |_, row| page(row, |figures| figures.handled_us).1),
    ("to painted µs", "p50", |_, row| page(row, |figures| figures.painted_us).0),
    ("", "p99", |_, row| page(row, |figures| figures.painted_us).1),
    ("input delay µs", "p50", |_, row| input(row, 0)),
    ("", "p95", |_, row| input(row, 1)),
    ("", "p99", |_, row| input(row, 2)),
];
pub(super) const LIMITED: &[Column] = &[("limited", "by", |_, row| row.verdict.clone())];
pub(super) const SWARM: Column =
    ("", "swarm", |_, row| row.load.swarm_busy.map_or(String::new(), percent));
pub(super) const LOAD: &[Column] = &[
    ("% of core", "subject", |_, row| row.load.subject_busy.map_or(String::new(), percent)),
    SWARM,
    ("", WITH_POLLS, |_, row| row.load.swarm_cpu.map_or(String::new(), percent)),
    ("limited", "by", |_, row| row.verdict.clone()),
];

fn per_s(row: &Row) -> String {
    match row.throughput.events_per_s {
        Some(events) if row.is_at_least => format!("≥ {}", short(events.median)),
        Some(events) if row.is_ranked => short(events.median),
        Some(events) => format!("({})", short(events.median)),
        None => String::new(),
    }
}

fn figure(value: Option<f64>) -> String {
    value.map_or(String::new(), digits)
}

/// Returns p50 and p99 of a delay in live pages, in µs.
fn page(row: &Row, delays_of: fn(&BrowserFigures) -> Option<(f64, f64)>) -> (String, String) {
    let delays = row.browser.as_ref().and_then(delays_of);
    (whole(delays.map(|(p50, _)| p50)), whole(delays.map(|(_, p99)| p99)))
}

fn input(row: &Row, quantile: usize) -> String {
    whole(row.browser.as_ref().and_then(|browser| Some(browser.input_us?[quantile])))
}

fn cores(row: &Row, of: fn(&BrowserFigures) -> Option<f64>) -> String {
    row.browser.as_ref().and_then(of).map_or(String::new(), percent)
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

/// Returns whether the swarm published too late for a p99.
pub(super) fn withholds_p99(row: &Row) -> bool {
    row.latency.published_late_p99_us.is_some() && row.latency.p99_us.is_none()
}
