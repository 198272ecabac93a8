//! What a chart shows of a row.

use crate::measure::statistics::Estimate;
use crate::report::number::{brief_us, digits, round, short};
use crate::report::row::Row;
use crate::report::summary::PartSummary;
use crate::scenario::{Drive, Figure};

/// A figure with its interval.
pub(super) struct Metric {
    /// As in published figures.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) of: fn(&Row) -> Option<Estimate>,
    /// At a tick.
    pub(super) tick: fn(f64) -> String,
    /// With its unit.
    pub(super) show: fn(f64) -> String,
}

const EVENTS: Metric = Metric {
    key: "events-per-s",
    title: "Events per second",
    of: |row| row.throughput.events_per_s,
    tick: round,
    show: |it| format!("{}/s", short(it)),
};
const CPU: Metric = Metric {
    key: "cpu-us",
    title: "Subject’s CPU per event, µs",
    of: |row| row.cpu.us_per_event,
    tick: round,
    show: |it| format!("{} µs", digits(it)),
};
const BUSY: Metric = Metric {
    key: "subject-busy",
    title: "Subject’s CPU, % of its cores",
    of: |row| scaled(row.curves.spreads.subject_busy, 100.0),
    tick: round,
    show: |it| format!("{} %", digits(it)),
};
const P99: Metric = Metric {
    key: "p99-us",
    title: "Latency, p99",
    of: |row| row.curves.spreads.p99_us,
    tick: brief_us,
    show: micros,
};
const SET_UP_P99: Metric =
    Metric { key: "set-up-p99-us", title: "From due to standing, p99", ..P99 };
const SET_UP_CPU: Metric =
    Metric { key: "set-up-cpu-us", title: "Subject’s CPU per connection, µs", ..CPU };
const SET_UP: Metric =
    Metric { key: "set-up-per-s", title: "Connections that came to stand, per second", ..EVENTS };
const SERVICE_P99: Metric = Metric { title: "Service time, p99", ..P99 };
const ROUND_TRIP: Metric = Metric {
    key: "round-trip-us",
    title: "Mean round trip",
    of: |row| row.curves.spreads.round_trip_us,
    tick: brief_us,
    show: micros,
};
/// As experiment C's author has it: a figure without an interval.
const ROUND_TRIP_WORST: Metric = Metric {
    key: "round-trip-worst-us",
    title: "Mean round trip of the worst sample",
    of: |row| {
        let worst = row.round_trip.mean_us_worst?;
        Some(Estimate { median: worst, low: worst, high: worst })
    },
    tick: brief_us,
    show: micros,
};
const ROUND_TRIP_P99: Metric = Metric {
    key: "round-trip-p99-us",
    title: "Round trip, p99",
    of: |row| row.curves.spreads.round_trip_p99_us,
    tick: brief_us,
    show: micros,
};
const TOTAL: Metric = Metric {
    key: "round-trips-ms",
    title: "All round trips of a sample, ms",
    of: |row| row.curves.spreads.round_trips_ms,
    tick: round,
    show: |it| format!("{} ms", digits(it)),
};
const RECEIVED: Metric = Metric {
    key: "mb-per-s",
    title: "Received, MB/s",
    of: |row| row.curves.spreads.mb_per_s,
    tick: round,
    show: |it| format!("{} MB/s", digits(it)),
};
const PER_CONNECTION: Metric = Metric {
    key: "rss-per-connection",
    title: "Resident memory per connection, KiB",
    of: |row| scaled(row.curves.spreads.rss_bytes_per_connection, 1.0 / 1024.0),
    tick: round,
    show: |it| format!("{} KiB", digits(it)),
};
const OPENED: Metric = Metric {
    key: "open-ms",
    title: "Until all connections stood, ms",
    of: |row| row.curves.spreads.open_ms,
    tick: round,
    show: |it| format!("{} ms", digits(it)),
};

/// What a part's drive is about, the most telling first.
pub(super) fn metrics(part: &PartSummary) -> Vec<Metric> {
    let has_rate = part.rows.iter().all(|row| row.settings.rate > 0);
    match part.drive {
        Drive::Posted if has_rate && part.figure == Figure::Cpu => vec![CPU, BUSY, P99],
        // Where the rate is given, what it takes of the CPU is the next question.
        Drive::Posted if has_rate => vec![P99, BUSY, EVENTS],
        Drive::Posted if part.figure == Figure::Latency => vec![SERVICE_P99, EVENTS, CPU],
        Drive::Posted => vec![EVENTS, CPU, SERVICE_P99],
        Drive::Ceiling => vec![EVENTS, CPU, P99],
        Drive::SelfDriven => vec![EVENTS, BUSY, CPU, P99],
        Drive::Idle => vec![PER_CONNECTION, OPENED],
        Drive::Ramp | Drive::Churn | Drive::Stampede => vec![SET_UP_P99, SET_UP_CPU, SET_UP],
        Drive::Publish => vec![EVENTS, CPU],
        Drive::Echo => vec![ROUND_TRIP, ROUND_TRIP_WORST, ROUND_TRIP_P99, RECEIVED],
        Drive::Listen => vec![EVENTS, CPU, P99],
        Drive::RoundTrip => vec![TOTAL, ROUND_TRIP_P99, CPU],
    }
}

fn micros(us: f64) -> String {
    if us >= 10_000.0 {
        format!("{} ms", digits(us / 1000.0))
    } else {
        format!("{} µs", digits(us))
    }
}

fn scaled(estimate: Option<Estimate>, by: f64) -> Option<Estimate> {
    estimate.map(|Estimate { median, low, high }| Estimate {
        median: median * by,
        low: low * by,
        high: high * by,
    })
}
