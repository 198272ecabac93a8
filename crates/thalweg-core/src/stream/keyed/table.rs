//! The compaction of a keyed topic: one event of each key.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

use thalweg_wire::Offset;

use super::super::KeyedEvent;

/// The newest event of each key, in the order of offsets and of keys. Removals stay for a while, so that readers who have the
/// removed keys learn of the removal.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_offset: BTreeMap<Offset, Arc<KeyedEvent>>,
    by_key: BTreeSet<ByKey>,
    /// The offsets of removals, and when they came. A key may have come back since.
    removals: VecDeque<(Offset, u64)>,
    /// Those that a broker's pages have brought so far, which are older.
    loaded_removals: VecDeque<(Offset, u64)>,
    complete_from: Offset,
    live: usize,
    bytes: usize,
}

/// An event, ordered by its key.
#[derive(Debug)]
struct ByKey(Arc<KeyedEvent>);

impl Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl Table {
    /// Takes an event that is newer than all others.
    pub(super) fn push(&mut self, event: Arc<KeyedEvent>, now_us: u64) {
        if event.is_removal() {
            self.note_removal(event.offset(), now_us);
        } else {
            self.live += 1;
        }
        self.put(event);
    }

    fn put(&mut self, event: Arc<KeyedEvent>) {
        self.bytes += memory_bytes(&event);
        self.by_offset.insert(event.offset(), Arc::clone(&event));
        if let Some(ByKey(before)) = self.by_key.replace(ByKey(event)) {
            self.by_offset.remove(&before.offset());
            self.subtract(&before);
        }
    }

    /// Takes an event of a broker's page, which is newer than those of the pages before, and older than those that were pushed.
    pub(super) fn load(&mut self, event: Arc<KeyedEvent>, came_us: u64) {
        if self.get(event.key()).is_some_and(|known| known.offset() >= event.offset()) {
            return;
        }
        if event.is_removal() {
            self.loaded_removals.push_back((event.offset(), came_us));
        } else {
            self.live += 1;
        }
        self.put(event);
    }

    /// Forgets a key, if its event is older than `offset`.
    pub(super) fn remove_before(&mut self, key: &[u8], offset: Offset) {
        if self.get(key).is_some_and(|known| known.offset() < offset)
            && let Some(ByKey(known)) = self.by_key.take(key)
        {
            self.by_offset.remove(&known.offset());
            self.subtract(&known);
        }
    }

    /// Forgets the events before `offset`. Others may have come since.
    pub(super) fn forget_before(&mut self, offset: Offset) {
        let newer = self.by_offset.split_off(&offset);
        for event in std::mem::replace(&mut self.by_offset, newer).into_values() {
            self.by_key.remove(event.key());
            self.subtract(&event);
        }
    }

    /// Notes that all pages have come.
    pub(super) fn end_load(&mut self) {
        let newer = std::mem::take(&mut self.removals);
        self.removals = std::mem::take(&mut self.loaded_removals);
        self.removals.extend(newer);
    }

    fn note_removal(&mut self, offset: Offset, now_us: u64) {
        self.removals.push_back((offset, now_us));
        // Keys that come and go must not fill the memory.
        if self.removals.len() > 2 * (self.by_offset.len() - self.live) + 1024 {
            self.removals
                .retain(|(other, _)| *other == offset || self.by_offset.contains_key(other));
        }
    }

    /// Returns the newest event of a key, given as a JSON string. It may be a removal.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Arc<KeyedEvent>> {
        self.by_key.get(key).map(|ByKey(event)| event)
    }

    /// Returns the events from `from` on, in the order of their offsets.
    pub(super) fn events_from(&self, from: Offset) -> impl Iterator<Item = &Arc<KeyedEvent>> {
        self.by_offset.range((Bound::Included(from), Bound::Unbounded)).map(|(_, event)| event)
    }

    /// Returns the offset of the oldest event.
    pub(super) fn oldest(&self) -> Option<Offset> {
        self.by_offset.keys().next().copied()
    }

    /// Returns the offset from which on no removal is missing. A reader with an older state needs the whole state again.
    pub(super) fn complete_from(&self) -> Offset {
        self.complete_from
    }

    /// Forgets removals that came before `oldest_us`, and the oldest ones beyond `count_max`. Returns how many it has forgotten
    /// only because there were too many.
    pub(super) fn forget_removals(&mut self, oldest_us: u64, count_max: usize) -> usize {
        let mut early = 0;
        while let Some((offset, came_us)) = self.removals.front().copied() {
            // A key that has come back needs no removal.
            let is_needed = self.by_offset.contains_key(&offset);
            let removed = self.by_offset.len() - self.live;
            if is_needed && came_us >= oldest_us && removed <= count_max {
                break;
            }
            self.removals.pop_front();
            if let Some(removal) = self.by_offset.remove(&offset) {
                self.by_key.remove(removal.key());
                self.subtract(&removal);
                self.complete_from = offset + 1;
                early += usize::from(came_us >= oldest_us);
            }
        }
        early
    }

    /// Forgets everything: the events before `head` are unknown.
    pub(super) fn restart(&mut self, head: Offset) {
        *self = Self { complete_from: head, ..Self::default() };
    }

    /// Notes that removals before `offset` may be missing.
    pub(super) fn lacks_removals_before(&mut self, offset: Offset) {
        self.complete_from = self.complete_from.max(offset);
    }

    /// Returns the number of keys, without removed ones.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Returns the number of events, removals included.
    pub(super) fn len(&self) -> usize {
        self.by_offset.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn subtract(&mut self, event: &KeyedEvent) {
        self.bytes -= memory_bytes(event);
        self.live -= usize::from(!event.is_removal());
    }
}

/// Returns the memory of an event and of its entries, in bytes.
fn memory_bytes(event: &KeyedEvent) -> usize {
    // Two entries of B-trees that are two thirds full, and perhaps one in `removals`.
    const ENTRIES: usize = 64;
    event.memory_bytes() + ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_of(key: &str, offset: Offset, event: &str) -> Arc<KeyedEvent> {
        Arc::new(KeyedEvent::new(offset, key.as_bytes(), event.as_bytes()))
    }

    fn table(events: &[(&str, &str)]) -> Table {
        let mut table = Table::default();
        for (offset, (key, event)) in (1..).zip(events) {
            table.push(event_of(key, offset, event), offset);
        }
        table
    }

    #[test]
    fn only_removals_of_keys_that_are_gone_count() {
        let again = [("a", "null"), ("a", "1")];
        let events = [&[("b", "1"), ("b", "null")], &again.repeat(5000)[..]].concat();
        let mut table = table(&events);
        assert!(table.removals.len() < 2000, "those of keys that have come back are forgotten");
        assert_eq!(table.forget_removals(0, 1), 0);
        assert_eq!((table.complete_from(), table.len(), table.live()), (0, 2, 1));
        table.push(event_of("c", 20_000, "null"), 20_000);
        assert_eq!(table.forget_removals(0, 1), 1);
        assert_eq!((table.complete_from(), table.len()), (3, 2));
    }
}
