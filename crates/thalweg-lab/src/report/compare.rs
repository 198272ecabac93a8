//! Subjects next to each other: ratios of paired repeats, and which of them are
//! ties.

use super::choice;
use super::outcome::{Comparison, Outcome};
use super::row::Row;
use crate::measure::statistics::{Estimate, ratio};
use crate::measure::{Sample, Verdict};
use crate::scenario::{Drive, Part};

/// Pairs that a difference needs: five cover the true ratio with 94 %, four with
/// 88 %.
pub(super) const PAIRS_MIN: usize = 5;

/// What a sample says of a figure; nothing where it does not count for that.
type Of<'a> = &'a dyn Fn(&Sample) -> Option<f64>;

/// Puts the row's figures next to the baseline's.
pub(super) fn with_baseline(row: &mut Row, part: &Part, samples: &[&Sample], baseline: &[&Sample]) {
    let (pairs, takes_all) = choice::pairs(samples, baseline, part.together);
    let compare = |of: Of<'_>| paired(&pairs, takes_all, of);
    row.cpu.compared = compare(&Sample::cpu_us_per_event);
    row.latency.compared = compare(&Sample::p99_us);
    row.round_trip.compared = compare(&|sample| Some(sample.round_trips?.mean_us));
    let connections = row.settings.connections;
    row.memory.compared = compare(&|sample| Some(sample.rss_bytes_per_connection(connections)));
    if row.throughput.events_per_s.is_some() {
        // What was limited by anybody else is not the subject's throughput.
        let is_own = |sample: &Sample| match part.drive {
            Drive::Ceiling => sample.verdict != Verdict::Swarm,
            _ => sample.verdict == Verdict::Subject,
        };
        row.throughput.compared = compare(&|sample| is_own(sample).then(|| sample.events_per_s()));
    }
}

/// The ratio over samples of the same repeat, where both count.
fn paired(pairs: &[(&Sample, &Sample)], takes_all: bool, of: Of<'_>) -> Option<Comparison> {
    let pairs = pairs.iter().filter_map(|(sample, base)| Some((of(sample)?, of(base)?)));
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let pairs = values.len();
    let ratio = ratio(&values, &bases)?;
    let outcome = Outcome::of(ratio, pairs >= PAIRS_MIN && !takes_all);
    Some(Comparison { ratio, pairs, outcome })
}

/// A comparison of a row, and where it stands.
type Place = fn(&mut Row) -> &mut Option<Comparison>;

const PLACES: [Place; 5] = [
    |row| &mut row.cpu.compared,
    |row| &mut row.latency.compared,
    |row| &mut row.throughput.compared,
    |row| &mut row.round_trip.compared,
    |row| &mut row.memory.compared,
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
            let is_within = beside.any(|(_, noise)| compared.ratio.overlaps(noise));
            if is_within && compared.outcome != Outcome::Unclear {
                compared.outcome = Outcome::Tie;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In each figure that is compared, memory as well as CPU.
    #[test]
    fn what_lies_within_the_noise_is_a_tie() {
        for place in PLACES {
            let row = |is_noise, low, high| {
                let ratio = Estimate { median: (low + high) / 2.0, low, high };
                let mut row = Row { is_noise, ..Row::default() };
                *place(&mut row) =
                    Some(Comparison { ratio, pairs: 8, outcome: Outcome::of(ratio, true) });
                row
            };
            let outcome = |low, high| {
                let mut rows = [row(true, 0.9, 1.2), row(false, low, high)];
                call_ties(&mut rows);
                place(&mut rows[1]).map(|compared| compared.outcome)
            };
            assert_eq!(outcome(1.1, 1.3), Some(Outcome::Tie));
            assert_eq!(outcome(1.3, 1.4), Some(Outcome::More));
        }
        // Every comparison that a row has has its place.
        let mut row = Row::default();
        let ratio = Estimate { median: 1.0, low: 1.0, high: 1.0 };
        for place in PLACES {
            *place(&mut row) = Some(Comparison { ratio, pairs: 8, outcome: Outcome::Tie });
        }
        let text = serde_json::to_string(&row).unwrap();
        assert!(!text.contains("\"compared\":null"), "{text}");
    }
}
