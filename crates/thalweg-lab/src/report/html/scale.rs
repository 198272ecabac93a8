//! Maps values to places along an axis, and picks its ticks.

/// Ticks that an axis has at least and at most.
const TICKS_MIN: usize = 3;
const TICKS_MAX: usize = 8;
/// From this ratio of the largest to the smallest on, an axis is logarithmic.
const LOG_FROM: f64 = 10.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    /// Where 0 stands on a logarithmic axis, if it is among the values.
    zero: Option<f64>,
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// Fits values that start at 0, or ones that span decades.
    pub(super) fn fitting(values: impl IntoIterator<Item = f64>) -> Scale {
        let (least, most) = range(values);
        if least > 0.0 && most / least >= LOG_FROM {
            Scale::log(least, most)
        } else {
            Scale::linear(0.0, most)
        }
    }

    /// From `low` to `high` or a little further, in equal steps.
    pub(super) fn linear(low: f64, high: f64) -> Scale {
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let ticks = linear_ticks(low, high);
        Scale::covering(ticks, false)
    }

    /// From `low` to `high` or a little further, in equal ratios.
    pub(super) fn log(low: f64, high: f64) -> Scale {
        const MANTISSAS: [&[f64]; 5] = [
            &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
            &[1.0, 3.0],
            &[1.0],
        ];
        let low = if low > 0.0 { low } else { high.abs().max(1.0) / LOG_FROM };
        let high = high.max(low * 1.001);
        let fine = MANTISSAS.iter().map(|mantissas| log_ticks(low, high, mantissas, 1));
        let coarse = (2..20).map(|decades| log_ticks(low, high, &[1.0], decades));
        let fitting = |ticks: &Vec<f64>| (TICKS_MIN..=TICKS_MAX).contains(&ticks.len());
        let ticks = fine.chain(coarse).find(fitting);
        let ticks = ticks.unwrap_or_else(|| linear_ticks(low, high));
        // Linear ticks of a narrow range may begin at 0, which has no logarithm.
        let is_log = ticks[0] > 0.0;
        Scale::covering(ticks, is_log)
    }

    /// Ratios: as far below 1 as above it, so that half and twice are alike.
    /// `reach` is the farthest ratio, or what the farthest below 1 is divided by it.
    pub(super) fn around_one(reach: f64) -> Scale {
        const LADDERS: [&[f64]; 10] = [
            &[1.0, 1.02, 1.04],
            &[1.0, 1.05, 1.1],
            &[1.0, 1.1, 1.2],
            &[1.0, 1.2, 1.4],
            &[1.0, 1.25, 1.6],
            &[1.0, 1.5, 2.0],
            &[1.0, 1.5, 3.0],
            &[1.0, 2.0, 4.0],
            &[1.0, 2.0, 6.0],
            &[1.0, 3.0, 10.0],
        ];
        let reach = reach.max(1.0);
        let ladder = LADDERS.iter().find(|ladder| ladder[2] >= reach);
        let ladder = ladder.copied().unwrap_or(&[1.0, 10.0, 100.0]);
        let below = ladder.iter().skip(1).rev().map(|tick| 1.0 / tick);
        let ticks: Vec<f64> = below.chain(ladder.iter().copied()).collect();
        let reach = reach.max(ladder[2]);
        Scale { is_log: true, low: 1.0 / reach, high: reach, zero: None, ticks }
    }

    /// Values of a setting: each is a tick, and none lies at the edge.
    pub(super) fn settings(values: &[f64]) -> Scale {
        let mut ticks = values.to_vec();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let positive: Vec<f64> = ticks.iter().copied().filter(|&it| it > 0.0).collect();
        let (least, most) = range(positive.iter().copied());
        let is_log = positive.len() > 1 && most / least >= LOG_FROM;
        if !is_log {
            let (low, high) = range(ticks.iter().copied());
            let margin = if high > low { (high - low) * 0.09 } else { 1.0 };
            return Scale { is_log, low: low - margin, high: high + margin, zero: None, ticks };
        }
        // 0 stands as far from the least as the values do from each other.
        let step = (most / least).powf(1.0 / (positive.len() - 1) as f64);
        let zero = (positive.len() < ticks.len()).then_some(least / step);
        let first = zero.unwrap_or(least);
        let margin = (most / first).powf(0.09);
        Scale { is_log, low: first / margin, high: most * margin, zero, ticks }
    }

    /// Exactly these ticks, equal steps.
    pub(super) fn exact(low: f64, high: f64, ticks: Vec<f64>) -> Scale {
        Scale { is_log: false, low, high, zero: None, ticks }
    }

    fn covering(ticks: Vec<f64>, is_log: bool) -> Scale {
        let (low, high) = range(ticks.iter().copied());
        Scale { is_log, low, high, zero: None, ticks }
    }

    /// 0 at the low end, 1 at the high one; what lies beyond an end is at it.
    pub(super) fn place(&self, value: f64) -> f64 {
        let along = if self.is_log {
            let value = self.zero.filter(|_| value <= 0.0).unwrap_or(value).max(1e-12);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if along.is_finite() { along.clamp(0.0, 1.0) } else { 0.0 }
    }

    #[cfg(test)]
    fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value) || (value == 0.0 && self.zero.is_some())
    }
}

/// Least and most; 0 and 1 without values.
fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite
        .map(|value| (value, value))
        .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
        .unwrap_or((0.0, 1.0))
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten: the smallest such step that does not need too many.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let magnitude = 10f64.powf(((high - low) / TICKS_MAX as f64).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0].map(|step| step * magnitude);
    let of_step = |step: f64| -> Vec<f64> {
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        (0..=(last - first) as usize).map(|count| (first + count as f64) * step).collect()
    };
    // A step as wide as the range leaves two ticks, or three of which one is far off.
    let fitting = |ticks: &Vec<f64>| (TICKS_MIN..=6).contains(&ticks.len());
    steps
        .into_iter()
        .map(of_step)
        .find(fitting)
        .unwrap_or_else(|| vec![low, (low + high) / 2.0, high])
}

/// Every `decades`th power of ten times each of the mantissas, from the last not above `low` to the first not below `high`.
fn log_ticks(low: f64, high: f64, mantissas: &[f64], decades: i32) -> Vec<f64> {
    let exponent = |value: f64| (value.log10().floor() as i32).div_euclid(decades) * decades;
    let (first, last) = (exponent(low) - decades, exponent(high) + decades);
    let powers = (first..=last).step_by(decades as usize);
    let all: Vec<f64> = powers
        .flat_map(|power| mantissas.iter().map(move |mantissa| mantissa * 10f64.powi(power)))
        .collect();
    let begin = all.iter().rposition(|tick| *tick <= low * (1.0 + 1e-9)).unwrap_or(0);
    let end = all.iter().position(|tick| *tick >= high * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    all[begin..=end.max(begin)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// At most two digits, the second a 5 (or a 2.5's).
    fn is_round(value: f64) -> bool {
        let magnitude = 10f64.powf(value.abs().max(1e-300).log10().floor() - 2.0);
        value == 0.0 || ((value / magnitude).round() * magnitude - value).abs() < 1e-6 * value.abs()
    }

    fn check(scale: &Scale, low: f64, high: f64) {
        let ticks = &scale.ticks;
        assert!((TICKS_MIN..=TICKS_MAX).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
        assert!(ticks[0] <= low * (1.0 + 1e-6) && ticks[ticks.len() - 1] >= high * (1.0 - 1e-6));
        assert!(ticks.iter().copied().all(is_round), "{low} to {high}: {ticks:?}");
        assert!(ticks.windows(2).all(|pair| scale.place(pair[0]) < scale.place(pair[1])));
    }

    #[test]
    fn ticks_as_one_would_write_them() {
        assert_eq!(Scale::linear(0.0, 4.7).ticks, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(Scale::log(12.0, 900.0).ticks, [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(Scale::settings(&[1000.0, 1.0, 10.0, 1.0]).ticks, [1.0, 10.0, 1000.0]);
        assert_eq!(Scale::around_one(1.95).ticks, [0.5, 1.0 / 1.5, 1.0, 1.5, 2.0]);
    }

    #[test]
    fn zero_has_a_place_of_its_own_among_decades() {
        let scale = Scale::settings(&[0.0, 10_000.0, 1_000_000.0]);
        let steps = [scale.place(0.0), scale.place(1e4), scale.place(1e6)];
        assert!((steps[1] - steps[0] - (steps[2] - steps[1])).abs() < 1e-9);
        assert!(scale.contains(0.0) && !scale.contains(1.0));
    }

    proptest! {
        #[test]
        fn linear_ticks_are_few_round_and_cover(high in 1e-3f64..1e9) {
            check(&Scale::linear(0.0, high), 0.0, high);
        }

        #[test]
        fn log_ticks_are_few_round_and_cover(low in 1e-3f64..1e6, ratio in 2.0f64..1e9) {
            check(&Scale::log(low, low * ratio), low, low * ratio);
        }

        #[test]
        fn ratios_are_on_the_axis_and_one_in_the_middle(low in 0.02f64..1.0, high in 1.0f64..50.0) {
            let scale = Scale::around_one(high.max(1.0 / low));
            prop_assert!((scale.place(1.0) - 0.5).abs() < 1e-9);
            prop_assert!(scale.contains(low) && scale.contains(high));
            prop_assert!(scale.ticks.len() == 5, "{:?}", scale.ticks);
        }
    }
}
