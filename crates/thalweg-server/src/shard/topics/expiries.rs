//! The times at which keys expire.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use thalweg_core::fanout::FeedKey;
use thalweg_wire::Offset;

use super::feeds::FeedTable;

/// The keys that will expire, at most one entry for each.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    /// By time and a serial number.
    due: BTreeMap<(u64, u64), Expiry>,
    by_key: HashMap<Expiry, KeyTimer>,
    serial: u64,
    /// The bytes of all keys.
    key_bytes: usize,
    /// Whether a topic has ended since the last sweep: its keys need not expire.
    has_ended: bool,
}

/// The memory of an entry besides its key, in bytes.
pub(super) const TIMER_BYTES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Expiry {
    pub(super) feed: FeedKey,
    /// [`OwnerState::serial`](super::local_topic::OwnerState), because the feed's key may belong to another topic when the time comes.
    pub(super) serial: u64,
    /// As a JSON string.
    pub(super) key: Arc<[u8]>,
}

#[derive(Debug, Clone, Copy)]
struct KeyTimer {
    at: (u64, u64),
    /// The offset of the event that expires, in a topic that a broker stores.
    offset: Offset,
}

impl Expiries {
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due.keys().next().map(|(due_us, _)| *due_us)
    }

    /// Sets when a key expires, with the offset of its event (0 if no broker stores the topic). `None`:
    /// never. The time of a later event stays.
    pub(super) fn set(&mut self, expiry: Expiry, offset: Offset, due_us: Option<u64>) {
        if let Some(before) = self.by_key.get(&expiry).copied() {
            if before.offset > offset {
                return;
            }
            self.by_key.remove(&expiry);
            self.due.remove(&before.at);
            self.key_bytes -= expiry.key.len();
        }
        if let Some(due_us) = due_us {
            self.serial += 1;
            let at = (due_us, self.serial);
            self.key_bytes += expiry.key.len();
            self.by_key.insert(expiry.clone(), KeyTimer { at, offset });
            self.due.insert(at, expiry);
        }
    }

    /// Takes a key whose time has come, with the offset of its event.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<(Expiry, Offset)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now_us)?;
        let expiry = first.remove();
        let offset = self.by_key.remove(&expiry).map_or(0, |timer| timer.offset);
        self.key_bytes -= expiry.key.len();
        Some((expiry, offset))
    }

    /// Returns whether a key will expire.
    pub(super) fn has(&self, expiry: &Expiry) -> bool {
        self.by_key.contains_key(expiry)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Returns its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.due.len() * TIMER_BYTES + self.key_bytes
    }

    /// Notes that a topic has ended.
    pub(super) fn topic_ended(&mut self) {
        self.has_ended = true;
    }

    /// Forgets the keys of topics that have ended.
    pub(super) fn sweep(&mut self, feeds: &FeedTable) {
        if !std::mem::take(&mut self.has_ended) {
            return;
        }
        let is_there = |expiry: &Expiry| {
            let local = feeds.get(expiry.feed).filter(|local| local.end.is_none());
            let owner = local.and_then(|local| local.owner.as_ref());
            owner.is_some_and(|owner| owner.serial == expiry.serial)
        };
        self.by_key.retain(|expiry, _| is_there(expiry));
        self.due.retain(|_, expiry| is_there(expiry));
        self.key_bytes = self.due.values().map(|expiry| expiry.key.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiry(key: &str) -> Expiry {
        Expiry { feed: 1, serial: 1, key: key.as_bytes().into() }
    }

    #[test]
    fn the_time_of_an_earlier_event_does_not_replace_that_of_a_later_one() {
        let mut expiries = Expiries::default();
        expiries.set(expiry("a"), 20, Some(200));
        expiries.set(expiry("a"), 10, Some(100));
        expiries.set(expiry("a"), 10, None);
        assert_eq!((expiries.next_us(), expiries.key_bytes), (Some(200), 1));
        assert!(expiries.take_due(199).is_none());
        assert_eq!(expiries.take_due(200), Some((expiry("a"), 20)));
        expiries.set(expiry("a"), 20, Some(300));
        expiries.set(expiry("a"), 30, None);
        assert!(expiries.is_empty() && expiries.by_key.is_empty() && expiries.key_bytes == 0);
    }
}
