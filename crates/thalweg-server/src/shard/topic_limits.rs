//! How many topics a shard may have, of each kind.

use std::sync::Arc;

use thalweg_wire::{ErrorCode, Topic};

use crate::{
    config::{Config, Subscribing},
    connection_limits::{Address, AddressCounts},
    refusal::Refusal,
};

/// Who needs a topic, and creates it if there is none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Creator {
    /// A publisher, or a source.
    Publisher,
    /// A subscriber, and the address that it is counted for, if any.
    Subscriber(Option<Address>),
}

/// What a topic exists for. Subscribers alone could create any number of topics. So these have
/// their own limit and do not use the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicKind {
    /// It has events, or a source makes some.
    Active,
    /// It has no events. The address whose share it counts in, if any.
    SubscriberOnly(Option<Address>),
    /// It had events, and has none since this time, in µs.
    Emptied(u64),
}

/// The number of topics of each kind.
#[derive(Debug)]
pub(super) struct TopicLimits {
    config: Arc<Config>,
    /// Active topics whose home is this shard.
    active: usize,
    /// Topics that exist only for subscribers.
    pub(super) subscriber_only: usize,
    /// How many of these each address has created.
    shares: Arc<AddressCounts>,
}

impl TopicLimits {
    pub(super) fn new(config: Arc<Config>, shares: Arc<AddressCounts>) -> Self {
        Self { config, active: 0, subscriber_only: 0, shares }
    }

    /// The kind that a new topic gets, if there may be one more.
    pub(super) fn admit(
        &self,
        topic: &Topic,
        is_home: bool,
        creator: Creator,
        is_fed: bool,
    ) -> Result<TopicKind, Refusal> {
        let Creator::Subscriber(address) = creator else {
            return self.check_active().map(|()| TopicKind::Active);
        };
        if !is_home {
            // Its home counts it too, and may refuse it.
            return self.check_subscriber_only().map(|()| TopicKind::SubscriberOnly(None));
        }
        // A topic that is fetched is there because its upstream is, and one of a query because that was asked for; one
        // of a stream may be there.
        let is_existing = self.config.subscribe == Subscribing::Existing;
        let is_made = self.config.upstream(topic).is_some() || self.config.is_derived(topic);
        if is_existing && !is_fed && !is_made {
            return Err(Refusal::no_such_topic(topic));
        }
        self.check_subscriber_only()?;
        if address.is_some_and(|address| !self.shares.take(address)) {
            return Err(share_is_spent());
        }
        Ok(TopicKind::SubscriberOnly(address))
    }

    /// Whether topics without events take half of their places.
    pub(super) fn is_crowded(&self) -> bool {
        2 * self.subscriber_only >= self.config.limits.subscribed_topics
    }

    fn check_subscriber_only(&self) -> Result<(), Refusal> {
        if self.subscriber_only < self.config.limits.subscribed_topics {
            return Ok(());
        }
        let message = "the server has no room for more topics without events: use an existing one";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    /// Whether one more topic may be active.
    pub(super) fn check_active(&self) -> Result<(), Refusal> {
        if self.active < self.config.limits.topics {
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
        if let TopicKind::SubscriberOnly(Some(address)) = kind {
            self.shares.give_back(address);
        }
    }

    /// A copy of another shard's topic is counted on that shard, not here.
    fn count_of(&mut self, kind: TopicKind, is_home: bool) -> Option<&mut usize> {
        match kind {
            TopicKind::SubscriberOnly(_) | TopicKind::Emptied(_) => Some(&mut self.subscriber_only),
            TopicKind::Active => is_home.then_some(&mut self.active),
        }
    }
}

/// The refusal for an address that already has all the topics it may create by subscribing.
pub(super) fn share_is_spent() -> Refusal {
    let message = "this address subscribes to all the topics without events that it may: \
                   unsubscribe from some, or if it is a proxy's, start the server with \
                   --trusted-proxy";
    Refusal::new(ErrorCode::TooManyTopics, message)
}

/// The refusal for an address that makes up keys of an upstream faster than it may.
pub(super) fn too_many_new() -> Refusal {
    let message = "this address asks for more fetched topics in a second than it may: try again, \
                   or if it is a proxy's, start the server with --trusted-proxy";
    Refusal::new(ErrorCode::TooManyFromAddress, message)
}
