//! Measures CPU time of this thread, which excludes waiting for a core.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Measures the CPU time of this thread.
#[derive(Debug)]
pub struct CpuTimer {
    started: Duration,
}

impl CpuTimer {
    /// Shorter times cannot be compared.
    pub const SHORTEST: Duration = Duration::from_millis(2);

    /// Starts to measure.
    #[must_use]
    pub fn start() -> Self {
        Self { started: now() }
    }

    /// Returns the CPU time of this thread since the start.
    pub fn used(&self) -> Duration {
        now().saturating_sub(self.started)
    }
}

/// Asserts that `work` at each size takes at most `factor` times the CPU time of the size before. Begin with small
/// sizes: the assertion then fails before exponential time becomes too long.
#[track_caller]
pub fn assert_growth(what: &str, sizes: &[usize], factor: u32, mut work: impl FnMut(usize)) {
    let mut before = CpuTimer::SHORTEST;
    for size in sizes {
        let mut once = || {
            let timer = CpuTimer::start();
            work(*size);
            timer.used()
        };
        // Caches and interrupts can only prolong a measurement.
        let took = once().min(once()).min(once());
        assert!(took <= before * factor, "{what}: {took:?} at {size}, {before:?} before");
        before = took.max(CpuTimer::SHORTEST);
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_costs_nothing() {
        let (timer, wait) = (CpuTimer::start(), Duration::from_millis(200));
        std::thread::sleep(wait);
        assert!(timer.used() < wait);
    }

    #[test]
    #[should_panic(expected = "twice as long: ")]
    fn exponential_growth_is_found() {
        let spin = |size: usize| {
            let timer = CpuTimer::start();
            while timer.used() < CpuTimer::SHORTEST * (1_u32 << size) {}
        };
        assert_growth("twice as long", &[1, 2, 4, 8], 2, spin);
    }
}
