//! Publishes with an idempotency key, and their results. They are kept on the topic's home
//! shard, where publishes are appended one after the other: if two have the same key, the later
//! one always finds the earlier one done.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use thalweg_wire::Topic;

use super::publish_result::PublishResult;
use crate::{backend::RetryKey, config::Limits, refusal::Refusal};

/// A publish that may be a repetition of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdempotencyKey {
    /// Topic, publisher and key.
    key: u128,
    /// What was published.
    body: u128,
}

/// Makes [`IdempotencyKey`]s: the same on all shards of a server, and nobody else can predict them.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdempotencyHasher(Arc<[RandomState; 2]>);

impl IdempotencyHasher {
    pub(crate) fn key(&self, topic: &Topic, key: &RetryKey, body: &[u8]) -> IdempotencyKey {
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
    /// By key: the hash of what was published, and the result.
    done: HashMap<u128, (u128, PublishResult)>,
    /// In the order of their times.
    order: VecDeque<(u64, u128)>,
}

impl IdempotencyCache {
    /// The result of the earlier publish, if there was one.
    ///
    /// # Errors
    /// `KeyReused` when its key came with another body.
    pub(super) fn look(&self, key: IdempotencyKey) -> Result<Option<PublishResult>, Refusal> {
        match self.done.get(&key.key) {
            Some((body, _)) if *body != key.body => Err(Refusal::key_reused()),
            known => Ok(known.map(|(_, result)| *result)),
        }
    }

    /// Remembers the result of a publish, and forgets those above the limits.
    pub(super) fn remember(
        &mut self,
        key: IdempotencyKey,
        result: PublishResult,
        now_us: u64,
        limits: &Limits,
    ) {
        self.done.insert(key.key, (key.body, result));
        self.order.push_back((now_us, key.key));
        while self.order.len() > limits.retry_keys {
            self.forget_oldest();
        }
    }

    /// Forgets those that are too old.
    pub(super) fn sweep(&mut self, now_us: u64, limits: &Limits) {
        let oldest_us = now_us.saturating_sub(limits.retry_time.as_micros() as u64);
        while self.order.front().is_some_and(|(at_us, _)| *at_us < oldest_us) {
            self.forget_oldest();
        }
        if self.order.is_empty() {
            // Frees the memory that a burst has used.
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
    use thalweg_wire::{Epoch, ErrorCode};

    use super::*;
    use crate::access::{Identity, Kind};
    use thalweg_core::stream::Appended;

    fn result(first: u64) -> PublishResult {
        let appended = Appended { first, end: first + 1 };
        PublishResult { epoch: Epoch::new(1).unwrap(), appended, count: 1, replayed: false }
    }

    #[test]
    fn a_key_is_one_of_a_topic_a_publisher_and_a_body() {
        let hasher = IdempotencyHasher::default();
        let (cars, bikes) = ("cars".parse().unwrap(), "bikes".parse().unwrap());
        let make = |topic, who, key: &str, body: &str| {
            let key = RetryKey { identity: who, key: key.as_bytes().into() };
            hasher.key(topic, &key, body.as_bytes())
        };
        let first = make(&cars, Identity::of(Kind::Nobody, ""), "k", "1");
        let mut cache = IdempotencyCache::default();
        cache.remember(first, result(7), 0, &Limits::default());
        assert_eq!(cache.look(first).unwrap().unwrap().appended.first, 7);
        let other = make(&cars, Identity::of(Kind::Nobody, ""), "k", "2");
        assert_eq!(cache.look(other).unwrap_err().code, ErrorCode::KeyReused);
        for new in [
            make(&bikes, Identity::of(Kind::Nobody, ""), "k", "1"),
            make(&cars, Identity::of(Kind::Named, "publisher"), "k", "1"),
            make(&cars, Identity::of(Kind::Nobody, ""), "l", "1"),
        ] {
            assert!(cache.look(new).unwrap().is_none());
        }
    }

    #[test]
    fn keys_are_forgotten_by_number_and_by_time() {
        let hasher = IdempotencyHasher::default();
        let topic = "cars".parse().unwrap();
        let limits = Limits { retry_keys: 3, ..Limits::default() };
        let mut cache = IdempotencyCache::default();
        let retry_key = |n: u64| RetryKey {
            identity: Identity::of(Kind::Nobody, ""),
            key: n.to_le_bytes().into(),
        };
        let key = |n: u64| hasher.key(&topic, &retry_key(n), b"");
        for n in 0..5 {
            cache.remember(key(n), result(n + 1), n, &limits);
        }
        assert!(cache.look(key(1)).unwrap().is_none());
        assert!(cache.look(key(2)).unwrap().is_some());
        cache.sweep(limits.retry_time.as_micros() as u64 + 3, &limits);
        assert!(cache.look(key(2)).unwrap().is_none());
        assert!(cache.look(key(3)).unwrap().is_some());
    }
}
