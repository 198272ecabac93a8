//! The topics of one shard: their feeds, their subscribers, and, where the shard
//! is their home, their sequencers and the other shards that have copies.

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

use slab::Slab;
use thalweg_wire::{Epoch, Offset, Pattern, Topic};

use super::{
    demand::Demand,
    fed_order::FedStreams,
    local_topic::{Ending, Home, LocalTopic, Order},
    pauses::Pauses,
    timers::Timers,
    topic_limits::{Creator, TopicKind, TopicLimits},
};
use crate::{
    clock,
    config::{Config, PATCH_US_MAX},
    connection_limits::AddressCounts,
    derived::AskedQueries,
    metrics::Counts,
    refusal::Refusal,
};
use thalweg_core::{
    fanout::{FeedKey, Feeds},
    stream::{Batch, ColumnMemory, DerivedBatches, Feed, FeedKind, FormatMap, Offsets, Sequencer},
};

/// Topics that are looked at for one that may give way: each message for which there is no room looks.
const EVICTION_LOOKS: usize = 64;

/// All topics of a shard.
#[derive(Debug)]
pub(super) struct FeedTable {
    config: Arc<Config>,
    pub(super) streams: FedStreams,
    column_memory: ColumnMemory,
    asked: Arc<AskedQueries>,
    by_topic: HashMap<Topic, FeedKey>,
    /// The same in order, for the list of topics.
    by_name: BTreeMap<Topic, FeedKey>,
    feeds: Slab<LocalTopic>,
    pub(super) topic_limits: TopicLimits,
    /// Those by which topics are counted.
    patterns: Vec<Pattern>,
    counts: Arc<Counts>,
    /// The topic whose history loses batches next, when all histories together are too large.
    shed_next: usize,
    /// The topic that gives way next, if nobody reads it.
    evict_next: usize,
}

impl FeedTable {
    pub(super) fn new(
        config: Arc<Config>,
        streams: FedStreams,
        shares: Arc<AddressCounts>,
        column_memory: ColumnMemory,
        asked: Arc<AskedQueries>,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            streams,
            column_memory,
            asked,
            by_topic: HashMap::new(),
            by_name: BTreeMap::new(),
            feeds: Slab::new(),
            topic_limits: TopicLimits::new(Arc::clone(&config), shares),
            patterns: config.patterns(),
            counts,
            config,
            shed_next: 0,
            evict_next: 0,
        }
    }

    /// The feed of a topic, made if there is none. `is_home` says whether this
    /// shard gives its offsets.
    ///
    /// # Errors
    /// When the limit of its kind is reached, or subscribers may not create topics.
    pub(super) fn open(
        &mut self,
        topic: &Topic,
        is_home: bool,
        creator: Creator,
    ) -> Result<FeedKey, Refusal> {
        if let Some(key) = self.find(topic) {
            if let Creator::Publisher = creator {
                self.activate(key)?;
            }
            return Ok(key);
        }
        let stream = self.streams.of(topic);
        let kind = self.topic_limits.admit(topic, is_home, creator, stream.is_some())?;
        let settings = self.config.topic(topic);
        let feed_kind = match stream.map(|stream| self.streams.has_values(stream)) {
            None => settings.kind,
            Some(true) => FeedKind::Value,
            Some(false) => FeedKind::Log,
        };
        let is_derived = self.config.is_derived(topic);
        let begin = || match stream {
            None if is_derived => {
                let order = Order::Derived(Box::new(DerivedBatches::new(settings.batch)));
                // Where a shared one begins its query finds out ([`super::topics::Topics::begin_derived`]).
                let is_known = !self.asked.is_shared(topic);
                (order, is_known.then(|| (random_epoch(), 1)))
            }
            None => {
                let epoch = random_epoch();
                (Order::Own(Sequencer::new(epoch, settings.batch)), Some((epoch, 1)))
            }
            Some(stream) => {
                let (order, head) = self.streams.begin(stream, topic);
                (Order::Fed(Box::new(order)), Some((self.streams.epoch(stream), head)))
            }
        };
        let (home, feed) = match is_home.then(begin) {
            None => (None, None),
            Some((order, start)) => {
                let feed = start.map(|(epoch, next)| self.new_feed(topic, feed_kind, epoch, next));
                (Some(self.new_home(topic, order)), feed)
            }
        };
        // The last one means every topic.
        let pattern = self.patterns.iter().position(|pattern| pattern.matches(topic)).unwrap_or(0);
        self.counts.of_pattern(pattern).pattern_topics.add(u64::from(is_home));
        let key = self.feeds.insert(LocalTopic {
            topic: topic.clone(),
            kind,
            feed_kind,
            pattern: pattern as u32,
            feed,
            home,
            subscribers: Vec::new(),
            is_input: false,
            pauses: Pauses::default(),
            format_users: FormatMap::default(),
            readers: None,
            attachment: 0,
            end: None,
        }) as FeedKey;
        self.by_topic.insert(topic.clone(), key);
        self.by_name.insert(topic.clone(), key);
        self.topic_limits.take(kind, is_home);
        Ok(key)
    }

    /// The feed of a topic whose next event is `next`.
    pub(super) fn new_feed(
        &self,
        topic: &Topic,
        kind: FeedKind,
        epoch: Epoch,
        next: Offset,
    ) -> Feed {
        let settings = self.config.topic(topic);
        let columns = settings.columns.or_else(|| self.asked.columns(topic));
        let offsets = match self.streams.of(topic) {
            Some(_) => Offsets::Stored,
            None if self.config.is_derived(topic) => Offsets::Derived,
            None => Offsets::Consecutive,
        };
        Feed::new(kind, topic.clone(), epoch, next, offsets, settings.history)
            .with_columns(columns, self.column_memory.clone())
    }

    fn new_home(&self, topic: &Topic, order: Order) -> Home {
        Home {
            order,
            followers: Vec::new(),
            demand: Demand::default(),
            idle_sweeps: 0,
            fetched_linger_us: self.fetched_linger_us(topic),
            is_due: false,
            is_timed: false,
            is_unposted: false,
            is_permanent: false,
        }
    }

    /// How long a topic is fetched without readers, in µs, if it is fetched.
    fn fetched_linger_us(&self, topic: &Topic) -> Option<u64> {
        let upstream = &self.config.upstreams[self.config.upstream(topic)?];
        Some(upstream.linger.as_micros() as u64)
    }

    /// A topic is going to have events.
    fn activate(&mut self, key: FeedKey) -> Result<(), Refusal> {
        if self.get(key).is_some_and(|feed| feed.kind != TopicKind::Active) {
            self.topic_limits.check_active()?;
            self.set_kind(key, TopicKind::Active);
        }
        Ok(())
    }

    pub(super) fn set_kind(&mut self, key: FeedKey, kind: TopicKind) {
        let Some(feed) = self.feeds.get_mut(key as usize) else { return };
        let before = std::mem::replace(&mut feed.kind, kind);
        let is_home = feed.home.is_some();
        self.topic_limits.give_back(before, is_home);
        self.topic_limits.take(kind, is_home);
    }

    /// Emptied topics above the limit, the most recently emptied first. Topics that subscribers
    /// created are never returned: they stay within their own limit.
    pub(super) fn emptied_over_limit(&self) -> Vec<FeedKey> {
        let over =
            self.topic_limits.subscriber_only.saturating_sub(self.config.limits.subscribed_topics);
        if over == 0 {
            return Vec::new();
        }
        let emptied = self.feeds.iter().filter_map(|(key, feed)| match feed.kind {
            TopicKind::Emptied(since_us) => Some((since_us, key as FeedKey)),
            TopicKind::Active | TopicKind::SubscriberOnly(_) => None,
        });
        let mut emptied: Vec<_> = emptied.collect();
        emptied.sort_unstable_by_key(|(since_us, key)| (Reverse(*since_us), *key));
        emptied.into_iter().take(over).map(|(_, key)| key).collect()
    }

    pub(super) fn find(&self, topic: &Topic) -> Option<FeedKey> {
        self.by_topic.get(topic).copied()
    }

    pub(super) fn get(&self, key: FeedKey) -> Option<&LocalTopic> {
        self.feeds.get(key as usize)
    }

    pub(super) fn get_mut(&mut self, key: FeedKey) -> Option<&mut LocalTopic> {
        self.feeds.get_mut(key as usize)
    }

    /// The topics whose names begin with `prefix` and come after `after`, in order.
    pub(super) fn named(&self, after: &str, prefix: &str) -> impl Iterator<Item = &LocalTopic> {
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let next = self.by_name.range::<str, _>((from, Bound::Unbounded));
        next.take_while(move |(topic, _)| topic.as_str().starts_with(prefix))
            .filter_map(|(_, key)| self.get(*key))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (FeedKey, &mut LocalTopic)> {
        self.feeds.iter_mut().map(|(key, feed)| (key as FeedKey, feed))
    }

    /// Takes posted batches in; the first ones make the feed. Returns the feed.
    pub(super) fn receive(
        &mut self,
        key: FeedKey,
        epoch: Epoch,
        from: Offset,
        batches: Vec<Arc<Batch>>,
        now_us: u64,
        counts: &Counts,
    ) -> Option<&mut Feed> {
        if !batches.is_empty() {
            self.set_kind(key, TopicKind::Active);
        }
        self.begin(key, epoch, from);
        let feed = self.feeds.get_mut(key as usize)?.feed.as_mut()?;
        for batch in batches {
            if batch.end() > feed.head() {
                push(feed, batch, now_us, counts);
            }
        }
        Some(feed)
    }

    /// Makes the feed of a topic that has none yet.
    pub(super) fn begin(&mut self, key: FeedKey, epoch: Epoch, next: Offset) {
        let Some(local) = self.get(key).filter(|local| local.feed.is_none()) else { return };
        let mut feed = self.new_feed(&local.topic, local.feed_kind, epoch, next);
        local.format_users.iter().for_each(|(format, _)| feed.open_tail(format));
        if let Some(local) = self.get_mut(key) {
            local.feed = Some(feed);
        }
    }

    /// The timers that topics wait for.
    pub(super) fn timers(&self) -> Timers<FeedKey> {
        let mut timers = Timers::default();
        for (key, local) in &self.feeds {
            let home = local.home.as_ref().filter(|home| home.is_timed);
            if let Some(due_us) = home.and_then(|home| home.order.due_us()) {
                timers.set(due_us, key as FeedKey);
            }
        }
        timers
    }

    /// Memory of a topic's history, in bytes.
    pub(super) fn history_bytes(&self, key: FeedKey) -> usize {
        self.get(key).and_then(|local| local.feed.as_ref()).map_or(0, Feed::history_bytes)
    }

    /// Drops batches until about `bytes` are freed, one topic after the other. Returns the
    /// bytes freed; `shed` has the value topics whose readers now have nothing to read.
    pub(super) fn trim_bytes(
        &mut self,
        bytes: usize,
        now_us: u64,
        shed: &mut Vec<FeedKey>,
    ) -> usize {
        let mut freed = 0;
        // Whoever reads a value may have nothing else to wait for: those come last.
        for spares_values in [true, false] {
            for _ in 0..self.feeds.capacity() {
                if freed >= bytes {
                    return freed;
                }
                self.shed_next = (self.shed_next + 1) % self.feeds.capacity();
                let Some(local) = self.feeds.get_mut(self.shed_next) else { continue };
                if spares_values && local.feed_kind == FeedKind::Value && local.has_readers() {
                    continue;
                }
                if let Some(feed) = &mut local.feed {
                    let trimmed = feed.trim_all(bytes - freed, now_us);
                    freed += trimmed;
                    if trimmed > 0 && !spares_values && local.feed_kind == FeedKind::Value {
                        shed.push(self.shed_next as FeedKey);
                    }
                }
            }
        }
        freed
    }

    /// A fed topic that nobody reads and that has nothing to be stored, if there is one among the
    /// next ones.
    pub(super) fn unread_fed(&mut self) -> Option<FeedKey> {
        for _ in 0..EVICTION_LOOKS.min(self.feeds.capacity()) {
            self.evict_next = (self.evict_next + 1) % self.feeds.capacity();
            let Some(local) = self.feeds.get_mut(self.evict_next) else { continue };
            let is_permanent = local.home.as_ref().is_some_and(|home| home.is_permanent);
            let is_read = local.has_readers() || local.end.is_some() || is_permanent;
            if local.fed().is_some_and(|(_, order)| !is_read && !order.holds_events()) {
                return Some(self.evict_next as FeedKey);
            }
        }
        None
    }

    /// Ends a topic: from now on its name is free, and another topic may have it.
    pub(super) fn end(&mut self, key: FeedKey, ending: Ending) {
        let Some(local) = self.feeds.get_mut(key as usize) else { return };
        local.end = Some(ending);
        let topic = local.topic.clone();
        self.unname(&topic, key);
    }

    fn unname(&mut self, topic: &Topic, key: FeedKey) {
        if self.find(topic) == Some(key) {
            self.by_topic.remove(topic);
            self.by_name.remove(topic);
        }
    }

    /// Forgets a topic.
    pub(super) fn remove(&mut self, key: FeedKey) {
        if let Some(mut feed) = self.feeds.try_remove(key as usize) {
            self.unname(&feed.topic, key);
            if let Some((_, order)) = feed.fed() {
                self.streams.move_known_from(order.stream);
            }
            self.topic_limits.give_back(feed.kind, feed.home.is_some());
            let counts = self.counts.of_pattern(feed.pattern as usize);
            counts.pattern_topics.sub(u64::from(feed.home.is_some()));
        }
    }
}

impl Feeds for FeedTable {
    fn feed(&self, key: FeedKey) -> Option<&Feed> {
        self.feeds.get(key as usize)?.feed.as_ref()
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Feed> {
        self.feeds.get_mut(key as usize)?.feed.as_mut()
    }

    fn sent(&mut self, age_us: u64) {
        self.counts.count_sent(age_us);
    }
}

/// Takes a batch into a feed. The patch that makes its version of the one before is made here, because it
/// needs a clock: all that are made from `now_us` on share their time.
pub(super) fn push(feed: &mut Feed, batch: Arc<Batch>, now_us: u64, counts: &Counts) {
    let is_made = feed.make_patch(&batch, || clock::now_us() > now_us + PATCH_US_MAX);
    match is_made {
        Some(true) => counts.patches_made.add(1),
        Some(false) => counts.patches_given_up.add(1),
        None => {}
    }
    feed.push(batch, now_us);
}

/// 48 random bits: two incarnations of one topic do not get the same in practice, and the text
/// is short, since it is in every envelope.
pub(super) fn random_epoch() -> Epoch {
    loop {
        if let Some(epoch) = Epoch::new(fastrand::u64(..1 << 48)) {
            return epoch;
        }
    }
}
