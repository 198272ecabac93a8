//! Tests of the log.

mod backups;
mod conformance;
mod keyed;
mod long_merges;
mod moving;
mod older;
mod rules;
mod simulated;
mod simulation;
mod slow_sync;
mod topic_lists;
mod total;

use std::cell::Cell;

pub(crate) use conformance::temporary;

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread holds the lock of a log.
pub(crate) struct Held;

impl Held {
    pub(crate) fn begin() -> Self {
        assert!(!HELD.replace(true), "the lock is held already");
        Self
    }

    fn is_held() -> bool {
        HELD.get()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.set(false);
    }
}
