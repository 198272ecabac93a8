//! The table of a shard's topics.

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

use slab::Slab;
use thalweg_core::{
    fanout::FeedKey,
    stream::{
        AnyFeed, Batch, ColumnMemory, DerivedBatches, Feed as _, FormatMap, HistoryBounds,
        Memory as _, Sequencer,
    },
};
use thalweg_wire::{Epoch, Offset, Pattern, Topic};

use super::{
    demand::TopicDemand,
    limits::{Creator, TopicKind, TopicLimits},
    local_topic::{Activity, LocalTopic, Order, OwnerState},
    origin::Origin,
};
use crate::{
    clock,
    config::{Config, PATCH_US_MAX, TopicSettings},
    connection_limits::AddressCounts,
    derived::AdHocQueries,
    metrics::Counts,
    refusal::Refusal,
    shard::{
        broker::{BrokerOrder, BrokerStreams, BrokerTopics, Pauses},
        message::Ending,
        timers::Timers,
    },
};

/// The number of topics that one search for a topic to evict examines.
const EVICTION_LOOKS: usize = 64;

#[derive(Debug)]
pub(super) struct FeedTable {
    config: Arc<Config>,
    pub(super) streams: BrokerStreams,
    column_memory: ColumnMemory,
    ad_hoc: Arc<AdHocQueries>,
    by_topic: HashMap<Topic, FeedKey>,
    /// The same topics in order, for the list of topics.
    by_name: BTreeMap<Topic, FeedKey>,
    feeds: Slab<LocalTopic>,
    pub(super) topic_limits: TopicLimits,
    /// The patterns by which topics are counted.
    patterns: Arc<[Pattern]>,
    counts: Arc<Counts>,
    /// The next topic to trim when all histories together are too large.
    shed_next: usize,
    /// The next topic to evict if it has no readers.
    evict_next: usize,
    /// How many topics were opened.
    opened: u64,
}

impl FeedTable {
    pub(super) fn new(
        (config, patterns): (Arc<Config>, Arc<[Pattern]>),
        streams: BrokerStreams,
        shares: Arc<AddressCounts>,
        column_memory: ColumnMemory,
        ad_hoc: Arc<AdHocQueries>,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            streams,
            column_memory,
            ad_hoc,
            by_topic: HashMap::new(),
            by_name: BTreeMap::new(),
            feeds: Slab::new(),
            topic_limits: TopicLimits::new(Arc::clone(&config), shares),
            patterns,
            counts,
            config,
            shed_next: 0,
            evict_next: 0,
            opened: 0,
        }
    }

    /// Returns the feed of a topic, and creates the topic if necessary. `is_owner`: this shard assigns its offsets. Fails if the
    /// limit of the topic's kind is reached, or subscribers may not create topics.
    pub(super) fn open(
        &mut self,
        topic: &Topic,
        is_owner: bool,
        creator: Creator,
    ) -> Result<FeedKey, Refusal> {
        if let Some(key) = self.find(topic) {
            if let Creator::Publisher = creator {
                self.activate(key)?;
            }
            return Ok(key);
        }
        self.opened += 1;
        let origin = self.origin(topic);
        let kind = self.topic_limits.admit(topic, is_owner, creator, origin)?;
        let settings = self.config.topic(topic);
        let begin = || match origin.stream() {
            None if origin.is_derived => {
                let order = Order::Derived(Box::new(DerivedBatches::new(settings.batch)));
                // The query finds the first offset of a shared topic ([`super::Topics::begin_derived`]).
                let is_known = !self.ad_hoc.is_shared(topic);
                (order, is_known.then(|| (random_epoch(), 1)))
            }
            None => {
                let epoch = random_epoch();
                (Order::Own(Sequencer::new(epoch, settings.batch)), Some((epoch, 1)))
            }
            Some(stream) => {
                let (order, head) = self.streams.begin(stream, settings.batch.bytes_max);
                (Order::Broker(Box::new(order)), Some((self.streams.epoch(stream), head)))
            }
        };
        let (owner, feed) = match is_owner.then(begin) {
            None => (None, None),
            Some((order, start)) => {
                let mut feed = start.map(|start| self.new_feed(topic, start, origin, settings));
                if let Some(feed) = feed.as_mut().filter(|_| origin.is_broker_topic()) {
                    feed.load();
                }
                (Some(self.owner_state(origin, order)), feed)
            }
        };
        // The last pattern matches every topic.
        let pattern = self.patterns.iter().position(|pattern| pattern.matches(topic)).unwrap_or(0);
        self.counts.pattern_counts(pattern).pattern_topics.add(u64::from(is_owner));
        let key = self.feeds.insert(LocalTopic {
            topic: topic.clone(),
            kind,
            origin,
            pattern: pattern as u32,
            feed,
            owner,
            subscribers: Vec::new(),
            is_input: false,
            pauses: Pauses::default(),
            format_users: FormatMap::default(),
            readers: None,
            attachment: 0,
            gaps: 0,
            end: None,
        }) as FeedKey;
        self.by_topic.insert(topic.clone(), key);
        self.by_name.insert(topic.clone(), key);
        self.topic_limits.take(kind, is_owner);
        Ok(key)
    }

    /// Creates the feed of a topic whose next event is `next`.
    fn new_feed(
        &self,
        topic: &Topic,
        (epoch, next): (Epoch, Offset),
        origin: Origin,
        settings: TopicSettings,
    ) -> AnyFeed {
        let kind = origin.kind(&settings, &self.streams);
        let columns = settings.columns.or_else(|| self.ad_hoc.columns(topic));
        let columns = (columns, self.column_memory.clone());
        let start = (topic.clone(), epoch, next);
        AnyFeed::new(kind, start, origin.offsets(), settings.history, columns)
    }

    pub(super) fn origin(&self, topic: &Topic) -> Origin {
        Origin::new(&self.config, &self.streams, topic)
    }

    /// Returns an empty feed of a topic in a stream, for a page of its history.
    pub(super) fn page_feed(&self, topic: &Topic, stream: usize, origin: Origin) -> AnyFeed {
        let history =
            HistoryBounds { events_max: usize::MAX, bytes_max: usize::MAX, age_us_max: u64::MAX };
        let settings = TopicSettings { history, ..self.config.topic(topic) };
        self.new_feed(topic, (self.streams.epoch(stream), 1), origin, settings)
    }

    /// Returns a number that no other topic of this shard has.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    fn owner_state(&self, origin: Origin, order: Order) -> OwnerState {
        let linger_us = |upstream: usize| self.config.upstreams[upstream].linger.as_micros() as u64;
        OwnerState {
            order,
            followers: Vec::new(),
            demand: TopicDemand::default(),
            activity: Activity::default(),
            idle_sweeps: 0,
            fetched_linger_us: origin.upstream().map(linger_us),
            open_keys: 0,
            is_due: false,
            is_timed: false,
            is_unposted: false,
            is_permanent: false,
            serial: self.opened,
        }
    }

    /// Counts a topic as active, because it is going to have events.
    pub(super) fn activate(&mut self, key: FeedKey) -> Result<(), Refusal> {
        if self.get(key).is_some_and(|feed| feed.kind != TopicKind::Active) {
            self.topic_limits.check_active()?;
            self.set_kind(key, TopicKind::Active);
        }
        Ok(())
    }

    pub(super) fn set_kind(&mut self, key: FeedKey, kind: TopicKind) {
        let Some(feed) = self.feeds.get_mut(key as usize) else { return };
        let before = std::mem::replace(&mut feed.kind, kind);
        let is_owner = feed.owner.is_some();
        self.topic_limits.give_back(before, is_owner);
        self.topic_limits.take(kind, is_owner);
    }

    /// Returns the topics beyond the limit of topics without events: those that once had events, the latest to become
    /// empty first. At the limit subscribers cannot create topics, so only these can exceed it.
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

    /// Returns the topics after `after` whose names begin with `prefix`, in order.
    pub(super) fn named(&self, after: &str, prefix: &str) -> impl Iterator<Item = &LocalTopic> {
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let next = self.by_name.range::<str, _>((from, Bound::Unbounded));
        next.take_while(move |(topic, _)| topic.as_str().starts_with(prefix))
            .filter_map(|(_, key)| self.get(*key))
    }

    /// Returns the topics at the `count` places from `from` on, and the next place, if there is one. The order is that of memory.
    pub(super) fn part(
        &self,
        from: FeedKey,
        count: usize,
    ) -> (impl Iterator<Item = &LocalTopic>, Option<FeedKey>) {
        let end = (from as usize + count).min(self.feeds.capacity());
        let next = (end < self.feeds.capacity()).then_some(end as FeedKey);
        ((from as usize..end).filter_map(|key| self.feeds.get(key)), next)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (FeedKey, &mut LocalTopic)> {
        self.feeds.iter_mut().map(|(key, feed)| (key as FeedKey, feed))
    }

    /// Pushes batches that the owner shard has posted. The first ones create the feed.
    pub(super) fn receive(
        &mut self,
        key: FeedKey,
        epoch: Epoch,
        from: Offset,
        batches: Vec<Arc<Batch>>,
        now_us: u64,
        patch_time: &mut PatchTime,
    ) -> Option<&mut AnyFeed> {
        if !batches.is_empty() {
            self.set_kind(key, TopicKind::Active);
        }
        self.begin(key, epoch, from);
        let feed = self.feeds.get_mut(key as usize)?.feed.as_mut()?;
        for batch in batches {
            if batch.end() > feed.head() {
                push(feed, batch, now_us, patch_time, &self.counts);
            }
        }
        Some(feed)
    }

    /// Creates the feed of a topic that has none yet.
    pub(super) fn begin(&mut self, key: FeedKey, epoch: Epoch, next: Offset) {
        let Some(local) = self.get(key).filter(|local| local.feed.is_none()) else { return };
        let settings = self.config.topic(&local.topic);
        let mut feed = self.new_feed(&local.topic, (epoch, next), local.origin, settings);
        local.format_users.iter().for_each(|(format, _)| feed.open_tail(format));
        if let Some(local) = self.get_mut(key) {
            local.feed = Some(feed);
        }
    }

    pub(super) fn timers(&self) -> Timers<FeedKey> {
        let mut timers = Timers::default();
        for (key, local) in &self.feeds {
            let owner = local.owner.as_ref().filter(|owner| owner.is_timed);
            if let Some(due_us) = owner.and_then(|owner| owner.order.due_us()) {
                timers.set(due_us, key as FeedKey);
            }
        }
        timers
    }

    pub(super) fn history_bytes(&self, key: FeedKey) -> usize {
        self.get(key).and_then(|local| local.feed.as_ref()).map_or(0, AnyFeed::history_bytes)
    }

    /// Drops batches of one topic after the other until about `bytes` are freed. Returns the freed bytes. Adds to
    /// `shed` the topics whose readers have nothing left to read.
    pub(super) fn trim_bytes(
        &mut self,
        bytes: usize,
        now_us: u64,
        shed: &mut Vec<FeedKey>,
    ) -> usize {
        let mut freed = 0;
        // A reader of a value may wait a long time for the next version, so values come last.
        for spares_states in [true, false] {
            for _ in 0..self.feeds.capacity() {
                if freed >= bytes {
                    return freed;
                }
                self.shed_next = (self.shed_next + 1) % self.feeds.capacity();
                let Some(local) = self.feeds.get_mut(self.shed_next) else { continue };
                let has_readers = local.has_readers();
                let Some(feed) = &mut local.feed else { continue };
                if spares_states && feed.is_state() && has_readers {
                    continue;
                }
                let trimmed = feed.trim_all(bytes - freed, now_us);
                freed += trimmed;
                if trimmed > 0 && !spares_states && feed.is_state() {
                    shed.push(self.shed_next as FeedKey);
                }
            }
        }
        freed
    }

    /// Returns a broker topic without readers and without unstored publishes, if a short search finds one. `wants_keys`: one with keys.
    pub(super) fn unread_broker_topic(&mut self, wants_keys: bool) -> Option<FeedKey> {
        for _ in 0..EVICTION_LOOKS.min(self.feeds.capacity()) {
            self.evict_next = (self.evict_next + 1) % self.feeds.capacity();
            let Some(local) = self.feeds.get_mut(self.evict_next) else { continue };
            let is_permanent = local.owner.as_ref().is_some_and(|owner| owner.is_permanent);
            let is_read = local.has_readers() || local.end.is_some() || is_permanent;
            if wants_keys && local.counted_bytes() == 0 {
                continue;
            }
            if local.broker_order().is_some_and(|(_, order)| !is_read && !order.holds_events()) {
                return Some(self.evict_next as FeedKey);
            }
        }
        None
    }

    /// Ends a topic. Another topic may have its name from now on.
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

    pub(super) fn remove(&mut self, key: FeedKey) {
        if let Some(mut feed) = self.feeds.try_remove(key as usize) {
            self.unname(&feed.topic, key);
            if let Some((_, order)) = feed.broker_order() {
                self.streams.move_known_from(order.stream);
            }
            self.topic_limits.give_back(feed.kind, feed.owner.is_some());
            let counts = self.counts.pattern_counts(feed.pattern as usize);
            counts.pattern_topics.sub(u64::from(feed.owner.is_some()));
        }
    }
}

impl BrokerTopics for FeedTable {
    fn broker_topic(&mut self, key: FeedKey) -> Option<(&Topic, &mut BrokerOrder)> {
        let LocalTopic { topic, owner, .. } = self.feeds.get_mut(key as usize)?;
        Some((topic, owner.as_mut()?.order.broker()?))
    }
}

/// The CPU time of patches: all patches of a turn share [`PATCH_US_MAX`]. CPU time does not count while other
/// programs run, so a busy machine still makes patches, which cost less than whole documents.
#[derive(Debug, Default)]
pub(super) struct PatchTime {
    /// The CPU time of the thread when the first patch of the turn began.
    begun_us: Option<u64>,
}

impl PatchTime {
    pub(super) fn begin_turn(&mut self) {
        self.begun_us = None;
    }

    fn is_over(&mut self) -> bool {
        let cpu_us = clock::thread_cpu_us();
        cpu_us > *self.begun_us.get_or_insert(cpu_us) + PATCH_US_MAX
    }
}

/// Pushes a batch into a feed. This makes the patch from the previous version, which needs a clock.
pub(super) fn push(
    feed: &mut AnyFeed,
    batch: Arc<Batch>,
    now_us: u64,
    patch_time: &mut PatchTime,
    counts: &Counts,
) {
    let is_made = feed.make_patch(&batch, || patch_time.is_over());
    match is_made {
        Some(true) => counts.patches_made.add(1),
        Some(false) => counts.patches_given_up.add(1),
        None => {}
    }
    feed.push(batch, now_us);
}

/// Returns a random epoch of 48 bits. In practice two incarnations of a topic never have the same epoch. The epoch is
/// in every envelope, so its text is short.
pub(super) fn random_epoch() -> Epoch {
    loop {
        if let Some(epoch) = Epoch::new(fastrand::u64(..1 << 48)) {
            return epoch;
        }
    }
}
