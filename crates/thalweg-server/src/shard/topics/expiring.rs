//! Keys that expire: the owner shard of a keyed topic publishes the removals, so that all readers see them in the same order.

use thalweg_core::{
    fanout::FeedKey,
    stream::{Feed as _, Payloads},
};
use thalweg_wire::key::key_text;

use super::{Topics, expiries::Expiry};
use crate::config::EXPIRIES_PER_TURN;

impl Topics {
    /// Notes when the keys of these events, which are about to be appended, expire. An event without `ttl_us` cancels an earlier expiry.
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
        if ttl_us.is_none() && expiries.is_empty() {
            return;
        }
        let due_us = ttl_us.map(|ttl_us| now_us.saturating_add(ttl_us));
        for (key, event) in payloads.keyed_events() {
            let due_us = due_us.filter(|_| event != b"null");
            expiries.set(Expiry { feed, epoch, key: key.into() }, due_us);
        }
    }

    /// Publishes the removals of keys that have expired, a limited number in each turn.
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
