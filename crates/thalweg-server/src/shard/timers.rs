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

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the timers for which `is_kept`, which gets the due time and the key, returns `false`.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(u64, &T) -> bool) {
        self.0.retain(|Reverse((at_us, what))| is_kept(*at_us, what));
        self.0.shrink_to(2 * self.0.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_timer_is_never_due() {
        let mut timers = Timers::default();
        (0..10_u64).for_each(|key| timers.set(10 - key, key));
        timers.retain(|at_us, key| at_us + key == 10 && key % 2 == 0);
        assert_eq!(timers.len(), 5);
        let due: Vec<u64> = std::iter::from_fn(|| timers.take_due(10)).collect();
        assert_eq!(due, [8, 6, 4, 2, 0]);
    }
}
