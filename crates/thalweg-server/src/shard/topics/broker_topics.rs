//! Broker topics: their publishes go to the broker, and records of the broker come back in the order of the stream.

use std::sync::Arc;

use thalweg_broker::{AppendError, Content, Delivery, ReadPage, Stored, Unreadable};
use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Backfill as _, Batch, Feed as _, Memory as _, Payloads},
};
use thalweg_wire::{Epoch, Offset, Topic, key::key_text, limits::OFFSET_MAX};
use tokio::sync::mpsc::error::TrySendError;

use super::{Topics, limits::Creator, local_topic::LocalTopic, stored_keys::expiries_of};
use crate::{
    broker::{BackfillId, FromBroker, PublishTerms},
    clock::now_us,
    config::PAUSE_MS_MIN,
    owner_shard::owner_shard,
    refusal::Refusal,
    shard::{
        broker::{Backfills, Paused, Pauses, SingleMessage, StoreAnswer, page_of},
        message::{Ending, ShardMessage},
    },
};

impl Topics {
    /// Stores events in a broker topic that this shard owns, then answers.
    pub(in crate::shard) fn store(
        &mut self,
        topic: &Topic,
        payloads: &mut Payloads,
        terms: PublishTerms,
        answer: StoreAnswer,
    ) {
        let retry_key = terms.retry_key.clone();
        match self.open_broker_topic(topic) {
            Ok(key) if payloads.has_keys() => self.store_keys(key, payloads, terms, answer),
            Ok(key) => self.store_in(key, payloads, retry_key.map(SingleMessage::Retry), answer),
            Err(refusal) => {
                payloads.clear();
                answer.send(Err(refusal));
            }
        }
    }

    pub(super) fn store_in(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        mark: Option<SingleMessage>,
        answer: StoreAnswer,
    ) {
        let Some(topic_order) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) else {
            payloads.clear();
            return answer.send(Err(Refusal::draining()));
        };
        if !self.stores.push(key, topic_order, payloads, mark, answer) {
            self.fetch_again(key);
        }
    }

    /// Sends messages and requests for backfills to the brokers. Returns `false` if a queue is full.
    pub(in crate::shard) fn post_to_broker(&mut self) -> bool {
        for broker in self.stores.newly_ended() {
            self.refuse_keys_of(broker);
        }
        let mut are_posted = self.stores.post(&mut self.feeds);
        let feeds = &self.feeds;
        let find = |key| {
            let local = feeds.get(key)?;
            let stream = feeds.streams.get(local.origin.stream()?);
            Some(((&local.topic, local.serial()), local.feed.as_ref()?, stream))
        };
        let answers = &self.common.peers[self.shard].answers;
        for (backfills, link) in self.backfills.iter_mut().zip(&*self.common.brokers) {
            are_posted &= backfills.post(&link.reads, answers, find);
        }
        are_posted
    }

    /// Returns whether all publishes to brokers are answered.
    pub(in crate::shard) fn has_stored_all(&self) -> bool {
        self.stores.are_done()
    }

    pub(super) fn abandon_stores(&mut self, key: FeedKey) {
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) {
            let outbox = order.take_unstored();
            let keyed = order.keyed.as_mut().map(std::mem::take);
            self.stores.abandon(outbox);
            self.abandon_waiting(keyed);
        }
    }

    /// Tells the owner shard about a pause. If the message is lost, the query repeats it later.
    pub(in crate::shard) fn send_pause(&mut self, paused: Paused) {
        let owner = owner_shard(&paused.topic, self.common.peers.len());
        if owner == self.shard {
            return self.write_pause(paused);
        }
        match self.common.peers[owner].publishes.try_send(ShardMessage::Paused(paused)) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {}
        }
    }

    /// Stores a pause, if it follows the topic's newest record.
    pub(in crate::shard) fn write_pause(&mut self, paused: Paused) {
        let Paused { topic, next, ms } = paused;
        let Some(key) = self.feeds.find(&topic) else { return };
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) else {
            return;
        };
        let is_quiet = feed.head() <= next && !order.holds_events();
        let (stream, after) = (order.stream, order.newest);
        let can_write = self.feeds.streams.get(stream).can_compare;
        let Some(local) = self.feeds.get_mut(key).filter(|_| is_quiet && can_write) else { return };
        let is_known = local.pauses.since(next).any(|(_, known_ms)| known_ms >= ms);
        // Queries may wait for many different times.
        if is_known || !local.pauses.may_write(now_us(), PAUSE_MS_MIN * 1000) {
            return;
        }
        let mark = SingleMessage::Paused { ms, after };
        self.store_in(key, &mut Payloads::default(), Some(mark), StoreAnswer::Nowhere);
    }

    pub(in crate::shard) fn receive_from_broker(&mut self, message: FromBroker) {
        match message {
            FromBroker::Records(records) => {
                records.into_iter().for_each(|record| self.take_record(record));
            }
            FromBroker::Stored { topic, number, result } => {
                self.stores.has_answer();
                self.answer_stored(&topic, number, &result);
            }
            FromBroker::Page { id, result } => self.take_page(id, result),
            FromBroker::Restarted { stream, epoch, from } => self.restart(stream, epoch, from),
        }
    }

    fn take_record(&mut self, record: Delivery) {
        let end = record.end();
        let Delivery { stream, first, topic, content } = record;
        if self.common.config.is_derived(&topic) {
            // Only queries make events of this topic, so the record is ignored.
            return self.feeds.streams.has_come(stream, end);
        }
        match content {
            Content::Events(payloads) => self.take_events((stream, first, end), &topic, payloads),
            Content::Paused(ms) => {
                self.feeds.streams.has_come(stream, end);
                self.take_pause(stream, &topic, first, ms);
            }
            Content::End(code) => {
                self.feeds.streams.has_come(stream, end);
                // A topic that opens now is another one, which begins after the end.
                self.feeds.streams.move_known_from(stream);
                let key = self.feeds.find(&topic);
                let local = key.and_then(|key| self.feeds.get_mut(key));
                let head =
                    local.and_then(|local| local.broker_order().map(|(_, order)| order.head));
                // The topic on this shard may already be the next one, from a backfill.
                let is_its = head.is_some_and(|head| head <= first);
                if let Some(key) = key.filter(|_| is_its) {
                    self.end_broker_topic(key, Ending::Ended(code));
                }
            }
        }
    }

    /// Appends events of a stream. Without room the events are not kept, and a later subscriber gets a backfill.
    fn take_events(
        &mut self,
        (stream, first, end): (usize, Offset, Offset),
        topic: &Topic,
        payloads: Payloads,
    ) {
        let opened = self.open_broker_topic(topic);
        self.feeds.streams.has_come(stream, end);
        let is_kept = opened.is_ok();
        let Some(key) = opened.ok().or_else(|| self.feeds.find(topic)) else {
            return self.feeds.streams.move_known_from(stream);
        };
        let local_is_presence = self.feeds.get(key).is_some_and(|local| local.origin.is_presence);
        let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) else {
            return;
        };
        if let Some(keyed) = &mut order.keyed {
            keyed.has_seen(first);
        }
        if first < order.head || end > OFFSET_MAX || payloads.is_empty() {
            return;
        }
        let is_keyed = order.keyed.is_some();
        if is_keyed != payloads.has_keys() {
            return;
        }
        let expiries = payloads.expiries();
        // Most topics have no keys that expire.
        let may_expire = is_keyed && !(expiries.is_empty() && self.expiries.is_empty());
        let expiring: Vec<(Offset, Arc<[u8]>, Option<i64>)> = match may_expire {
            true => payloads
                .keyed_events()
                .enumerate()
                .map(|(at, (name, _))| {
                    let expires_ms = expiries.get(at).copied().filter(|ms| *ms > 0);
                    (first + at as Offset, name.into(), expires_ms)
                })
                .collect(),
            false => Vec::new(),
        };
        let is_members = local_is_presence && is_kept;
        let changed: Vec<String> = match is_members {
            true => payloads.keyed_events().map(|(name, _)| key_text(name).into()).collect(),
            false => Vec::new(),
        };
        let batch = Batch::seal(order.head, first, payloads, now_us());
        order.head = batch.end();
        order.has_record(first);
        if let Some(keyed) = &mut order.keyed {
            keyed.has_come(order.head);
        }
        if is_kept {
            order.arrived.push(batch);
            self.mark_due(key);
            if is_keyed {
                self.set_stored_expiries(key, expiring, now_us());
                self.store_waiting(key);
                self.answer_reads(key);
            }
            if is_members {
                self.members_came(key, &changed);
            }
            return;
        }
        // The topic's readers need a backfill.
        let head = batch.end();
        if let Some(feed) = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut()) {
            feed.skip_to(head);
            self.news.batches.push(key);
        }
        self.mark_unposted(key);
        self.want_state(key);
    }

    /// Opens a broker topic, and evicts another one if there is no room. Fails if there is no room and no topic can be evicted.
    pub(super) fn open_broker_topic(&mut self, topic: &Topic) -> Result<FeedKey, Refusal> {
        let opened = self.open(topic, Creator::Publisher);
        match opened.is_err() && self.evict_unread() {
            true => self.open(topic, Creator::Publisher),
            false => opened,
        }
    }

    /// Removes a broker topic without readers. Returns `false` if a short search finds none.
    fn evict_unread(&mut self) -> bool {
        let Some(key) = self.feeds.unread_broker_topic(false) else { return false };
        self.evict(key);
        true
    }

    pub(super) fn evict(&mut self, key: FeedKey) {
        self.stop_fetching(key);
        self.history_bytes -= self.feeds.history_bytes(key);
        self.feeds.remove(key);
        self.expiries.topic_ended();
        self.counts.topics_evicted.add(1);
    }

    /// Ends the topics of a stream that has restarted. Subscribers reconnect with their old positions and get a gap.
    fn restart(&mut self, stream: usize, epoch: Epoch, from: Offset) {
        self.feeds.streams.restart(stream, epoch, from);
        let broker_topics =
            self.feeds.iter_mut().filter_map(|(key, local)| Some((key, local.broker_order()?)));
        let restarted = broker_topics.filter(|(_, (_, order))| order.stream == stream);
        let restarted: Vec<FeedKey> = restarted.map(|(key, _)| key).collect();
        for key in restarted {
            self.end_broker_topic(key, Ending::Restarted);
        }
    }

    /// Ends a broker topic. Its unstored publishes go to the next topic with its name, if there is room.
    pub(super) fn end_broker_topic(&mut self, key: FeedKey, ending: Ending) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let topic = local.topic.clone();
        let Some((_, order)) = local.broker_order() else { return };
        let mut outbox = order.take_unstored();
        let keyed = order.keyed.take();
        self.stop_fetching(key);
        self.end(key, ending, now_us());
        if outbox.is_empty() && keyed.as_ref().is_none_or(|keyed| !keyed.is_awaited()) {
            return;
        }
        let opened = self.open_broker_topic(&topic).ok();
        let order = opened.and_then(|key| Some((key, self.feeds.get_mut(key)?.broker_order()?.1)));
        let Some((key, order)) = order else {
            self.stores.abandon(outbox);
            return self.abandon_waiting(keyed);
        };
        if ending == Ending::Restarted {
            outbox.restart();
        }
        order.outbox = outbox;
        order.keyed = keyed.map(|keyed| Box::new(keyed.into_next(order.head)));
        self.stores.mark(key, order);
        self.want_state(key);
    }

    fn answer_stored(&mut self, topic: &Topic, number: u64, result: &Result<Stored, AppendError>) {
        let Some(key) = self.feeds.find(topic) else { return };
        let Some(topic_order) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) else {
            return;
        };
        let Some(is_end) = self.stores.settle(key, topic, topic_order, (number, result)) else {
            return;
        };
        // The end may have come before this answer, and waiting publishes may have created the topic again.
        self.store_waiting(key);
        if result.is_ok() && self.feeds.get(key).is_some_and(|local| local.origin.is_presence) {
            // More members may have changed meanwhile. After an error the next sweep tries again.
            self.members_came(key, &[]);
        }
        if is_end && self.feeds.get(key).is_some_and(LocalTopic::is_idle) {
            return self.forget(key, now_us());
        }
        if result.is_err() {
            // Without this, the fetched document would be missing until it changes.
            self.fetch_again(key);
        }
    }

    /// Processes a broker's answer to a backfill.
    fn take_page(&mut self, id: BackfillId, page: Result<ReadPage, Unreadable>) {
        let BackfillId { broker, key, topic, serial, epoch, from, until } = id;
        let Ok(page) = page else { return self.backfills[broker].failed(key) };
        let is_its = |local: &&mut LocalTopic| {
            let its_epoch = local.feed.as_ref().map(AnyFeed::epoch);
            local.topic == topic && local.serial() == serial && its_epoch == Some(epoch)
        };
        let Some(local) = self.feeds.get_mut(key).filter(is_its) else {
            // The key may belong to another opening of a topic now, whose readers wait for a page of their
            // own.
            self.backfills[broker].take_served(key, |_| true);
            return;
        };
        let Some(feed) = &mut local.feed else { return };
        if feed.is_loading() && feed.page_until(1) != until {
            // The state was forgotten meanwhile, or the topic has ended.
            self.backfills[broker].take_served(key, |_| true);
            return;
        }
        let is_state = feed.is_loading();
        let (expiries, state_before) =
            (if is_state { expiries_of(&page) } else { Vec::new() }, feed.state_bytes());
        self.counts.cold_reads.add(1);
        let (before, history_before) = (feed.backfilled_bytes(), feed.history_bytes());
        let pauses: Pauses = page.pauses.iter().copied().collect();
        let (newest, has_given) = (page.newest, from <= page.head);
        let is_beyond = from > until;
        if is_beyond {
            feed.answer_ahead(from, has_given, now_us());
        } else {
            feed.backfill(page_of(page, from, until), now_us());
        }
        let (after, head) = (feed.backfilled_bytes(), feed.head());
        let is_version = feed.history_bytes() > history_before;
        self.history_bytes = self.history_bytes + feed.history_bytes() - history_before;
        let served = self.backfills[broker].take_served(key, |from| feed.needs_backfill(from));
        local.was_read(head, newest);
        let is_input = local.is_input;
        self.news.backfilled.extend(served);
        self.backfill_memory.add(key, after, before);
        if let Some(feed) = &mut local.feed {
            feed.shrink_backfilled(self.backfill_memory.share());
            self.backfill_memory.subtract(after - feed.backfilled_bytes());
        }
        while let Some(oldest) = self.backfill_memory.over_limit(key) {
            self.forget_backfill(oldest);
        }
        self.take_pauses(key, pauses);
        if is_input {
            self.news.inputs.push(key);
        }
        if is_state {
            // Other shards wait for the state, also for an empty one.
            self.mark_unposted(key);
            self.has_keys_of_page(key, expiries, state_before);
        }
        if is_version {
            // The version may be newer than the newest record from the stream.
            self.news.batches.push(key);
            self.mark_unposted(key);
        }
        if !is_beyond {
            // The page has the stream's version, so a fetched document can be compared with it.
            self.fetch_again(key);
        }
    }

    /// Drops a feed's backfills. Readers that need them request them again.
    fn forget_backfill(&mut self, key: FeedKey) {
        if let Some(feed) = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut()) {
            self.backfill_memory.subtract(feed.backfilled_bytes());
            feed.drop_backfilled();
        }
    }

    /// Requests failed backfills again, and counts the memory.
    pub(super) fn sweep_backfills(&mut self, bytes: usize) {
        self.backfills.iter_mut().for_each(Backfills::retry);
        let feeds = &self.feeds;
        let has_any = |key: FeedKey| {
            let feed = feeds.get(key).and_then(|local| local.feed.as_ref());
            feed.is_some_and(|feed| feed.backfilled_bytes() > 0)
        };
        self.backfill_memory.sweep(bytes, has_any);
        self.counts.recalled_bytes.set(bytes as u64);
    }

    pub(super) fn take_pauses(&mut self, key: FeedKey, pauses: Pauses) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        if local.pauses.merge(pauses) && local.is_input {
            self.news.inputs.push(key);
        }
    }

    /// Adds a pause that came from the stream.
    fn take_pause(&mut self, stream: usize, topic: &Topic, first: Offset, ms: u64) {
        let Some(key) = self.feeds.find(topic) else {
            // A topic that opens later gets a backfill.
            return self.feeds.streams.move_known_from(stream);
        };
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) {
            order.has_record(first);
            if let Some(keyed) = &mut order.keyed {
                // It is a record that no server can read.
                keyed.has_seen(first);
                return self.store_waiting(key);
            }
        }
        self.take_pauses(key, Pauses::from_iter([(first, ms)]));
        self.mark_unposted(key);
    }
}

impl LocalTopic {
    /// Notes the newest record of a backfill. If the head moved backward, the next batch starts there.
    fn was_read(&mut self, head: Offset, newest: Offset) {
        let Some((_, order)) = self.broker_order() else { return };
        if let Some(keyed) = &mut order.keyed {
            keyed.has_seen(newest);
        }
        if order.arrived.is_empty() {
            order.head = head;
            order.has_record(newest);
        }
    }
}
