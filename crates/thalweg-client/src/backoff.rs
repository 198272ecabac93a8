//! How long to wait before coming back: twice as long each time, with jitter, so
//! that clients cut off together do not come back together.

use std::time::Duration;

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

/// The delays between attempts that fail.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The delay before the next attempt. `random` in 0..1 takes up to half of it
    /// away.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let doubled = BACKOFF_MIN.saturating_mul(1 << self.attempts.min(16));
        self.attempts = self.attempts.saturating_add(1);
        doubled.min(BACKOFF_MAX).mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// An attempt succeeded.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_from_the_least_to_the_largest_and_begin_again() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..8).map(|_| backoff.next(0.0).as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        for _ in 0..100 {
            assert_eq!(backoff.next(0.0), BACKOFF_MAX);
        }
        backoff.reset();
        assert_eq!(backoff.next(0.0), BACKOFF_MIN);
    }

    #[test]
    fn jitter_takes_up_to_half_away() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(0.999_999).as_millis(), 100);
        assert_eq!(backoff.next(0.5).as_millis(), 300);
    }
}
