use std::{io, os::fd::OwnedFd, rc::Rc};

use super::{Handle, Shard, mail::TooManyTopics};
use crate::{
    fanout::{FeedKey, Subscribe, Subscriber},
    transport::{Ask, Connection, Socket},
};

impl Handle {
    /// Makes a subscriber of a socket whose request was read; `read_before` is
    /// what came after its head.
    pub(super) fn take_over(
        self: &Rc<Self>,
        fd: OwnedFd,
        ask: &Ask,
        feeds: &[FeedKey],
        read_before: &[u8],
    ) -> io::Result<()> {
        self.step(|shard| {
            let key = shard.subscribe(fd, ask, feeds)?;
            if !read_before.is_empty() {
                shard.hear(self, key, Some(read_before));
            }
            // A shutdown may have begun since the request was read.
            if self.draining.get() {
                shard.close_all();
            }
            Ok(())
        })
    }
}

impl Shard {
    /// The feeds of an ask, made if there are none.
    pub(super) fn open_feeds(&mut self, ask: &Ask) -> Result<Vec<FeedKey>, TooManyTopics> {
        ask.topics
            .iter()
            .map(|(topic, _)| {
                let is_home = self.is_home_of(topic);
                self.feeds.open(topic, is_home)
            })
            .collect()
    }

    fn subscribe(&mut self, fd: OwnedFd, ask: &Ask, feeds: &[FeedKey]) -> io::Result<u32> {
        let subscriptions: Vec<Subscribe> = feeds
            .iter()
            .zip(&ask.topics)
            .map(|(feed, (_, start))| Subscribe {
                feed: *feed,
                start: *start,
                policy: ask.policy,
                interval_us: ask.interval_us,
            })
            .collect();
        let subscriber = Subscriber::new(ask.framing, &ask.head, &subscriptions);
        self.serials += 1;
        let socket = Socket::new(fd);
        self.poll.add(&socket, self.connections.vacant_key() as u32)?;
        let key = self.insert(Connection::new(socket, subscriber, self.serials));
        for feed_key in feeds {
            let Some(feed) = self.feeds.get_mut(*feed_key) else { continue };
            feed.join(key, ask.framing);
            if feed.is_wanting() && feed.attachment == 0 {
                self.unattached.push(*feed_key);
            }
        }
        self.mark_dirty(key);
        Ok(key)
    }
}
