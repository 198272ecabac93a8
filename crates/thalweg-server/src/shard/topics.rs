//! The topics of a shard: the order of their events, their batches and their history. [`News`] tells the
//! readers on this shard about changes.

mod broker_topics;
mod demand;
mod ending;
mod expiries;
mod expiring;
mod feeds;
mod fetched;
mod keyed;
mod limits;
mod local_topic;
mod lookups;
mod members;
mod memory;
mod origin;
mod presence;
mod replication;
mod shared_members;
mod shared_presence;
mod stored_keys;
#[cfg(test)]
mod tests;
mod unposted_changes;

use std::{collections::HashMap, sync::Arc};

use thalweg_core::{
    fanout::{FeedKey, Feeds},
    stream::{AnyFeed, ColumnMemory, DerivedBatches, Feed as _, Memory as _, Payloads},
};
use thalweg_wire::{Epoch, Format, Offset, Topic};
use tokio::sync::oneshot;

pub(super) use demand::{DemandChange, TopicDemand};
pub(super) use limits::{Creator, share_is_spent};
pub(super) use local_topic::Moved;
pub(super) use origin::Origin;

use super::{
    broker::{BackfillMemory, Backfills, BrokerStreams, Pauses, StoreAnswer, Stores},
    common::{Common, push_once},
    message::Ending,
    publish_result::PublishResult,
    timers::Timers,
};
use crate::{
    clock::{now_us, unix_ms},
    config::Subscribing,
    connection_limits::Address,
    metrics::Counts,
    owner_shard::owner_shard,
    refusal::Refusal,
};
use expiries::Expiries;
use feeds::{FeedTable, PatchTime, push};
use limits::too_many_new;
use local_topic::{Order, OwnerState};
use members::Members;

/// The range of delays after which servers remove the expired keys of a shared topic, in µs. Without it, each of them would try.
const EXPIRY_STAGGER_US: u64 = 500_000;

pub(super) struct Topics {
    shard: usize,
    common: Common,
    feeds: FeedTable,
    /// Feeds with batches to seal in this turn.
    due: Vec<FeedKey>,
    /// The times at which other feeds have batches to seal.
    timers: Timers<FeedKey>,
    /// Feeds with batches to post to other shards.
    unposted: Vec<FeedKey>,
    stores: Stores,
    backfills: Vec<Backfills>,
    backfill_memory: BackfillMemory,
    /// Feeds to request from their owner shards.
    unattached: Vec<FeedKey>,
    attachments: u64,
    /// Wakes commands that wait for feeds of other shards.
    awaited: HashMap<FeedKey, Vec<oneshot::Sender<()>>>,
    members: Members,
    expiries: Expiries,
    /// How much later than its time this server removes an expired key of a shared topic, in µs.
    stagger_us: u64,
    /// Whether there are timers of removed topics.
    has_stale_timers: bool,
    /// Memory of all histories, including copies of other shards' topics, in bytes.
    history_bytes: usize,
    /// The state of keys of all topics, at the last sweep.
    state_bytes: usize,
    /// The state of keys of topics that this shard owns, with the events that were appended since the last sweep.
    keyed_bytes: usize,
    /// The state of keys of queries' topics that this shard owns, at the last sweep: of the settings, and ad hoc.
    row_bytes: [usize; 2],
    /// Topics whose stored state has no room. The next sweep closes their readers.
    overfull: Vec<FeedKey>,
    /// The part of `keyed_bytes` that removals take, when they were last counted.
    removal_bytes: usize,
    /// When `keyed_bytes` may be counted exactly again, in µs.
    recount_us: u64,
    /// When the removals of all topics may be forgotten again, in µs.
    forget_us: u64,
    pub(super) news: News,
    patch_time: PatchTime,
    counts: Arc<Counts>,
}

/// Changes of topics since the last turn.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Topics with new batches.
    pub(super) batches: Vec<FeedKey>,
    /// Inputs of queries with a new backfill, pause or feed.
    pub(super) inputs: Vec<FeedKey>,
    /// Connections whose backfill has come.
    pub(super) backfilled: Vec<u32>,
    /// Topics that have ended here.
    pub(super) ends: Vec<(FeedKey, Ending)>,
    /// For each ended topic that sources or queries use: the feed of the new topic with the same name, if
    /// there is one.
    pub(super) moved: Vec<(FeedKey, Option<FeedKey>)>,
    pub(super) demand: Vec<(FeedKey, DemandChange)>,
    /// Fetched topics that were removed or have ended while they had demand.
    pub(super) unfetched: Vec<Topic>,
    /// Fetched topics that now have readers from several addresses.
    pub(super) shared: Vec<Topic>,
}

impl Topics {
    pub(super) fn new(shard: usize, common: Common, counts: &Arc<Counts>) -> Self {
        let streams = BrokerStreams::new(&common.streams);
        let answers = common.peers[shard].answers.clone();
        // Allow frames of columns as much memory as histories.
        let history_bytes_max = common.config.limits.history_bytes / common.peers.len();
        let memory = ColumnMemory::new(history_bytes_max);
        let shares = Arc::clone(&common.shares);
        Self {
            shard,
            feeds: FeedTable::new(
                (Arc::clone(&common.config), common.metrics.patterns()),
                streams,
                shares,
                memory,
                Arc::clone(&common.ad_hoc),
                Arc::clone(counts),
            ),
            due: Vec::new(),
            timers: Timers::default(),
            unposted: Vec::new(),
            stores: Stores::new(&common.brokers, answers, counts),
            backfills: common.brokers.iter().map(|_| Backfills::default()).collect(),
            backfill_memory: BackfillMemory::default(),
            unattached: Vec::new(),
            attachments: 0,
            awaited: HashMap::new(),
            members: Members::default(),
            expiries: Expiries::default(),
            stagger_us: fastrand::u64(..EXPIRY_STAGGER_US),
            has_stale_timers: false,
            history_bytes: 0,
            state_bytes: 0,
            keyed_bytes: 0,
            row_bytes: [0; 2],
            overfull: Vec::new(),
            removal_bytes: 0,
            recount_us: 0,
            forget_us: 0,
            common,
            news: News::default(),
            patch_time: PatchTime::default(),
            counts: Arc::clone(counts),
        }
    }

    /// Begins a turn, with a new time budget for patches.
    pub(super) fn begin_turn(&mut self) {
        self.patch_time.begin_turn();
    }

    pub(super) fn topic(&self, key: FeedKey) -> Option<&Topic> {
        Some(&self.feeds.get(key)?.topic)
    }

    /// Returns the feed of the topic that has this name now.
    pub(super) fn find(&self, topic: &Topic) -> Option<FeedKey> {
        self.feeds.find(topic)
    }

    /// Returns the connections that read a topic on this shard, and whether sources or queries read it.
    pub(super) fn readers(&self, key: FeedKey) -> Option<(&[u32], bool)> {
        let local = self.feeds.get(key)?;
        Some((&local.subscribers, local.is_input))
    }

    pub(super) fn is_ended(&self, key: FeedKey) -> bool {
        self.feeds.get(key).is_some_and(|local| local.end.is_some())
    }

    pub(super) fn pauses(&self, key: FeedKey) -> Option<&Pauses> {
        Some(&self.feeds.get(key)?.pauses)
    }

    /// Requests a backfill for a reader. The reader is a connection or a query.
    pub(super) fn want_backfill(&mut self, key: FeedKey, from: Offset, connection: Option<u32>) {
        let local = self.feeds.get(key).filter(|local| !local.refuses_keys());
        if let Some(stream) = local.and_then(|local| local.origin.stream()) {
            let broker = self.feeds.streams.get(stream).broker;
            self.backfills[broker].want(key, from, connection);
        }
    }

    pub(super) fn has_backfills_due(&self) -> bool {
        self.backfills.iter().any(Backfills::is_due)
    }

    /// Returns whether there are batches to seal now.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the next time at which a batch, an absence or an expiry is due, in µs.
    pub(super) fn next_us(&self) -> Option<u64> {
        let next = [self.timers.next_us(), self.members.next_us(), self.expiries.next_us()];
        next.into_iter().flatten().min()
    }

    pub(super) fn owns(&self, topic: &Topic) -> bool {
        owner_shard(topic, self.common.peers.len()) == self.shard
    }

    /// Returns the origin of a topic, which need not be on this shard.
    pub(super) fn origin(&self, topic: &Topic) -> Origin {
        self.feeds.origin(topic)
    }

    pub(super) fn is_broker_topic(&self, key: FeedKey) -> bool {
        self.feeds.get(key).is_some_and(|local| local.origin.is_broker_topic())
    }

    /// Returns the feed of a topic, and creates the topic if necessary. Fails if the limit of the topic's kind is reached, or
    /// subscribers may not create topics.
    pub(super) fn open(&mut self, topic: &Topic, creator: Creator) -> Result<FeedKey, Refusal> {
        let is_owner = self.owns(topic);
        self.feeds.open(topic, is_owner, creator)
    }

    /// Returns the feed of a topic for a subscriber. `address` is the address for which the subscriber
    /// counts. Fails like [`Self::open`], and if the address has requested too many new fetched topics in this
    /// second.
    pub(super) fn open_subscribed(
        &mut self,
        topic: &Topic,
        address: Option<Address>,
    ) -> Result<FeedKey, Refusal> {
        let Common { config, fetched_rates, .. } = &self.common;
        let is_new = || config.upstream(topic).is_some() && self.feeds.find(topic).is_none();
        if let Some(address) = address
            && is_new()
            && !fetched_rates.take(address, now_us())
        {
            return Err(too_many_new());
        }
        let key = self.open(topic, Creator::Subscriber(address))?;
        self.add_reader(key, address);
        Ok(key)
    }

    /// Returns the feeds of all these topics for a subscriber. On an error it creates none.
    pub(super) fn open_all<'a>(
        &mut self,
        topics: impl Iterator<Item = &'a Topic>,
        address: Option<Address>,
    ) -> Result<Vec<FeedKey>, Refusal> {
        let (mut opened, mut made) = (Vec::new(), Vec::new());
        for topic in topics {
            let is_new = self.feeds.find(topic).is_none();
            match self.open_subscribed(topic, address) {
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

    /// Opens a topic that a source writes or reads. The topic is kept even if it has no events.
    pub(super) fn open_permanent(&mut self, topic: &Topic) -> Option<(FeedKey, TopicDemand)> {
        let key = self.open(topic, Creator::Publisher).ok()?;
        let owner = self.feeds.get_mut(key)?.owner.as_mut()?;
        owner.is_permanent = true;
        Some((key, owner.demand))
    }

    /// Opens a topic that sources and configured queries of this shard read. Another shard may own it.
    pub(super) fn open_input(&mut self, topic: &Topic, now_us: u64) -> Option<FeedKey> {
        if self.owns(topic) {
            self.open_permanent(topic)?;
        }
        self.open_queried(topic, now_us)
    }

    /// Opens a topic that an ad hoc query reads. The query does not keep the topic alive.
    pub(super) fn open_queried(&mut self, topic: &Topic, now_us: u64) -> Option<FeedKey> {
        let key = self.open(topic, Creator::Subscriber(None)).ok()?;
        self.feeds.get_mut(key)?.is_input = true;
        self.want(key, now_us);
        Some(key)
    }

    /// Notes that no ad hoc query reads the topic any more.
    pub(super) fn close_queried(&mut self, key: FeedKey) {
        if let Some(local) = self.feeds.get_mut(key)
            && !self.common.inputs.events.contains(&local.topic)
        {
            local.is_input = false;
        }
    }

    /// Returns whether to ask the owner shard if the topic exists. This is necessary if the subscriber may
    /// not create topics: otherwise the owner shard could only close the connection later.
    pub(super) fn needs_lookup(&self, topic: &Topic, address: Option<Address>) -> bool {
        let Common { config, shares, .. } = &self.common;
        !self.owns(topic)
            && self.feeds.find(topic).is_none()
            && ((config.subscribe == Subscribing::Existing
                && !self.origin(topic).exists_elsewhere())
                || address.is_some_and(|address| shares.is_exhausted(address)))
    }

    /// Appends events to a topic that this shard owns. Returns `None` for a broker topic, whose offsets the broker assigns later.
    pub(super) fn append(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        now_us: u64,
    ) -> Option<PublishResult> {
        let owner = self.feeds.get_mut(key)?.owner.as_mut()?;
        let sequencer = match &mut owner.order {
            Order::Own(sequencer) => sequencer,
            Order::Broker(_) => {
                let count = payloads.count() as u64;
                let answer = StoreAnswer::Source(count, Arc::clone(&self.counts));
                self.store_in(key, payloads, None, answer);
                return None;
            }
            // Clients cannot publish to the topic of a query ([`Origin::check_publish`]).
            Order::Derived(_) => return None,
        };
        let appended = sequencer.append(payloads, now_us);
        let count = appended.end - appended.first;
        let result = PublishResult { epoch: sequencer.epoch(), appended, count, replayed: false };
        self.counts.events_published.add(count);
        if let Some(due_us) = sequencer.due_us() {
            if due_us <= now_us {
                push_once(&mut self.due, &mut owner.is_due, key);
            } else if !std::mem::replace(&mut owner.is_timed, true) {
                self.timers.set(due_us, key);
            }
        }
        Some(result)
    }

    /// Returns the batches of a query's topic that this shard owns.
    pub(super) fn derived(&mut self, key: FeedKey) -> Option<&mut DerivedBatches> {
        match &mut self.feeds.get_mut(key)?.owner.as_mut()?.order {
            Order::Derived(batches) => Some(batches),
            Order::Own(_) | Order::Broker(_) => None,
        }
    }

    /// Starts the feed of a shared query, for which its readers wait, now that its first offset is known.
    pub(super) fn begin_derived(&mut self, key: FeedKey, epoch: Epoch, next: Offset) {
        let Some(local) = self.feeds.get(key).filter(|local| local.feed.is_none()) else { return };
        let is_derived = |owner: &OwnerState| matches!(owner.order, Order::Derived(_));
        if !local.owner.as_ref().is_some_and(is_derived) {
            return;
        }
        self.feeds.begin(key, epoch, next);
        if let Some(owner) = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut()) {
            owner.followers.iter_mut().for_each(|follower| follower.next = next);
            if let Order::Derived(batches) = &mut owner.order {
                batches.begin(next);
            }
        }
        self.news.batches.push(key);
        self.mark_unposted(key);
    }

    /// Marks a topic whose batches are to be sealed in this turn.
    pub(super) fn mark_due(&mut self, key: FeedKey) {
        if let Some(owner) = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut()) {
            push_once(&mut self.due, &mut owner.is_due, key);
        }
    }

    pub(super) fn seal(&mut self, now_us: u64) {
        self.end_absences(now_us);
        self.expire_keys(now_us);
        while let Some(key) = self.timers.take_due(now_us) {
            if let Some(owner) = self.feeds.get_mut(key).and_then(|feed| feed.owner.as_mut()) {
                owner.is_timed = false;
                self.mark_due(key);
            }
        }
        for key in std::mem::take(&mut self.due) {
            self.seal_feed(key, now_us);
        }
        // Each topic keeps at least one batch, so all histories together may still exceed the limit.
        let over = self.history_bytes_over();
        if over > 0 {
            let mut shed = Vec::new();
            self.history_bytes -= self.feeds.trim_bytes(over, now_us, &mut shed);
            for key in shed {
                // A reader of a broker topic gets a backfill.
                if self.feeds.get(key).is_some_and(|local| !local.origin.is_broker_topic()) {
                    self.fetch_again(key);
                }
            }
        }
    }

    fn seal_feed(&mut self, key: FeedKey, now_us: u64) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let (Some(owner), Some(feed)) = (&mut local.owner, &mut local.feed) else { return };
        owner.is_due = false;
        owner.open_keys = 0;
        let batches = owner.order.seal(now_us);
        // The query could not make the rows between the newest batch and this offset.
        let lost_to = match &owner.order {
            Order::Derived(batches) => batches.next_start(),
            Order::Own(_) | Order::Broker(_) => 0,
        };
        if let Some(again_us) = owner.order.due_us()
            && !std::mem::replace(&mut owner.is_timed, true)
        {
            self.timers.set(again_us, key);
        }
        if batches.is_empty() && lost_to <= feed.head() {
            return;
        }
        self.counts.batches_sealed.add(batches.len() as u64);
        let events: usize = batches.iter().map(|batch| batch.count()).sum();
        self.counts.pattern_counts(local.pattern as usize).pattern_events.add(events as u64);
        if events > 0 {
            owner.activity.add(&batches, now_us);
        }
        let before = feed.history_bytes();
        let is_own = matches!(owner.order, Order::Own(_));
        for batch in batches {
            // Batches of other origins already have a publish time.
            let batch = if is_own { batch.published_at(unix_ms()) } else { batch };
            push(feed, Arc::new(batch), now_us, &mut self.patch_time, &self.counts);
        }
        feed.skip_to(lost_to);
        if !owner.followers.is_empty() {
            push_once(&mut self.unposted, &mut owner.is_unposted, key);
        }
        self.has_grown(key, before);
    }

    /// Queues a topic, so that its new batches are posted to other shards.
    fn mark_unposted(&mut self, key: FeedKey) {
        let owner = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut());
        if let Some(owner) = owner.filter(|owner| !owner.followers.is_empty()) {
            push_once(&mut self.unposted, &mut owner.is_unposted, key);
        }
    }

    /// Makes all open batches due, including those that wait for more events.
    pub(super) fn make_all_due(&mut self) {
        for (key, feed) in self.feeds.iter_mut() {
            let Some(owner) = &mut feed.owner else { continue };
            owner.order.stop_waiting();
            push_once(&mut self.due, &mut owner.is_due, key);
        }
    }

    /// Adds a connection to a feed's list. Returns its index there.
    pub(super) fn join(
        &mut self,
        key: FeedKey,
        connection: u32,
        format: Format,
        now_us: u64,
    ) -> Option<u32> {
        let local = self.feeds.get_mut(key)?;
        let place = local.join(connection, format);
        self.counts.pattern_counts(local.pattern as usize).pattern_subscriptions.add(1);
        self.want(key, now_us);
        Some(place)
    }

    /// Returns a receiver that completes when a feed of another shard has come, or will not come; `None` if the feed is here.
    pub(super) fn arrival(&mut self, key: FeedKey) -> Option<oneshot::Receiver<()>> {
        self.feeds.get(key).filter(|local| local.needs_attaching())?;
        let (arrived, arrival) = oneshot::channel();
        self.awaited.entry(key).or_default().push(arrived);
        Some(arrival)
    }

    /// Notes that a topic has a reader here.
    fn want(&mut self, key: FeedKey, now_us: u64) {
        self.mark_read(key);
        let Some(feed) = self.feeds.get_mut(key) else { return };
        if feed.needs_attaching() && feed.attachment == 0 {
            self.unattached.push(key);
        }
        self.look_at_demand(key, now_us);
    }

    /// Tells the brokers that a topic has a reader, so that they deliver its records at once.
    fn mark_read(&self, key: FeedKey) {
        if let Some(local) = self.feeds.get(key)
            && local.owner.is_some()
            && local.origin.is_broker_topic()
        {
            self.common.peers[self.shard].read_topics.insert(&local.topic);
        }
    }

    /// Marks a topic as in demand if it has a new reader. The sweep finds topics that have lost their last
    /// reader.
    fn look_at_demand(&mut self, key: FeedKey, now_us: u64) {
        let change = self.feeds.get_mut(key).and_then(|feed| feed.update_demand(now_us));
        self.news.demand.extend(change.map(|change| (key, change)));
    }

    /// Removes a subscription from a feed's list. If another subscription moves to the free index, the caller
    /// must tell its connection.
    pub(super) fn leave(&mut self, key: FeedKey, place: u32, format: Format) -> Option<Moved> {
        let local = self.feeds.get_mut(key)?;
        let before = local.subscribers.len();
        let moved = local.leave(place, format);
        let left = (before - local.subscribers.len()) as u64;
        self.counts.pattern_counts(local.pattern as usize).pattern_subscriptions.sub(left);
        self.remove_ended(key);
        moved
    }
}

impl Feeds for Topics {
    type Feed = AnyFeed;

    #[inline]
    fn feed(&self, key: FeedKey) -> Option<&AnyFeed> {
        self.feeds.get(key)?.feed.as_ref()
    }

    #[inline]
    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut AnyFeed> {
        self.feeds.get_mut(key)?.feed.as_mut()
    }

    #[inline]
    fn sent(&mut self, age_us: u64) {
        self.counts.count_sent(age_us);
    }

    fn gap(&mut self, key: FeedKey) {
        if let Some(local) = self.feeds.get_mut(key) {
            local.gaps = local.gaps.saturating_add(1);
        }
    }
}
