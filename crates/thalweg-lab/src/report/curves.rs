//! Figures of a row for charts only: curves, and the spread of single samples.

use crate::measure::statistics::{Estimate, estimate, median};
use crate::measure::{Point, Sample, Step, Verdict, shows_p99};
use crate::scenario::Settings;
use serde::Serialize;

/// Points of a curve over time; more than a small chart can show.
const MOMENTS_MAX: usize = 60;

/// Figures of a row for charts only.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curves {
    /// The limit of most samples that count; if none counts, why the first does not.
    pub limited_by: Verdict,
    /// Seconds since the span began, and resident bytes then: medians of samples.
    pub rss_bytes: Vec<(f64, f64)>,
    /// The same for proportional memory, if it was read.
    pub pss_bytes: Vec<(f64, f64)>,
    /// The same for the kernel's memory for TCP.
    pub kernel_bytes: Vec<(f64, f64)>,
    /// Rates tried with the `ceiling` drive, or seconds of a ramp, sample by sample.
    pub steps: Vec<Step>,
    /// Intervals of the row's medians.
    pub spreads: Spreads,
}

/// Medians with their intervals.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spreads {
    /// p99 latency from the intended time.
    pub p99_us: Option<Estimate>,
    /// Mean round trip of a sample.
    pub round_trip_us: Option<Estimate>,
    /// p99 round trip.
    pub round_trip_p99_us: Option<Estimate>,
    /// Time of all round trips of a sample.
    pub round_trips_ms: Option<Estimate>,
    /// Mean share of the subject's cores.
    pub subject_busy: Option<Estimate>,
    /// Received bytes with framing, in millions.
    pub mb_per_s: Option<Estimate>,
    /// Growth of resident memory since the subject was ready.
    pub rss_bytes_per_connection: Option<Estimate>,
    /// Time until all connections were established.
    pub open_ms: Option<Estimate>,
}

impl Curves {
    /// Returns the curves of a row, from all its samples and those that count.
    pub(super) fn new(all: &[&Sample], valid: &[&Sample], settings: &Settings) -> Curves {
        Curves {
            limited_by: limited_by(all, valid),
            rss_bytes: over_time(valid, |point| Some(point.rss_bytes)),
            pss_bytes: over_time(valid, |point| point.pss_bytes),
            kernel_bytes: over_time(valid, |point| {
                Some(point.kernel_bytes).filter(|bytes| *bytes > 0)
            }),
            steps: valid.iter().flat_map(|sample| sample.steps.clone()).collect(),
            spreads: Spreads::new(valid, settings),
        }
    }
}

impl Spreads {
    fn new(valid: &[&Sample], settings: &Settings) -> Spreads {
        let spread = |of: &dyn Fn(&Sample) -> Option<f64>| {
            estimate(&valid.iter().filter_map(|sample| of(sample)).collect::<Vec<_>>())
        };
        Spreads {
            p99_us: spread(&Sample::p99_us).filter(|_| shows_p99(valid)),
            round_trip_us: spread(&|sample| Some(sample.round_trips?.mean_us)),
            round_trip_p99_us: spread(&|sample| Some(sample.round_trips?.p99_us as f64)),
            round_trips_ms: spread(&|sample| Some(sample.round_trips?.total_us as f64 / 1000.0)),
            subject_busy: spread(&|sample| Some(sample.subject_busy)),
            mb_per_s: spread(&|sample| {
                Some(sample.traffic.wire_bytes as f64 / sample.span_us.max(1) as f64)
            }),
            rss_bytes_per_connection: spread(&|sample| {
                Some(sample.rss_bytes_per_connection(settings.connections))
            }),
            open_ms: spread(&|sample| Some(sample.open_us as f64 / 1000.0)),
        }
    }
}

fn limited_by(all: &[&Sample], valid: &[&Sample]) -> Verdict {
    let count =
        |verdict: &Verdict| valid.iter().filter(|sample| sample.verdict == *verdict).count();
    let most = valid.iter().map(|sample| &sample.verdict).max_by_key(|verdict| count(verdict));
    most.or(all.first().map(|sample| &sample.verdict)).cloned().unwrap_or_default()
}

/// Returns medians over time. All samples of a row have points at the same times, so the medians are of the first, second, … point of each.
fn over_time(valid: &[&Sample], of: impl Fn(&Point) -> Option<u64>) -> Vec<(f64, f64)> {
    let known = |sample: &&Sample| -> Vec<(f64, f64)> {
        let at_s = |point: &Point| point.at_us as f64 / 1e6;
        sample.timeline.iter().filter_map(|point| Some((at_s(point), of(point)? as f64))).collect()
    };
    let timelines: Vec<_> = valid.iter().map(known).collect();
    let looks = timelines.iter().map(Vec::len).filter(|&len| len > 0).min().unwrap_or(0);
    let step = looks.div_ceil(MOMENTS_MAX).max(1);
    let at = |look: usize| {
        let (at_s, bytes): (Vec<f64>, Vec<f64>) =
            timelines.iter().filter_map(|timeline| timeline.get(look)).copied().unzip();
        Some((median(&at_s)?, median(&bytes)?))
    };
    (0..looks).step_by(step).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_over_time_is_the_middle_of_the_samples() {
        let sample = |bytes: u64, looks: u64| Sample {
            timeline: (0..looks)
                .map(|look| Point {
                    at_us: look * 500_000,
                    rss_bytes: bytes + look,
                    ..Point::default()
                })
                .collect(),
            ..Sample::default()
        };
        let (small, middle, large, none) =
            (sample(10, 3), sample(100, 4), sample(1000, 3), sample(0, 0));
        let curve = over_time(&[&small, &large, &none, &middle], |point| Some(point.rss_bytes));
        assert_eq!(curve, [(0.0, 100.0), (0.5, 101.0), (1.0, 102.0)]);
    }
}
