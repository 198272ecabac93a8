//! The one clock: monotonic, in µs. It is the same for all processes of a machine, so that they
//! can compare intended times.

use rustix::time::{ClockId, clock_gettime};

/// Now, in µs of `CLOCK_MONOTONIC`.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
