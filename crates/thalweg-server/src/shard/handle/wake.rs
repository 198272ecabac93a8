//! Wakes the loop of a shard. The loop first lets all ready tasks run, so that events of many requests share a
//! batch and its sends.

use std::{
    cell::Cell,
    task::{Context, Waker},
};

use crate::{
    clock::now_us,
    config::{SETTLED_BYTES, SETTLING_ROUNDS_MAX, SETTLING_TIME},
};

#[derive(Default)]
pub(super) struct Wake {
    is_woken: Cell<bool>,
    /// Bytes of events appended since the last turn.
    appended: Cell<usize>,
    waker: Cell<Option<Waker>>,
}

impl Wake {
    pub(super) fn wake(&self) {
        if !self.is_woken.replace(true)
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    pub(super) fn wake_after(&self, appended: usize) {
        self.appended.set(self.appended.get() + appended);
        self.wake();
    }

    /// Returns whether the appended bytes are worth a turn now.
    pub(super) fn is_full(&self) -> bool {
        self.appended.get() >= SETTLED_BYTES
    }

    /// Forgets all wakes, because a turn begins.
    pub(super) fn forget(&self) {
        self.is_woken.set(false);
        self.appended.set(0);
    }

    /// Returns whether the loop was woken since the last call. If not, the task of `cx` is woken later.
    pub(super) fn is_woken(&self, cx: &Context<'_>) -> bool {
        let is_woken = self.is_woken.take();
        if !is_woken {
            self.waker.set(Some(cx.waker().clone()));
        }
        is_woken
    }
}

/// How long the loop has postponed its turn.
#[derive(Debug, Default)]
pub(super) struct Settling {
    rounds: u32,
    end_us: u64,
}

impl Settling {
    /// Returns whether the loop, which was woken since its last poll, postpones its turn for another round.
    pub(super) fn goes_on(&mut self) -> bool {
        match self.rounds {
            // Usually one round, which needs no clock, shows that no more events come.
            0 => {}
            1 => self.end_us = now_us() + SETTLING_TIME.as_micros() as u64,
            SETTLING_ROUNDS_MAX.. => return false,
            _ if now_us() >= self.end_us => return false,
            _ => {}
        }
        self.rounds += 1;
        true
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

    #[test]
    fn a_turn_is_delayed_for_limited_rounds_and_time() {
        let mut settling = Settling::default();
        let begun_us = now_us();
        let rounds = (0..=SETTLING_ROUNDS_MAX).take_while(|_| settling.goes_on()).count() as u32;
        let took_us = now_us() - begun_us;
        assert!(rounds <= SETTLING_ROUNDS_MAX);
        assert!(rounds == SETTLING_ROUNDS_MAX || took_us >= SETTLING_TIME.as_micros() as u64);
        assert!(rounds >= 2, "the first rounds need no clock");
        assert!(!settling.goes_on());
    }
}
