use std::{cmp::Reverse, collections::BinaryHeap};

/// Keys with due times, in µs.
pub(super) struct Timers<T>(BinaryHeap<Reverse<(u64, T)>>);

impl<T: Ord> Default for Timers<T> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<T: Ord + Copy> Timers<T> {
    pub(super) fn set(&mut self, at_us: u64, what: T) {
        self.0.push(Reverse((at_us, what)));
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_us, _))| *at_us)
    }

    pub(super) fn take_due(&mut self, now_us: u64) -> Option<T> {
        self.next_us().filter(|at_us| *at_us <= now_us)?;
        self.0.pop().map(|Reverse((_, what))| what)
    }
}
