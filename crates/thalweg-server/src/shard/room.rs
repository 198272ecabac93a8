//! How many topics a shard may have, of each kind.

use std::sync::Arc;

use thalweg_wire::{ErrorCode, Topic};

use super::Shares;
use crate::{
    config::{Config, Subscribing},
    refusal::Refusal,
    seats::Address,
};

/// Who needs a topic, and makes it if there is none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Maker {
    /// A publisher, or a source.
    Publisher,
    /// A subscriber, and the address that it counts for, if for any.
    Subscriber(Option<Address>),
}

/// What there is a topic for. Only subscribers would make as many as they like: theirs
/// have a bound of their own, and leave the other alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has events, or a source makes some.
    Kept,
    /// It has subscribers at most. Whose share it is of, if somebody's.
    Held(Option<Address>),
    /// It had events, and since this time, in µs, has subscribers at most.
    Spent(u64),
}

/// How many there are.
#[derive(Debug)]
pub(super) struct Room {
    config: Arc<Config>,
    /// Kept, with this shard for their home.
    kept: usize,
    /// Held by subscribers alone.
    pub(super) held: usize,
    /// Whose these are.
    shares: Arc<Shares>,
}

impl Room {
    pub(super) fn new(config: Arc<Config>, shares: Arc<Shares>) -> Self {
        Self { config, kept: 0, held: 0, shares }
    }

    /// As what a new topic may be made.
    pub(super) fn admit(
        &self,
        topic: &Topic,
        is_home: bool,
        maker: Maker,
    ) -> Result<Standing, Refusal> {
        let Maker::Subscriber(address) = maker else {
            return self.to_keep().map(|()| Standing::Kept);
        };
        if !is_home {
            // It is counted where its home is, too, which may refuse it.
            return self.to_hold().map(|()| Standing::Held(None));
        }
        if self.config.subscribe == Subscribing::Existing {
            return Err(Refusal::no_such_topic(topic));
        }
        self.to_hold()?;
        if let Some(address) = address {
            self.shares.take(address)?;
        }
        Ok(Standing::Held(address))
    }

    fn to_hold(&self) -> Result<(), Refusal> {
        if self.held < self.config.limits.subscribed_topics {
            return Ok(());
        }
        let message = "the server has no room for more topics without events: use an existing one";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    /// Whether one more topic may be kept.
    pub(super) fn to_keep(&self) -> Result<(), Refusal> {
        if self.kept < self.config.limits.topics {
            return Ok(());
        }
        let message = "the server keeps no more topics: use an existing one";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    /// One more.
    pub(super) fn take(&mut self, standing: Standing, is_home: bool) {
        if let Some(count) = self.count_of(standing, is_home) {
            *count += 1;
        }
    }

    /// One fewer.
    pub(super) fn give_back(&mut self, standing: Standing, is_home: bool) {
        if let Some(count) = self.count_of(standing, is_home) {
            *count -= 1;
        }
        if let Standing::Held(Some(address)) = standing {
            self.shares.give_back(address);
        }
    }

    /// Copies of what other shards keep are as many as those keep, and counted there.
    fn count_of(&mut self, standing: Standing, is_home: bool) -> Option<&mut usize> {
        match standing {
            Standing::Held(_) | Standing::Spent(_) => Some(&mut self.held),
            Standing::Kept => is_home.then_some(&mut self.kept),
        }
    }
}
