//! Arrivals since the span began.

use crate::measure::{Latency, Traffic};
use std::ops::Range;

/// An event this long before its intended time is early. A smaller difference is due to timers, and to clocks read at different moments.
pub(super) const EARLY_US: u64 = 50;
/// Latencies of all events count.
const ALWAYS: Range<u64> = 0..u64::MAX;

/// Counts of the events that arrived in one span, and latencies of the events that were due in it. On a schedule, some due events arrive
/// after the span, and some arrivals were due before it.
#[derive(Debug)]
pub(super) struct SpanStatistics {
    pub(super) traffic: Traffic,
    pub(super) latency: Latency,
    /// Due times of events whose latency counts.
    due_us: Range<u64>,
}

impl Default for SpanStatistics {
    fn default() -> SpanStatistics {
        SpanStatistics { traffic: Traffic::default(), latency: Latency::default(), due_us: ALWAYS }
    }
}

impl SpanStatistics {
    /// Records `events` that were due at `due_us` and arrived now.
    #[inline]
    pub(super) fn record(&mut self, due_us: u64, now_us: u64, events: u64) {
        self.traffic.events += events;
        self.late(due_us, now_us, events);
    }

    /// Records how late `events` due at `due_us` are by now, whether they have arrived or not.
    #[inline]
    pub(super) fn late(&mut self, due_us: u64, now_us: u64, events: u64) {
        if self.due_us.contains(&due_us) {
            self.latency.record(now_us.saturating_sub(due_us), events);
        }
    }

    /// Resets the statistics: all arrivals from now on count.
    pub(super) fn reset(&mut self) {
        self.traffic = Traffic::default();
        self.latency.clear();
        self.due_us = ALWAYS;
    }

    /// Begins a new span: only latencies of events due from `due_us` on count.
    pub(super) fn begin(&mut self, due_us: u64) {
        self.reset();
        self.due_us.start = due_us;
    }

    /// Returns the first due time of events whose latency counts.
    pub(super) fn begun_us(&self) -> u64 {
        self.due_us.start
    }

    /// Ends the span: latencies of events due from `due_us` on do not count. Returns the span's traffic.
    pub(super) fn end(&mut self, due_us: u64) -> Traffic {
        self.due_us.end = due_us;
        std::mem::take(&mut self.traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_count_by_due_time_and_traffic_by_arrival_time() {
        let mut statistics = SpanStatistics::default();
        statistics.record(0, 7, 1);
        statistics.begin(1000);
        statistics.record(900, 1100, 1);
        statistics.record(1000, 1200, 2);
        statistics.record(1999, 2000, 4);
        assert_eq!(statistics.end(2000).events, 7);
        statistics.record(1500, 2500, 8);
        statistics.record(2000, 2600, 16);
        let buckets: Vec<_> = statistics.latency.buckets().collect();
        assert_eq!(buckets, [(1, 4), (200, 2), (1000, 8)]);
        statistics.reset();
        statistics.record(1, 2, 1);
        assert_eq!((statistics.traffic.events, statistics.latency.quantile_us(1.0)), (1, Some(1)));
    }
}
