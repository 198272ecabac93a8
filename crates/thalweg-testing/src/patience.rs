//! The patience of a test's wait.
//!
//! A fixed number of seconds is too short on a machine that others use. A wait therefore counts the time that the
//! machine could have given it: if three threads share a core, a second counts as a third. It starts again with each
//! sign of progress. On an idle machine, a test that hangs fails after [`PATIENCE`].

use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// A wait without progress ends after this time on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time between two looks at the load.
const SLICE: Duration = Duration::from_millis(50);

/// The maximum time that one look counts, because a later look means that the machine, or the test itself, stood still.
const COUNTED_MAX: Duration = Duration::from_millis(500);

/// The patience of one wait.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    /// Starts a wait.
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self { left: PATIENCE, looked: Instant::now() }
    }

    /// Records progress: the wait starts again.
    pub fn renew(&mut self) {
        *self = Self::new();
    }

    /// Returns how long to block at most before the next check of the wait.
    pub fn slice(&self) -> Duration {
        SLICE
    }

    /// Returns whether the wait is over. Call this after each slice, because it counts the time.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let passed = now.duration_since(self.looked).min(COUNTED_MAX);
        self.looked = now;
        self.left = self.left.saturating_sub(passed.mul_f64(share()));
        self.left.is_zero()
    }

    /// Panics when the wait is over.
    #[track_caller]
    pub fn check(&mut self, what: &str) {
        assert!(!self.is_over(), "waited without success for {what}: no progress for {PATIENCE:?}");
    }
}

/// Returns the share of a core that a thread gets now; 1 if unknown.
pub(crate) fn share() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = available_parallelism().map_or(1, NonZero::get);
    share_of(cores, runnable(&load).unwrap_or(1))
}

fn share_of(cores: usize, runnable: usize) -> f64 {
    cores as f64 / cores.max(runnable) as f64
}

/// Returns the number of runnable threads, from `proc_loadavg(5)`.
fn runnable(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_cores() {
        assert_eq!(runnable("2.49 1.66 0.75 6/117 16687\n"), Some(6));
        assert_eq!(runnable("nothing"), None);
        assert_eq!([share_of(2, 0), share_of(2, 2), share_of(2, 8)], [1.0, 1.0, 0.25]);
    }

    #[test]
    fn a_wait_without_progress_ends() {
        let mut patience = Patience { left: Duration::from_nanos(1), looked: Instant::now() };
        while !patience.is_over() {}
        patience.renew();
        assert!(!patience.is_over());
    }
}
