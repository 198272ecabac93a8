use std::{io, sync::Arc};

use thalweg_wire::{Topic, close};

use super::{
    Handle, Shard, asking::Asked, subscribers::SubscriberId, topic_limits::share_is_spent,
};
use crate::{
    access::{Allowed, Holder, Right, Wanted},
    clock::now_us,
    config::Subscribing,
    connection_limits::{Address, ConnectionPermit},
    home::home_of,
    refusal::Refusal,
    transport::{Client, Connection, InboundMode, SubscribeRequest, Writer},
};
use thalweg_core::fanout::{FeedKey, Subscribe, Subscriber};

/// Who a new subscriber is, and how it is reached.
pub(crate) struct NewSubscriber<'a> {
    pub(crate) writer: Writer,
    /// Bytes that are sent first.
    pub(crate) head: &'a [u8],
    pub(crate) request: &'a SubscribeRequest,
    pub(crate) feeds: &'a [FeedKey],
    pub(crate) client: Client,
    pub(crate) holder: Arc<Holder>,
    /// Its own permit. `None` if it uses the permit of a connection that HTTP serves.
    pub(crate) permit: Option<ConnectionPermit>,
}

/// What a request subscribes to.
pub(crate) struct Subscription {
    pub(crate) request: SubscribeRequest,
    /// The query whose rows these are.
    pub(crate) asked: Option<Box<Asked>>,
}

impl Wanted for Subscription {
    /// Of a query the right to what it reads; else to each topic.
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        let topics = self.request.topics.iter().map(|(topic, _)| Right::Subscribe(topic));
        let topics = topics.filter(|_| self.asked.is_none());
        topics.chain(self.asked.iter().flat_map(|asked| asked.rights()))
    }
}

impl Handle {
    /// Creates a subscriber. `read_before` is what was received after its request's head.
    pub(crate) fn subscribe(
        &self,
        new: NewSubscriber<'_>,
        read_before: &[u8],
    ) -> io::Result<SubscriberId> {
        self.with_shard(|shard| {
            let id = shard.subscribe(new)?;
            // Rights may have changed since the request was read.
            shard.ask_again(id.key);
            shard.subscribers.defer(id.key, read_before);
            // A shutdown may have begun since the request was read.
            if self.draining.get() {
                shard.subscribers.close(id.key, close::DRAINING);
            }
            Ok(id)
        })
    }

    /// The feeds of a subscription, whose client is counted for `address`. Its query is run, and missing
    /// feeds are created: all of them or none.
    ///
    /// # Errors
    /// When a limit of topics is reached, or the query cannot run.
    pub(crate) async fn open_feeds(
        &self,
        subscription: &Allowed<Box<Subscription>>,
        address: Option<Address>,
    ) -> Result<Vec<FeedKey>, Refusal> {
        if let Some(asked) = &subscription.asked {
            // Boxed because it is rare: it must not enlarge the future of every request.
            Box::pin(self.run(asked, address)).await?;
        }
        let topics = || subscription.request.topics.iter().map(|(topic, _)| topic);
        self.find(topics(), address).await?;
        let topics = topics();
        self.with_shard(|shard| shard.topics.open_all(topics, address))
    }

    /// A subscriber's pipe has room again.
    pub(crate) fn unblock(&self, id: SubscriberId) {
        self.with_subscriber(id, |shard| shard.subscribers.unblock(id.key));
    }

    /// A subscriber is gone.
    pub(crate) fn remove(&self, id: SubscriberId) {
        self.with_subscriber(id, |shard| shard.subscribers.remove(&mut shard.topics, id.key));
    }

    /// Whether a subscriber was sent its start position, or is gone.
    pub(crate) fn has_begun(&self, id: SubscriberId) -> bool {
        let subscribers = &mut self.shard.borrow_mut().subscribers;
        subscribers.get_mut(id).is_none_or(|connection| connection.subscriber.has_begun())
    }

    /// A step for a subscriber, if it is still there.
    pub(super) fn with_subscriber(&self, id: SubscriberId, step: impl FnOnce(&mut Shard)) {
        self.with_shard(|shard| {
            if shard.subscribers.get_mut(id).is_some() {
                step(shard);
            }
        });
    }

    /// Looks topics up at their homes, if a client counted for `address` may not create them by
    /// subscribing.
    ///
    /// # Errors
    /// When one of them does not exist.
    pub(super) async fn find(
        &self,
        topics: impl Iterator<Item = &Topic>,
        address: Option<Address>,
    ) -> Result<(), Refusal> {
        let shards = self.common.peers.len();
        let mut by_home: Vec<Vec<Topic>> = vec![Vec::new(); shards];
        for topic in topics.filter(|topic| self.shard.borrow().topics.needs_lookup(topic, address))
        {
            by_home[home_of(topic, shards)].push(topic.clone());
        }
        for (home, wanted) in by_home.into_iter().enumerate() {
            if wanted.is_empty() {
                continue;
            }
            let missing = self.look(home, |topics| {
                wanted.into_iter().find(|topic| topics.feeds.find(topic).is_none())
            });
            if let Some(missing) = missing.await? {
                return Err(match self.common.config.subscribe {
                    Subscribing::Existing => Refusal::no_such_topic(&missing),
                    Subscribing::Any => share_is_spent(),
                });
            }
        }
        Ok(())
    }
}

impl Shard {
    fn subscribe(&mut self, new: NewSubscriber<'_>) -> io::Result<SubscriberId> {
        let NewSubscriber { writer, head, request, feeds, client, holder, permit } = new;
        let subscriptions: Vec<Subscribe> = feeds
            .iter()
            .zip(&request.topics)
            .map(|(&feed, &(_, start))| Subscribe { feed, start, terms: request.terms })
            .collect();
        let subscriber =
            Subscriber::new(request.format, head, &subscriptions, request.mode.clone());
        let inbound_mode = match self.access.lets_publish(&holder) {
            _ if request.echoes => InboundMode::Echo,
            true => InboundMode::Publish(self.common.config.limits.command_bytes() as u32),
            false => InboundMode::CommandsOnly,
        };
        let serial = self.subscribers.next_serial();
        let connection =
            Connection::new(writer, subscriber, serial, client, holder, inbound_mode, permit);
        let id = self.subscribers.insert(connection)?;
        let now_us = now_us();
        for feed in feeds {
            self.subscribers.join(&mut self.topics, id.key, *feed, now_us);
        }
        // Data that was decrypted before gives no epoll event.
        self.subscribers.mark_readable(id.key);
        // The head must be sent, with or without topics.
        self.subscribers.mark_dirty(id.key);
        Ok(id)
    }
}
