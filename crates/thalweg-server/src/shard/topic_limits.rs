//! How many topics a shard may have, of each kind.

use std::sync::Arc;

use thalweg_wire::{ErrorCode, Topic};

use crate::{
    config::{Config, Subscribing},
    connection_limits::{Address, Shares},
    refusal::Refusal,
};

/// Who needs a topic, and makes it if there is none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Creator {
    /// A publisher, or a source.
    Publisher,
    /// A subscriber, and the address that it counts for, if for any.
    Subscriber(Option<Address>),
}

/// What there is a topic for. Only subscribers would make as many as they like: theirs
/// have a bound of their own, and leave the other alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicKind {
    /// It has events, or a source makes some.
    Kept,
    /// It has subscribers at most. Whose share it is of, if somebody's.
    Held(Option<Address>),
    /// It had events, and since this time, in µs, has subscribers at most.
    Emptied(u64),
}

/// How many there are.
#[derive(Debug)]
pub(super) struct TopicLimits {
    config: Arc<Config>,
    /// Kept, with this shard for their home.
    kept: usize,
    /// Held by subscribers alone.
    pub(super) held: usize,
    /// Whose these are.
    shares: Arc<Shares>,
}

impl TopicLimits {
    pub(super) fn new(config: Arc<Config>, shares: Arc<Shares>) -> Self {
        Self { config, kept: 0, held: 0, shares }
    }

    /// As what a new topic may be made.
    pub(super) fn admit(
        &self,
        topic: &Topic,
        is_home: bool,
        creator: Creator,
    ) -> Result<TopicKind, Refusal> {
        let Creator::Subscriber(address) = creator else {
            return self.check_kept().map(|()| TopicKind::Kept);
        };
        if !is_home {
            // It is counted where its home is, too, which may refuse it.
            return self.check_held().map(|()| TopicKind::Held(None));
        }
        if self.config.subscribe == Subscribing::Existing {
            return Err(Refusal::no_such_topic(topic));
        }
        self.check_held()?;
        if address.is_some_and(|address| !self.shares.take(address)) {
            return Err(share_is_spent());
        }
        Ok(TopicKind::Held(address))
    }

    fn check_held(&self) -> Result<(), Refusal> {
        if self.held < self.config.limits.subscribed_topics {
            return Ok(());
        }
        let message = "the server has no room for more topics without events: use an existing one";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    /// Whether one more topic may be kept.
    pub(super) fn check_kept(&self) -> Result<(), Refusal> {
        if self.kept < self.config.limits.topics {
            return Ok(());
        }
        let message = "the server keeps no more topics: use an existing one";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    /// One more.
    pub(super) fn take(&mut self, kind: TopicKind, is_home: bool) {
        if let Some(count) = self.count_of(kind, is_home) {
            *count += 1;
        }
    }

    /// One fewer.
    pub(super) fn give_back(&mut self, kind: TopicKind, is_home: bool) {
        if let Some(count) = self.count_of(kind, is_home) {
            *count -= 1;
        }
        if let TopicKind::Held(Some(address)) = kind {
            self.shares.give_back(address);
        }
    }

    /// Copies of what other shards keep are as many as those keep, and counted there.
    fn count_of(&mut self, kind: TopicKind, is_home: bool) -> Option<&mut usize> {
        match kind {
            TopicKind::Held(_) | TopicKind::Emptied(_) => Some(&mut self.held),
            TopicKind::Kept => is_home.then_some(&mut self.kept),
        }
    }
}

/// Said to whoever counts for an address that has all the topics that it may have by
/// subscribing.
pub(super) fn share_is_spent() -> Refusal {
    let message = "this address subscribes to all the topics without events that it may: \
                   unsubscribe from some, or if it is a proxy's, start the server with \
                   --trusted-proxy";
    Refusal::new(ErrorCode::TooManyTopics, message)
}
