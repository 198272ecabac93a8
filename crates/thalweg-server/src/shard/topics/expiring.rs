//! Keys that expire: the owner shard of a keyed topic publishes the removals, so that all readers see them in the same order.

use std::{collections::HashMap, sync::Arc};

use thalweg_core::{
    fanout::FeedKey,
    stream::{Feed as _, Payloads},
};
use thalweg_wire::{Offset, key::key_text};

use super::{Topics, expiries::Expiry, local_topic::LocalTopic};
use crate::{clock::unix_ms, config::EXPIRIES_PER_TURN};

/// After this time a removal that has not come is published again, in µs: it was not stored.
const EXPIRY_RETRY_US: u64 = 2_000_000;

/// Keys that have expired, with the offset of the newest event of each.
type ExpiredKeys = Vec<(Arc<[u8]>, Offset)>;

impl Topics {
    /// Notes when the keys of these events, which are about to be appended, expire. An event without `ttl_us` cancels an earlier expiry.
    pub(super) fn set_expiries(
        &mut self,
        feed: FeedKey,
        payloads: &Payloads,
        ttl_us: Option<u64>,
        now_us: u64,
    ) {
        let owner = self.feeds.get(feed).and_then(|local| local.owner.as_ref());
        let Some(serial) = owner.map(|owner| owner.serial) else { return };
        let expiries = &mut self.expiries;
        if ttl_us.is_none() && expiries.is_empty() {
            return;
        }
        let due_us = ttl_us.map(|ttl_us| now_us.saturating_add(ttl_us));
        for (key, event) in payloads.keyed_events() {
            let due_us = due_us.filter(|_| event != b"null");
            expiries.set(Expiry { feed, serial, key: key.into() }, 0, due_us);
        }
    }

    /// Publishes the removals of keys that have expired, a limited number in each turn.
    pub(super) fn expire_keys(&mut self, now_us: u64) {
        let mut shared: HashMap<FeedKey, ExpiredKeys> = HashMap::new();
        for _ in 0..EXPIRIES_PER_TURN {
            let Some((expiry, offset)) = self.expiries.take_due(now_us) else { break };
            if self.feeds.get(expiry.feed).is_some_and(LocalTopic::has_arrived) {
                // The event may have expired before it came.
                self.settle(expiry.feed, now_us);
            }
            let local = self.feeds.get(expiry.feed).filter(|local| local.end.is_none());
            let owner = local.and_then(|local| local.owner.as_ref());
            let Some(owner) = owner.filter(|owner| owner.serial == expiry.serial) else { continue };
            if let Some(order) = owner.keyed_order() {
                let feed = local.and_then(|local| local.feed.as_ref());
                let newest = feed.and_then(|feed| feed.keyed_event(&expiry.key));
                let is_its =
                    newest.is_some_and(|newest| newest.offset() == offset && !newest.is_removal());
                // A newer event may be on its way, or in a page that has not come. It replaces or cancels
                // this expiry when it comes, unless it is not stored.
                let waits = self.feeds.get(expiry.feed).is_some_and(LocalTopic::is_loading)
                    || order.pending(&expiry.key).is_some()
                    || order.ends > 0
                    || (order.is_shared && !order.waiting.is_empty());
                let is_shared = order.is_shared;
                let (feed, key) = (expiry.feed, Arc::clone(&expiry.key));
                let again_us = (waits || is_its).then_some(now_us + EXPIRY_RETRY_US);
                self.expiries.set(expiry, offset, again_us);
                if waits || !is_its {
                    continue;
                }
                if is_shared {
                    shared.entry(feed).or_default().push((key, offset));
                    continue;
                }
                self.append_key(feed, &key_text(&key), b"null", now_us);
            } else {
                let Expiry { feed, key, .. } = expiry;
                self.append_key(feed, &key_text(&key), b"null", now_us);
            }
            self.counts.keys_expired.add(1);
        }
        for (feed, expired) in shared {
            self.expire_shared(feed, &expired);
        }
    }

    /// Sets when the keys of stored events expire, as their records say. `None`: never. The owner shard alone calls it.
    pub(super) fn set_stored_expiries(
        &mut self,
        feed: FeedKey,
        keys: impl IntoIterator<Item = (Offset, Arc<[u8]>, Option<i64>)>,
        now_us: u64,
    ) {
        let owner = self.feeds.get(feed).and_then(|local| local.owner.as_ref());
        let Some(owner) = owner else { return };
        let serial = owner.serial;
        // Servers that share a topic do not all remove its keys at the same time.
        let is_shared = owner.keyed_order().is_some_and(|order| order.is_shared);
        let stagger_us = if is_shared { self.stagger_us } else { 0 };
        let now_ms = unix_ms();
        for (offset, key, expires_ms) in keys {
            let left_ms = |expires_ms: i64| expires_ms.saturating_sub(now_ms).max(0) as u64;
            let due_us = expires_ms.map(|expires_ms| {
                let left_us = left_ms(expires_ms).saturating_mul(1000);
                now_us.saturating_add(left_us).saturating_add(stagger_us)
            });
            self.expiries.set(Expiry { feed, serial, key }, offset, due_us);
        }
    }
}
