//! How the swarm kept the schedule of an open loop.

use serde::{Deserialize, Serialize};

/// The smallest share of the due events that keeps the schedule.
const OFFERED: f64 = 0.99;
/// Events that are due at the end of the span, and published just after it, do not count.
const EDGE_EVENTS: u64 = 2;
/// From this share of a latency on, the swarm's own lateness is too large.
const LATE_SHARE: f64 = 0.10;

/// How the swarm itself kept the schedule in the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacing {
    /// Events due, over all topics.
    pub scheduled: u64,
    /// Events published.
    pub published: u64,
    /// Median time from when an event was due until it was written to the kernel. Older runs lack it, and took the time just before the
    /// write.
    #[serde(default)]
    pub late_p50_us: u64,
    /// The same, p99.
    pub late_p99_us: u64,
    /// The latest.
    pub late_max_us: u64,
}

impl Pacing {
    /// Returns whether the swarm did not offer what it should have.
    pub fn is_short(&self) -> bool {
        ((self.published + EDGE_EVENTS) as f64) < OFFERED * self.scheduled as f64
    }

    /// Returns whether the swarm's own lateness is too large a part of this p99, which then says little about the subject.
    pub fn is_late(&self, p99_us: u64) -> bool {
        self.late_p99_us as f64 > LATE_SHARE * p99_us as f64
    }

    /// Returns a sentence if the swarm published too little, or too late for a latency whose 99th percentile is `p99_us`.
    pub fn remark(&self, p99_us: u64) -> Option<String> {
        let Pacing { scheduled, published, late_p99_us, late_max_us, .. } = *self;
        if self.is_short() {
            return Some(format!("the swarm published {published} of {scheduled} events due"));
        }
        self.is_late(p99_us).then(|| {
            format!("the swarm itself published late: p99 {late_p99_us} µs, max {late_max_us} µs")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(published: u64, late_p99_us: u64, expected: Option<&str>) {
        let pacing = Pacing {
            scheduled: 1000,
            published,
            late_p99_us,
            late_max_us: 7000,
            ..Pacing::default()
        };
        assert_eq!(pacing.remark(2000).as_deref(), expected);
    }

    #[test]
    fn a_late_swarm_is_reported() {
        check(1000, 200, None);
        let sentence = "the swarm itself published late: p99 201 µs, max 7000 µs";
        check(1000, 201, Some(sentence));
        check(988, 0, None);
        check(987, 0, Some("the swarm published 987 of 1000 events due"));
    }

    #[test]
    fn an_event_at_the_very_end_is_no_shortfall() {
        let pacing = Pacing { scheduled: 15, published: 14, ..Pacing::default() };
        assert!(!pacing.is_short());
    }
}
