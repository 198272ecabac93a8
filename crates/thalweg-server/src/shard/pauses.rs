//! When a shared topic has paused, as a node has written it that tells the time. All nodes read it at the same place. Pure.

use std::collections::BTreeMap;

use thalweg_wire::{Offset, Topic};

/// Pauses that are known of one topic; of more the oldest go. There is one for each time that windows wait.
const PAUSES_MAX: usize = 1024;

/// Where a topic has paused, and for how many ms at least.
#[derive(Debug, Default, Clone)]
pub(crate) struct Pauses {
    by_offset: BTreeMap<Offset, u64>,
    /// Of those before it some are not known any more.
    complete_from: Offset,
}

/// A topic has paused: its home is to write that, if nothing has come since.
#[derive(Debug)]
pub(crate) struct Paused {
    pub(super) topic: Topic,
    /// The events up to here were read.
    pub(super) next: Offset,
    pub(super) ms: u64,
}

impl Pauses {
    pub(super) fn insert(&mut self, at: Offset, ms: u64) {
        self.by_offset.insert(at, ms);
        while self.by_offset.len() > PAUSES_MAX {
            let oldest = self.by_offset.pop_first();
            self.complete_from = self.complete_from.max(oldest.map_or(0, |(at, _)| at + 1));
        }
    }

    /// Takes those that another shard knows. Returns whether there were any.
    pub(super) fn merge(&mut self, other: Self) -> bool {
        self.complete_from = self.complete_from.max(other.complete_from);
        let is_any = !other.by_offset.is_empty();
        other.by_offset.into_iter().for_each(|(at, ms)| self.insert(at, ms));
        is_any
    }

    /// From this offset on all are known that the topic has had.
    pub(super) fn complete_from(&self) -> Offset {
        self.complete_from
    }

    /// The newest one.
    pub(super) fn newest(&self) -> Offset {
        self.by_offset.last_key_value().map_or(0, |(at, _)| *at)
    }

    /// Those from an offset on.
    pub(super) fn since(&self, from: Offset) -> impl Iterator<Item = (Offset, u64)> {
        self.by_offset.range(from..).map(|(at, ms)| (*at, *ms))
    }

    /// The same for another shard.
    pub(super) fn part_since(&self, from: Offset) -> Self {
        Self { by_offset: self.since(from).collect(), complete_from: self.complete_from }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }
}

impl FromIterator<(Offset, u64)> for Pauses {
    fn from_iter<I: IntoIterator<Item = (Offset, u64)>>(pauses: I) -> Self {
        let mut made = Self::default();
        pauses.into_iter().for_each(|(at, ms)| made.insert(at, ms));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_all_are_known_is_known() {
        let mut pauses: Pauses = (1..=PAUSES_MAX as u64).map(|nth| (nth * 10, 200)).collect();
        assert_eq!((pauses.complete_from(), pauses.newest()), (0, 10 * PAUSES_MAX as u64));
        pauses.insert(10 * PAUSES_MAX as u64 + 10, 300);
        assert_eq!((pauses.complete_from(), pauses.since(0).next()), (11, Some((20, 200))));
        // Whoever reads older ones back has no room for them.
        pauses.insert(5, 200);
        assert_eq!((pauses.complete_from(), pauses.since(0).count()), (11, PAUSES_MAX));
        let mut copy = Pauses::default();
        assert!(copy.merge(pauses.part_since(10 * PAUSES_MAX as u64)));
        assert_eq!((copy.complete_from(), copy.since(0).count()), (11, 2));
    }
}
