//! The topics of one shard: their logs, their subscribers, and, where the shard
//! is their home, their sequencers and the shards that read along.

use std::{collections::HashMap, sync::Arc};

use slab::Slab;
use thalweg_wire::{Epoch, ErrorCode, Framing, Offset, Topic};

use crate::{
    config::Config,
    fanout::{FeedKey, Feeds},
    refusal::Refusal,
    stream::{Batch, Log, Sequencer},
};

/// All topics of a shard.
#[derive(Debug)]
pub(super) struct FeedTable {
    config: Arc<Config>,
    by_topic: HashMap<Topic, FeedKey>,
    feeds: Slab<Feed>,
    /// Whose history is shed next, when all are too large together.
    shed_next: usize,
}

/// One topic on one shard.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) topic: Topic,
    /// What its subscribers read; on a shard that is not its home, only once
    /// the home has answered.
    pub(super) log: Option<Log>,
    /// Only on its home shard.
    pub(super) home: Option<Home>,
    /// Connections that subscribe to it.
    pub(super) subscribers: Vec<u32>,
    /// How many of them use each framing.
    framing_users: [u32; Framing::ALL.len()],
    /// Number of the attachment to its home; 0: none.
    pub(super) attachment: u64,
}

#[derive(Debug)]
pub(super) struct Home {
    pub(super) sequencer: Sequencer,
    pub(super) readers: Vec<RemoteReader>,
    /// Among those to seal in this turn.
    pub(super) is_due: bool,
    /// A timer will have it sealed.
    pub(super) is_timed: bool,
    /// Among those to post.
    pub(super) is_unposted: bool,
    /// Its events ack those of this topic, whose source waits for it.
    pub(super) acks_of: Option<Topic>,
}

/// A shard that reads along. It is a cursor too: what it has not been posted
/// stays in the history.
#[derive(Debug)]
pub(super) struct RemoteReader {
    pub(super) shard: usize,
    pub(super) attachment: u64,
    /// The next event to post.
    pub(super) next: Offset,
    /// Whether it was told anything yet.
    pub(super) greeted: bool,
}

impl FeedTable {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self { config, by_topic: HashMap::new(), feeds: Slab::new(), shed_next: 0 }
    }

    /// The feed of a topic, made if there is none. `is_home` says whether this
    /// shard gives its offsets.
    pub(super) fn open(&mut self, topic: &Topic, is_home: bool) -> Result<FeedKey, Refusal> {
        if let Some(key) = self.by_topic.get(topic) {
            return Ok(*key);
        }
        if self.feeds.len() >= self.config.limits.topics {
            return Err(Refusal::new(
                ErrorCode::TooManyTopics,
                "the server keeps no more topics: use an existing one",
            ));
        }
        let settings = self.config.topic(topic);
        let home = is_home.then(|| Home {
            sequencer: Sequencer::new(random_epoch(), settings.batch),
            readers: Vec::new(),
            is_due: false,
            is_timed: false,
            is_unposted: false,
            acks_of: None,
        });
        let log = home
            .as_ref()
            .map(|home| Log::new(topic.clone(), home.sequencer.epoch(), 1, settings.history));
        let key = self.feeds.insert(Feed {
            topic: topic.clone(),
            log,
            home,
            subscribers: Vec::new(),
            framing_users: Default::default(),
            attachment: 0,
        }) as FeedKey;
        self.by_topic.insert(topic.clone(), key);
        Ok(key)
    }

    pub(super) fn find(&self, topic: &Topic) -> Option<FeedKey> {
        self.by_topic.get(topic).copied()
    }

    pub(super) fn get(&self, key: FeedKey) -> Option<&Feed> {
        self.feeds.get(key as usize)
    }

    pub(super) fn get_mut(&mut self, key: FeedKey) -> Option<&mut Feed> {
        self.feeds.get_mut(key as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Feed> {
        self.feeds.iter().map(|(_, feed)| feed)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (FeedKey, &mut Feed)> {
        self.feeds.iter_mut().map(|(key, feed)| (key as FeedKey, feed))
    }

    /// Takes posted batches in; the first ones make the log.
    pub(super) fn receive(
        &mut self,
        key: FeedKey,
        epoch: Epoch,
        from: Offset,
        batches: Vec<Arc<Batch>>,
        now_us: u64,
    ) {
        let Some(feed) = self.feeds.get_mut(key as usize) else { return };
        let settings = self.config.topic(&feed.topic);
        let log = feed.log.get_or_insert_with(|| {
            let mut log = Log::new(feed.topic.clone(), epoch, from, settings.history);
            for framing in Framing::ALL {
                if feed.framing_users[framing.index()] > 0 {
                    log.open_tail(framing);
                }
            }
            log
        });
        for batch in batches {
            if batch.first() >= log.head() {
                log.push(batch, now_us);
            }
        }
    }

    /// Memory of a topic's history, in bytes.
    pub(super) fn history_bytes(&self, key: FeedKey) -> usize {
        self.get(key).and_then(|feed| feed.log.as_ref()).map_or(0, Log::history_bytes)
    }

    /// Drops batches until about `bytes` are freed, of one topic after the other; says
    /// how many were.
    pub(super) fn shed(&mut self, bytes: usize, now_us: u64) -> usize {
        let mut freed = 0;
        for _ in 0..self.feeds.capacity() {
            if freed >= bytes {
                break;
            }
            self.shed_next = (self.shed_next + 1) % self.feeds.capacity();
            let feed = self.feeds.get_mut(self.shed_next);
            if let Some(log) = feed.and_then(|feed| feed.log.as_mut()) {
                freed += log.shed_all(bytes - freed, now_us);
            }
        }
        freed
    }

    /// Forgets a topic.
    pub(super) fn remove(&mut self, key: FeedKey) {
        if let Some(feed) = self.feeds.try_remove(key as usize) {
            self.by_topic.remove(&feed.topic);
        }
    }
}

impl Feed {
    pub(super) fn join(&mut self, connection: u32, framing: Framing) {
        self.subscribers.push(connection);
        self.framing_users[framing.index()] += 1;
        if let Some(log) = &mut self.log {
            log.open_tail(framing);
        }
    }

    pub(super) fn leave(&mut self, connection: u32, framing: Framing) {
        if let Some(index) = self.subscribers.iter().position(|key| *key == connection) {
            self.subscribers.swap_remove(index);
        }
        let users = &mut self.framing_users[framing.index()];
        *users -= 1;
        if *users == 0
            && let Some(log) = &mut self.log
        {
            log.close_tail(framing);
        }
    }

    /// Whether anybody subscribes, here or by another shard.
    pub(super) fn is_read(&self) -> bool {
        let is_posted = |home: &Home| !home.readers.is_empty();
        !self.subscribers.is_empty() || self.home.as_ref().is_some_and(is_posted)
    }

    /// Whether its home must be asked for it.
    pub(super) fn is_wanting(&self) -> bool {
        self.home.is_none() && self.log.is_none() && !self.subscribers.is_empty()
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_idle(&self) -> bool {
        let unread = self.subscribers.is_empty();
        let empty = self.log.as_ref().is_none_or(|log| log.first_retained() == log.head());
        match &self.home {
            Some(home) => {
                let is_settled = home.readers.is_empty() && home.sequencer.due_us().is_none();
                unread && empty && is_settled && home.acks_of.is_none()
            }
            None => unread,
        }
    }
}

impl Feeds for FeedTable {
    fn feed(&self, key: FeedKey) -> Option<&Log> {
        self.feeds.get(key as usize)?.log.as_ref()
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Log> {
        self.feeds.get_mut(key as usize)?.log.as_mut()
    }
}

/// 48 random bits: two incarnations of one topic do not meet in practice, and
/// the text is short, since it is in every envelope.
fn random_epoch() -> Epoch {
    loop {
        if let Some(epoch) = Epoch::new(fastrand::u64(..1 << 48)) {
            return epoch;
        }
    }
}
