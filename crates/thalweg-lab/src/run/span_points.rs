//! The resources that a subject uses over a span of any length, as a bounded number of points.

use crate::measure::Point;

/// More than any chart shows: ten a second for two minutes, and every second, fourth, … look of a longer span.
const POINTS_MAX: usize = 1200;
/// Points for each reading of proportional memory, if it is read.
const POINTS_PER_PSS: usize = 10;

/// Points of a span, evenly apart. If there are too many, every second one is removed, and from then on every second look is skipped.
#[derive(Clone, Debug)]
pub(super) struct SpanPoints {
    points: Vec<Point>,
    looks: usize,
    looks_per_point: usize,
}

impl Default for SpanPoints {
    fn default() -> SpanPoints {
        SpanPoints { points: Vec::new(), looks: 0, looks_per_point: 1 }
    }
}

impl SpanPoints {
    /// Counts a look, and returns whether its point is kept.
    pub(super) fn wants_next(&mut self) -> bool {
        let is_wanted = self.looks.is_multiple_of(self.looks_per_point);
        self.looks += 1;
        is_wanted
    }

    /// Returns whether the next point has proportional memory.
    pub(super) fn wants_pss(&self) -> bool {
        self.points.len().is_multiple_of(POINTS_PER_PSS)
    }

    pub(super) fn push(&mut self, point: Point) {
        self.points.push(point);
        if self.points.len() > POINTS_MAX {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.looks_per_point *= 2;
        }
    }

    pub(super) fn into_points(self) -> Vec<Point> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_span_has_points_from_its_first_look_to_its_last() {
        for looks in [10, 1200, 1201, 6000, 100_000] {
            let mut span = SpanPoints::default();
            for look in 0..looks {
                if span.wants_next() {
                    let pss_bytes = span.wants_pss().then_some(1);
                    span.push(Point { at_us: look, pss_bytes, ..Point::default() });
                }
            }
            let points = span.into_points();
            let gaps: Vec<u64> = points.windows(2).map(|two| two[1].at_us - two[0].at_us).collect();
            assert!(points.len() <= POINTS_MAX, "{looks}: {}", points.len());
            assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{looks}: {gaps:?}");
            assert!(looks - points.last().unwrap().at_us <= gaps[0], "{looks}");
            assert!(points.iter().filter(|point| point.pss_bytes.is_some()).count() > 0);
        }
    }
}
