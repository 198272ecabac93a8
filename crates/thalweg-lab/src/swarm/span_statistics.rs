//! Arrivals since the span began.

use crate::measure::{Latency, Traffic};
use std::ops::Range;

/// An event this long before its intended time is early; less, and a timer or a clock was read in between.
pub(super) const EARLY_US: u64 = 50;
/// Latencies of all events count.
const ALWAYS: Range<u64> = 0..u64::MAX;

/// Counts of the events that came in one span, and latencies of the events that were due in it: on a schedule some of them come
/// later, and some that come were due before.
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
    /// `events` that were due then came now.
    #[inline]
    pub(super) fn record(&mut self, due_us: u64, now_us: u64, events: u64) {
        self.traffic.events += events;
        self.late(due_us, now_us, events);
    }

    /// `events` that were due then are so late by now, whether they have come or not.
    #[inline]
    pub(super) fn late(&mut self, due_us: u64, now_us: u64, events: u64) {
        if self.due_us.contains(&due_us) {
            self.latency.record(now_us.saturating_sub(due_us), events);
        }
    }

    /// Everything that comes from now on counts.
    pub(super) fn reset(&mut self) {
        self.traffic = Traffic::default();
        self.latency.clear();
        self.due_us = ALWAYS;
    }

    /// A new span begins: only latencies of events due from then on count.
    pub(super) fn begin(&mut self, due_us: u64) {
        self.reset();
        self.due_us.start = due_us;
    }

    /// First due time of events whose latency counts.
    pub(super) fn begun_us(&self) -> u64 {
        self.due_us.start
    }

    /// The span is over: latencies of events due from then on do not count. Returns its traffic.
    pub(super) fn end(&mut self, due_us: u64) -> Traffic {
        self.due_us.end = due_us;
        std::mem::take(&mut self.traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_of_what_was_due_in_the_span_and_traffic_is_what_came_in_it() {
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
