//! Figures of a row for charts.

use crate::measure::statistics::Estimate;
use crate::report::number::{brief_us, digits, round, short};
use crate::report::row::Row;

pub(in crate::report) struct Metric {
    /// As in published figures.
    pub(in crate::report) key: &'static str,
    pub(in crate::report) title: &'static str,
    pub(in crate::report) of: fn(&Row) -> Option<Estimate>,
    /// At a tick.
    pub(in crate::report) tick: fn(f64) -> String,
    /// With its unit.
    pub(in crate::report) show: fn(f64) -> String,
}

pub(in crate::report) const EVENTS: Metric = Metric {
    key: "events-per-s",
    title: "Events per second",
    of: |row| row.throughput.events_per_s,
    tick: round,
    show: |value| format!("{}/s", short(value)),
};
pub(in crate::report) const CPU: Metric = Metric {
    key: "cpu-us",
    title: "Subject’s CPU per event, µs",
    of: |row| row.cpu.us_per_event,
    tick: round,
    show: |value| format!("{} µs", digits(value)),
};
pub(in crate::report) const MESSAGES: Metric = Metric { title: "Messages per second", ..EVENTS };
pub(in crate::report) const MESSAGE_CPU: Metric =
    Metric { title: "Server’s CPU per message, µs", ..CPU };
pub(in crate::report) const BUSY: Metric = Metric {
    key: "subject-busy",
    title: "Subject’s CPU, % of its cores",
    of: |row| scaled(row.curves.spreads.subject_busy, 100.0),
    tick: round,
    show: |value| format!("{} %", digits(value)),
};
pub(in crate::report) const P99: Metric = Metric {
    key: "p99-us",
    title: "Latency, p99",
    of: |row| row.curves.spreads.p99_us,
    tick: brief_us,
    show: micros,
};
pub(in crate::report) const SET_UP_P99: Metric =
    Metric { key: "set-up-p99-us", title: "From due to standing, p99", ..P99 };
pub(in crate::report) const SET_UP_CPU: Metric =
    Metric { key: "set-up-cpu-us", title: "Subject’s CPU per connection, µs", ..CPU };
pub(in crate::report) const SET_UP: Metric =
    Metric { key: "set-up-per-s", title: "Connections that came to stand, per second", ..EVENTS };
pub(in crate::report) const SERVICE_P99: Metric = Metric { title: "Service time, p99", ..P99 };
pub(in crate::report) const ROUND_TRIP: Metric = Metric {
    key: "round-trip-us",
    title: "Mean round trip",
    of: |row| row.curves.spreads.round_trip_us,
    tick: brief_us,
    show: micros,
};
pub(in crate::report) const HELD: Metric = Metric {
    key: "clients-held",
    title: "Clients held within the objective",
    of: |row| Some(row.held.as_ref()?.connections),
    tick: round,
    show: round,
};
/// As experiment C's author has it: a figure without an interval.
pub(in crate::report) const ROUND_TRIP_WORST: Metric = Metric {
    key: "round-trip-worst-us",
    title: "Mean round trip of the worst sample",
    of: |row| {
        let worst = row.round_trip.mean_us_worst?;
        Some(Estimate { median: worst, low: worst, high: worst })
    },
    tick: brief_us,
    show: micros,
};
pub(in crate::report) const ROUND_TRIP_P99: Metric = Metric {
    key: "round-trip-p99-us",
    title: "Round trip, p99",
    of: |row| row.curves.spreads.round_trip_p99_us,
    tick: brief_us,
    show: micros,
};
pub(in crate::report) const TOTAL: Metric = Metric {
    key: "round-trips-ms",
    title: "All round trips of a sample, ms",
    of: |row| row.curves.spreads.round_trips_ms,
    tick: round,
    show: |value| format!("{} ms", digits(value)),
};
pub(in crate::report) const RECEIVED: Metric = Metric {
    key: "mb-per-s",
    title: "Received, MB/s",
    of: |row| row.curves.spreads.mb_per_s,
    tick: round,
    show: |value| format!("{} MB/s", digits(value)),
};
pub(in crate::report) const PER_CONNECTION: Metric = Metric {
    key: "rss-per-connection",
    title: "Resident memory per connection, KiB",
    of: |row| scaled(row.curves.spreads.rss_bytes_per_connection, 1.0 / 1024.0),
    tick: round,
    show: |value| format!("{} KiB", digits(value)),
};
pub(in crate::report) const OPENED: Metric = Metric {
    key: "open-ms",
    title: "Until all connections stood, ms",
    of: |row| row.curves.spreads.open_ms,
    tick: round,
    show: |value| format!("{} ms", digits(value)),
};

pub(in crate::report) const BROWSER_CPU: Metric = Metric {
    key: "browser-cpu-us",
    title: "Browser’s CPU per event, µs",
    of: |row| row.browser.as_ref()?.us_per_event,
    tick: round,
    show: |value| format!("{} µs", digits(value)),
};
pub(in crate::report) const BROWSER_BUSY: Metric = Metric {
    key: "browser-busy",
    title: "Browser’s CPU, % of a core",
    of: |row| scaled(row.browser.as_ref()?.cpu, 100.0),
    tick: round,
    show: |value| format!("{} %", digits(value)),
};
pub(in crate::report) const SUBJECT_CORES: Metric = Metric {
    key: "subject-cores",
    title: "Server’s CPU, % of a core",
    of: |row| scaled(row.browser.as_ref()?.subject_cpu, 100.0),
    tick: round,
    show: |value| format!("{} %", digits(value)),
};

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
