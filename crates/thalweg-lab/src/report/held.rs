//! How many clients a ramp held within its objective, what bound it, and how it failed.

use super::number::{bytes, digits};
use crate::measure::statistics::{Estimate, estimate};
use crate::measure::{Held, Point, Sample};
use crate::scenario::Settings;
use serde::Serialize;

/// From this share on a core counts as saturated, as in a verdict.
const SATURATED: f64 = 0.95;
/// The subject's CPU is averaged over this time before the objective was missed.
const BEFORE_US: u64 = 2_000_000;

/// Figures of a ramp, from the samples of a row.
#[derive(Clone, Debug, Serialize)]
pub struct HeldFigures {
    /// Connections when the first event that came too late was due.
    pub connections: Estimate,
    /// Whether none came too late in most samples: there may be room for more.
    pub is_all: bool,
    /// The limit of the middle sample.
    pub bound_by: &'static str,
    /// The state of the middle sample when that event came too late, and afterwards, in words.
    #[serde(rename = "told")]
    pub sentence: String,
}

impl HeldFigures {
    /// Returns the figures of samples that count; `None` if none of them is of a ramp within an objective.
    pub(super) fn new(valid: &[&Sample], settings: &Settings) -> Option<HeldFigures> {
        let mut all: Vec<(&Sample, Held)> =
            valid.iter().filter_map(|sample| Some((*sample, sample.held?))).collect();
        all.sort_by_key(|(_, held)| held.connections);
        let connections: Vec<f64> =
            all.iter().map(|found| f64::from(found.1.connections)).collect();
        let (sample, held) = *all.get(all.len() / 2)?;
        let subject_busy = subject_busy(&sample.timeline, held.at_us, settings.shards);
        Some(HeldFigures {
            connections: estimate(&connections)?,
            is_all: all.iter().filter(|(_, held)| held.is_all).count() * 2 > all.len(),
            bound_by: bound_by(&held, subject_busy),
            sentence: sentence(sample, &held, subject_busy),
        })
    }
}

/// Returns the mean share of the subject's cores just before then.
fn subject_busy(timeline: &[Point], at_us: u64, cores: u32) -> f64 {
    let until = || timeline.iter().filter(|point| point.at_us <= at_us);
    let Some(last) = until().next_back() else { return 0.0 };
    let within = until().find(|point| point.at_us + BEFORE_US >= last.at_us);
    let first = within.filter(|first| first.at_us < last.at_us).or_else(|| until().nth_back(1));
    let first = first.unwrap_or(last);
    let span_us = (last.at_us - first.at_us).max(1) as f64 * f64::from(cores);
    last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / 1000.0 / span_us
}

fn bound_by(held: &Held, subject_busy: f64) -> &'static str {
    match (subject_busy >= SATURATED, held.swarm_busy >= SATURATED) {
        _ if held.is_all => "the ramp's end",
        _ if held.kernel_share >= 1.0 => "kernel memory",
        (true, true) => "both cores",
        (true, false) => "subject",
        (false, true) => "swarm",
        (false, false) => "no core",
    }
}

fn sentence(sample: &Sample, held: &Held, subject_busy: f64) -> String {
    let percent = |share: f64| format!("{} %", digits(100.0 * share));
    let begun = format!(
        "{} clients held; the subject's core was busy for {} then, the swarm's for {}, and the kernel's \
         memory for TCP was at {} of its pressure limit",
        held.connections,
        percent(subject_busy),
        percent(held.swarm_busy),
        percent(held.kernel_share),
    );
    if held.is_all {
        return format!("{begun}. No event was late until the end of the ramp.");
    }
    let beyond = held.beyond;
    let most = |of: fn(&Point) -> u64| sample.timeline.iter().map(of).max().unwrap_or(0);
    format!(
        "{begun}. Beyond that, up to {} clients: the oldest data {} s late, {} connections ended, \
         {} gaps, {} versions replaced by newer ones; at most {} resident, {} in the kernel.",
        beyond.connections,
        digits(beyond.late_us_max as f64 / 1e6),
        beyond.cut,
        beyond.gaps,
        beyond.replaced,
        bytes(megabytes(most(|sample| sample.rss_bytes))),
        bytes(megabytes(most(|sample| sample.kernel_bytes))),
    )
}

fn megabytes(bytes: u64) -> f64 {
    (bytes as f64 / 1e6).round() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Beyond;

    fn sample(connections: u32, cpu_share: f64, swarm_busy: f64) -> Sample {
        let timeline = (0..100u64).map(|tenth| Point {
            at_us: tenth * 100_000,
            cpu_ns: (tenth as f64 * 1e8 * cpu_share) as u64,
            rss_bytes: 20_000_000,
            ..Point::default()
        });
        let beyond = Beyond { connections: 2 * connections, cut: 3, ..Beyond::default() };
        let held = Held { connections, at_us: 8_000_000, swarm_busy, beyond, ..Held::default() };
        Sample { held: Some(held), timeline: timeline.collect(), ..Sample::default() }
    }

    #[test]
    fn the_bound_of_the_memory_is_named() {
        let check = |cpu_share, swarm_busy, expected| {
            let (one, other) = (sample(400, cpu_share, swarm_busy), sample(410, 0.2, 0.2));
            let figures = HeldFigures::new(&[&other, &one, &one], &Settings::default()).unwrap();
            assert_eq!((figures.connections.median, figures.bound_by), (400.0, expected));
            assert!(figures.sentence.contains("up to 800 clients"), "{}", figures.sentence);
        };
        check(0.99, 0.5, "subject");
        check(0.6, 0.97, "swarm");
        check(0.99, 0.97, "both cores");
        check(0.5, 0.5, "no core");
        assert!(HeldFigures::new(&[&Sample::default()], &Settings::default()).is_none());
    }
}
