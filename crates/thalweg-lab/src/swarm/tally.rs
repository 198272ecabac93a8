//! What came in since the span began.

use crate::measure::{Latency, Traffic};

/// What arrives so long before its intended time is early; less, and a timer or a
/// clock was read in between.
pub(super) const EARLY_US: u64 = 50;

/// Counts and latencies of one span.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) traffic: Traffic,
    pub(super) latency: Latency,
}

impl Tally {
    /// `events` came `latency_us` after their intended time.
    #[inline]
    pub(super) fn late(&mut self, latency_us: u64, events: u64) {
        self.traffic.events += events;
        self.latency.record(latency_us, events);
    }

    /// A new span begins.
    pub(super) fn reset(&mut self) {
        self.traffic = Traffic::default();
        self.latency.clear();
    }
}
