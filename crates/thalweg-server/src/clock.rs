//! The one clock: monotonic, in µs. On one machine it is the same for every
//! process, so that an intended time can be compared across them.

use rustix::time::{ClockId, clock_gettime};

/// Now, in µs of `CLOCK_MONOTONIC`.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
