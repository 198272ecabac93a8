//! The compaction of a keyed topic: one event of each key.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

use thalweg_wire::{KeyFilter, Offset};

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
    /// The part of `bytes` that removals have.
    removed_bytes: usize,
}

/// Events that a filter selects, in the order of their offsets.
#[derive(Debug)]
pub(super) struct Selected<'t> {
    pub(super) events: Vec<&'t Arc<KeyedEvent>>,
    /// The offset before which no event is missing. `None` if none is missing at all.
    pub(super) end: Option<Offset>,
}

/// How many of the newest events are examined before keys are looked up: a reader that keeps up is a few events behind.
const RECENT: usize = 64;

/// The same for the pages of a filter with a prefix, because a look-up of its keys may cost more.
const RECENT_OF_PREFIX: usize = 512;

/// Maximum keys that are looked up to confirm a subscription, which costs its client only a command.
const CONFIRMED_MAX: usize = 256;

/// Maximum events that one read for a filter looks up or examines.
const EXAMINED_MAX: usize = 4096;

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
        let bytes = memory_bytes(&event);
        self.bytes += bytes;
        self.removed_bytes += if event.is_removal() { bytes } else { 0 };
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

    /// Returns the events of a filter from `from` on, or some of the first ones.
    pub(super) fn selected_from(&self, from: Offset, filter: &KeyFilter) -> Selected<'_> {
        let recent = if filter.prefix().is_some() { RECENT_OF_PREFIX } else { RECENT };
        if let Some(events) = self.recent_from(from, filter, recent) {
            return Selected { events, end: None };
        }
        if let Some(mut events) = self.selected(filter, EXAMINED_MAX) {
            events.retain(|event| event.offset() >= from);
            events.sort_unstable_by_key(|event| event.offset());
            return Selected { events, end: None };
        }
        let mut rest = self.events_from(from);
        let examined = rest.by_ref().take(EXAMINED_MAX);
        let events = examined.filter(|event| filter.matches(event.key())).collect();
        Selected { events, end: rest.next().map(|event| event.offset()) }
    }

    /// Returns whether a filter selects no event from `from` on. `false` if this is not known without a look at many events.
    pub(super) fn has_none_from(&self, from: Offset, filter: &KeyFilter) -> bool {
        self.recent_from(from, filter, RECENT).is_some_and(|events| events.is_empty())
    }

    /// Returns whether a reader at `from` may get events of a filter. `true` if this takes a look at too many events.
    pub(super) fn may_select_from(&self, from: Offset, filter: &KeyFilter) -> bool {
        // A reader without keys needs no removal.
        let is_sent =
            |event: &Arc<KeyedEvent>| event.offset() >= from && !(from <= 1 && event.is_removal());
        let recent = self.recent_from(from, filter, RECENT_OF_PREFIX);
        let found = recent.or_else(|| self.selected(filter, CONFIRMED_MAX));
        found.is_none_or(|events| events.into_iter().any(is_sent))
    }

    /// Returns the events of a filter from `from` on, if there are at most `count_max` events.
    fn recent_from(
        &self,
        from: Offset,
        filter: &KeyFilter,
        count_max: usize,
    ) -> Option<Vec<&Arc<KeyedEvent>>> {
        let mut rest = self.events_from(from);
        let recent = rest.by_ref().take(count_max);
        let events = recent.filter(|event| filter.matches(event.key())).collect();
        rest.next().is_none().then_some(events)
    }

    /// Returns all events of a filter in the order of their keys. `None` if there are more than `count_max`.
    fn selected(&self, filter: &KeyFilter, count_max: usize) -> Option<Vec<&Arc<KeyedEvent>>> {
        let named = filter.keys().filter_map(|key| self.get(key));
        let prefixed = filter.prefix().into_iter().flat_map(|prefix| {
            let from = self.by_key.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
            let from = from.map(|ByKey(event)| event);
            from.take_while(|event| event.key().starts_with(prefix))
        });
        let events: Vec<_> = named.chain(prefixed).take(count_max + 1).collect();
        (events.len() <= count_max).then_some(events)
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

    /// Returns the memory of removals, which is a part of [`Self::bytes`].
    pub(super) fn removed_bytes(&self) -> usize {
        self.removed_bytes
    }

    fn subtract(&mut self, event: &KeyedEvent) {
        let bytes = memory_bytes(event);
        self.bytes -= bytes;
        match event.is_removal() {
            true => self.removed_bytes -= bytes,
            false => self.live -= 1,
        }
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
    fn a_filter_selects_the_same_events_in_each_way() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (count, keys) in [(40, 10), (1000, 300), (20_000, 9000)] {
            let mut table = Table::default();
            for offset in 1..=count {
                let key = format!("\"{:04}\"", rng.usize(0..keys));
                let event = if rng.u8(0..4) == 0 { "null" } else { "1" };
                table.push(event_of(&key, offset, event), offset);
            }
            for prefix in [None, Some("00"), Some("0"), Some("9")] {
                let filter = KeyFilter::new(&["0003", "0777", "x"], prefix).unwrap().unwrap();
                for from in [0, 1, 2, count / 2, count.saturating_sub(70), count - 10, count + 1] {
                    let offsets = |events: Vec<&Arc<KeyedEvent>>| {
                        events.iter().map(|event| event.offset()).collect::<Vec<_>>()
                    };
                    let expected: Vec<_> =
                        table.events_from(from).filter(|e| filter.matches(e.key())).collect();
                    let is_sent = |e: &&Arc<KeyedEvent>| from > 1 || !e.is_removal();
                    let is_any = expected.iter().any(is_sent);
                    let may = table.may_select_from(from, &filter);
                    let is_unknown = table.selected(&filter, CONFIRMED_MAX).is_none();
                    assert!(may == is_any || may && is_unknown, "{count} {prefix:?} {from}");
                    assert!(!table.has_none_from(from, &filter) || expected.is_empty());
                    let expected = offsets(expected);
                    let (mut found, mut next) = (Vec::new(), Some(from));
                    while let Some(from) = next {
                        let Selected { events, end } = table.selected_from(from, &filter);
                        assert!(end.is_none_or(|end| end > from));
                        found.extend(offsets(events));
                        next = end;
                    }
                    assert_eq!(found, expected, "{count} {prefix:?} {from}");
                }
            }
        }
    }

    #[test]
    fn only_removals_of_keys_that_are_gone_count() {
        let again = [("a", "null"), ("a", "1")];
        let events = [&[("b", "1"), ("b", "null")], &again.repeat(5000)[..]].concat();
        let mut table = table(&events);
        assert!(table.removals.len() < 2000, "those of keys that have come back are forgotten");
        assert_eq!(table.forget_removals(0, 1), 0);
        assert_eq!((table.complete_from(), table.len(), table.live()), (0, 2, 1));
        assert!(table.removed_bytes() > 0 && table.removed_bytes() < table.bytes());
        table.push(event_of("c", 20_000, "null"), 20_000);
        assert_eq!(table.forget_removals(0, 1), 1);
        assert_eq!((table.complete_from(), table.len()), (3, 2));
        assert_eq!(table.forget_removals(0, 0), 1);
        assert_eq!((table.removed_bytes(), table.live()), (0, 1));
    }
}
