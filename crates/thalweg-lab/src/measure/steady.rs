//! Decides when a subject is warm, which means that its figures have stopped drifting.
//!
//! Time at full load is cut into slices. The last [`LAST`] of them are steady if the newer half is not plainly different from the
//! older one: drift means that all of the newer lie on one side of all of the older *and* the medians of the two are more than
//! [`DRIFT_MAX`] apart. With mere noise the first is true once in ten looks, and a look comes with every slice, so noise alone
//! never keeps a sample waiting for long. A drift slower than about 1.7 % a slice is not seen, nor a step within the last two.
//!
//! In a closed loop both delivered events per second and mean latency must be steady. On a schedule only the mean
//! latency latency must be: how many ticks fall into a slice is chance.

use super::statistics::median;
use std::time::Duration;

/// Slices that are looked at.
const LAST: usize = 6;
/// Medians of both halves that differ by no more count as equal.
const DRIFT_MAX: f64 = 0.05;
const SLICE_MS_MIN: u64 = 25;
const SLICE_MS_MAX: u64 = 100;
/// A warm-up lasts at most this many times its minimum length longer, steady or not.
const LATER_MAX: u32 = 4;

/// Figures of a slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// Events delivered per second.
    pub events_per_s: f64,
    /// The mean latency of these events.
    pub mean_us: f64,
}

/// The slices so far.
#[derive(Clone, Debug)]
pub struct Steadiness {
    least: Duration,
    is_scheduled: bool,
    slices: Vec<Slice>,
}

/// The state of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// One more slice.
    NotYet,
    /// The span may begin.
    Steady,
    /// The span has to begin, although figures drift.
    Drifting,
}

impl Steadiness {
    /// Creates a warm-up of at least `least`; `is_scheduled` if a schedule sets the rate.
    pub fn new(least: Duration, is_scheduled: bool) -> Steadiness {
        Steadiness { least, is_scheduled, slices: Vec::new() }
    }

    /// Returns the length of a slice, so short that the shortest warm-up has enough of them. On a schedule there are two ticks in each.
    pub fn slice(&self, tick: Duration) -> Duration {
        let share = self.least / LAST as u32;
        let bounds = [SLICE_MS_MIN, SLICE_MS_MAX].map(Duration::from_millis);
        share.clamp(bounds[0], bounds[1]).max(2 * tick)
    }

    /// Adds a slice, unless nothing came in it.
    pub fn push(&mut self, slice: Slice) {
        if slice.events_per_s > 0.0 {
            self.slices.push(slice);
        }
    }

    /// Returns whether the subject is warm after this much time at full load.
    pub fn after(&self, elapsed: Duration) -> Warm {
        if elapsed < self.least {
            return Warm::NotYet;
        }
        if self.is_steady() {
            return Warm::Steady;
        }
        match elapsed >= self.least * (1 + LATER_MAX) {
            true => Warm::Drifting,
            false => Warm::NotYet,
        }
    }

    fn is_steady(&self) -> bool {
        let Some(first) = self.slices.len().checked_sub(LAST) else {
            return false;
        };
        let last = &self.slices[first..];
        let drifts = |of: fn(&Slice) -> f64| {
            let figures: Vec<f64> = last.iter().map(of).collect();
            let (older, newer) = figures.split_at(LAST / 2);
            has_drifted(older, newer)
        };
        !drifts(|slice| slice.mean_us) && (self.is_scheduled || !drifts(|slice| slice.events_per_s))
    }
}

fn has_drifted(older: &[f64], newer: &[f64]) -> bool {
    let least = |figures: &[f64]| figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |figures: &[f64]| figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_apart = least(newer) > most(older) || most(newer) < least(older);
    let medians = median(older).zip(median(newer));
    is_apart && medians.is_some_and(|(older, newer)| (newer / older - 1.0).abs() > DRIFT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(100);

    /// Checks after how many slices of 100 ms a warm-up of at least 600 ms ends, and how, if slice n has this rate and this latency.
    fn check(is_scheduled: bool, slice: impl Fn(u32) -> (f64, f64), expected: (u32, Warm)) {
        let mut steadiness = Steadiness::new(6 * SLICE, is_scheduled);
        assert_eq!(steadiness.slice(Duration::ZERO), SLICE);
        for number in 0.. {
            let (events_per_s, mean_us) = slice(number);
            steadiness.push(Slice { events_per_s, mean_us });
            let warm = steadiness.after((number + 1) * SLICE);
            if warm != Warm::NotYet {
                assert_eq!((number + 1, warm), expected);
                return;
            }
        }
    }

    /// Returns a number from −1 to 1, the same every time.
    fn noise(number: u32) -> f64 {
        f64::from(number.wrapping_mul(2_654_435_769) >> 16 & 0xFFFF) / 32768.0 - 1.0
    }

    #[test]
    fn a_steady_series_takes_no_warm_up() {
        check(false, |_| (1000.0, 50.0), (6, Warm::Steady));
        check(false, |n| (1000.0 + 20.0 * noise(n), 50.0 - noise(n)), (6, Warm::Steady));
    }

    #[test]
    fn noise_does_not_keep_it_waiting() {
        for seed in 0..50 {
            let slice = |n: u32| {
                (1000.0 + 300.0 * noise(n + 97 * seed), 50.0 + 20.0 * noise(n + 31 * seed))
            };
            let mut steadiness = Steadiness::new(6 * SLICE, false);
            let ended = (0..12u32).find(|&n| {
                let (events_per_s, mean_us) = slice(n);
                steadiness.push(Slice { events_per_s, mean_us });
                steadiness.after((n + 1) * SLICE) == Warm::Steady
            });
            assert!(ended.is_some(), "seed {seed}");
        }
    }

    #[test]
    fn a_step_is_waited_out() {
        let step = |at: u32| move |n: u32| (if n < at { 500.0 } else { 1000.0 }, 50.0);
        check(false, step(3), (7, Warm::Steady));
        // Too new to be told from noise.
        check(false, step(5), (6, Warm::Steady));
    }

    #[test]
    fn a_ramp_is_waited_out() {
        // Latency halves every 200 ms, towards 100 µs.
        let ramp = |n: u32| (1000.0, 100.0 + 1000.0 * 0.5f64.powf(f64::from(n) / 2.0));
        check(false, ramp, (19, Warm::Steady));
    }

    #[test]
    fn a_series_that_never_settles_drifts() {
        check(false, |n| (1000.0, 50.0 * 1.05f64.powi(n as i32)), (30, Warm::Drifting));
        check(true, |n| (1000.0, 50.0 * 1.05f64.powi(n as i32)), (30, Warm::Drifting));
        // No events come at all.
        check(true, |_| (0.0, 0.0), (30, Warm::Drifting));
    }

    #[test]
    fn a_schedules_ticks_are_no_drift() {
        // Twenty batches a second: now two, now three in a slice.
        let ticks = |n: u32| (f64::from(2 + n / 3 % 2) * 1000.0, 50.0 + noise(n));
        check(true, ticks, (6, Warm::Steady));
        let long = Steadiness::new(6 * SLICE, true).slice(Duration::from_millis(500));
        assert_eq!(long, Duration::from_secs(1));
    }
}
