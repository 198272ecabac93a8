//! Running sources: their ticks, the events that they read, and the demand for their events. This shard owns their outputs.

use std::{collections::HashMap, sync::Arc};

use thalweg_core::{
    fanout::{FeedKey, Feeds},
    stream::{Feed as _, Payloads},
};
use thalweg_wire::{Offset, Position, Topic};
use tokio::sync::mpsc::error::TrySendError;

use crate::{
    clock::now_us,
    metrics::Counts,
    owner_shard::owner_shard,
    shard::{
        common::Common,
        message::{Ack, ShardMessage},
        timers::Timers,
        topics::{DemandChange, TopicDemand, Topics},
    },
    source::{Input, Scheduled},
};

/// The maximum number of late ticks that a source runs in one turn, so that a slow source does not block its shard.
const TICKS_PER_TURN: u32 = 64;

/// After it has read or made this many bytes in a turn, a source begins no further event. A reply then waits for at
/// most one of the largest events, and memory for two of them is never needed.
const BYTES_PER_TURN: usize = 1 << 19;

pub(super) struct Sources {
    common: Common,
    running: Vec<RunningSource>,
    /// The sources that feed a topic.
    by_output: HashMap<FeedKey, Vec<usize>>,
    /// The sources that read a topic.
    by_input: HashMap<FeedKey, Vec<InputCursor>>,
    /// Topics with unread events.
    pending_inputs: Vec<FeedKey>,
    /// Acks for sources of other shards, at most one for each topic.
    unposted_acks: Vec<Ack>,
    timers: Timers<usize>,
    counts: Arc<Counts>,
}

struct RunningSource {
    /// The topic that it feeds. `None` if the topic has ended and had no successor.
    feed: Option<FeedKey>,
    scheduled: Scheduled,
    next_us: u64,
    /// Whether it does not tick, because its topic has no subscribers.
    is_idle: bool,
    is_timed: bool,
    /// Memory for its events.
    payloads: Payloads,
}

/// A source that reads a topic. Like a subscriber it is a cursor: unread events stay in the history.
struct InputCursor {
    source: usize,
    next: Offset,
}

impl Sources {
    pub(super) fn new(common: Common, counts: &Arc<Counts>) -> Self {
        Self {
            common,
            running: Vec::new(),
            by_output: HashMap::new(),
            by_input: HashMap::new(),
            pending_inputs: Vec::new(),
            unposted_acks: Vec::new(),
            timers: Timers::default(),
            counts: Arc::clone(counts),
        }
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.timers.next_us()
    }

    pub(super) fn tick(&mut self, topics: &mut Topics, now_us: u64) {
        while let Some(index) = self.timers.take_due(now_us) {
            self.tick_one(topics, index, now_us);
        }
    }

    pub(super) fn has_input(&mut self, key: FeedKey) {
        if !self.pending_inputs.contains(&key) {
            self.pending_inputs.push(key);
        }
    }

    pub(super) fn has_pending_inputs(&self) -> bool {
        !self.pending_inputs.is_empty()
    }

    pub(super) fn start(&mut self, topics: &mut Topics, scheduled: Scheduled) {
        let Some((feed, demand)) = topics.open_permanent(&scheduled.output) else {
            tracing::error!(topic = %scheduled.output, "the source does not run, because there are too many topics: raise limits.topics");
            return;
        };
        let index = self.running.len();
        let next_us = scheduled.start_us.unwrap_or_else(now_us);
        let is_idle = scheduled.while_subscribed && demand == TopicDemand::None;
        let is_timed = !is_idle && scheduled.interval_us.is_some();
        self.counts.sources_idle.add(u64::from(is_idle));
        if is_timed {
            self.timers.set(next_us, index);
        }
        let inputs = scheduled.inputs.clone();
        let payloads = Payloads::default();
        let running =
            RunningSource { feed: Some(feed), scheduled, next_us, is_idle, is_timed, payloads };
        self.running.push(running);
        self.by_output.entry(feed).or_default().push(index);
        for topic in inputs {
            match topics.open_input(&topic, now_us()) {
                Some(key) => {
                    let cursor = InputCursor { source: index, next: 1 };
                    self.by_input.entry(key).or_default().push(cursor);
                }
                None => {
                    tracing::error!(%topic, "the source that reads this topic gets no events, because there are too many topics: raise limits.topics");
                }
            }
        }
    }

    /// Moves sources from topics that have ended to the topics that now have their names, if there was room.
    pub(super) fn follow(&mut self, moved: impl Iterator<Item = (FeedKey, Option<FeedKey>)>) {
        for (ended, opened) in moved {
            for index in self.by_output.remove(&ended).into_iter().flatten() {
                let running = &mut self.running[index];
                running.feed = opened;
                // The new topic has no readers yet.
                if running.scheduled.while_subscribed
                    && !std::mem::replace(&mut running.is_idle, true)
                {
                    self.counts.sources_idle.add(1);
                }
                if let Some(opened) = opened {
                    self.by_output.entry(opened).or_default().push(index);
                }
            }
            for InputCursor { source, .. } in self.by_input.remove(&ended).into_iter().flatten() {
                let cursor = InputCursor { source, next: 1 };
                if let Some(opened) = opened {
                    self.by_input.entry(opened).or_default().push(cursor);
                }
            }
        }
    }

    fn tick_one(&mut self, topics: &mut Topics, index: usize, now_us: u64) {
        let running = &mut self.running[index];
        let is_ticking = running.feed.is_some() && !running.is_idle;
        let interval_us = running.scheduled.interval_us.filter(|_| is_ticking);
        let Some(interval_us) = interval_us else {
            running.is_timed = false;
            return;
        };
        let (mut ticks, mut late, mut late_us_max) = (0, 0, 0);
        let next_us = self.run(topics, index, now_us, |running, out| {
            while running.next_us <= now_us
                && ticks < TICKS_PER_TURN
                && out.joined().len() < BYTES_PER_TURN
            {
                let late_us = now_us - running.next_us;
                late += u64::from(late_us > 1_000);
                late_us_max = late_us.max(late_us_max);
                running.scheduled.source.tick(running.next_us, out);
                // An interval may exceed the range of the clock.
                running.next_us = running.next_us.saturating_add(interval_us);
                ticks += 1;
            }
            running.next_us
        });
        self.counts.source_ticks.add(u64::from(ticks));
        self.counts.source_ticks_late.add(late);
        self.counts.source_lateness_seconds_max.raise(late_us_max);
        self.timers.set(next_us.max(now_us + 1), index);
    }

    /// Lets a source make events, and appends them to its output.
    fn run<T>(
        &mut self,
        topics: &mut Topics,
        index: usize,
        now_us: u64,
        run: impl FnOnce(&mut RunningSource, &mut Payloads) -> T,
    ) -> T {
        let running = &mut self.running[index];
        let mut payloads = std::mem::take(&mut running.payloads);
        let result = run(running, &mut payloads);
        if let Some(feed) = running.feed
            && !payloads.is_empty()
        {
            topics.append(feed, &mut payloads, now_us);
        }
        payloads.clear();
        self.running[index].payloads = payloads;
        result
    }

    pub(super) fn take_inputs(&mut self, topics: &mut Topics, now_us: u64) {
        for key in std::mem::take(&mut self.pending_inputs) {
            let cursors = self.by_input.get(&key).map_or(0, Vec::len);
            for nth in 0..cursors {
                self.take_input(topics, key, nth, now_us);
            }
        }
    }

    fn take_input(
        &mut self,
        topics: &mut Topics,
        key: FeedKey,
        nth: usize,
        now_us: u64,
    ) -> Option<()> {
        let feed = topics.feed(key)?;
        let cursor = self.by_input.get_mut(&key)?.get_mut(nth)?;
        let (source, from) = (cursor.source, cursor.next);
        cursor.next = feed.head();
        let mut batches = Vec::new();
        let mut bytes = 0;
        for batch in feed.batches_from(from) {
            if bytes >= BYTES_PER_TURN {
                // The next turn reads the rest.
                cursor.next = batch.start();
                self.pending_inputs.push(key);
                break;
            }
            bytes += batch.event_bytes(from);
            batches.push(Arc::clone(batch));
        }
        self.run(topics, source, now_us, |running, out| {
            for event in batches.iter().flat_map(|batch| batch.events_from(from)) {
                running.scheduled.source.input(Input::Event(event), now_us, out);
            }
        });
        Some(())
    }

    /// Passes a client's ack, for the events of a topic up to `position`, to the sources that wait for acks.
    pub(super) fn receive_ack(&mut self, topics: &mut Topics, topic: &Topic, position: Position) {
        self.counts.acks.add(1);
        if !self.common.inputs.acks.contains(topic) {
            return;
        }
        if topics.owns(topic) {
            return self.ack(topics, topic, position);
        }
        // Only the latest ack is needed.
        let mut unposted = self.unposted_acks.iter_mut();
        match unposted.find(|ack| ack.topic == *topic) {
            Some(Ack { position: last, .. }) if last.epoch == position.epoch => {
                last.offset = last.offset.max(position.offset);
            }
            Some(ack) => ack.position = position,
            None => self.unposted_acks.push(Ack { topic: topic.clone(), position }),
        }
    }

    pub(super) fn ack(&mut self, topics: &mut Topics, topic: &Topic, position: Position) {
        let Some(key) = topics.find(topic).filter(|_| topics.owns(topic)) else { return };
        let epoch = topics.feed(key).map(|feed| feed.epoch());
        if epoch != Some(position.epoch) {
            return;
        }
        let now_us = now_us();
        let mut nth = 0;
        while let Some(index) = self.feeding(key, nth) {
            nth += 1;
            self.run(topics, index, now_us, |running, out| {
                running.scheduled.source.input(Input::Ack(position.offset), now_us, out);
            });
        }
    }

    /// Posts the acks for sources of other shards. Returns `false` if a queue is full.
    pub(super) fn post_acks(&mut self) -> bool {
        let peers = &self.common.peers;
        self.unposted_acks.retain(|ack| {
            let owner = owner_shard(&ack.topic, peers.len());
            match peers[owner].publishes.try_send(ShardMessage::Ack(ack.clone())) {
                Err(TrySendError::Full(_)) => true,
                // A shard that has drained needs no acks.
                Ok(()) | Err(TrySendError::Closed(_)) => false,
            }
        });
        self.unposted_acks.is_empty()
    }

    /// Starts or stops the sources that tick only while their topic has subscribers. A source that starts again
    /// ticks one interval from now and does not make up for missed ticks.
    pub(super) fn demand_changed(&mut self, key: FeedKey, change: DemandChange, now_us: u64) {
        let mut nth = 0;
        while let Some(index) = self.feeding(key, nth) {
            nth += 1;
            let running = &mut self.running[index];
            if !running.scheduled.while_subscribed {
                continue;
            }
            running.is_idle = change == DemandChange::Stop;
            if running.is_idle {
                self.counts.sources_idle.add(1);
                continue;
            }
            self.counts.sources_idle.sub(1);
            running.scheduled.source.resume();
            let interval_us = running.scheduled.interval_us.unwrap_or_default();
            running.next_us = now_us.saturating_add(interval_us);
            // An older timer fires earlier, and does nothing.
            if !std::mem::replace(&mut running.is_timed, true) {
                self.timers.set(running.next_us, index);
            }
        }
    }

    /// Returns the `nth` source that feeds a topic.
    fn feeding(&self, key: FeedKey, nth: usize) -> Option<usize> {
        self.by_output.get(&key)?.get(nth).copied()
    }
}
