use std::{io, sync::Arc};

use thalweg_core::fanout::{FeedKey, Subscribe, Subscriber};
use thalweg_wire::{KeyFilter, Topic, close};

use super::{Handle, Shard, ad_hoc_queries::AdHocQuery};
use crate::{
    access::{Allowed, Holder, Right, Wanted},
    clock::now_us,
    config::Subscribing,
    connection_limits::{Address, ConnectionPermit},
    owner_shard::owner_shard,
    protocol::Protocol,
    refusal::Refusal,
    shard::{
        message::Lookup, session_input::SubscriberId, subscribers::Connection,
        topics::share_is_spent,
    },
    transport::{Client, SubscribeRequest, Writer},
};

pub(crate) struct NewSubscriber<'a> {
    pub(crate) writer: Writer,
    /// Bytes that are sent first.
    pub(crate) head: &'a [u8],
    pub(crate) request: &'a SubscribeRequest,
    pub(crate) feeds: &'a [FeedKey],
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) client: Client,
    pub(crate) holder: Arc<Holder>,
    /// The subscriber's own permit. `None` if HTTP's connection keeps the permit.
    pub(crate) permit: Option<ConnectionPermit>,
}

pub(crate) struct Subscription {
    pub(crate) request: SubscribeRequest,
    pub(crate) protocol: Box<dyn Protocol>,
    /// The query whose rows the client reads.
    pub(crate) ad_hoc: Option<Box<AdHocQuery>>,
}

impl Wanted for Subscription {
    /// Returns the rights to the topics, or to the source of the query.
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        let topics = self
            .request
            .filtered()
            .map(|(topic, filter)| Right::Subscribe(topic, filter.map(|filter| &**filter).into()));
        let topics = topics.filter(|_| self.ad_hoc.is_none());
        topics.chain(self.ad_hoc.iter().flat_map(|ad_hoc| ad_hoc.rights()))
    }
}

impl Handle {
    /// Creates a subscriber. `read_before` are bytes received after the request's head.
    pub(crate) fn subscribe(
        &self,
        new: NewSubscriber<'_>,
        read_before: &[u8],
    ) -> io::Result<SubscriberId> {
        self.with_shard(|shard| {
            let id = shard.subscribe(new)?;
            shard.subscribers.opened(id, self.id);
            // Rights may have changed since the request was read.
            shard.recheck_rights(id.key);
            shard.subscribers.defer(id.key, read_before);
            // The server may have begun to drain since the request was read.
            if self.draining.get() {
                shard.subscribers.close(id.key, close::DRAINING);
            }
            Ok(id)
        })
    }

    /// Returns the feeds of a subscription, which counts towards the limits of `address`. Registers its query. Creates either all
    /// missing feeds or none. Fails if a limit of topics is reached, or the query cannot run.
    pub(crate) async fn open_feeds(
        &self,
        subscription: &Allowed<Box<Subscription>>,
        address: Option<Address>,
    ) -> Result<Vec<FeedKey>, Refusal> {
        if let Some(ad_hoc) = &subscription.ad_hoc {
            // Boxed because it is rare: it must not enlarge the future of every request.
            Box::pin(self.run(ad_hoc, address)).await?;
        }
        let topics = || subscription.request.topics.iter().map(|(topic, _)| topic);
        self.find(topics(), address).await?;
        self.with_shard(|shard| {
            for (topic, filter) in subscription.request.filtered() {
                filter.map_or(Ok(()), |filter| {
                    shard.share_filter(topic, filter, address).map(drop)
                })?;
            }
            shard.topics.open_all(topics(), address)
        })
    }

    /// Notes that a subscriber's pipe has room again.
    pub(crate) fn unblock(&self, id: SubscriberId) {
        self.with_subscriber(id, |shard| shard.subscribers.unblock(id.key));
    }

    pub(crate) fn remove(&self, id: SubscriberId) {
        self.with_subscriber(id, |shard| shard.subscribers.remove(&mut shard.topics, id.key));
    }

    /// Ends a long poll whose time is over, if its client can learn a later position.
    pub(crate) fn tell_positions(&self, id: SubscriberId) {
        self.with_subscriber(id, |shard| {
            shard.subscribers.tell_positions(&mut shard.topics, id.key);
        });
    }

    /// Returns whether a subscriber's start position was sent, or the subscriber has gone.
    pub(crate) fn has_begun(&self, id: SubscriberId) -> bool {
        let subscribers = &mut self.shard.borrow_mut().subscribers;
        subscribers.get_mut(id).is_none_or(|connection| connection.subscriber.has_begun())
    }

    /// Checks with the owner shards that topics exist, if a client that counts for `address` may not create them. Fails if a
    /// topic does not exist.
    pub(super) async fn find(
        &self,
        topics: impl Iterator<Item = &Topic>,
        address: Option<Address>,
    ) -> Result<(), Refusal> {
        let shards = self.common.peers.len();
        let mut by_owner: Vec<Vec<Topic>> = vec![Vec::new(); shards];
        for topic in topics.filter(|topic| self.shard.borrow().topics.needs_lookup(topic, address))
        {
            by_owner[owner_shard(topic, shards)].push(topic.clone());
        }
        for (owner, wanted) in by_owner.into_iter().enumerate() {
            if wanted.is_empty() {
                continue;
            }
            let missing = self.look_up(owner, |answer| Lookup::Missing { topics: wanted, answer });
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
    /// Returns the filter that all subscriptions with this filter share. Fails if the topic has no keys, or there is no room for
    /// another filter, or another one of the address.
    pub(super) fn share_filter(
        &mut self,
        topic: &Topic,
        filter: &Arc<KeyFilter>,
        address: Option<Address>,
    ) -> Result<Arc<KeyFilter>, Refusal> {
        self.topics.check_filter(topic)?;
        self.subscribers.share_filter(filter, address)
    }

    fn subscribe(&mut self, new: NewSubscriber<'_>) -> io::Result<SubscriberId> {
        let NewSubscriber { writer, head, request, feeds, protocol, client, holder, permit } = new;
        // A topic may have gone while the request waited, and another one may have its key. A topic that has ended and has
        // other readers keeps its key, but its end was sent before.
        let wanted = feeds.iter().zip(&request.topics).map(|(&feed, (topic, _))| {
            match self.topics.topic(feed) == Some(topic) && !self.topics.is_ended(feed) {
                true => Ok(feed),
                false => self.topics.open_subscribed(topic, client.counted()),
            }
        });
        let feeds = wanted.collect::<Result<Vec<FeedKey>, _>>();
        let feeds = feeds.map_err(|refusal| io::Error::other(refusal.message))?;
        let subscriptions: Vec<Subscribe> = feeds
            .iter()
            .zip(&request.topics)
            .map(|(&feed, &(_, start))| Subscribe { feed, start, terms: request.terms })
            .collect();
        let mut subscriber = Subscriber::new(
            request.format,
            head,
            &subscriptions,
            request.mode,
            request.framing.clone(),
        );
        for (feed, (topic, filter)) in feeds.iter().zip(request.filtered()) {
            if let Some(filter) = filter {
                // There was room when the feeds were opened.
                let shared = self.share_filter(topic, filter, client.counted());
                subscriber.set_filter(*feed, shared.unwrap_or_else(|_| Arc::clone(filter)));
            }
        }
        let command_bytes_max = self.command_bytes_max(&holder);
        let connection = Connection::new(
            writer,
            subscriber,
            protocol,
            (client, holder, request.member.clone()),
            command_bytes_max,
            self.subscribers.next_serial(),
            permit,
        );
        let id = self.subscribers.insert(connection)?;
        self.note_subscribed(id, request);
        let now_us = now_us();
        for feed in feeds {
            self.subscribers.join(&mut self.topics, id.key, feed, now_us);
        }
        // Data that was decrypted before causes no epoll event.
        self.subscribers.mark_readable(id.key);
        // The head must be sent, with or without topics.
        self.subscribers.mark_dirty(id.key);
        Ok(id)
    }
}
