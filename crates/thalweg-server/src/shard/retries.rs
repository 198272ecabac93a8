//! Publishes that were made under an idempotency key, and what became of them. On
//! the topic's home shard, where they are appended one after the other: of two with
//! the same key the later one always finds the earlier one done.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use thalweg_wire::Topic;

use super::placed::Placed;
use crate::{access::Identity, config::Limits};

/// A publish that may be one made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Topic, publisher and key.
    key: u128,
    /// What was published.
    body: u128,
}

/// Makes [`Retry`]s: the same on all shards of a server, and not to be foreseen by
/// anybody else.
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
    done: HashMap<u128, Done>,
    /// In the order of their times.
    order: VecDeque<(u64, u128)>,
}

#[derive(Debug, Clone, Copy)]
struct Done {
    body: u128,
    placed: Placed,
}

/// What is known of a key.
#[derive(Debug)]
pub(super) enum Known {
    /// Nothing.
    New,
    /// It was made.
    Done(Placed),
    /// It was made with another body.
    Other,
}

impl Retries {
    pub(super) fn look(&self, retry: Retry) -> Known {
        match self.done.get(&retry.key) {
            None => Known::New,
            Some(done) if done.body == retry.body => Known::Done(done.placed),
            Some(_) => Known::Other,
        }
    }

    /// Remembers what became of one, and forgets those that are over the limits.
    pub(super) fn remember(&mut self, retry: Retry, placed: Placed, now_us: u64, limits: &Limits) {
        self.done.insert(retry.key, Done { body: retry.body, placed });
        self.order.push_back((now_us, retry.key));
        while self.order.len() > limits.retry_keys {
            self.forget_oldest();
        }
    }

    /// Forgets those whose time is over.
    pub(super) fn sweep(&mut self, now_us: u64, limits: &Limits) {
        let oldest_us = now_us.saturating_sub(limits.retry_time.as_micros() as u64);
        while self.order.front().is_some_and(|(at_us, _)| *at_us < oldest_us) {
            self.forget_oldest();
        }
        if self.order.is_empty() {
            // A burst is not remembered in memory either.
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
        assert!(matches!(retries.look(first), Known::Done(placed) if placed.appended.first == 7));
        let other = make(&cars, Identity::Nobody, "k", "2");
        assert!(matches!(retries.look(other), Known::Other));
        for new in [
            make(&bikes, Identity::Nobody, "k", "1"),
            make(&cars, Identity::Publisher, "k", "1"),
            make(&cars, Identity::Nobody, "l", "1"),
        ] {
            assert!(matches!(retries.look(new), Known::New));
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
        assert!(matches!(retries.look(retry(1)), Known::New));
        assert!(matches!(retries.look(retry(2)), Known::Done(_)));
        retries.sweep(limits.retry_time.as_micros() as u64 + 3, &limits);
        assert!(matches!(retries.look(retry(2)), Known::New));
        assert!(matches!(retries.look(retry(3)), Known::Done(_)));
    }
}
