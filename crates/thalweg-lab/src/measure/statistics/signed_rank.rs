//! Ratios of paired values: the estimate of Hodges and Lehmann for the logarithm
//! of the ratio, and the interval that goes with Wilcoxon's signed-rank test.
//!
//! Two samples of a pair ran next to each other, so what drifts with the machine
//! cancels out. If they are of the same subject (A/A) they are exchangeable, and
//! the logarithm of their ratio lies symmetrically about 0 whatever the
//! distribution of a single sample, and whatever it was just then. That symmetry,
//! here about the true logarithm, is the test's only assumption.
//!
//! Of n differences there are n(n + 1)/2 means of two (a value with itself
//! included; Walsh averages). Their median is the estimate; the k-th from either
//! end are the interval, where k is as large as the cover allows. The cover is
//! exact: it is counted, not approximated, for up to [`EXACT_MAX`] pairs. It
//! needs six pairs to reach 95 %; with five or fewer the interval is the whole
//! range and covers 1 − 2^(1−n).

use super::{COVER, Estimate, median, sorted};

/// For more pairs the normal approximation is good to three digits.
const EXACT_MAX: usize = 50;

/// The ratio of paired values with its interval, which [`cover`] of the number of
/// pairs says how often to trust; `None` without pairs. Pairs whose ratio is not a
/// positive number are left out.
pub fn ratio(values: &[f64], baseline: &[f64]) -> Option<Estimate> {
    let ratios = values.iter().zip(baseline).map(|(value, base)| value / base);
    let logs: Vec<f64> =
        ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0).map(f64::ln).collect();
    let means = means_of_two(&logs);
    let left_out = left_out_each_side(logs.len());
    Some(Estimate {
        median: median(&means)?.exp(),
        low: means.get(left_out)?.exp(),
        high: means.get(means.len().checked_sub(left_out + 1)?)?.exp(),
    })
}

/// How often the interval of so many pairs contains the true ratio.
pub fn cover(pairs: usize) -> f64 {
    match left_out_each_side(pairs) {
        _ if pairs == 0 => 0.0,
        left_out if pairs <= EXACT_MAX => {
            1.0 - 2.0 * rank_sums(pairs).iter().take(left_out + 1).sum::<f64>()
        }
        _ => COVER,
    }
}

/// How probable it is that so many values are so much larger than their baseline, if none
/// is but by chance: Wilcoxon's signed-rank test, one-sided. 1 without pairs.
pub fn worse(values: &[f64], baseline: &[f64]) -> f64 {
    let mut logs: Vec<f64> =
        values.iter().zip(baseline).map(|(value, base)| (value / base).ln()).collect();
    logs.retain(|log| log.is_finite() && *log != 0.0);
    logs.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranked = logs.iter().enumerate().filter(|(_, log)| **log > 0.0);
    let sum: usize = ranked.map(|(index, _)| index + 1).sum();
    rank_sums(logs.len()).iter().skip(sum).sum()
}

/// Sorted.
fn means_of_two(values: &[f64]) -> Vec<f64> {
    let pairs = values
        .iter()
        .enumerate()
        .flat_map(|(index, first)| values[index..].iter().map(move |other| (first + other) / 2.0));
    sorted(&pairs.collect::<Vec<_>>())
}

/// How many of the sorted means may be left out at each end.
fn left_out_each_side(pairs: usize) -> usize {
    let outside_max = (1.0 - COVER) / 2.0;
    if pairs > EXACT_MAX {
        let n = pairs as f64;
        let (mean, deviation) =
            (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt());
        return (mean - 1.96 * deviation - 0.5).floor() as usize;
    }
    let mut outside = 0.0;
    let inside = rank_sums(pairs).iter().position(|probability| {
        outside += probability;
        outside > outside_max
    });
    // That many are outside often enough; with none, the range is all there is.
    inside.unwrap_or(0).saturating_sub(1)
}

/// The probability of each sum of positive ranks, from 0 on, if every sign is a
/// coin's: rank by rank, each is in the sum or not.
fn rank_sums(pairs: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; pairs * (pairs + 1) / 2 + 1];
    probabilities[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..probabilities.len()).rev() {
            let without = probabilities[sum];
            let with = sum.checked_sub(rank).map_or(0.0, |rest| probabilities[rest]);
            probabilities[sum] = (without + with) / 2.0;
        }
    }
    probabilities
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_in_tables_of_the_signed_rank_test() {
        // Two-sided at 5 %: the largest sum that is significant; none below six.
        for (pairs, sum) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (20, 52), (25, 89)]
        {
            assert_eq!(left_out_each_side(pairs), sum, "{pairs} pairs");
        }
        for (pairs, expected) in [(1, 0.0), (3, 0.75), (5, 0.9375), (6, 0.96875), (8, 0.9609375)] {
            assert!((cover(pairs) - expected).abs() < 1e-12, "{pairs}: {}", cover(pairs));
        }
        // Where counting ends and the approximation begins nothing jumps.
        let share = |pairs| left_out_each_side(pairs) as f64 / (pairs * (pairs + 1) / 2) as f64;
        assert!((share(EXACT_MAX) - share(EXACT_MAX + 1)).abs() < 0.01);
    }

    #[test]
    fn worse_is_as_in_tables_and_one_sided() {
        let base = [1.0; 6];
        let check = |values: [f64; 6], expected: f64| {
            assert!((worse(&values, &base) - expected).abs() < 1e-12, "{values:?}");
        };
        check([1.1, 1.2, 1.3, 1.4, 1.5, 1.6], 1.0 / 64.0);
        // Only the smallest is the other way: one more arrangement is as bad.
        check([0.99, 1.2, 1.3, 1.4, 1.5, 1.6], 2.0 / 64.0);
        check([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 1.0);
        check([1.0; 6], 1.0);
        assert!((worse(&[], &[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn ratios_are_paired() {
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        let tie = ratio(&[1.0, 20.0, 300.0], &[1.0, 20.0, 300.0]).unwrap();
        assert!(tie.is_tie() && close(tie.low, 1.0) && close(tie.high, 1.0));
        let five = ratio(&[2.0, 44.0, 63.0, 2.2, 21.0], &[1.0, 20.0, 30.0, 1.0, 10.0]).unwrap();
        assert!(close(five.low, 2.0) && close(five.high, 2.2), "the range of five: {five:?}");
        assert!(!five.is_tie());
        assert_eq!(ratio(&[1.0, f64::NAN], &[0.0, 1.0]), None);
        assert_eq!(ratio(&[], &[]), None);
    }

    /// A linear congruential generator: the test must be the same every time.
    struct Dice(u64);

    impl Dice {
        fn uniform(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            let (radius, turn) = (self.uniform(), self.uniform());
            (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
        }

        /// Student's with three degrees of freedom: heavy tails.
        fn heavy(&mut self) -> f64 {
            let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
            self.normal() / (squares / 3.0).sqrt()
        }

        /// Normal, and one of ten ten times as wide.
        fn contaminated(&mut self) -> f64 {
            let width = if self.uniform() < 0.1 { 10.0 } else { 1.0 };
            width * self.normal()
        }

        /// Skewed, and from pair to pair wider or narrower: but both of a pair in
        /// the same way, as of one subject under one load.
        fn skewed_by_pair(&mut self) -> f64 {
            let width = 0.1 + 5.0 * self.uniform();
            width * (self.uniform().ln() - self.uniform().ln())
        }
    }

    const TRUE_RATIO: f64 = 1.25;

    /// How often the interval contains the true ratio if `noise` is added to its
    /// logarithm; it must be what is promised, within the error of counting.
    fn check(pairs: usize, noise: fn(&mut Dice) -> f64) {
        let (runs, mut dice, mut hits) = (6000, Dice(pairs as u64), 0);
        for _ in 0..runs {
            let base: Vec<f64> = (0..pairs).map(|_| (3.0 * dice.normal()).exp()).collect();
            let values: Vec<f64> = base
                .iter()
                .map(|base| base * TRUE_RATIO * (0.1 * noise(&mut dice)).exp())
                .collect();
            let found = ratio(&values, &base).unwrap();
            hits += u32::from(found.low <= TRUE_RATIO && TRUE_RATIO <= found.high);
        }
        let (found, promised) = (f64::from(hits) / f64::from(runs), cover(pairs));
        let error = (promised * (1.0 - promised) / f64::from(runs)).sqrt();
        assert!((found - promised).abs() < 4.0 * error, "{pairs}: {found} and not {promised}");
    }

    #[test]
    fn intervals_cover_what_they_promise() {
        for pairs in [5, 8, 12] {
            for noise in [Dice::normal, Dice::heavy, Dice::contaminated, Dice::skewed_by_pair] {
                check(pairs, noise);
            }
        }
        check(60, Dice::heavy);
    }

    fn pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((0.01f64..1e4, 0.01f64..1e4), 1..30)
    }

    fn same(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-9
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_estimate(pairs in pairs()) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let found = ratio(&a, &b).unwrap();
            prop_assert!(found.low <= found.median && found.median <= found.high);
        }

        #[test]
        fn a_ratio_turned_round_is_its_inverse(pairs in pairs()) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (there, back) = (ratio(&a, &b).unwrap(), ratio(&b, &a).unwrap());
            prop_assert!(same(there.median, 1.0 / back.median));
            prop_assert!(same(there.low, 1.0 / back.high) && same(there.high, 1.0 / back.low));
        }

        #[test]
        fn a_unit_changes_nothing_and_a_factor_is_one(pairs in pairs(), factor in 0.01f64..100.0) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let times = |values: &[f64]| values.iter().map(|it| it * factor).collect::<Vec<_>>();
            let plain = ratio(&a, &b).unwrap();
            let unit = ratio(&times(&a), &times(&b)).unwrap();
            let faster = ratio(&times(&a), &b).unwrap();
            for (it, other) in [(plain.low, unit.low), (plain.median, unit.median), (plain.high, unit.high)] {
                prop_assert!(same(it, other));
            }
            prop_assert!(same(faster.median, plain.median * factor));
            prop_assert!(same(faster.low, plain.low * factor) && same(faster.high, plain.high * factor));
        }

        #[test]
        fn neither_the_order_nor_one_wild_pair_moves_the_estimate_far(
            pairs in prop::collection::vec((1.0f64..1.1, 1.0f64..1.1), 8..20),
        ) {
            let (mut a, mut b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let before = ratio(&a, &b).unwrap();
            a.reverse();
            b.reverse();
            let reversed = ratio(&a, &b).unwrap();
            prop_assert!(same(before.median, reversed.median));
            a[0] *= 1e6;
            let wild = ratio(&a, &b).unwrap();
            prop_assert!(wild.median < 1.2, "{wild:?}");
        }
    }
}
