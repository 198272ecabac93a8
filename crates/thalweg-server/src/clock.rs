//! The clock: monotonic, in µs, the same for all processes of a machine, which can therefore compare intended times.

use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// In µs of the monotonic clock.
    pub(crate) us: u64,
    /// In seconds since 1970, as in tokens.
    pub(crate) unix_s: u64,
}

impl Now {
    pub(crate) fn get() -> Self {
        let unix = clock_gettime(ClockId::Realtime);
        Self { us: now_us(), unix_s: unix.tv_sec as u64 }
    }
}

/// Returns the wall-clock time in ms since 1970, accurate to a few ms.
pub(crate) fn unix_ms() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// Returns the CPU time of this thread, in µs. It takes a system call.
pub(crate) fn thread_cpu_us() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as u64 * 1_000_000 + spent.tv_nsec as u64 / 1_000
}

/// Returns the time of `CLOCK_MONOTONIC`, in µs.
#[must_use]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
