//! Medians and their intervals. Repeats are few and some are disturbed, so both are
//! taken by order and assume no distribution: a median with the interval between two order statistics (the inverted
//! sign test). The cover is that of the binomial distribution: with n values the whole range covers the
//! median with 1 − 2^(1−n), which is 93.75 % for five. Ratios are in `comparison`, which uses Student's
//! t (`student`).

pub mod student;

use serde::{Deserialize, Serialize};

/// The target cover of an interval. With fewer than six values the interval is the whole range and covers less.
const COVER: f64 = 0.95;

/// A median, or another central value, and the interval in which the true one lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

/// Returns the median; `None` without values. Values that are not numbers are left out.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Returns the median with its interval.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let sorted = sorted(values);
    let trimmed = trimmed_each_side(sorted.len());
    Some(Estimate {
        median: median(&sorted)?,
        low: *sorted.get(trimmed)?,
        high: *sorted.get(sorted.len() - 1 - trimmed)?,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns how many of `n` sorted values may be left out at each end so that the rest still covers the true median often enough.
fn trimmed_each_side(n: usize) -> usize {
    let outside_max = (1.0 - COVER) / 2.0;
    let mut trimmed = 0;
    // P(at most `k` of n values lie below the median), k = 0, 1, …
    let mut term = 0.5f64.powi(n as i32);
    let mut outside = term;
    while trimmed < n / 2 {
        term *= (n - trimmed) as f64 / (trimmed + 1) as f64;
        outside += term;
        if outside > outside_max {
            break;
        }
        trimmed += 1;
    }
    trimmed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, f64::NAN, 3.0]), Some(2.5));
    }

    #[test]
    fn five_values_give_their_range_and_more_give_less() {
        let five = estimate(&[5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!((five.low, five.median, five.high), (1.0, 3.0, 5.0));
        // From tables of the sign test at 95 %.
        for (n, trimmed) in [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (12, 2), (20, 5), (50, 17)] {
            assert_eq!(trimmed_each_side(n), trimmed, "n = {n}");
        }
    }

    /// A linear congruential generator: the test must be the same every time.
    fn uniform(state: &mut u64) -> f64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 11) as f64) / (1u64 << 53) as f64
    }

    /// Returns the share of samples of size `n` whose interval contains the true median.
    fn share_covered(n: usize, mut draw: impl FnMut() -> f64, true_median: f64) -> f64 {
        let runs = 4000;
        let hits = (0..runs).filter(|_| {
            let values: Vec<f64> = (0..n).map(|_| draw()).collect();
            let found = estimate(&values).unwrap();
            found.low <= true_median && true_median <= found.high
        });
        hits.count() as f64 / f64::from(runs)
    }

    #[test]
    fn intervals_have_their_nominal_coverage() {
        let mut state = 1;
        // Exponential (skewed) and uniform; five values promise 93.75 %.
        let five = share_covered(5, || -uniform(&mut state).max(1e-300).ln(), 2f64.ln());
        assert!((0.92..0.955).contains(&five), "{five}");
        let twelve = share_covered(12, || uniform(&mut state), 0.5);
        assert!((0.95..0.975).contains(&twelve), "{twelve}");
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_median(values in prop::collection::vec(0.001f64..1e6, 1..40)) {
            let found = estimate(&values).unwrap();
            prop_assert!(found.low <= found.median && found.median <= found.high);
        }
    }
}
