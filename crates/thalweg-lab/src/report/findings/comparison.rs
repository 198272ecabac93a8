//! Every figure beside its baseline's, and what may be said of it.

use crate::measure::statistics::Estimate;
use crate::report::row::{Comparison, Row};
use crate::report::summary::{PartSummary, Summary};
use crate::scenario::Drive;

/// Pairs that a difference needs: five cover the true median with 94 %, four with
/// 88 %.
pub(super) const PAIRS_MIN: usize = 5;

/// The figure that a part is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Figure {
    Cpu,
    Latency,
    RoundTrip,
    Ceiling,
}

/// What may be said of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Outcome {
    Less,
    /// No difference was found.
    Tie,
    More,
    /// Too few pairs to say any of these.
    TooFew,
}

/// One row's figure beside its baseline's.
#[derive(Clone, Debug)]
pub(in crate::report) struct Compared<'a> {
    pub(in crate::report) part: &'a PartSummary,
    pub(in crate::report) row: &'a Row,
    pub(in crate::report) baseline: &'a str,
    pub(in crate::report) figure: Figure,
    pub(in crate::report) ratio: Estimate,
    pub(in crate::report) outcome: Outcome,
    /// What the baseline differs from itself, there or else anywhere in the part.
    pub(in crate::report) noise: Option<(f64, f64)>,
}

impl Figure {
    pub(in crate::report) fn of(part: &PartSummary) -> Figure {
        let has_rate = part.rows.iter().all(|row| row.settings.rate > 0);
        match part.drive {
            Drive::Posted if has_rate => Figure::Latency,
            Drive::Posted | Drive::SelfDriven | Drive::Idle | Drive::Publish | Drive::Listen => {
                Figure::Cpu
            }
            Drive::Echo | Drive::RoundTrip => Figure::RoundTrip,
            Drive::Ceiling => Figure::Ceiling,
        }
    }

    pub(in crate::report) fn name(self) -> &'static str {
        match self {
            Figure::Cpu => "CPU per event",
            Figure::Latency => "p99 latency",
            Figure::RoundTrip => "mean round trip",
            Figure::Ceiling => "highest rate within the objective",
        }
    }

    /// What it is when the figure is less.
    pub(in crate::report) fn less(self) -> &'static str {
        match self {
            Figure::Cpu => "cheaper",
            Figure::Latency | Figure::RoundTrip => "faster",
            Figure::Ceiling => "lower",
        }
    }

    /// What it is when the figure is more.
    pub(in crate::report) fn more(self) -> &'static str {
        match self {
            Figure::Cpu => "dearer",
            Figure::Latency | Figure::RoundTrip => "slower",
            Figure::Ceiling => "higher",
        }
    }

    fn pick(self, row: &Row) -> Option<Comparison> {
        match self {
            Figure::Cpu => row.cpu.compared,
            Figure::Latency => row.latency.compared,
            Figure::RoundTrip => row.round_trip.compared,
            Figure::Ceiling => row.throughput.compared,
        }
    }
}

impl Compared<'_> {
    /// Whether the difference is to the subject's credit, where there is one.
    pub(in crate::report) fn is_better(&self) -> Option<bool> {
        match (self.outcome, self.figure) {
            (Outcome::Less, figure) => Some(figure != Figure::Ceiling),
            (Outcome::More, figure) => Some(figure == Figure::Ceiling),
            (Outcome::Tie | Outcome::TooFew, _) => None,
        }
    }
}

/// Every comparison of a run, in the order of its rows; A/A is not among them.
pub(in crate::report) fn compared(summary: &Summary) -> Vec<Compared<'_>> {
    summary.parts.iter().flat_map(of_part).collect()
}

fn of_part(part: &PartSummary) -> Vec<Compared<'_>> {
    let figure = Figure::of(part);
    let mut all = Vec::new();
    for rows in part.cells() {
        let Some(baseline) = rows.iter().find(|row| row.is_baseline) else { continue };
        for row in rows.iter().filter(|row| !row.is_baseline && !row.is_noise) {
            let Some(found) = figure.pick(row) else { continue };
            let pairs = row.valid.min(baseline.valid);
            all.push(Compared {
                part,
                row,
                baseline: &baseline.subject,
                figure,
                ratio: found.ratio,
                outcome: outcome(found, pairs),
                noise: noise(part, figure, &row.cell),
            });
        }
    }
    all
}

fn outcome(found: Comparison, pairs: usize) -> Outcome {
    match found {
        _ if pairs < PAIRS_MIN => Outcome::TooFew,
        Comparison { is_tie: true, .. } => Outcome::Tie,
        Comparison { ratio, .. } if ratio.median < 1.0 => Outcome::Less,
        _ => Outcome::More,
    }
}

/// The intervals of the cell's A/A pairs; of the part's, if it has none.
fn noise(part: &PartSummary, figure: Figure, cell: &str) -> Option<(f64, f64)> {
    let of = |own: bool| {
        let rows = part.rows.iter().filter(|row| row.is_noise && (!own || row.cell == cell));
        rows.filter_map(|row| figure.pick(row)).map(|it| (it.ratio.low, it.ratio.high)).reduce(
            |(low, high), (other_low, other_high)| (low.min(other_low), high.max(other_high)),
        )
    };
    of(true).or_else(|| of(false))
}

/// The A/A ratios of a run, each of its part's figure.
pub(super) fn again(summary: &Summary) -> Vec<Estimate> {
    let of_part = |part: &PartSummary| {
        let figure = Figure::of(part);
        let rows = part.rows.iter().filter(|row| row.is_noise);
        rows.filter_map(|row| figure.pick(row)).map(|it| it.ratio).collect::<Vec<_>>()
    };
    summary.parts.iter().flat_map(of_part).collect()
}
