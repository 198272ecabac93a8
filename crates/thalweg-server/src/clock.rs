//! The one clock: monotonic, in µs. It is the same for all processes of a machine, so that they
//! can compare intended times.

use rustix::time::{ClockId, clock_gettime};

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// In µs of the one clock.
    pub(crate) us: u64,
    /// In seconds since 1970, as tokens have it.
    pub(crate) unix_s: u64,
}

impl Now {
    pub(crate) fn get() -> Self {
        let unix = clock_gettime(ClockId::Realtime);
        Self { us: now_us(), unix_s: unix.tv_sec as u64 }
    }
}

/// The time of the day, in ms since 1970, to a few ms.
pub(crate) fn unix_ms() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// Returns the time of `CLOCK_MONOTONIC`, in µs.
#[must_use]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
