//! Figures of a row for charts only: curves, and the spread of single samples.

use super::number::digits;
use crate::measure::statistics::{Estimate, estimate, median};
use crate::measure::{Point, Sample, Step, Verdict, shows_p99};
use crate::scenario::Settings;
use serde::Serialize;

/// Points of a curve over time. Samples have no more of them; those of older runs have ten times as many.
const MOMENTS_MAX: usize = 120;
/// CPU over a shorter time is noise.
const CPU_OVER_US_MIN: u64 = 50_000;
/// Curves that a terminal shows are at least this long, and have at least this many points.
const SHOWN_S_MIN: f64 = 10.0;
const SHOWN_MOMENTS_MIN: usize = 8;
/// Width of a curve in a terminal.
const BARS: usize = 20;

/// Figures of a row for charts only.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curves {
    /// The limit of most samples that count; if none counts, why the first does not.
    pub limited_by: Verdict,
    /// Seconds since the span began, and resident bytes then: medians of samples.
    pub rss_bytes: Curve,
    /// The same for the cores that the subject used since the point before.
    pub cpu_cores: Curve,
    /// The same for the kernel's memory for TCP.
    pub kernel_bytes: Curve,
    /// Median latency of the events since the point before.
    pub p50_us: Curve,
    /// Their p99 latency.
    pub p99_us: Curve,
    /// The latest of them, or one that a subscriber still lacked; over an external endpoint's connections,
    /// the longest silence of one.
    pub late_us_max: Curve,
    /// Rates tried with the `ceiling` drive, or seconds of a ramp, sample by sample.
    pub steps: Vec<Step>,
    /// Intervals of the row's medians.
    pub spreads: Spreads,
}

/// Times in seconds, and values.
pub type Curve = Vec<(f64, f64)>;

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
        // As in the row: a load generator that published late has no high percentiles.
        let shows_late = valid.iter().all(|sample| sample.latency.is_none()) || shows_p99(valid);
        Curves {
            limited_by: limited_by(all, valid),
            rss_bytes: over_time(valid, |_, _, point| known(point.rss_bytes)),
            cpu_cores: over_time(valid, |_, before, point| {
                let over_us = point.at_us.saturating_sub(before.at_us);
                let cpu_ns = known(point.cpu_ns)? - before.cpu_ns as f64;
                (over_us >= CPU_OVER_US_MIN).then(|| cpu_ns.max(0.0) / 1000.0 / over_us as f64)
            }),
            kernel_bytes: over_time(valid, |_, _, point| known(point.kernel_bytes)),
            p50_us: over_time(valid, |_, _, point| Some(point.latency?.p50_us as f64)),
            p99_us: over_time(valid, |_, _, point| {
                Some(point.latency.filter(|_| shows_late)?.p99_us as f64)
            }),
            late_us_max: over_time(valid, |sample, before, point| {
                let late_us = point.latency.map_or(0, |latency| latency.max_us);
                let over_us = point.at_us.saturating_sub(before.at_us);
                match sample.received {
                    Some(_) => known(point.silence_us),
                    None if !shows_late => None,
                    // No event came, or latencies were not read: a silence of the whole time is shown.
                    None if point.latency.is_none() && point.silence_us < over_us => None,
                    None => known(late_us.max(point.silence_us)),
                }
            }),
            steps: valid.iter().flat_map(|sample| sample.steps.clone()).collect(),
            spreads: Spreads::new(valid, settings),
        }
    }

    pub(super) fn leave_out_latencies(&mut self) {
        for curve in [&mut self.p50_us, &mut self.p99_us, &mut self.late_us_max] {
            curve.clear();
        }
    }

    /// Returns the curves of a long measurement in one line: figures at the start, in the middle and at the
    /// end, and bars. `None` if it is short.
    pub(super) fn in_words(&self, is_external: bool) -> Option<String> {
        let curve = |name: &str, curve: &Curve, by: f64, unit: &str| {
            let is_long = curve.last()?.0 >= SHOWN_S_MIN && curve.len() >= SHOWN_MOMENTS_MIN;
            let thirds = [0.0, 0.5, 1.0].map(|share| digits(around(curve, share) * by));
            is_long.then(|| format!("{name} {} {unit} {}", thirds.join(", "), bars(curve)))
        };
        let late = if is_external { "longest silence" } else { "latest event" };
        let curves = [
            curve("resident", &self.rss_bytes, 1e-6, "MB"),
            curve("CPU", &self.cpu_cores, 100.0, "% of a core"),
            curve("p99", &self.p99_us, 1e-3, "ms"),
            curve(late, &self.late_us_max, 1e-3, "ms"),
        ];
        let curves: Vec<String> = curves.into_iter().flatten().collect();
        (!curves.is_empty()).then(|| curves.join("; "))
    }
}

fn known(value: u64) -> Option<f64> {
    (value > 0).then_some(value as f64)
}

/// Returns the mean of a tenth of a curve around this share of it. The kernel counts CPU in ticks, so that a median of a few points
/// of a process that uses little may be 0.
fn around(curve: &Curve, share: f64) -> f64 {
    let count = curve.len().div_ceil(10);
    let first = ((curve.len() - count) as f64 * share).round() as usize;
    curve[first..first + count].iter().map(|point| point.1).sum::<f64>() / count.max(1) as f64
}

/// Returns a curve as bars, from 0 to its maximum. Each bar is the maximum of its time.
fn bars(curve: &Curve) -> String {
    let most = curve.iter().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let parts = curve.chunks(curve.len().div_ceil(BARS).max(1));
    let height = |part: &[(f64, f64)]| {
        let share = part.iter().map(|point| point.1).fold(0.0, f64::max) / most;
        ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][(share * 7.0).round() as usize]
    };
    parts.map(height).collect()
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

/// Returns medians over time, at the times of the sample with the fewest points: of its points, and of those of the others that are
/// nearest in time. Samples of a row may have different numbers of points.
/// `of` gets each point with the one before.
fn over_time(valid: &[&Sample], of: impl Fn(&Sample, &Point, &Point) -> Option<f64>) -> Curve {
    let known = |sample: &&Sample| -> Curve {
        let step = sample.timeline.len().div_ceil(MOMENTS_MAX).max(1);
        let mut before = Point::default();
        let points = sample.timeline.iter().skip(step - 1).step_by(step);
        let value = |point: &Point| {
            let before = std::mem::replace(&mut before, *point);
            Some((point.at_us as f64 / 1e6, of(sample, &before, point)?))
        };
        points.filter_map(value).collect()
    };
    let timelines: Vec<Curve> = valid.iter().map(known).collect();
    let not_empty = timelines.iter().filter(|timeline| !timeline.is_empty());
    let fewest = not_empty.min_by_key(|timeline| timeline.len());
    let at = |&(at_s, _): &(f64, f64)| {
        let distance = |point: &(f64, f64)| (point.0 - at_s).abs();
        let nearest = |timeline: &Curve| {
            timeline.iter().copied().min_by(|one, other| distance(one).total_cmp(&distance(other)))
        };
        let (times, values): (Vec<f64>, Vec<f64>) = timelines.iter().filter_map(nearest).unzip();
        let rounded = |value: f64| (value * 1e4).round() / 1e4;
        Some((rounded(median(&times)?), rounded(median(&values)?)))
    };
    fewest.into_iter().flatten().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Delays, Received};

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
        let all = [&small, &large, &none, &middle];
        let curve = over_time(&all, |_, _, point| Some(point.rss_bytes as f64));
        assert_eq!(curve, [(0.0, 100.0), (0.5, 101.0), (1.0, 102.0)]);
    }

    /// A minute whose memory grows and whose events are late in its last quarter.
    fn leaking() -> Sample {
        let point = |second: u64| Point {
            at_us: second * 1_000_000,
            cpu_ns: second * 250_000_000,
            rss_bytes: 10_000_000 + second * 1_000_000,
            latency: Some(Delays {
                p99_us: if second > 45 { 80_000 } else { 1000 },
                max_us: 90_000,
                ..Delays::default()
            }),
            silence_us: if second == 30 { 3_000_000 } else { 1000 },
            ..Point::default()
        };
        Sample { timeline: (1..=60).map(point).collect(), ..Sample::default() }
    }

    #[test]
    fn a_leak_is_visible_in_a_terminal() {
        let sample = leaking();
        let words = |sample: &Sample| {
            let is_external = sample.received.is_some();
            Curves::new(&[sample], &[sample], &Settings::default()).in_words(is_external)
        };
        insta::assert_snapshot!(words(&sample).unwrap().replace("; ", ";\n"), @"
        resident 13.5, 40.5, 67.5 MB ▂▃▃▃▄▄▄▄▅▅▅▆▆▆▇▇▇▇██;
        CPU 25.0, 25.0, 25.0 % of a core ████████████████████;
        p99 1.00, 1.00, 80.0 ms ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█████;
        latest event 90.0, 575, 90.0 ms ▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁
        ");
        let external = Sample { received: Some(Received::default()), ..sample.clone() };
        assert!(words(&external).unwrap().contains("silence 1.00, 501, 1.00 ms ▁▁▁▁▁▁▁▁▁█"));
        let short = Sample { timeline: sample.timeline[..9].to_vec(), ..sample };
        assert_eq!(words(&short), None);
    }

    #[test]
    fn cpu_over_time_is_of_the_time_between_points_also_in_older_runs() {
        let timeline = (0..1200).map(|look| Point {
            at_us: look * 100_000,
            cpu_ns: look * 50_000_000,
            ..Point::default()
        });
        let old = Sample { timeline: timeline.collect(), ..Sample::default() };
        let Curves { cpu_cores, rss_bytes, late_us_max, .. } =
            Curves::new(&[&old], &[&old], &Settings::default());
        assert_eq!(cpu_cores.len(), MOMENTS_MAX);
        assert!(cpu_cores.iter().all(|point| point.1 == 0.5), "{cpu_cores:?}");
        assert!(rss_bytes.is_empty() && late_us_max.is_empty(), "not known");
    }
}
