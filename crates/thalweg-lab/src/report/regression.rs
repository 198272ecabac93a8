//! One build beside another, over all cells of a scenario: whether it became slower.

use super::choice;
use crate::measure::Sample;
use crate::measure::statistics::{Estimate, ratio, worse};
use crate::scenario::{Cell, Part};

/// A cell counts as worse if so rarely one of its scenario would be called so by chance.
const WRONG_MAX: f64 = 0.05;

/// CPU of the last subject beside the baseline, in a part of a plan.
#[derive(Clone, Debug)]
pub struct Regression {
    /// Of all pairs of all cells.
    pub pooled: Estimate,
    /// How many pairs that is.
    pub pairs: usize,
    /// Each cell that has pairs, in order.
    pub cells: Vec<CellRegression>,
    /// Settings of the others, in words: of them nothing is known.
    pub unpaired: Vec<String>,
}

/// One cell of it.
#[derive(Clone, Debug)]
pub struct CellRegression {
    /// Its settings, in words.
    pub label: String,
    /// Of its pairs.
    pub ratio: Estimate,
    /// How many pairs that is.
    pub pairs: usize,
    /// How probable so much more CPU is if nothing became slower.
    pub p: f64,
    /// Whether it is worse, corrected for the number of cells (Holm, Scandinavian Journal
    /// of Statistics 6, 1979).
    pub is_worse: bool,
}

impl Regression {
    /// What samples of a part say; `None` if there is no pair.
    pub fn of(part: &Part, samples: &[&Sample]) -> Option<Regression> {
        let mut unpaired = Vec::new();
        let (mut cells, mut after, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for (index, cell) in part.cells.iter().enumerate() {
            let own: Vec<&Sample> =
                samples.iter().copied().filter(|sample| sample.cell == index).collect();
            let (own_after, own_before) = cpu_pairs(cell, &own, part.together);
            let label = cell.label.clone();
            let Some(ratio) = ratio(&own_after, &own_before) else {
                unpaired.push(label);
                continue;
            };
            let (pairs, p) = (own_after.len(), worse(&own_after, &own_before));
            cells.push(CellRegression { label, ratio, pairs, p, is_worse: false });
            after.extend(own_after);
            before.extend(own_before);
        }
        correct(&mut cells);
        Some(Regression { pooled: ratio(&after, &before)?, pairs: after.len(), cells, unpaired })
    }
}

/// CPU of the last subject and of the baseline in the repeats where both count.
fn cpu_pairs(cell: &Cell, samples: &[&Sample], together: bool) -> (Vec<f64>, Vec<f64>) {
    let of_subject = |subject: usize| -> Vec<&Sample> {
        samples.iter().copied().filter(|sample| sample.subject == subject).collect()
    };
    let last = of_subject(cell.subjects.len().saturating_sub(1));
    let (pairs, _) = choice::pairs(&last, &of_subject(cell.baseline), together);
    pairs.into_iter().map(|(after, before)| (cpu(after), cpu(before))).unzip()
}

/// Per event; where none is sent, per time.
fn cpu(sample: &Sample) -> f64 {
    let per_s = || sample.subject_cpu_ns as f64 / sample.span_us.max(1) as f64;
    sample.cpu_us_per_event().unwrap_or_else(per_s)
}

/// The k-th least probable of n cells is worse if its p times what is left, n − k + 1, is
/// small enough, and so were those before it.
fn correct(cells: &mut [CellRegression]) {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by(|a, b| cells[*a].p.total_cmp(&cells[*b].p));
    for (done, index) in order.into_iter().enumerate() {
        if cells[index].p * (cells.len() - done) as f64 > WRONG_MAX {
            return;
        }
        cells[index].is_worse = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_worse_beyond_what_many_cells_bring_by_chance() {
        let check = |p: &[f64], expected: &[bool]| {
            let ratio = Estimate { median: 1.1, low: 1.0, high: 1.2 };
            let cell = |p: &f64| CellRegression {
                label: String::new(),
                ratio,
                pairs: 9,
                p: *p,
                is_worse: false,
            };
            let mut cells: Vec<_> = p.iter().map(cell).collect();
            correct(&mut cells);
            let found: Vec<bool> = cells.iter().map(|cell| cell.is_worse).collect();
            assert_eq!(found, expected, "{p:?}");
        };
        check(&[0.04], &[true]);
        check(&[0.04, 0.5], &[false, false]);
        check(&[0.5, 0.02], &[false, true]);
        check(&[0.03, 0.02], &[true, true]);
        check(&[0.03, 0.02, 0.9], &[false, false, false]);
    }
}
