//! Publishes with an idempotency key, and their results. They are kept on the topic's home
//! shard, where publishes are appended one after the other: if two have the same key, the later
//! one always finds the earlier one done.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use thalweg_wire::{ErrorCode, Topic};

use super::placed::Placed;
use crate::{access::Identity, config::Limits, refusal::Refusal};

/// A publish that may be a repetition of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Topic, publisher and key.
    key: u128,
    /// What was published.
    body: u128,
}

/// Makes [`Retry`]s: the same on all shards of a server, and nobody else can predict them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetryHasher(Arc<[RandomState; 2]>);

impl RetryHasher {
    pub(crate) fn retry(
        &self,
        topic: &Topic,
        publisher: Identity,
        key: &[u8],
        body: &[u8],
    ) -> Retry {
        Retry { key: self.hash((topic, publisher, key)), body: self.hash(body) }
    }

    fn hash(&self, value: impl std::hash::Hash) -> u128 {
        let [high, low] = self.0.each_ref().map(|state| u128::from(state.hash_one(&value)));
        high << 64 | low
    }
}

/// The newest keys of a shard.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// By key: the hash of what was published, and the result.
    done: HashMap<u128, (u128, Placed)>,
    /// In the order of their times.
    order: VecDeque<(u64, u128)>,
}

impl Retries {
    /// The result of the earlier publish, if there was one.
    ///
    /// # Errors
    /// `KeyReused` when its key came with another body.
    pub(super) fn look(&self, retry: Retry) -> Result<Option<Placed>, Refusal> {
        match self.done.get(&retry.key) {
            Some((body, _)) if *body != retry.body => Err(Refusal::new(
                ErrorCode::KeyReused,
                "this idempotency key came with another body: use a new key for each event",
            )),
            known => Ok(known.map(|(_, placed)| *placed)),
        }
    }

    /// Remembers the result of a publish, and forgets those above the limits.
    pub(super) fn remember(&mut self, retry: Retry, placed: Placed, now_us: u64, limits: &Limits) {
        self.done.insert(retry.key, (retry.body, placed));
        self.order.push_back((now_us, retry.key));
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
    use thalweg_wire::Epoch;

    use super::*;
    use crate::stream::Appended;

    fn placed(first: u64) -> Placed {
        let appended = Appended { first, end: first + 1 };
        Placed { epoch: Epoch::new(1).unwrap(), appended, count: 1, replayed: false }
    }

    #[test]
    fn a_key_is_one_of_a_topic_a_publisher_and_a_body() {
        let hasher = RetryHasher::default();
        let (cars, bikes) = ("cars".parse().unwrap(), "bikes".parse().unwrap());
        let make = |topic, who, key: &str, body: &str| {
            hasher.retry(topic, who, key.as_bytes(), body.as_bytes())
        };
        let first = make(&cars, Identity::Nobody, "k", "1");
        let mut retries = Retries::default();
        retries.remember(first, placed(7), 0, &Limits::default());
        assert_eq!(retries.look(first).unwrap().unwrap().appended.first, 7);
        let other = make(&cars, Identity::Nobody, "k", "2");
        assert_eq!(retries.look(other).unwrap_err().code, ErrorCode::KeyReused);
        for new in [
            make(&bikes, Identity::Nobody, "k", "1"),
            make(&cars, Identity::Publisher, "k", "1"),
            make(&cars, Identity::Nobody, "l", "1"),
        ] {
            assert!(retries.look(new).unwrap().is_none());
        }
    }

    #[test]
    fn keys_are_forgotten_by_number_and_by_time() {
        let hasher = RetryHasher::default();
        let topic = "cars".parse().unwrap();
        let limits = Limits { retry_keys: 3, ..Limits::default() };
        let mut retries = Retries::default();
        let retry = |n: u64| hasher.retry(&topic, Identity::Nobody, &n.to_le_bytes(), b"");
        for n in 0..5 {
            retries.remember(retry(n), placed(n + 1), n, &limits);
        }
        assert!(retries.look(retry(1)).unwrap().is_none());
        assert!(retries.look(retry(2)).unwrap().is_some());
        retries.sweep(limits.retry_time.as_micros() as u64 + 3, &limits);
        assert!(retries.look(retry(2)).unwrap().is_none());
        assert!(retries.look(retry(3)).unwrap().is_some());
    }
}
