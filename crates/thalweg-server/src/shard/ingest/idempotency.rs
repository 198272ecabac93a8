//! Publishes with an idempotency key, and their results. The topic's owner shard keeps them. It appends one
//! publish after the other, so the later of two with the same key always finds the earlier result.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use thalweg_wire::Topic;

use crate::{
    broker::RetryKey, config::Limits, refusal::Refusal, shard::publish_result::PublishResult,
};

/// The identity of a publish that may be a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdempotencyKey {
    /// A hash of topic, publisher and key.
    key: u128,
    /// A hash of the events.
    body: u128,
}

/// The hasher for [`IdempotencyKey`]s. They are the same on all shards of a server, and a client cannot predict them.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdempotencyHasher(Arc<[RandomState; 2]>);

impl IdempotencyHasher {
    pub(crate) fn key(
        &self,
        topic: &Topic,
        key: &RetryKey,
        body: impl std::hash::Hash,
    ) -> IdempotencyKey {
        IdempotencyKey { key: self.hash((topic, key)), body: self.hash(body) }
    }

    fn hash(&self, value: impl std::hash::Hash) -> u128 {
        let [high, low] = self.0.each_ref().map(|state| u128::from(state.hash_one(&value)));
        high << 64 | low
    }
}

/// The newest keys of a shard.
#[derive(Debug, Default)]
pub(super) struct IdempotencyCache {
    /// The hash of the events and the result, by key.
    done: HashMap<u128, (u128, PublishResult)>,
    /// Times and keys, the oldest first.
    order: VecDeque<(u64, u128)>,
}

impl IdempotencyCache {
    /// Returns the result of the earlier publish with this key, if there is one. Fails with `KeyReused` if that publish had
    /// different events.
    pub(super) fn find(&self, key: IdempotencyKey) -> Result<Option<PublishResult>, Refusal> {
        match self.done.get(&key.key) {
            Some((body, _)) if *body != key.body => Err(Refusal::key_reused()),
            known => Ok(known.map(|(_, result)| *result)),
        }
    }

    /// Remembers a result, and forgets the oldest above the limit.
    pub(super) fn remember(
        &mut self,
        key: IdempotencyKey,
        result: PublishResult,
        now_us: u64,
        limits: &Limits,
    ) {
        self.done.insert(key.key, (key.body, result));
        self.order.push_back((now_us, key.key));
        while self.order.len() > limits.idempotency_keys {
            self.forget_oldest();
        }
    }

    /// Forgets results that are too old.
    pub(super) fn sweep(&mut self, now_us: u64, limits: &Limits) {
        let oldest_us = now_us.saturating_sub(limits.idempotency_window.as_micros() as u64);
        while self.order.front().is_some_and(|(at_us, _)| *at_us < oldest_us) {
            self.forget_oldest();
        }
        if self.order.is_empty() {
            // This frees the memory of a burst.
            *self = Self::default();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.done.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_core::stream::Appended;
    use thalweg_wire::{Epoch, ErrorCode};

    use super::*;
    use crate::access::{Identity, Kind};

    fn result(first: u64) -> PublishResult {
        let appended = Appended { first, end: first + 1 };
        PublishResult { epoch: Epoch::new(1).unwrap(), appended, count: 1, replayed: false }
    }

    #[test]
    fn a_key_belongs_to_a_topic_a_publisher_and_a_body() {
        let hasher = IdempotencyHasher::default();
        let (cars, bikes) = ("cars".parse().unwrap(), "bikes".parse().unwrap());
        let make = |topic, who, key: &str, body: &str| {
            let key = RetryKey { identity: who, key: key.as_bytes().into() };
            hasher.key(topic, &key, body.as_bytes())
        };
        let first = make(&cars, Identity::new(Kind::Nobody, ""), "k", "1");
        let mut cache = IdempotencyCache::default();
        cache.remember(first, result(7), 0, &Limits::default());
        assert_eq!(cache.find(first).unwrap().unwrap().appended.first, 7);
        let other = make(&cars, Identity::new(Kind::Nobody, ""), "k", "2");
        assert_eq!(cache.find(other).unwrap_err().code, ErrorCode::KeyReused);
        for new in [
            make(&bikes, Identity::new(Kind::Nobody, ""), "k", "1"),
            make(&cars, Identity::new(Kind::Named, "publisher"), "k", "1"),
            make(&cars, Identity::new(Kind::Nobody, ""), "l", "1"),
        ] {
            assert!(cache.find(new).unwrap().is_none());
        }
    }

    #[test]
    fn keys_are_forgotten_by_number_and_by_time() {
        let hasher = IdempotencyHasher::default();
        let topic = "cars".parse().unwrap();
        let limits = Limits { idempotency_keys: 3, ..Limits::default() };
        let mut cache = IdempotencyCache::default();
        let retry_key = |n: u64| RetryKey {
            identity: Identity::new(Kind::Nobody, ""),
            key: n.to_le_bytes().into(),
        };
        let key = |n: u64| hasher.key(&topic, &retry_key(n), b"");
        for n in 0..5 {
            cache.remember(key(n), result(n + 1), n, &limits);
        }
        assert!(cache.find(key(1)).unwrap().is_none());
        assert!(cache.find(key(2)).unwrap().is_some());
        cache.sweep(limits.idempotency_window.as_micros() as u64 + 3, &limits);
        assert!(cache.find(key(2)).unwrap().is_none());
        assert!(cache.find(key(3)).unwrap().is_some());
    }
}
