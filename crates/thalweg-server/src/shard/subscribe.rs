use std::io;

use thalweg_wire::{Format, Topic, close};
use tokio::sync::oneshot;

use super::{Common, Handle, Mail, Shard, Shares, feeds::Moved, home_of, room::Maker};
use crate::{
    clock::now_us,
    config::Subscribing,
    fanout::{FeedKey, Subscribe, Subscriber},
    refusal::Refusal,
    seats::{Address, Seat},
    transport::{Ask, Client, Connection, MaySay, Outlet},
};

/// Who a new subscriber is, and how it is reached.
pub(crate) struct Newcomer<'a> {
    pub(crate) outlet: Outlet,
    /// What it is sent first.
    pub(crate) head: &'a [u8],
    pub(crate) ask: &'a Ask,
    pub(crate) feeds: &'a [FeedKey],
    pub(crate) client: Client,
    /// Its own, unless it has that of a connection which HTTP serves.
    pub(crate) seat: Option<Seat>,
}

/// Names a subscriber, and none that has its place later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubscriberId {
    pub(super) key: u32,
    pub(super) serial: u64,
}

impl Handle {
    /// Makes a subscriber; `read_before` is what came after its request's head.
    pub(crate) fn subscribe(
        &self,
        newcomer: Newcomer<'_>,
        read_before: &[u8],
    ) -> io::Result<SubscriberId> {
        self.step(|shard| {
            let (key, serial) = shard.subscribe(newcomer)?;
            // Its head is due, whether it has topics or not.
            shard.mark_dirty(key);
            shard.keep_unheard(key, read_before);
            // A shutdown may have begun since the request was read.
            if self.draining.get() {
                shard.close(key, close::DRAINING);
            }
            Ok(SubscriberId { key, serial })
        })
    }

    /// The feeds of an ask by whoever counts for `address`, made if there are none: all of
    /// them or none.
    ///
    /// # Errors
    /// When there may be no more of them.
    pub(crate) fn open_feeds(
        &self,
        ask: &Ask,
        address: Option<Address>,
    ) -> Result<Vec<FeedKey>, Refusal> {
        self.step(|shard| shard.open_feeds(ask, address))
    }

    /// What a subscriber is sent through takes more again.
    pub(crate) fn unblock(&self, id: SubscriberId) {
        self.step_of(id, |shard| shard.unblock(id.key));
    }

    /// A subscriber is gone.
    pub(crate) fn remove(&self, id: SubscriberId) {
        self.step_of(id, |shard| shard.remove(id.key));
    }

    /// Whether a subscriber was told where it begins, or is gone.
    pub(crate) fn has_begun(&self, id: SubscriberId) -> bool {
        self.step(|shard| shard.has_begun(id.key, id.serial))
    }

    /// A step for a subscriber, if it is still there.
    pub(super) fn step_of(&self, id: SubscriberId, step: impl FnOnce(&mut Shard)) {
        self.step(|shard| {
            if shard.is_there(id.key, id.serial) {
                step(shard);
            }
        });
    }

    /// Looks for topics at their homes, where whoever counts for `address` makes none
    /// by subscribing.
    ///
    /// # Errors
    /// When there is one that is not there.
    pub(crate) async fn find(
        &self,
        topics: impl Iterator<Item = &Topic>,
        address: Option<Address>,
    ) -> Result<(), Refusal> {
        let shards = self.common.peers.len();
        let mut by_home: Vec<Vec<Topic>> = vec![Vec::new(); shards];
        for topic in topics.filter(|topic| self.shard.borrow().is_to_be_found(topic, address)) {
            by_home[home_of(topic, shards)].push(topic.clone());
        }
        for (peer, topics) in self.common.peers.iter().zip(by_home) {
            if topics.is_empty() {
                continue;
            }
            let (answer, missing) = oneshot::channel();
            let letter = Mail::Find { topics, answer };
            peer.publishes.send(letter).await.map_err(|_| Refusal::draining())?;
            if let Some(missing) = missing.await.map_err(|_| Refusal::draining())? {
                return Err(match self.common.config.subscribe {
                    Subscribing::Existing => Refusal::no_such_topic(&missing),
                    Subscribing::Any => Shares::refusal(),
                });
            }
        }
        Ok(())
    }
}

impl Shard {
    /// The feeds of an ask by whoever counts for `address`, made if there are none: all of
    /// them or none.
    fn open_feeds(&mut self, ask: &Ask, address: Option<Address>) -> Result<Vec<FeedKey>, Refusal> {
        let (mut opened, mut made) = (Vec::new(), Vec::new());
        for (topic, _) in &ask.topics {
            let is_new = self.feeds.find(topic).is_none();
            let is_home = self.is_home_of(topic);
            match self.feeds.open(topic, is_home, Maker::Subscriber(address)) {
                Ok(key) => {
                    opened.push(key);
                    made.extend(is_new.then_some(key));
                }
                Err(refusal) => {
                    made.into_iter().for_each(|key| self.feeds.remove(key));
                    return Err(refusal);
                }
            }
        }
        Ok(opened)
    }

    fn subscribe(&mut self, newcomer: Newcomer<'_>) -> io::Result<(u32, u64)> {
        let Newcomer { outlet, head, ask, feeds, client, seat } = newcomer;
        let starts = ask.topics.iter().map(|(_, start)| *start);
        let subscriptions: Vec<Subscribe> = feeds
            .iter()
            .zip(starts)
            .map(|(feed, start)| Subscribe { feed: *feed, start, terms: ask.terms })
            .collect();
        let subscriber = Subscriber::new(ask.format, head, &subscriptions, ask.life.clone());
        if let Some(socket) = outlet.socket() {
            self.poll.add(socket, self.connections.vacant_key() as u32)?;
        }
        self.serials += 1;
        let serial = self.serials;
        let may_say = match self.common.gate.lets_publish(client.identity) {
            _ if ask.echoes => MaySay::Anything,
            true => MaySay::Events(self.common.config.limits.command_bytes() as u32),
            false => MaySay::Commands,
        };
        let connection = Connection::new(outlet, subscriber, serial, client, may_say, seat);
        let key = self.insert(connection);
        for feed in feeds {
            self.join(key, *feed, ask.format);
        }
        // What was decrypted before has no edge of its own.
        self.mark_readable(key);
        Ok((key, serial))
    }

    /// A connection reads a feed.
    pub(super) fn join(&mut self, key: u32, feed_key: FeedKey, format: Format) {
        let Some(feed) = self.feeds.get_mut(feed_key) else { return };
        let place = feed.join(key, format);
        if let Some(connection) = self.connections.get_mut(key as usize) {
            connection.subscriber.listed(feed_key, place);
        }
        if feed.is_wanting() && feed.attachment == 0 {
            self.unattached.push(feed_key);
        }
        self.want(feed_key, now_us());
        self.mark_dirty(key);
    }

    /// A connection reads the feed no more that lists it at `place`.
    pub(super) fn leave(&mut self, feed_key: FeedKey, place: u32, format: Format) {
        self.unlist(feed_key, place, format);
        let Some(feed) = self.feeds.get(feed_key) else { return };
        // Nothing is lost with one whose home has not answered, or had no room for it.
        if feed.is_forlorn() && self.let_go(feed_key) {
            self.feeds.remove(feed_key);
        }
    }

    /// Has a feed list a subscription no more.
    pub(super) fn unlist(&mut self, feed: FeedKey, place: u32, format: Format) {
        let left = self.feeds.get_mut(feed).and_then(|feed| feed.leave(place, format));
        if let Some(Moved { connection, from }) = left
            && let Some(connection) = self.connections.get_mut(connection as usize)
        {
            connection.subscriber.moved(feed, from, place);
        }
    }

    /// Whether a topic must be looked for at its home, another shard, before whoever counts
    /// for `address` subscribes to it: that may make none. If it comes to that later, the home
    /// can only have the connection closed.
    pub(super) fn is_to_be_found(&self, topic: &Topic, address: Option<Address>) -> bool {
        let Common { config, shares, .. } = &self.common;
        !self.is_home_of(topic)
            && self.feeds.find(topic).is_none()
            && (config.subscribe == Subscribing::Existing
                || address.is_some_and(|address| shares.is_spent(address)))
    }

    /// A subscriber's connection, if it is still there.
    pub(super) fn connection_mut(&mut self, id: SubscriberId) -> Option<&mut Connection> {
        self.connections.get_mut(id.key as usize).filter(|other| other.serial == id.serial)
    }

    /// The connection at `key`, if it is still the one of that serial.
    pub(super) fn is_there(&self, key: u32, serial: u64) -> bool {
        self.connections.get(key as usize).is_some_and(|other| other.serial == serial)
    }
}
