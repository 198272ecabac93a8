use std::{
    cell::Cell,
    task::{Context, Waker},
};

use crate::config::SETTLED_BYTES;

/// Wakes the loop of a shard, from its own thread.
#[derive(Default)]
pub(super) struct Wake {
    is_woken: Cell<bool>,
    /// Bytes of events that were appended since the last turn.
    appended: Cell<usize>,
    waker: Cell<Option<Waker>>,
}

impl Wake {
    /// The loop takes a turn soon.
    pub(super) fn wake(&self) {
        if !self.is_woken.replace(true)
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    /// Wakes the loop after so many bytes of events were appended.
    pub(super) fn wake_after(&self, appended: usize) {
        self.appended.set(self.appended.get() + appended);
        self.wake();
    }

    /// Returns whether so much was appended that the turn is worth its sends.
    pub(super) fn is_full(&self) -> bool {
        self.appended.get() >= SETTLED_BYTES
    }

    /// The loop takes a turn now.
    pub(super) fn forget(&self) {
        self.is_woken.set(false);
        self.appended.set(0);
    }

    /// Whether it was woken since the last call. Otherwise the task of `cx` is woken when it is.
    pub(super) fn is_woken(&self, cx: &Context<'_>) -> bool {
        let is_woken = self.is_woken.take();
        if !is_woken {
            self.waker.set(Some(cx.waker().clone()));
        }
        is_woken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_wake_is_told_once_whether_the_loop_waits_or_not() {
        let (wake, woken) = (Wake::default(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        wake.wake();
        assert!(wake.is_woken(&context), "woken before anybody waited");
        assert!(!wake.is_woken(&context));
        wake.wake();
        wake.wake();
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(wake.is_woken(&context));
        assert!(!wake.is_woken(&context));
        wake.wake();
        wake.forget();
        assert!(!wake.is_woken(&context), "the turn that was taken is enough");
        wake.wake();
        assert_eq!(woken.0.load(Relaxed), 3);
    }

    #[test]
    fn it_is_full_until_the_loop_takes_its_turn() {
        let wake = Wake::default();
        wake.wake_after(SETTLED_BYTES - 1);
        assert!(!wake.is_full());
        wake.wake_after(1);
        assert!(wake.is_full());
        wake.forget();
        assert!(!wake.is_full());
    }
}
