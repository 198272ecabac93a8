//! Every figure beside its baseline's, and what may be said of it.

use crate::measure::statistics::Estimate;
use crate::report::outcome::{Comparison, Outcome};
use crate::report::row::Row;
use crate::report::summary::{PartSummary, Summary};
use crate::scenario::Figure;

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
    /// In a sentence.
    pub(in crate::report) fn name(self) -> &'static str {
        match self {
            Figure::Cpu => "CPU per event",
            Figure::Latency => "p99 latency",
            Figure::RoundTrip => "mean round trip",
            Figure::Ceiling => "highest rate within the objective",
            Figure::Memory => "memory per connection",
        }
    }

    /// What it is when the figure is less.
    pub(in crate::report) fn less(self) -> &'static str {
        match self {
            Figure::Cpu => "cheaper",
            Figure::Latency | Figure::RoundTrip => "faster",
            Figure::Ceiling => "lower",
            Figure::Memory => "smaller",
        }
    }

    /// What it is when the figure is more.
    pub(in crate::report) fn more(self) -> &'static str {
        match self {
            Figure::Cpu => "dearer",
            Figure::Latency | Figure::RoundTrip => "slower",
            Figure::Ceiling => "higher",
            Figure::Memory => "larger",
        }
    }

    /// Of a row, if it has it.
    pub(in crate::report) fn pick(self, row: &Row) -> Option<Comparison> {
        match self {
            Figure::Cpu => row.cpu.compared,
            Figure::Latency => row.latency.compared,
            Figure::RoundTrip => row.round_trip.compared,
            Figure::Ceiling => row.throughput.compared,
            Figure::Memory => row.memory.compared,
        }
    }
}

impl Compared<'_> {
    /// Whether the difference is to the subject's credit, where there is one.
    pub(in crate::report) fn is_better(&self) -> Option<bool> {
        match (self.outcome, self.figure) {
            (Outcome::Less, figure) => Some(figure != Figure::Ceiling),
            (Outcome::More, figure) => Some(figure == Figure::Ceiling),
            (Outcome::Tie | Outcome::Unclear, _) => None,
        }
    }
}

/// Every comparison of a run, in the order of its rows; A/A is not among them.
pub(in crate::report) fn compared(summary: &Summary) -> Vec<Compared<'_>> {
    summary.parts.iter().flat_map(|part| of_part(part, false)).collect()
}

/// The same subject beside itself (A/A), likewise.
pub(in crate::report) fn again(summary: &Summary) -> Vec<Compared<'_>> {
    summary.parts.iter().flat_map(|part| of_part(part, true)).collect()
}

fn of_part(part: &PartSummary, is_noise: bool) -> Vec<Compared<'_>> {
    let figure = part.figure;
    let mut all = Vec::new();
    for rows in part.cells() {
        let Some(baseline) = rows.iter().find(|row| row.is_baseline) else { continue };
        for row in rows.iter().filter(|row| !row.is_baseline && row.is_noise == is_noise) {
            let Some(found) = figure.pick(row) else { continue };
            all.push(Compared {
                part,
                row,
                baseline: &baseline.subject,
                figure,
                ratio: found.ratio,
                outcome: found.outcome,
                noise: if is_noise { None } else { noise(part, figure, &row.cell) },
            });
        }
    }
    all
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
