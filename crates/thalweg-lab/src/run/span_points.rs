//! Resources and latencies of a subject over a span of any length, as a bounded number of points.

use crate::measure::{Delays, Latency, Point};
use std::collections::BTreeMap;

/// Enough for a chart. Points are a tenth of a second apart in ten seconds, and six seconds in ten minutes.
const POINTS_MAX: usize = 120;
/// Looks from one reading of the latencies to the next, about a second: fewer events have no useful p99, and
/// a reading takes time from the swarm. A power of two, as the looks of a point, so that no reading is older
/// than its point.
const LOOKS_PER_LATENCY: usize = 8;

/// Numbers of events by their latency, µs.
type Buckets = BTreeMap<u64, u64>;

/// Points of a span, evenly apart. If there are too many, each two become one, and from then on twice as many
/// looks make a point.
#[derive(Clone, Debug)]
pub(super) struct SpanPoints {
    points: Vec<(Point, Buckets)>,
    looks: usize,
    looks_per_point: usize,
    /// The longest silence since the last point.
    silence_us: u64,
    /// All latencies that the points have, and the looks until the last of these points.
    counted: Buckets,
    counted_looks: usize,
    /// When latencies were last read, whether there were new ones or not.
    counted_us: u64,
}

impl Default for SpanPoints {
    fn default() -> SpanPoints {
        SpanPoints {
            points: Vec::new(),
            looks: 0,
            looks_per_point: 1,
            silence_us: 0,
            counted: Buckets::new(),
            counted_looks: 0,
            counted_us: 0,
        }
    }
}

impl SpanPoints {
    /// Counts a look, and returns whether it is a point.
    pub(super) fn wants_next(&mut self, silence_us: u64) -> bool {
        self.looks += 1;
        self.silence_us = self.silence_us.max(silence_us);
        self.looks.is_multiple_of(self.looks_per_point)
    }

    /// Adds a point. `latency` has all events since the span began.
    pub(super) fn push(&mut self, point: Point, latency: Option<&Latency>) {
        let is_due = self.looks.is_multiple_of(LOOKS_PER_LATENCY);
        let late = match latency.filter(|_| is_due) {
            Some(latency) => {
                self.counted_us = point.at_us;
                self.count(latency)
            }
            None => Buckets::new(),
        };
        let silence_us = std::mem::take(&mut self.silence_us);
        self.points.push((Point { silence_us, ..point }, late));
        if self.points.len() == POINTS_MAX {
            let mut points = std::mem::take(&mut self.points).into_iter();
            while let (Some(first), Some(second)) = (points.next(), points.next()) {
                self.points.push(merged(first, second));
            }
            self.looks_per_point *= 2;
        }
    }

    /// Returns the points, the last of them at the end of the span. `latency` has all events, also those that
    /// came later.
    pub(super) fn into_points(mut self, end: Point, latency: &Latency) -> Vec<Point> {
        let interval_us = match self.points.as_slice() {
            [.., (before, _), (last, _)] => last.at_us - before.at_us,
            _ => 0,
        };
        let looks = self.looks - self.counted_looks;
        // Some loads have latencies at the end only.
        let mut late = match self.counted.is_empty() {
            true => Buckets::new(),
            false => self.count(latency),
        };
        // Not one before a time without events: the events that ended it are of its end.
        let counted_us = self.counted_us;
        let with_latency = self
            .points
            .iter_mut()
            .rfind(|(point, late)| point.at_us >= counted_us && !late.is_empty());
        if let Some((_, last)) = with_latency
            && looks < self.looks_per_point.max(LOOKS_PER_LATENCY) / 2
        {
            add(last, std::mem::take(&mut late));
        }
        let mut end = (Point { silence_us: self.silence_us, ..end }, late);
        if let Some((last, _)) = self.points.last() {
            let Point { at_us, connections, kernel_bytes, .. } = *last;
            (end.0.connections, end.0.kernel_bytes) = (connections, kernel_bytes);
            if end.0.at_us.saturating_sub(at_us) < interval_us / 2
                && let Some(last) = self.points.pop()
            {
                end = merged(last, end);
            }
        }
        self.points.push(end);
        let mut of_point = Latency::default();
        let with_delays = |(point, late): (Point, Buckets)| {
            of_point.clear();
            late.into_iter().for_each(|(us, events)| of_point.record(us, events));
            Point { latency: Delays::new(&of_point), ..point }
        };
        self.points.into_iter().map(with_delays).collect()
    }

    /// Returns the latencies that are not counted yet.
    fn count(&mut self, latency: &Latency) -> Buckets {
        self.counted_looks = self.looks;
        let all: Buckets = latency.buckets().collect();
        let before = std::mem::replace(&mut self.counted, all.clone());
        let is_new = |(us, events): (u64, u64)| {
            let new = events.saturating_sub(before.get(&us).copied().unwrap_or(0));
            (new > 0).then_some((us, new))
        };
        all.into_iter().filter_map(is_new).collect()
    }
}

/// Returns one point for two consecutive ones: the second, with the maxima of both.
fn merged(first: (Point, Buckets), second: (Point, Buckets)) -> (Point, Buckets) {
    let ((first, mut late), (second, more)) = (first, second);
    add(&mut late, more);
    let point = Point {
        rss_bytes: first.rss_bytes.max(second.rss_bytes),
        kernel_bytes: first.kernel_bytes.max(second.kernel_bytes),
        silence_us: first.silence_us.max(second.silence_us),
        ..second
    };
    (point, late)
}

fn add(late: &mut Buckets, more: Buckets) {
    more.into_iter().for_each(|(us, events)| *late.entry(us).or_default() += events);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_US: u64 = 100_000;

    /// Looks ten times a second, at ten events each; the latest of look `n` is `n` µs late.
    fn points(looks: u64) -> Vec<Point> {
        let (mut span, mut latency) = (SpanPoints::default(), Latency::default());
        let rss_bytes = |look| if look == looks / 3 { 900 } else { 100 };
        for look in 1..=looks {
            latency.record(look, 10);
            if span.wants_next(look % 1000) {
                let at_us = look * LOOK_US;
                let point = Point { at_us, rss_bytes: rss_bytes(look), ..Point::default() };
                span.push(point, Some(&latency));
            }
        }
        latency.record(1_000_000, 1);
        let end = Point { at_us: looks * LOOK_US + 7, rss_bytes: 100, ..Point::default() };
        span.into_points(end, &latency)
    }

    #[test]
    fn no_time_of_a_span_is_lost() {
        for looks in [10, 119, 120, 121, 600, 6000, 100_001] {
            let points = points(looks);
            assert!(points.len() <= POINTS_MAX, "{looks}: {}", points.len());
            assert!(looks < 120 || points.len() >= POINTS_MAX / 2, "{looks}: {}", points.len());
            assert_eq!(points.last().unwrap().at_us, looks * LOOK_US + 7);
            let gaps: Vec<u64> = points.windows(2).map(|two| two[1].at_us - two[0].at_us).collect();
            let [all @ .., last] = gaps.as_slice() else { panic!("{looks}") };
            assert!(all.iter().all(|gap| gap == &gaps[0]), "{looks}: {gaps:?}");
            assert!((gaps[0] / 2..=gaps[0] * 3 / 2 + 7).contains(last), "{looks}: {gaps:?}");
            let silence_us = points.iter().map(|point| point.silence_us).max();
            assert_eq!(silence_us, Some(looks.min(999)), "{looks}");
        }
    }

    #[test]
    fn latencies_are_those_of_the_time_since_the_point_before() {
        for looks in [95, 600, 6000] {
            let points = points(looks);
            let known: Vec<(u64, Delays)> =
                points.iter().filter_map(|point| Some((point.at_us, point.latency?))).collect();
            let mut from = 1;
            for (at_us, delays) in &known[..known.len() - 1] {
                let to = at_us / LOOK_US;
                assert!(to - from >= 7, "{looks}: {from} to {to}");
                // Exact to three digits.
                let middle = (from + to) / 2;
                assert!(delays.p50_us.abs_diff(middle) <= 1 + middle / 500, "{delays:?} {from}");
                assert!(delays.max_us.abs_diff(to) <= 1 + to / 500, "{delays:?} {to}");
                from = to + 1;
            }
            let late_us = known.last().unwrap().1.max_us;
            assert!(late_us >= 1_000_000, "an event that came after the end: {late_us}");
            let held = points.iter().filter(|point| point.rss_bytes == 900).count();
            // Look 2,000 is no point when each 32 looks are one.
            assert_eq!(held, usize::from(looks < 6000));
        }
    }

    #[test]
    fn a_load_whose_latencies_are_known_at_the_end_only_has_none_over_time() {
        let (mut span, mut latency) = (SpanPoints::default(), Latency::default());
        for at_us in 0..20 {
            assert!(span.wants_next(0));
            span.push(Point { at_us, ..Point::default() }, None);
        }
        latency.record(5, 5);
        let end = Point { at_us: 4_000_000, ..Point::default() };
        assert!(span.into_points(end, &latency).iter().all(|point| point.latency.is_none()));
    }
}
