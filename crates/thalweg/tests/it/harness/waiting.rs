//! Waiting for what only shows when one looks.

use std::thread;
use std::time::{Duration, Instant};

use super::DEADLINE;

/// Where nothing tells of a change, one has to look.
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Waits until `look` finds what it looks for.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {DEADLINE:?} in vain for {what}");
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}
