//! Keys that expire: the owner shard of a keyed topic publishes the removal, so that all readers see it in the same order.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use thalweg_core::{
    fanout::FeedKey,
    stream::{Feed as _, Payloads},
};
use thalweg_wire::{Epoch, key::key_text};

use super::{Topics, feeds::FeedTable};
use crate::config::EXPIRIES_PER_TURN;

/// The keys that will expire, at most one entry for each.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    /// By time and a serial number.
    due: BTreeMap<(u64, u64), Expiry>,
    by_key: HashMap<Expiry, (u64, u64)>,
    serial: u64,
    /// The bytes of all keys.
    key_bytes: usize,
    /// Whether a topic has ended since the last sweep, whose keys need not expire.
    has_ended: bool,
}

/// The memory of an entry besides its key, in bytes.
const ENTRY_BYTES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Expiry {
    feed: FeedKey,
    /// The feed's key may belong to another topic when the time comes.
    epoch: Epoch,
    /// As a JSON string.
    key: Arc<[u8]>,
}

impl Expiries {
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due.keys().next().map(|(due_us, _)| *due_us)
    }

    /// Sets when a key expires. `None`: never.
    fn set(&mut self, expiry: Expiry, due_us: Option<u64>) {
        if let Some(before) = self.by_key.remove(&expiry) {
            self.due.remove(&before);
            self.key_bytes -= expiry.key.len();
        }
        if let Some(due_us) = due_us {
            self.serial += 1;
            let at = (due_us, self.serial);
            self.key_bytes += expiry.key.len();
            self.by_key.insert(expiry.clone(), at);
            self.due.insert(at, expiry);
        }
    }

    fn take_due(&mut self, now_us: u64) -> Option<Expiry> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now_us)?;
        let expiry = first.remove();
        self.by_key.remove(&expiry);
        self.key_bytes -= expiry.key.len();
        Some(expiry)
    }

    /// Returns its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.due.len() * ENTRY_BYTES + self.key_bytes
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
            let feed = local.and_then(|local| local.feed.as_ref());
            feed.is_some_and(|feed| feed.epoch() == expiry.epoch)
        };
        self.by_key.retain(|expiry, _| is_there(expiry));
        self.due.retain(|_, expiry| is_there(expiry));
        self.key_bytes = self.due.values().map(|expiry| expiry.key.len()).sum();
    }
}

impl Topics {
    /// Notes when the keys of these events, which are about to be appended, expire. An event without `ttl_us` ends an earlier time.
    pub(super) fn set_expiries(
        &mut self,
        feed: FeedKey,
        payloads: &Payloads,
        ttl_us: Option<u64>,
        now_us: u64,
    ) {
        let Some(epoch) = self.feeds.get(feed).and_then(|local| Some(local.feed.as_ref()?.epoch()))
        else {
            return;
        };
        let expiries = &mut self.expiries;
        if ttl_us.is_none() && expiries.due.is_empty() {
            return;
        }
        let due_us = ttl_us.map(|ttl_us| now_us.saturating_add(ttl_us));
        for (key, event) in payloads.keyed_events() {
            let due_us = due_us.filter(|_| event != b"null");
            expiries.set(Expiry { feed, epoch, key: key.into() }, due_us);
        }
    }

    /// Publishes the removals of keys that have expired, some in each turn.
    pub(super) fn expire_keys(&mut self, now_us: u64) {
        for _ in 0..EXPIRIES_PER_TURN {
            let Some(Expiry { feed, epoch, key }) = self.expiries.take_due(now_us) else { return };
            let local = self.feeds.get(feed).filter(|local| local.end.is_none());
            let is_its = local
                .is_some_and(|local| local.feed.as_ref().is_some_and(|feed| feed.epoch() == epoch));
            if is_its {
                self.append_key(feed, &key_text(&key), b"null", now_us);
                self.counts.keys_expired.add(1);
            }
        }
    }
}
