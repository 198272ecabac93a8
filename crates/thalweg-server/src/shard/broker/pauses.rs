//! Pauses of a topic of a stream. The node that reports pauses writes them, and all nodes read them at the same offset. Pure.

use std::collections::BTreeMap;

use thalweg_wire::{Offset, Topic};

/// The number of pauses kept per topic. The oldest are dropped. While a topic is quiet, each longer timeout of a query adds one.
const PAUSES_MAX: usize = 1024;

/// The offsets of a topic's pauses, and their lengths in ms. Most topics have no pause, and need only a pointer.
#[derive(Debug, Default, Clone)]
pub(crate) struct Pauses(Option<Box<KnownPauses>>);

#[derive(Debug, Default, Clone)]
struct KnownPauses {
    by_offset: BTreeMap<Offset, u64>,
    /// All pauses from this offset on are known.
    complete_from: Offset,
    /// The earliest time at which the next pause may be written, in µs.
    next_write_us: u64,
}

/// A pause that the owner shard writes, unless a newer event has come.
#[derive(Debug)]
pub(crate) struct Paused {
    pub(in crate::shard) topic: Topic,
    /// The query has read the events before this offset.
    pub(in crate::shard) next: Offset,
    pub(in crate::shard) ms: u64,
}

impl Pauses {
    pub(in crate::shard) fn insert(&mut self, at: Offset, ms: u64) {
        let KnownPauses { by_offset, complete_from, .. } = &mut **self.0.get_or_insert_default();
        by_offset.insert(at, ms);
        while by_offset.len() > PAUSES_MAX {
            let oldest = by_offset.pop_first();
            *complete_from = (*complete_from).max(oldest.map_or(0, |(at, _)| at + 1));
        }
    }

    /// Adds the pauses that another shard knows. Returns whether there were any.
    pub(in crate::shard) fn merge(&mut self, other: Self) -> bool {
        let Some(other) = other.0 else { return false };
        let known = self.0.get_or_insert_default();
        known.complete_from = known.complete_from.max(other.complete_from);
        let is_any = !other.by_offset.is_empty();
        other.by_offset.into_iter().for_each(|(at, ms)| self.insert(at, ms));
        is_any
    }

    pub(in crate::shard) fn complete_from(&self) -> Offset {
        self.0.as_ref().map_or(0, |known| known.complete_from)
    }

    pub(in crate::shard) fn newest(&self) -> Offset {
        let newest = self.0.as_ref().and_then(|known| known.by_offset.last_key_value());
        newest.map_or(0, |(at, _)| *at)
    }

    pub(in crate::shard) fn since(&self, from: Offset) -> impl Iterator<Item = (Offset, u64)> {
        let known = self.0.iter().flat_map(move |known| known.by_offset.range(from..));
        known.map(|(at, ms)| (*at, *ms))
    }

    /// Returns the pauses from an offset on for another shard.
    pub(in crate::shard) fn part_since(&self, from: Offset) -> Self {
        let by_offset: BTreeMap<Offset, u64> = self.since(from).collect();
        if by_offset.is_empty() {
            return Self::default();
        }
        let complete_from = self.complete_from();
        Self(Some(Box::new(KnownPauses { by_offset, complete_from, next_write_us: 0 })))
    }

    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether a pause may be written now. The next one may follow `pause_us` later.
    pub(in crate::shard) fn may_write(&mut self, now_us: u64, pause_us: u64) -> bool {
        let known = self.0.get_or_insert_default();
        let may = now_us >= known.next_write_us;
        if may {
            known.next_write_us = now_us + pause_us;
        }
        may
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
    fn pauses_are_complete_from_the_oldest_kept_one() {
        let mut pauses: Pauses = (1..=PAUSES_MAX as u64).map(|nth| (nth * 10, 200)).collect();
        assert_eq!((pauses.complete_from(), pauses.newest()), (0, 10 * PAUSES_MAX as u64));
        pauses.insert(10 * PAUSES_MAX as u64 + 10, 300);
        assert_eq!((pauses.complete_from(), pauses.since(0).next()), (11, Some((20, 200))));
        // An older pause has no room.
        pauses.insert(5, 200);
        assert_eq!((pauses.complete_from(), pauses.since(0).count()), (11, PAUSES_MAX));
        let mut copy = Pauses::default();
        assert!(copy.merge(pauses.part_since(10 * PAUSES_MAX as u64)));
        assert_eq!((copy.complete_from(), copy.since(0).count()), (11, 2));
    }
}
