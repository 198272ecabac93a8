//! Samples that are taken at the same time begin their spans together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One participant's side of a barrier. One that is dropped before it has arrived is not waited for.
#[derive(Debug)]
pub(super) struct StartBarrier {
    missing: Arc<AtomicUsize>,
    has_arrived: bool,
}

impl StartBarrier {
    /// Creates one side for each of so many participants.
    pub(super) fn new(participants: usize) -> Vec<StartBarrier> {
        let missing = Arc::new(AtomicUsize::new(participants));
        let one = |_| StartBarrier { missing: Arc::clone(&missing), has_arrived: false };
        (0..participants).map(one).collect()
    }

    pub(super) fn alone() -> StartBarrier {
        StartBarrier { missing: Arc::new(AtomicUsize::new(1)), has_arrived: false }
    }

    /// Arrives, if this has not happened yet; returns whether all have.
    pub(super) fn arrive(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_arrived, true) {
            self.missing.fetch_sub(1, Ordering::AcqRel);
        }
        self.missing.load(Ordering::Acquire) == 0
    }
}

impl Drop for StartBarrier {
    fn drop(&mut self) {
        self.arrive();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_when_the_last_has_arrived() {
        let mut barriers = StartBarrier::new(3);
        assert!(!barriers[0].arrive());
        assert!(!barriers[0].arrive(), "arriving twice counts once");
        assert!(!barriers[1].arrive());
        assert!(barriers[2].arrive());
        assert!(barriers[0].arrive());
    }

    #[test]
    fn one_that_fails_is_not_waited_for() {
        let mut barriers = StartBarrier::new(2);
        assert!(!barriers[0].arrive());
        drop(barriers.pop());
        assert!(barriers[0].arrive());
    }

    #[test]
    fn one_alone_does_not_wait() {
        assert!(StartBarrier::alone().arrive());
    }
}
