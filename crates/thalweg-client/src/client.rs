//! The client of a server.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Error, Options, Subscribe, Subscription, Topic, exchange::Exchange,
    limits::HEARTBEATS_MISSED_MAX, target::Server,
};

/// A client of a server. Cheap to clone; clones share connections.
///
/// Requests ([`Self::publish`], [`Self::read`], [`Self::topics`], [`Self::command`]) share kept connections and may run
/// at the same time. Each subscription has its own connection.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) keys: Arc<Keys>,
    topic: Option<Topic>,
    options: Arc<Options>,
}

/// Unique idempotency keys.
#[derive(Debug)]
pub(crate) struct Keys {
    random: [u64; 2],
    used: AtomicU64,
}

impl Client {
    /// Returns a client of the server at `url`: `http`, `https`, `ws` or `wss`. The path may name a topic, as in
    /// `http://127.0.0.1:8080/v1/topics/cars`, which [`Self::topic`] then returns. The client connects with its first request.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Topic`], [`Error::Token`], [`Error::Certificates`].
    pub fn new(url: &str, options: Options) -> Result<Self, Error> {
        let (server, topic) = Server::parse(url)?;
        let exchange = Arc::new(Exchange::new(server, &options)?);
        Ok(Self { exchange, keys: Arc::new(Keys::new()), topic, options: Arc::new(options) })
    }

    /// Returns the topic in the URL.
    pub fn topic(&self) -> Option<&Topic> {
        self.topic.as_ref()
    }

    /// Subscribes to topics on one connection. The first [`Subscription::next`] connects, and later ones reconnect.
    ///
    /// # Errors
    /// [`Error::NoTopic`].
    pub fn subscribe(
        &self,
        topics: Vec<Topic>,
        subscribe: Subscribe,
    ) -> Result<Subscription, Error> {
        if topics.is_empty() {
            return Err(Error::NoTopic);
        }
        let quiet_max = self.options.heartbeat.saturating_mul(HEARTBEATS_MISSED_MAX);
        Ok(Subscription::new(Arc::clone(&self.exchange), topics, subscribe, quiet_max))
    }
}

impl Keys {
    fn new() -> Self {
        // The standard library seeds each state from the operating system.
        let random = [0; 2].map(|seed: u64| RandomState::new().hash_one(seed));
        Self { random, used: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        let [high, low] = self.random;
        format!("{high:016x}{low:016x}-{}", self.used.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ() {
        let (one, other) = (Keys::new(), Keys::new());
        let keys = [one.next(), one.next(), other.next()];
        assert!(
            keys[0] != keys[1] && keys[1][..32] == keys[0][..32] && keys[2][..32] != keys[0][..32]
        );
    }
}
