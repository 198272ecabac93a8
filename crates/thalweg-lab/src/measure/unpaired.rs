//! Two sets of values that were not taken in pairs, as of two runs: what the
//! second is to the first.
//!
//! The ratio is the median of all ratios of a value of the one to a value of the
//! other (Hodges and Lehmann's shift of the logarithms). Its interval holds what
//! Mann and Whitney's test would not refuse. Like the rest of what is judged here
//! it goes by order and assumes no distribution, only that the two differ by a
//! factor. What drifted between the two runs is in it: two runs never tell as much
//! as one that had both subjects.

use super::statistics::Estimate;

/// The cover an interval strives for. With fewer than four values on each side
/// it is the whole range of the ratios and covers less.
const COVER: f64 = 0.95;
/// Up to so many values together the test's distribution is counted out; beyond,
/// it is normal to all purposes, and counting would leave what an `f64` holds.
const EXACT_MAX: usize = 50;

/// `values` to `base`; `None` where one has none. What is no positive number is
/// left out.
pub fn unpaired_ratio(values: &[f64], base: &[f64]) -> Option<Estimate> {
    let (values, base) = (logarithms(values), logarithms(base));
    let mut shifts: Vec<f64> =
        values.iter().flat_map(|value| base.iter().map(move |base| value - base)).collect();
    shifts.sort_by(f64::total_cmp);
    let trimmed = trimmed_each_side(values.len(), base.len());
    let (last, middle) = (shifts.len().checked_sub(1)?, shifts.len() / 2);
    let median = match shifts.len() % 2 {
        1 => shifts[middle],
        _ => (shifts[middle - 1] + shifts[middle]) / 2.0,
    };
    Some(Estimate {
        median: median.exp(),
        low: shifts[trimmed].exp(),
        high: shifts[last - trimmed].exp(),
    })
}

/// Whether so many values on each side can show a difference at all: whether even
/// the range of the ratios covers what it should. Three and three cannot.
pub fn can_differ(m: usize, n: usize) -> bool {
    let orders = (1..=n).fold(1.0, |orders, i| orders * (m + i) as f64 / i as f64);
    m > 0 && n > 0 && 2.0 / orders <= 1.0 - COVER
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|value| value.is_finite() && **value > 0.0).map(|it| it.ln()).collect()
}

/// How many of the sorted differences of `m` and `n` values may be left out at
/// each end: the largest u that the test's statistic does not exceed more often
/// than in half of what the cover leaves.
fn trimmed_each_side(m: usize, n: usize) -> usize {
    let outside_max = (1.0 - COVER) / 2.0;
    if m == 0 || n == 0 {
        return 0;
    }
    if m + n > EXACT_MAX {
        let (pairs, all) = ((m * n) as f64, (m + n + 1) as f64);
        let deviation = (pairs * all / 12.0).sqrt();
        // The 97.5 % point of the normal distribution; half a step, for u is whole.
        return (pairs / 2.0 - 1.959_964 * deviation - 0.5).max(0.0) as usize;
    }
    let ways = arrangements(m, n);
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let within = |ways: &&f64| {
        below += **ways / all;
        below <= outside_max
    };
    ways.iter().take_while(within).count().saturating_sub(1)
}

/// In how many orders of `m` and `n` values just u of the pairs are the wrong way
/// round, for every u: the coefficients of Gauss' binomial, (1 − qᵐ⁺ⁱ) / (1 − qⁱ)
/// for i from 1 to n multiplied.
fn arrangements(m: usize, n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; m * n + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..ways.len()).rev() {
            ways[u] -= ways[u - m - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_left_out_is_that_of_the_tables() {
        // Critical values of U at 5 %, both sides.
        let table =
            [(4, 4, 0), (5, 5, 2), (5, 8, 6), (8, 8, 13), (10, 10, 23), (12, 7, 18), (20, 20, 127)];
        for (m, n, expected) in table {
            assert_eq!(trimmed_each_side(m, n), expected, "{m} and {n}");
            assert_eq!(trimmed_each_side(n, m), expected, "{n} and {m}");
        }
        assert_eq!(trimmed_each_side(1, 5), 0);
        let differ = [(3, 3), (4, 4), (3, 5), (2, 7), (2, 8), (1, 30), (1, 60), (0, 90)];
        let differ = differ.map(|(m, n)| can_differ(m, n));
        assert_eq!(differ, [false, true, true, false, true, false, true, false]);
        assert_eq!(trimmed_each_side(3, 3), 0);
    }

    #[test]
    fn counting_and_the_normal_distribution_meet() {
        let (pairs, all) = (25.0 * 25.0, 51.0f64);
        let normal = pairs / 2.0 - 1.959_964 * (pairs * all / 12.0).sqrt() - 0.5;
        assert!((trimmed_each_side(25, 25) as f64 - normal).abs() <= 1.0);
        assert_eq!(arrangements(3, 2), [1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn nothing_is_next_to_nothing() {
        assert_eq!(unpaired_ratio(&[], &[1.0]), None);
        assert_eq!(unpaired_ratio(&[1.0], &[0.0, f64::NAN, -1.0]), None);
        let one = unpaired_ratio(&[3.0], &[2.0]).unwrap();
        assert!((one.low - 1.5).abs() < 1e-9 && (one.high - 1.5).abs() < 1e-9, "{one:?}");
    }

    /// A linear congruential generator: the test must be the same every time.
    fn uniform(state: &mut u64) -> f64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 11) as f64) / (1u64 << 53) as f64
    }

    #[test]
    fn intervals_cover_what_they_promise() {
        let mut state = 7;
        let cover = |m: usize, n: usize, state: &mut u64| {
            let runs = 3000;
            let hits = (0..runs).filter(|_| {
                // Skewed, and 1.3 times as much.
                let mut draw = |scale: f64| scale * (0.2 - uniform(state).max(1e-300).ln());
                let values: Vec<f64> = (0..m).map(|_| draw(1.3)).collect();
                let base: Vec<f64> = (0..n).map(|_| draw(1.0)).collect();
                let found = unpaired_ratio(&values, &base).unwrap();
                found.low <= 1.3 && 1.3 <= found.high
            });
            hits.count() as f64 / f64::from(runs)
        };
        // What the orders of five and five allow at best is 96.8 %.
        let five = cover(5, 5, &mut state);
        assert!((0.955..0.98).contains(&five), "{five}");
        let more = cover(30, 25, &mut state);
        assert!((0.935..0.965).contains(&more), "{more}");
    }

    proptest! {
        #[test]
        fn the_same_values_are_a_tie(values in prop::collection::vec(0.001f64..1e6, 1..30)) {
            let found = unpaired_ratio(&values, &values).unwrap();
            prop_assert!((found.median - 1.0).abs() < 1e-9);
            prop_assert!(found.is_tie());
        }

        #[test]
        fn scaled_values_give_the_scale(
            values in prop::collection::vec(0.001f64..1e6, 1..70),
            scale in 0.01f64..100.0,
        ) {
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let found = unpaired_ratio(&scaled, &values).unwrap();
            prop_assert!((found.median / scale - 1.0).abs() < 1e-9);
            prop_assert!(found.low <= scale * (1.0 + 1e-9) && scale <= found.high * (1.0 + 1e-9));
        }

        #[test]
        fn a_ratio_turned_round_is_its_inverse(
            a in prop::collection::vec(0.1f64..1e3, 1..12),
            b in prop::collection::vec(0.1f64..1e3, 1..12),
        ) {
            let (there, back) = (unpaired_ratio(&a, &b).unwrap(), unpaired_ratio(&b, &a).unwrap());
            prop_assert!((there.median * back.median - 1.0).abs() < 1e-9);
            prop_assert!((there.low * back.high - 1.0).abs() < 1e-9);
        }
    }
}
