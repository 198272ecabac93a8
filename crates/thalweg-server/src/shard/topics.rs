//! The topics of a shard: their order, their batches, their history. [`Topics::news`] says what
//! is new for their readers on this shard.

use std::sync::Arc;

use tokio::sync::mpsc;

use thalweg_wire::{Epoch, Format, Offset, Topic};

use super::{
    Common,
    demand::{Demand, DemandChange},
    fed_order::{Answer, FedStreams},
    feeds::{FeedTable, push},
    local_topic::{Ending, Home, Moved, Order},
    publish_result::PublishResult,
    recalls::{RecalledMemory, Recalls},
    timers::Timers,
    topic_limits::{Creator, too_many_new},
};
use crate::{
    backend::FromBackend,
    clock::{now_us, unix_ms},
    config::Subscribing,
    connection_limits::Address,
    home::home_of,
    metrics::Counts,
    refusal::Refusal,
};
use thalweg_core::{
    fanout::FeedKey,
    stream::{ColumnMemory, DerivedBatches, Payloads},
};

pub(crate) struct Topics {
    pub(super) shard: usize,
    pub(super) common: Common,
    pub(super) feeds: FeedTable,
    /// Feeds with batches to seal now.
    pub(super) due: Vec<FeedKey>,
    /// When feeds have batches to seal.
    pub(super) timers: Timers<FeedKey>,
    /// Feeds with batches that were not posted to the other shards yet.
    pub(super) unposted: Vec<FeedKey>,
    /// Fed topics with a message that was not passed to the backend yet.
    pub(super) unstored: Vec<FeedKey>,
    /// Bytes of events that wait to be stored, or are under way.
    pub(super) unstored_bytes: usize,
    /// Messages that were passed to the backend, and those that it has not answered.
    pub(super) stores: u64,
    pub(super) stores_under_way: usize,
    pub(super) recalls: Recalls,
    pub(super) recalled: RecalledMemory,
    /// Where the backend answers.
    pub(super) answers: mpsc::UnboundedSender<FromBackend>,
    /// Feeds that were not requested from their home yet.
    pub(super) unattached: Vec<FeedKey>,
    pub(super) attachments: u64,
    /// Whether topics were removed for which there are timers.
    pub(super) has_stale_timers: bool,
    /// Memory of the histories, other shards' copies included.
    pub(super) history_bytes: usize,
    /// The turn takes and processes it.
    pub(super) news: News,
    pub(super) counts: Arc<Counts>,
}

/// What has happened to topics since the turn last took it.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Topics that have new batches.
    pub(super) batches: Vec<FeedKey>,
    /// Topics that queries read of which something has been read back, or which have begun here.
    pub(super) inputs: Vec<FeedKey>,
    /// Connections that waited for what has been read back.
    pub(super) recalled: Vec<u32>,
    /// Topics that have ended here.
    pub(super) ends: Vec<(FeedKey, Ending)>,
    /// Those of them that sources feed or read, and the topics now under their names.
    pub(super) moved: Vec<(FeedKey, Option<FeedKey>)>,
    /// Topics that are wanted from now on, or no longer wanted.
    pub(super) demand: Vec<(FeedKey, DemandChange)>,
    /// Topics that were fetched, and have ended or gone meanwhile.
    pub(super) unfetched: Vec<Topic>,
    /// Topics that are fetched, and that several addresses read from now on.
    pub(super) shared: Vec<Topic>,
}

impl Topics {
    pub(super) fn new(shard: usize, common: Common, counts: &Arc<Counts>) -> Self {
        let streams = FedStreams::new(Arc::clone(&common.config), &common.streams);
        let answers = common.peers[shard].answers.clone();
        // Frames of columns may have as much memory as histories.
        let history_bytes_max = common.config.limits.history_bytes / common.peers.len();
        let memory = ColumnMemory::new(history_bytes_max);
        let shares = Arc::clone(&common.shares);
        Self {
            shard,
            feeds: FeedTable::new(
                Arc::clone(&common.config),
                streams,
                shares,
                memory,
                Arc::clone(&common.asked),
                Arc::clone(counts),
            ),
            answers,
            common,
            due: Vec::new(),
            timers: Timers::default(),
            unposted: Vec::new(),
            unstored: Vec::new(),
            unstored_bytes: 0,
            stores: 0,
            stores_under_way: 0,
            recalls: Recalls::default(),
            recalled: RecalledMemory::default(),
            unattached: Vec::new(),
            attachments: 0,
            has_stale_timers: false,
            history_bytes: 0,
            news: News::default(),
            counts: Arc::clone(counts),
        }
    }

    pub(super) fn is_home_of(&self, topic: &Topic) -> bool {
        home_of(topic, self.common.peers.len()) == self.shard
    }

    /// The feed of a topic, made if there is none.
    ///
    /// # Errors
    /// When the limit of its kind is reached, or subscribers may not create topics.
    pub(super) fn open(&mut self, topic: &Topic, creator: Creator) -> Result<FeedKey, Refusal> {
        let is_home = self.is_home_of(topic);
        self.feeds.open(topic, is_home, creator)
    }

    /// The feed of a topic that a client counted for `address` subscribes to here.
    ///
    /// # Errors
    /// As [`Self::open`], and when the address has asked for too many new fetched topics in this
    /// second.
    pub(super) fn open_subscribed(
        &mut self,
        topic: &Topic,
        address: Option<Address>,
    ) -> Result<FeedKey, Refusal> {
        let Common { config, fetched_rates, .. } = &self.common;
        let is_new = || self.feeds.find(topic).is_none() && config.upstream(topic).is_some();
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

    /// The feeds of these topics for a subscriber, made if there are none: all of them or none.
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

    /// Opens a topic that stays, whether it has events or not: a source feeds it or reads it.
    pub(super) fn open_permanent(&mut self, topic: &Topic) -> Option<(FeedKey, Demand)> {
        let key = self.open(topic, Creator::Publisher).ok()?;
        let home = self.feeds.get_mut(key)?.home.as_mut()?;
        home.is_permanent = true;
        Some((key, home.demand))
    }

    /// Lets sources of this shard read a topic's events, wherever its home is.
    pub(super) fn open_input(&mut self, topic: &Topic, now_us: u64) -> Option<FeedKey> {
        let key = if self.is_home_of(topic) {
            self.open_permanent(topic)?.0
        } else {
            self.open(topic, Creator::Subscriber(None)).ok()?
        };
        self.feeds.get_mut(key)?.is_input = true;
        self.want(key, now_us);
        Some(key)
    }

    /// Lets a query that a client has asked for read a topic's events. The topic stays no longer for that.
    pub(super) fn open_queried(&mut self, topic: &Topic, now_us: u64) -> Option<FeedKey> {
        let key = self.open(topic, Creator::Subscriber(None)).ok()?;
        self.feeds.get_mut(key)?.is_input = true;
        self.want(key, now_us);
        Some(key)
    }

    /// No query reads a topic's events any more.
    pub(super) fn close_queried(&mut self, key: FeedKey) {
        if let Some(local) = self.feeds.get_mut(key)
            && !self.common.inputs.events.contains(&local.topic)
        {
            local.is_input = false;
        }
    }

    /// Whether a topic must be looked up at its home, another shard, before a subscriber
    /// counted for `address` subscribes to it, because this subscriber may not create topics.
    /// If that is found out later, the home can only close the connection.
    pub(super) fn needs_lookup(&self, topic: &Topic, address: Option<Address>) -> bool {
        let Common { config, shares, .. } = &self.common;
        !self.is_home_of(topic)
            && self.feeds.find(topic).is_none()
            && ((config.subscribe == Subscribing::Existing
                && config.upstream(topic).is_none()
                && !config.is_derived(topic)
                && !self.is_fed(topic))
                || address.is_some_and(|address| shares.is_exhausted(address)))
    }

    /// Gives events their offsets, in a topic whose home is this shard. Those of a fed topic get them
    /// later, and the result is `None`.
    pub(super) fn append(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        now_us: u64,
    ) -> Option<PublishResult> {
        let home = self.feeds.get_mut(key)?.home.as_mut()?;
        let sequencer = match &mut home.order {
            Order::Own(sequencer) => sequencer,
            Order::Fed(_) => {
                self.store_in(key, payloads, None, Answer::Nowhere);
                return None;
            }
            // Nobody else makes its events ([`super::fetching::Fetching::check_publish`]).
            Order::Derived(_) => return None,
        };
        let appended = sequencer.append(payloads, now_us);
        let count = appended.end - appended.first;
        let result = PublishResult { epoch: sequencer.epoch(), appended, count, replayed: false };
        self.counts.events_published.add(count);
        if let Some(due_us) = sequencer.due_us() {
            let is_due = due_us <= now_us;
            let mark = if is_due { &mut home.is_due } else { &mut home.is_timed };
            match std::mem::replace(mark, true) {
                true => {}
                false if is_due => self.due.push(key),
                false => self.timers.set(due_us, key),
            }
        }
        Some(result)
    }

    /// Where the rows of a query go, whose topic's home is this shard.
    pub(super) fn derived(&mut self, key: FeedKey) -> Option<&mut DerivedBatches> {
        match &mut self.feeds.get_mut(key)?.home.as_mut()?.order {
            Order::Derived(batches) => Some(batches),
            Order::Own(_) | Order::Fed(_) => None,
        }
    }

    /// It is known where the rows of a shared query begin here: whoever waits for its topic gets it.
    pub(super) fn begin_derived(&mut self, key: FeedKey, epoch: Epoch, next: Offset) {
        let Some(local) = self.feeds.get(key).filter(|local| local.feed.is_none()) else { return };
        let is_derived = |home: &Home| matches!(home.order, Order::Derived(_));
        if !local.home.as_ref().is_some_and(is_derived) {
            return;
        }
        self.feeds.begin(key, epoch, next);
        if let Some(home) = self.feeds.get_mut(key).and_then(|local| local.home.as_mut()) {
            home.followers.iter_mut().for_each(|follower| follower.next = next);
            if let Order::Derived(batches) = &mut home.order {
                batches.begin(next);
            }
        }
        self.news.batches.push(key);
        self.mark_unposted(key);
    }

    /// A topic has batches to take in this turn.
    pub(super) fn mark_due(&mut self, key: FeedKey) {
        let home = self.feeds.get_mut(key).and_then(|local| local.home.as_mut());
        if home.is_some_and(|home| !std::mem::replace(&mut home.is_due, true)) {
            self.due.push(key);
        }
    }

    /// Seals the batches that are due, into the log and every hot tail.
    pub(super) fn seal(&mut self, now_us: u64) {
        while let Some(key) = self.timers.take_due(now_us) {
            if let Some(home) = self.feeds.get_mut(key).and_then(|feed| feed.home.as_mut()) {
                home.is_timed = false;
                self.mark_due(key);
            }
        }
        for key in std::mem::take(&mut self.due) {
            self.seal_feed(key, now_us);
        }
        // Many topics may each have grown by one batch, and that is the only one they have.
        let over = self.history_bytes_over();
        if over > 0 {
            let mut shed = Vec::new();
            self.history_bytes -= self.feeds.trim_bytes(over, now_us, &mut shed);
            for key in shed {
                let is_fed = self.feeds.get(key).is_some_and(|local| self.is_fed(&local.topic));
                // What is fed is read back when somebody wants it.
                if !is_fed {
                    self.fetch_anew(key);
                }
            }
        }
    }

    /// Seals the batches of one topic.
    pub(super) fn seal_feed(&mut self, key: FeedKey, now_us: u64) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let (Some(home), Some(feed)) = (&mut local.home, &mut local.feed) else { return };
        home.is_due = false;
        let batches = home.order.seal(now_us);
        // What comes behind the newest row is lost, or nothing.
        let lost_to = match &home.order {
            Order::Derived(batches) => batches.next_start(),
            Order::Own(_) | Order::Fed(_) => 0,
        };
        if let Some(again_us) = home.order.due_us()
            && !std::mem::replace(&mut home.is_timed, true)
        {
            self.timers.set(again_us, key);
        }
        if batches.is_empty() && lost_to <= feed.head() {
            return;
        }
        self.counts.batches_sealed.add(batches.len() as u64);
        let events: usize = batches.iter().map(|batch| batch.count()).sum();
        self.counts.of_pattern(local.pattern as usize).pattern_events.add(events as u64);
        let before = feed.history_bytes();
        let is_own = matches!(home.order, Order::Own(_));
        for batch in batches {
            // Others know when their events were published.
            let batch = if is_own { batch.published_at(unix_ms()) } else { batch };
            push(feed, Arc::new(batch), now_us, &self.counts);
        }
        feed.skip_to(lost_to);
        if !home.followers.is_empty() && !std::mem::replace(&mut home.is_unposted, true) {
            self.unposted.push(key);
        }
        self.has_grown(key, before);
    }

    /// The other shards have something to be told of a topic whose home is this shard.
    pub(super) fn mark_unposted(&mut self, key: FeedKey) {
        let home = self.feeds.get_mut(key).and_then(|local| local.home.as_mut());
        if let Some(home) = home.filter(|home| !home.followers.is_empty())
            && !std::mem::replace(&mut home.is_unposted, true)
        {
            self.unposted.push(key);
        }
    }

    /// Makes all open batches due, also those that wait for more events.
    pub(super) fn make_all_due(&mut self) {
        for (key, feed) in self.feeds.iter_mut() {
            let Some(home) = &mut feed.home else { continue };
            home.order.stop_waiting();
            if !std::mem::replace(&mut home.is_due, true) {
                self.due.push(key);
            }
        }
    }

    /// A connection begins to read a feed. Returns its place in the feed's list.
    pub(super) fn join(
        &mut self,
        key: FeedKey,
        connection: u32,
        format: Format,
        now_us: u64,
    ) -> Option<u32> {
        let local = self.feeds.get_mut(key)?;
        let place = local.join(connection, format);
        self.counts.of_pattern(local.pattern as usize).pattern_subscriptions.add(1);
        self.want(key, now_us);
        Some(place)
    }

    /// Somebody reads a topic here.
    fn want(&mut self, key: FeedKey, now_us: u64) {
        self.mark_read(key);
        let Some(feed) = self.feeds.get_mut(key) else { return };
        if feed.needs_attaching() && feed.attachment == 0 {
            self.unattached.push(key);
        }
        self.look_at_demand(key, now_us);
    }

    /// Somebody reads a topic, here or on another shard: what is fed to it is brought at once.
    pub(super) fn mark_read(&self, key: FeedKey) {
        let local = self.feeds.get(key).filter(|local| local.home.is_some());
        if let Some(local) = local
            && self.is_fed(&local.topic)
        {
            self.common.peers[self.shard].read_topics.insert(&local.topic);
        }
    }

    /// Somebody may have begun to read a topic. The sweep finds out when nobody reads it any
    /// more.
    pub(super) fn look_at_demand(&mut self, key: FeedKey, now_us: u64) {
        let change = self.feeds.get_mut(key).and_then(|feed| feed.update_demand(now_us));
        self.news.demand.extend(change.map(|change| (key, change)));
    }

    /// Removes a subscription from a feed's list. The connection that moves to its place must
    /// be told.
    pub(super) fn leave(&mut self, key: FeedKey, place: u32, format: Format) -> Option<Moved> {
        let local = self.feeds.get_mut(key)?;
        let before = local.subscribers.len();
        let moved = local.leave(place, format);
        let left = (before - local.subscribers.len()) as u64;
        self.counts.of_pattern(local.pattern as usize).pattern_subscriptions.sub(left);
        self.remove_ended(key);
        moved
    }
}
