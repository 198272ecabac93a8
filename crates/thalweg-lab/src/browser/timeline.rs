//! Counts of a span from the points that a page recorded: at the span's edges the page may be too busy to answer. Pure.

use crate::measure::Latency;
use serde::Deserialize;

/// State of a page at a moment: ms of its clock; events, bytes and messages since it began; and the due time of the message's
/// first event, µs of the machine's monotonic clock, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct PagePoint(
    pub(super) f64,
    pub(super) f64,
    pub(super) f64,
    pub(super) f64,
    pub(super) f64,
);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PageArrivals {
    pub(super) events: f64,
    pub(super) bytes: f64,
    pub(super) messages: f64,
}

/// Returns the arrivals between two times of the page's clock, ms; interpolates between points.
pub(super) fn arrivals(points: &[PagePoint], from_ms: f64, to_ms: f64) -> PageArrivals {
    let (from, to) = (at(points, from_ms), at(points, to_ms));
    PageArrivals {
        events: to.events - from.events,
        bytes: to.bytes - from.bytes,
        messages: to.messages - from.messages,
    }
}

/// Returns the latency of messages that arrived in this time; `ahead_us` is the lead of the machine's clock. Between
/// two points, the later one counts.
pub(super) fn latency(
    points: &[PagePoint],
    from_ms: f64,
    to_ms: f64,
    ahead_us: f64,
    into: &mut Latency,
) {
    for pair in points.windows(2) {
        let (before, point) = (pair[0], pair[1]);
        let events = point.1 - before.1;
        if point.4 > 0.0 && events >= 1.0 && (from_ms..to_ms).contains(&point.0) {
            let late_us = point.0 * 1000.0 + ahead_us - point.4;
            into.record(late_us.max(0.0) as u64, events as u64);
        }
    }
}

fn at(points: &[PagePoint], ms: f64) -> PageArrivals {
    let of =
        |point: &PagePoint| PageArrivals { events: point.1, bytes: point.2, messages: point.3 };
    let next = points.partition_point(|point| point.0 <= ms);
    match (next.checked_sub(1).map(|last| &points[last]), points.get(next)) {
        (Some(before), Some(after)) => {
            let share = (ms - before.0) / (after.0 - before.0);
            let between = |of: fn(&PagePoint) -> f64| of(before) + share * (of(after) - of(before));
            PageArrivals {
                events: between(|found| found.1),
                bytes: between(|found| found.2),
                messages: between(|found| found.3),
            }
        }
        (Some(one), None) | (None, Some(one)) => of(one),
        (None, None) => PageArrivals::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [PagePoint; 3] = [
        PagePoint(1000.0, 100.0, 1000.0, 10.0, 995_000.0),
        PagePoint(1100.0, 200.0, 2000.0, 20.0, 1_098_000.0),
        PagePoint(1300.0, 300.0, 3000.0, 30.0, 1_299_000.0),
    ];

    #[test]
    fn arrivals_at_an_edge_count_in_proportion() {
        let check = |from, to, events| {
            let found = arrivals(&POINTS, from, to);
            let expected = PageArrivals { events, bytes: 10.0 * events, messages: events / 10.0 };
            assert_eq!(found, expected, "{from} to {to}");
        };
        check(1000.0, 1100.0, 100.0);
        check(1050.0, 1200.0, 100.0);
        // Before the first point and after the last the counts are constant.
        check(0.0, 2000.0, 200.0);
        assert_eq!(arrivals(&[], 0.0, 1.0), PageArrivals::default());
    }

    #[test]
    fn latency_is_the_arrival_time_minus_the_due_time() {
        let mut found = Latency::default();
        latency(&POINTS, 1050.0, 1400.0, -1500.0, &mut found);
        assert_eq!(found.buckets().collect::<Vec<_>>(), [(0, 100), (500, 100)]);
    }
}
