//! The logarithm of a ratio, and its uncertainty.

use crate::measure::statistics::student;
use crate::measure::{Sample, Verdict, shows_p99};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// With fewer undisturbed starts, disturbed ones count as well.
const UNDISTURBED_MIN: usize = 3;

/// With fewer starts, the noise of a control is unknown.
const NOISE_STARTS_MIN: usize = 3;

/// A figure in which subjects are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The subject's CPU time per event; per unit of time if no events are sent.
    Cpu,
    /// The latency that 99 of 100 events did not exceed.
    P99,
    /// The mean round trip.
    RoundTrip,
    /// Events per second of a saturated subject; with the `ceiling` drive, the highest rate that met the objective.
    Throughput,
    /// Resident memory of a connection.
    Memory,
    /// Connections that a ramp held within its objective.
    Held,
    /// The browser's CPU time per event, if a browser is the load.
    BrowserCpu,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 7] = [
        Metric::Cpu,
        Metric::P99,
        Metric::RoundTrip,
        Metric::Throughput,
        Metric::Memory,
        Metric::Held,
        Metric::BrowserCpu,
    ];

    /// Returns whether a higher value is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Metric::Throughput | Metric::Held)
    }

    /// Returns the value of a sample with this many connections; `None` if the sample does not count for this metric.
    fn value_in(self, sample: &Sample, connections: u32) -> Option<f64> {
        match self {
            Metric::Cpu => {
                let per_s = sample.subject_cpu_ns as f64 / sample.span_us.max(1) as f64;
                sample.cpu_us_per_event().or((sample.traffic.events == 0).then_some(per_s))
            }
            Metric::P99 => sample.latency.map(|latency| latency.p99_us as f64),
            Metric::RoundTrip => Some(sample.round_trips?.mean_us),
            Metric::Throughput => sample.is_ranked().then(|| sample.events_per_s()),
            Metric::Memory => Some(sample.rss_bytes_per_connection(connections)),
            Metric::Held => Some(f64::from(sample.held?.connections)),
            Metric::BrowserCpu => sample.browser_us_per_event(),
        }
        .filter(|value| value.is_finite() && *value > 0.0)
    }
}

/// Baseline and controls of a cell. Subjects are indices in the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellSubjects {
    /// The subject that the others are compared with.
    pub baseline: usize,
    /// The baseline once more (A/A).
    pub controls: Vec<usize>,
    /// Connections of every subject.
    pub connections: Vec<u32>,
    /// Whether all are loaded at the same time, so that a disturbance hits them alike.
    pub concurrent: bool,
}

impl CellSubjects {
    /// Returns whether a subject is the baseline or its control (A/A).
    pub fn is_control(&self, subject: usize) -> bool {
        subject == self.baseline || self.controls.contains(&subject)
    }

    fn is_undisturbed(&self, sample: &Sample) -> bool {
        match self.concurrent {
            true => sample.verdict != Verdict::Gaps,
            false => sample.is_undisturbed(),
        }
    }
}

/// The logarithm of a subject's figure to its baseline's.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    mean: f64,
    /// The standard error of the mean and its degrees of freedom; `None` for one start.
    error: Option<(f64, f64)>,
    pub(super) starts: usize,
    pub(super) rounds: usize,
}

/// One round: its start, the logarithm of its ratio, and whether it was undisturbed.
struct Round {
    start: u32,
    log: f64,
    is_undisturbed: bool,
}

impl Difference {
    /// Compares a subject in the samples of a cell; `None` if it has none with a partner, or is the baseline. Disturbed rounds
    /// are left out, unless fewer than three starts would be left: then all valid ones count, and the interval has their noise.
    pub fn from_samples(
        metric: Metric,
        subjects: &CellSubjects,
        subject: usize,
        samples: &[&Sample],
    ) -> Option<Difference> {
        let mut rounds = rounds(metric, subjects, subject, samples);
        let mut starts: Vec<u32> =
            rounds.iter().filter(|round| round.is_undisturbed).map(|round| round.start).collect();
        starts.sort_unstable();
        starts.dedup();
        if starts.len() >= UNDISTURBED_MIN {
            rounds.retain(|round| round.is_undisturbed);
        }
        let mut by_start: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for round in &rounds {
            by_start.entry(round.start).or_default().push(round.log);
        }
        let means: Vec<f64> = by_start.values().map(|logs| mean(logs)).collect();
        (!means.is_empty()).then(|| Difference::from_starts(&means, rounds.len()))
    }

    /// Returns a subject's own figure (the geometric mean over its starts) as a ratio to 1.
    pub(super) fn to_one(
        metric: Metric,
        connections: u32,
        samples: &[&Sample],
    ) -> Option<Difference> {
        let mut by_start: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.verdict.is_valid()) {
            if let Some(value) = metric.value_in(sample, connections) {
                by_start.entry(sample.start()).or_default().push(value.ln());
            }
        }
        let means: Vec<f64> = by_start.values().map(|logs| mean(logs)).collect();
        (!means.is_empty()).then(|| Difference::from_starts(&means, samples.len()))
    }

    /// Returns the difference from one value for each start, of which there is at least one.
    pub(crate) fn from_starts(means: &[f64], rounds: usize) -> Difference {
        let (mean, starts) = (mean(means), means.len());
        let squares: f64 = means.iter().map(|value| (value - mean).powi(2)).sum();
        let degrees = starts as f64 - 1.0;
        let error = (starts > 1).then(|| ((squares / degrees / starts as f64).sqrt(), degrees));
        Difference { mean, error, starts, rounds }
    }

    /// Pools the cells of a scenario (stratified): each has the same weight, and the error comes from within the cells, so that
    /// cells may differ from each other. Degrees of freedom are those of Welch and Satterthwaite (Biometrics Bulletin 2, 1946).
    /// Cells with one start have no error, and are left out unless all cells have one start.
    pub fn pooled(cells: &[Difference]) -> Option<Difference> {
        let sure: Vec<&Difference> = cells.iter().filter(|cell| cell.error.is_some()).collect();
        let used = if sure.is_empty() { cells.iter().collect() } else { sure };
        if used.is_empty() {
            return None;
        }
        let count = used.len() as f64;
        let squares = || used.iter().filter_map(|cell| cell.error);
        let square: f64 = squares().map(|(error, _)| error.powi(2)).sum();
        let fourth: f64 = squares().map(|(error, degrees)| error.powi(4) / degrees).sum();
        let least = squares().map(|(_, degrees)| degrees).fold(f64::INFINITY, f64::min);
        let degrees = if fourth > 0.0 { square.powi(2) / fourth } else { least };
        Some(Difference {
            mean: used.iter().map(|cell| cell.mean).sum::<f64>() / count,
            error: degrees.is_finite().then(|| (square.sqrt() / count, degrees)),
            starts: used.iter().map(|cell| cell.starts).sum(),
            rounds: used.iter().map(|cell| cell.rounds).sum(),
        })
    }

    /// Returns the difference that this many starts would show for a subject that equals the baseline, with the noise between the
    /// starts of a control. `None` if the control has too few starts.
    ///
    /// A control is one baseline to the other, so its variance is that of two starts. A subject is compared with the mean of both
    /// baselines, which has the variance of one and a half.
    pub(crate) fn by_noise_of(control: &Difference, starts: usize) -> Option<Difference> {
        let (error, _) = control.error.filter(|_| control.starts >= NOISE_STARTS_MIN)?;
        let of_start = error.powi(2) * control.starts as f64 * (1.5 / 2.0);
        let degrees = starts as f64 - 1.0;
        let error = (starts > 1).then(|| ((of_start / starts as f64).sqrt(), degrees))?;
        Some(Difference { mean: 0.0, error: Some(error), starts, rounds: starts })
    }

    pub(crate) fn starts(&self) -> usize {
        self.starts
    }

    /// Returns the standard error of the logarithm; 0 for one start.
    pub(crate) fn error(&self) -> f64 {
        self.error.map_or(0.0, |(error, _)| error)
    }

    /// Returns the chance that a true difference of this size (a logarithm) is reported, uncorrected. Student's t is shifted by the
    /// difference, which approximates the noncentral t.
    pub(super) fn power(&self, log: f64, wrong: f64) -> Option<f64> {
        let (error, degrees) = self.error?;
        let (moved, critical) = (log.abs() / error, student::critical(wrong, degrees));
        let above = |t: f64| match t >= 0.0 {
            true => student::two_sided(t, degrees) / 2.0,
            false => 1.0 - student::two_sided(-t, degrees) / 2.0,
        };
        Some(above(critical - moved) + above(critical + moved))
    }

    pub(super) fn log(&self) -> f64 {
        self.mean
    }

    pub(super) fn ratio(&self) -> f64 {
        self.mean.exp()
    }

    /// Returns the interval that misses the true ratio with a probability of at most `wrong`; `None` for one start.
    pub(super) fn interval(&self, wrong: f64) -> Option<(f64, f64)> {
        let (error, degrees) = self.error?;
        let half = student::critical(wrong, degrees) * error;
        Some(((self.mean - half).exp(), (self.mean + half).exp()))
    }

    /// Returns the probability of so large a difference if there is none; `None` for one start.
    pub(super) fn p(&self) -> Option<f64> {
        self.is_off_by(self.mean.abs())
    }

    /// Returns the probability that the logarithm is off by `distance`; `None` for one start.
    pub(super) fn is_off_by(&self, distance: f64) -> Option<f64> {
        let (error, degrees) = self.error?;
        Some(student::two_sided(distance / error, degrees))
    }
}

/// Returns the rounds in which both count. A control is compared with the baseline alone, every other subject with the mean of both.
fn rounds(
    metric: Metric,
    subjects: &CellSubjects,
    subject: usize,
    samples: &[&Sample],
) -> Vec<Round> {
    let is_base = |other: usize| match subjects.is_control(subject) {
        true => other == subjects.baseline,
        false => subjects.is_control(other),
    };
    // All or none: omitting only the samples with a large share of the swarm would omit the low values.
    let is_withheld = |who: usize| {
        let own: Vec<&Sample> =
            samples.iter().copied().filter(|sample| sample.subject == who).collect();
        metric == Metric::P99 && !shows_p99(&own)
    };
    if subject == subjects.baseline || is_withheld(subject) || is_withheld(subjects.baseline) {
        return Vec::new();
    }
    let mut own: BTreeMap<u32, (u32, f64, bool)> = BTreeMap::new();
    let mut bases: BTreeMap<u32, Vec<(f64, bool)>> = BTreeMap::new();
    let is_compared =
        |sample: &&&Sample| sample.verdict.is_valid() && sample.verdict != Verdict::Drops;
    for sample in samples.iter().filter(is_compared) {
        let connections = subjects.connections.get(sample.subject).copied().unwrap_or(1);
        let Some(value) = metric.value_in(sample, connections) else { continue };
        let (log, is_undisturbed) = (value.ln(), subjects.is_undisturbed(sample));
        if sample.subject == subject {
            own.insert(sample.repeat, (sample.start(), log, is_undisturbed));
        } else if is_base(sample.subject) {
            bases.entry(sample.repeat).or_default().push((log, is_undisturbed));
        }
    }
    let pair = |(repeat, (start, log, is_undisturbed)): (u32, (u32, f64, bool))| {
        let all = bases.get(&repeat)?;
        // An undisturbed baseline alone is better than the mean with a disturbed one.
        let undisturbed: Vec<f64> =
            all.iter().filter(|(_, is_undisturbed)| *is_undisturbed).map(|(log, _)| *log).collect();
        let is_undisturbed = is_undisturbed && !undisturbed.is_empty();
        let used = match is_undisturbed {
            true => undisturbed,
            false => all.iter().map(|(log, _)| *log).collect(),
        };
        Some(Round { start, log: log - mean(&used), is_undisturbed })
    };
    own.into_iter().filter_map(pair).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
