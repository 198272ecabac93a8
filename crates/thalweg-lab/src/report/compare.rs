//! Subjects next to each other: ratios of paired repeats, and which of them are
//! ties.

use super::choice;
use super::row::{Comparison, Row};
use crate::measure::Sample;
use crate::measure::statistics::{Estimate, ratio};

/// Puts the row's figures next to the baseline's.
pub(super) fn with_baseline(row: &mut Row, samples: &[&Sample], baseline: &[&Sample]) {
    let compare = |of: &dyn Fn(&Sample) -> Option<f64>| {
        let ratio = paired_ratio(samples, baseline, of)?;
        Some(Comparison { ratio, is_tie: ratio.is_tie() })
    };
    row.cpu.compared = compare(&Sample::cpu_us_per_event);
    row.latency.compared = compare(&|sample| sample.latency.quantile_us(0.99).map(|us| us as f64));
    row.round_trip.compared = compare(&|sample| Some(sample.round_trips?.mean_us));
    if row.is_ranked && row.throughput.events_per_s.is_some() {
        row.throughput.compared = compare(&|sample| Some(sample.events_per_s()));
    }
}

/// Ratios of samples of the same repeat, where both count.
fn paired_ratio(
    samples: &[&Sample],
    baseline: &[&Sample],
    of: &dyn Fn(&Sample) -> Option<f64>,
) -> Option<Estimate> {
    let pairs = choice::pairs(samples, baseline).into_iter();
    let pairs = pairs.filter_map(|(sample, partner)| Some((of(sample)?, of(partner)?)));
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
    ratio(&values, &bases)
}

/// A comparison of a row, and where it stands.
type Place = fn(&mut Row) -> &mut Option<Comparison>;

const PLACES: [Place; 4] = [
    |row| &mut row.cpu.compared,
    |row| &mut row.latency.compared,
    |row| &mut row.throughput.compared,
    |row| &mut row.round_trip.compared,
];

/// What lies within the noise of its cell is a tie; in a cell without an A/A pair,
/// what lies within that of any other.
pub(super) fn call_ties(rows: &mut [Row]) {
    for place in PLACES {
        let noise: Vec<(String, Estimate)> = rows
            .iter_mut()
            .filter(|row| row.is_noise)
            .filter_map(|row| Some((row.cell.clone(), (*place(row))?.ratio)))
            .collect();
        for row in rows.iter_mut().filter(|row| !row.is_noise) {
            let cell = row.cell.clone();
            let Some(compared) = place(row) else { continue };
            let own = noise.iter().any(|(of, _)| *of == cell);
            let mut beside = noise.iter().filter(|(of, _)| !own || *of == cell);
            compared.is_tie |= beside.any(|(_, noise)| compared.ratio.overlaps(noise));
        }
    }
}
