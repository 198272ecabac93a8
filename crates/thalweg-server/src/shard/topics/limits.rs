//! The limits on a shard's topics.

use std::sync::Arc;

use thalweg_wire::{ErrorCode, Topic};

use super::origin::Origin;
use crate::{
    config::{Config, Subscribing},
    connection_limits::{Address, AddressCounts},
    refusal::Refusal,
};

/// The client that opens a topic, and creates it if necessary.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) enum Creator {
    Publisher,
    /// A subscriber, and the address that it counts for, if any.
    Subscriber(Option<Address>),
}

/// A class of topics with a limit. Subscribers could create any number of topics, so topics without events have a separate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicKind {
    /// A topic with events, or with a source that makes some.
    Active,
    /// A topic without events. It counts towards the share of this address, if any.
    SubscriberOnly(Option<Address>),
    /// A topic that has had no events since this time, in µs.
    Emptied(u64),
}

#[derive(Debug)]
pub(super) struct TopicLimits {
    config: Arc<Config>,
    /// Active topics that this shard owns.
    active: usize,
    pub(super) subscriber_only: usize,
    /// The number of subscriber-only topics that each address has created.
    shares: Arc<AddressCounts>,
}

impl TopicLimits {
    pub(super) fn new(config: Arc<Config>, shares: Arc<AddressCounts>) -> Self {
        Self { config, active: 0, subscriber_only: 0, shares }
    }

    /// Returns the kind of a new topic. Fails if there is no room for it, or the subscriber may not create it.
    pub(super) fn admit(
        &self,
        topic: &Topic,
        is_owner: bool,
        creator: Creator,
        origin: Origin,
    ) -> Result<TopicKind, Refusal> {
        let Creator::Subscriber(address) = creator else {
            return self.check_active().map(|()| TopicKind::Active);
        };
        if !is_owner {
            // The owner shard counts it too, and may refuse it.
            return self.check_subscriber_only().map(|()| TopicKind::SubscriberOnly(None));
        }
        if self.config.subscribe == Subscribing::Existing && !origin.exists_elsewhere() {
            return Err(Refusal::no_such_topic(topic));
        }
        self.check_subscriber_only()?;
        if address.is_some_and(|address| !self.shares.take(address)) {
            return Err(share_is_spent());
        }
        Ok(TopicKind::SubscriberOnly(address))
    }

    /// Returns whether topics without events have reached half of their limit.
    pub(super) fn is_crowded(&self) -> bool {
        2 * self.subscriber_only >= self.config.limits.subscribed_topics
    }

    fn check_subscriber_only(&self) -> Result<(), Refusal> {
        if self.subscriber_only < self.config.limits.subscribed_topics {
            return Ok(());
        }
        let message =
            "too many topics have subscribers and no events: subscribe to a topic that has events";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    /// Checks that there is room for one more active topic.
    pub(super) fn check_active(&self) -> Result<(), Refusal> {
        if self.active < self.config.limits.topics {
            return Ok(());
        }
        let message = "the server has no room for more topics: use an existing one";
        Err(Refusal::new(ErrorCode::TooManyTopics, message))
    }

    pub(super) fn take(&mut self, kind: TopicKind, is_owner: bool) {
        if let Some(count) = self.count_of(kind, is_owner) {
            *count += 1;
        }
    }

    pub(super) fn give_back(&mut self, kind: TopicKind, is_owner: bool) {
        if let Some(count) = self.count_of(kind, is_owner) {
            *count -= 1;
        }
        if let TopicKind::SubscriberOnly(Some(address)) = kind {
            self.shares.give_back(address);
        }
    }

    /// Returns the counter of a kind. The owner shard counts an active topic; its followers do not.
    fn count_of(&mut self, kind: TopicKind, is_owner: bool) -> Option<&mut usize> {
        match kind {
            TopicKind::SubscriberOnly(_) | TopicKind::Emptied(_) => Some(&mut self.subscriber_only),
            TopicKind::Active => is_owner.then_some(&mut self.active),
        }
    }
}

/// Returns the refusal for an address that has created all the topics that it may.
pub(in crate::shard) fn share_is_spent() -> Refusal {
    let message = "this address subscribes to too many topics that have no events: unsubscribe from some, or if the address is that of a proxy, start the server with --trusted-proxy";
    Refusal::new(ErrorCode::TooManyTopics, message)
}

/// Returns the refusal for an address that requests new fetched topics too fast.
pub(super) fn too_many_new() -> Refusal {
    let message = "this address requests too many new fetched topics per second: try again, or if the address is that of a proxy, start the server with --trusted-proxy";
    Refusal::new(ErrorCode::TooManyFromAddress, message)
}
