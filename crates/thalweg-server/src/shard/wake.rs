use std::{
    cell::Cell,
    task::{Context, Waker},
};

/// Wakes the loop of a shard, from its own thread.
#[derive(Default)]
pub(super) struct Wake {
    is_woken: Cell<bool>,
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

    /// Whether it was woken since the last call. Otherwise the task of `cx` is woken when it is.
    pub(super) fn is_woken(&self, cx: &Context<'_>) -> bool {
        let is_woken = self.is_woken.take();
        if !is_woken {
            self.waker.set(Some(cx.waker().clone()));
        }
        is_woken
    }
}
