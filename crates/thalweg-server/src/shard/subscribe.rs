use std::{io, sync::Arc};

use thalweg_wire::{Topic, close};

use super::{Handle, Shard, subscribers::SubscriberId, topic_limits::share_is_spent};
use crate::{
    access::Holder,
    clock::now_us,
    config::Subscribing,
    connection_limits::{Address, ConnectionPermit},
    fanout::{FeedKey, Subscribe, Subscriber},
    home::home_of,
    refusal::Refusal,
    transport::{Client, Connection, InboundMode, SubscribeRequest, Writer},
};

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

impl Handle {
    /// Creates a subscriber. `read_before` is what was received after its request's head.
    pub(crate) fn subscribe(
        &self,
        new: NewSubscriber<'_>,
        read_before: &[u8],
    ) -> io::Result<SubscriberId> {
        self.with_shard(|shard| {
            let id = shard.subscribe(new)?;
            shard.subscribers.defer(id.key, read_before);
            // A shutdown may have begun since the request was read.
            if self.draining.get() {
                shard.subscribers.close(id.key, close::DRAINING);
            }
            Ok(id)
        })
    }

    /// The feeds of a request, whose client is counted for `address`. Missing feeds are
    /// created: all of them or none.
    ///
    /// # Errors
    /// When a limit of topics is reached.
    pub(crate) fn open_feeds(
        &self,
        request: &SubscribeRequest,
        address: Option<Address>,
    ) -> Result<Vec<FeedKey>, Refusal> {
        let topics = request.topics.iter().map(|(topic, _)| topic);
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
    pub(crate) async fn find(
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
