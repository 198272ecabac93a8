//! Keyed topics that a broker stores: their publishes wait for the state, which is read when the topic is first used.

use std::sync::Arc;

use thalweg_broker::ReadPage;
use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Feed as _, Memory as _, Payloads},
};
use thalweg_wire::{ErrorCode, Offset, Topic, key::key_text};
use tokio::sync::oneshot;

use super::{
    Topics,
    limits::{Creator, TopicKind},
    local_topic::LocalTopic,
};
use crate::{
    broker::PublishTerms,
    clock::{now_us, unix_ms},
    refusal::Refusal,
    shard::broker::{KeyedOrder, SingleMessage, StoreAnswer, WaitingPublish, unavailable},
};

/// How long a publish to a shared topic waits, in µs: until the state is here, and while its condition is checked again and again because
/// other servers publish to the topic.
const COMPARE_US_MAX: u64 = 10_000_000;

/// Maximum number of expired keys that are removed by one record.
const EXPIRED_PER_RECORD: usize = 128;

/// When the keys of a page expire, with the offsets of their events.
pub(super) type PageExpiries = Vec<(u64, Arc<[u8]>, i64)>;

impl Topics {
    /// Returns whether a broker stores the state of a topic's keys.
    pub(in crate::shard) fn is_stored_keyed(&self, topic: &Topic) -> bool {
        let stream = self.origin(topic).stream();
        stream.is_some_and(|stream| self.feeds.streams.get(stream).stream.kind.has_keys())
    }

    /// Stores events in a keyed topic that this shard owns, when its state is here and earlier events of keys with a condition have come.
    pub(super) fn store_keys(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        terms: PublishTerms,
        answer: StoreAnswer,
    ) {
        let Some((feed, order)) = self.keyed_order(key) else {
            payloads.clear();
            return answer.send(Err(Refusal::draining()));
        };
        let payloads = std::mem::take(payloads);
        if order.is_refused {
            return answer.send(Err(no_room()));
        }
        let is_loading = feed.is_loading();
        let must_wait =
            is_loading || !order.waiting.is_empty() || order.must_wait(&payloads, &terms);
        let publish = WaitingPublish { payloads, terms, answer, since_us: now_us() };
        match must_wait {
            true => self.wait_for_keys(key, publish, is_loading),
            false => self.admit(key, publish),
        }
    }

    fn wait_for_keys(&mut self, key: FeedKey, waiting: WaitingPublish, is_loading: bool) {
        if self.lacks_broker(key) {
            return waiting.answer.send(Err(unavailable()));
        }
        let may_wait = self.keyed_order(key).is_none_or(|(_, order)| order.may_wait(&waiting));
        if !may_wait || !self.stores.wait(waiting.bytes()) {
            let message = "too many events wait to be stored: try again";
            return waiting.answer.send(Err(Refusal::busy(message)));
        }
        if let Some((_, order)) = self.keyed_order(key) {
            order.wait(waiting);
        }
        match is_loading {
            true => self.want_backfill(key, 1, None),
            // The broker's records of the topic come without a delay for some time.
            false => self.mark_read(key),
        }
    }

    /// Checks a publish and sends it to the broker.
    fn admit(&mut self, key: FeedKey, publish: WaitingPublish) {
        let WaitingPublish { mut payloads, terms, answer, since_us } = publish;
        if terms.are_members {
            return self.store_members(key, since_us);
        }
        if let Some(offsets) = &terms.expired {
            return self.remove_expired(key, &payloads, offsets, answer, since_us);
        }
        let checked = self.check_room(key, &payloads, &terms, now_us());
        if let Err(refusal) = checked {
            // A publish that is repeated has the answer that it had before.
            let Some(retry_key) = terms.retry_key else { return answer.send(Err(refusal)) };
            let (mark, answer) = (SingleMessage::Repeated(retry_key), (answer, refusal));
            let answer = StoreAnswer::Repeated(Box::new(answer));
            return self.store_in(key, &mut payloads, Some(mark), answer);
        }
        if let Some(ttl_us) = self.ttl_us(key, &terms) {
            let expires_ms = unix_ms().saturating_add(ttl_us.div_ceil(1000) as i64);
            let live = payloads.keyed_events().map(|(_, event)| event != b"null");
            let live: Vec<bool> = live.collect();
            for (at, _) in live.iter().enumerate().filter(|(_, is_live)| **is_live) {
                payloads.set_expiry(at, expires_ms);
            }
        }
        let is_compared = terms.is_conditional()
            && self.keyed_order(key).is_some_and(|(_, order)| order.is_shared);
        match is_compared {
            true => self.store_compared(key, payloads, terms, answer, since_us),
            false => {
                let mark = terms.retry_key.map(SingleMessage::Retry);
                self.store_in(key, &mut payloads, mark, answer);
            }
        }
    }

    /// Sends a publish, whose condition is met, to the broker of a shared topic. It is stored if the condition still holds there.
    pub(super) fn store_compared(
        &mut self,
        key: FeedKey,
        mut payloads: Payloads,
        terms: PublishTerms,
        answer: StoreAnswer,
        since_us: u64,
    ) {
        if now_us() > since_us.saturating_add(COMPARE_US_MAX) {
            let message = "other servers publish to the topic all the time: try again";
            return answer.send(Err(Refusal::busy(message)));
        }
        let Some((_, order)) = self.keyed_order(key) else {
            return answer.send(Err(Refusal::draining()));
        };
        let retry_key = terms.retry_key.clone();
        let after = order.compare(payloads.clone(), terms, since_us);
        let mark = SingleMessage::Compared { after, retry_key };
        self.store_in(key, &mut payloads, Some(mark), answer);
        if let Some((_, order)) = self.keyed_order(key) {
            order.end_compare();
        }
        // If another server's record comes first, it comes without a delay.
        self.mark_read(key);
    }

    /// Removes the keys whose newest events are still those that have expired.
    fn remove_expired(
        &mut self,
        key: FeedKey,
        removals: &Payloads,
        offsets: &[Offset],
        answer: StoreAnswer,
        since_us: u64,
    ) {
        self.settle(key, now_us());
        let Some((feed, _)) = self.keyed_order(key) else { return };
        let is_due = |name: &[u8], offset: Offset| {
            let newest = feed.keyed_event(name);
            newest.is_some_and(|newest| newest.offset() == offset && !newest.is_removal())
        };
        let names = removals.keyed_events().map(|(name, _)| name).zip(offsets);
        let due: Vec<_> = names.filter(|(name, offset)| is_due(name, **offset)).collect();
        if !due.is_empty() {
            let (payloads, terms) =
                removals_of(due.into_iter().map(|(name, offset)| (name, *offset)));
            self.store_compared(key, payloads, terms, answer, since_us);
        }
    }

    /// Removes expired keys of a shared topic, given with the offsets of their events. Other servers do the same, and the first one
    /// removes them.
    pub(super) fn expire_shared(&mut self, key: FeedKey, expired: &[(Arc<[u8]>, Offset)]) {
        for expired in expired.chunks(EXPIRED_PER_RECORD) {
            let (mut payloads, terms) =
                removals_of(expired.iter().map(|(name, offset)| (&**name, *offset)));
            let answer = StoreAnswer::Expired(Arc::clone(&self.counts));
            self.store_keys(key, &mut payloads, terms, answer);
        }
    }

    /// Sends the publishes that need not wait any more to the broker.
    pub(super) fn store_waiting(&mut self, key: FeedKey) {
        loop {
            let Some((feed, order)) = self.keyed_order(key) else { return };
            let is_loading = feed.is_loading();
            let Some(next) =
                Some(order).filter(|_| !is_loading).and_then(|order| order.take_next())
            else {
                return;
            };
            self.stores.end_wait(next.bytes());
            self.admit(key, next);
        }
    }

    pub(super) fn keyed_order(&mut self, key: FeedKey) -> Option<(&AnyFeed, &mut KeyedOrder)> {
        let (feed, order) = self.feeds.get_mut(key)?.broker_order()?;
        Some((feed, order.keyed.as_deref_mut()?))
    }

    /// Answers when the state of a keyed topic that this shard owns is here. Fails if there is no room for it.
    pub(in crate::shard) fn read_keys(
        &mut self,
        topic: &Topic,
        answer: oneshot::Sender<Result<(), Refusal>>,
    ) {
        // A name that has no events takes no place from topics that have some.
        let key = match self.open(topic, Creator::Subscriber(None)) {
            Ok(key) => key,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        let has_ended = self.lacks_broker(key);
        match self.keyed_order(key) {
            Some((_, order)) if order.is_refused => drop(answer.send(Err(no_room()))),
            Some((feed, order)) if has_ended && (feed.is_loading() || order.has_undelivered()) => {
                drop(answer.send(Err(Refusal::catching_up())));
            }
            Some((feed, order)) if feed.is_loading() => {
                order.read(answer);
                self.want_backfill(key, 1, None);
            }
            Some((_, order)) if order.has_undelivered() => {
                order.read(answer);
                self.mark_read(key);
            }
            // The reader may be gone.
            Some(_) | None => drop(answer.send(Ok(()))),
        }
    }

    /// Takes what follows from a page of a keyed topic's state, which is in its feed. `before`: the state's bytes before.
    pub(super) fn has_keys_of_page(&mut self, key: FeedKey, expiries: PageExpiries, before: usize) {
        let Some((feed, _)) = self.keyed_order(key) else { return };
        let expiring = expiries.into_iter().filter(|(offset, name, _)| {
            feed.keyed_event(name).is_some_and(|newest| newest.offset() == *offset)
        });
        let expiring: Vec<_> =
            expiring.map(|(offset, name, at)| (offset, name, Some(at))).collect();
        let bytes = feed.state_bytes();
        self.keyed_bytes = (self.keyed_bytes + bytes).saturating_sub(before);
        self.set_stored_expiries(key, expiring, now_us());
        let fits_alone = bytes <= self.keyed_bytes_max();
        while fits_alone && self.keyed_bytes > self.keyed_bytes_max() && self.evict_keys(Some(key))
        {
        }
        if self.keyed_bytes > self.keyed_bytes_max() {
            return self.refuse_keys(key, now_us());
        }
        if let Some((_, order)) = self.keyed_order(key).filter(|(feed, _)| !feed.is_loading()) {
            order.has_fitted();
        }
        self.count_loaded(key);
        self.store_waiting(key);
        self.answer_reads(key);
    }

    /// Counts a topic as active if its state that was read has events.
    fn count_loaded(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get(key).filter(|local| !local.is_loading()) else { return };
        let has_events = local.feed.as_ref().is_some_and(|feed| feed.retained_events() > 0);
        if has_events && local.kind != TopicKind::Active {
            let topic = local.topic.clone();
            // Without room it remains among the topics that subscribers have opened.
            let _ = self.open_broker_topic(&topic);
        }
    }

    /// Answers the reads of a topic whose feed has all that publishers know of.
    pub(super) fn answer_reads(&mut self, key: FeedKey) {
        let Some((feed, order)) = self.keyed_order(key) else { return };
        if feed.is_loading() || order.has_undelivered() || order.reads.is_empty() {
            return;
        }
        let reads = std::mem::take(&mut order.reads);
        self.settle(key, now_us());
        // The readers may be gone.
        reads.into_iter().for_each(|read| drop(read.send(Ok(()))));
    }

    /// Removes a topic with keys that nobody reads from the memory. Returns `false` if a short search finds none.
    pub(super) fn evict_keys(&mut self, loading: Option<FeedKey>) -> bool {
        let unread = self.feeds.unread_broker_topic(true);
        let Some(key) = unread.filter(|key| Some(*key) != loading) else { return false };
        let feed = self.feeds.get(key).and_then(|local| local.feed.as_ref());
        let bytes = feed.map_or(0, |feed| feed.state_bytes());
        self.keyed_bytes = self.keyed_bytes.saturating_sub(bytes);
        self.evict(key);
        true
    }

    /// Gives up reading a state for which there is no room. The next sweep closes its readers.
    fn refuse_keys(&mut self, key: FeedKey, now_us: u64) {
        // The times of its keys come again with the state.
        let serial = self.feeds.next_serial();
        self.expiries.topic_ended();
        let Some(local) = self.feeds.get_mut(key) else { return };
        let topic = local.topic.clone();
        let Some((feed, owner)) = local.feed.as_mut().zip(local.owner.as_mut()) else { return };
        let (bytes, history) = (feed.state_bytes(), feed.history_bytes());
        feed.load();
        self.history_bytes = (self.history_bytes + feed.history_bytes()).saturating_sub(history);
        self.keyed_bytes = self.keyed_bytes.saturating_sub(bytes);
        owner.serial = serial;
        if let Some(stream) = local.origin.stream() {
            self.backfills[self.feeds.streams.get(stream).broker].forget(key);
        }
        let order = self.feeds.get_mut(key).and_then(LocalTopic::broker_order);
        if let Some(order) = order.and_then(|(_, order)| order.keyed.as_mut()) {
            order.refuse(now_us);
            let reads = std::mem::take(&mut order.reads);
            reads.into_iter().for_each(|read| drop(read.send(Err(no_room()))));
            let waiting = order.take_waiting();
            self.refuse_waiting(waiting, no_room);
        }
        self.overfull.push(key);
        tracing::warn!(%topic, "the stored keys of a topic do not fit into the memory: remove keys or topics, or set limits.history-bytes to a larger size");
    }

    pub(super) fn refuse_waiting(
        &mut self,
        waiting: impl IntoIterator<Item = WaitingPublish>,
        refusal: fn() -> Refusal,
    ) {
        for publish in waiting {
            self.stores.end_wait(publish.bytes());
            publish.answer.send(Err(refusal()));
        }
    }

    /// Returns the topics whose states have no room. Lets those be read again whose delay is over.
    pub(super) fn take_overfull(&mut self, now_us: u64) -> Vec<FeedKey> {
        let mut overfull = std::mem::take(&mut self.overfull);
        // Another topic may have the key of one that has ended.
        overfull.retain(|key| self.feeds.get(*key).is_some_and(LocalTopic::refuses_keys));
        for key in &overfull {
            let Some((_, order)) = self.keyed_order(*key) else { continue };
            if !order.may_retry(now_us) {
                self.overfull.push(*key);
            } else if self.feeds.get(*key).is_some_and(|local| local.is_input) {
                self.news.inputs.push(*key);
            }
        }
        overfull
    }

    /// Refuses publishes to shared topics that have waited for too long, as a broker does.
    pub(super) fn refuse_late(&mut self, now_us: u64) {
        if !self.common.streams.iter().any(|stream| stream.shares_keys()) {
            return;
        }
        let mut late = Vec::new();
        for (_, local) in self.feeds.iter_mut() {
            let keyed = local.broker_order().and_then(|(_, order)| order.keyed.as_mut());
            let before_us = now_us.saturating_sub(COMPARE_US_MAX);
            late.extend(keyed.into_iter().flat_map(|keyed| keyed.take_late(before_us)));
        }
        self.refuse_waiting(late, unavailable);
    }

    /// Refuses publishes and reads that wait for keyed topics of a broker that has ended, because neither a state
    /// nor an event comes any more.
    pub(super) fn refuse_keys_of(&mut self, broker: usize) {
        let mut waiting = Vec::new();
        for (_, local) in self.feeds.iter_mut() {
            let order = local.broker_order().map(|(_, order)| order);
            let order = order.filter(|order| order.is_of(broker));
            let Some(keyed) = order.and_then(|order| order.keyed.as_mut()) else { continue };
            let reads = std::mem::take(&mut keyed.reads);
            reads.into_iter().for_each(|read| drop(read.send(Err(Refusal::catching_up()))));
            waiting.extend(keyed.take_waiting());
        }
        self.refuse_waiting(waiting, unavailable);
    }

    /// Returns whether the broker of a topic has ended.
    fn lacks_broker(&mut self, key: FeedKey) -> bool {
        let order = self.feeds.get_mut(key).and_then(LocalTopic::broker_order);
        order.is_some_and(|(_, order)| self.stores.has_ended(order))
    }

    /// Answers those that wait for a topic that has gone.
    pub(super) fn abandon_waiting(&mut self, keyed: Option<Box<KeyedOrder>>) {
        let Some(keyed) = keyed else { return };
        let KeyedOrder { reads, waiting, .. } = *keyed;
        reads.into_iter().for_each(|read| drop(read.send(Err(Refusal::draining()))));
        self.refuse_waiting(waiting, Refusal::draining);
    }

    /// Requests the state of a topic if publishes, reads or other shards wait for it.
    pub(super) fn want_state(&mut self, key: FeedKey) {
        let owner = self.feeds.get(key).and_then(|local| local.owner.as_ref());
        let is_followed = owner.is_some_and(|owner| !owner.followers.is_empty());
        let is_wanted = self
            .keyed_order(key)
            .is_some_and(|(feed, order)| feed.is_loading() && (is_followed || order.is_awaited()));
        if is_wanted {
            self.want_backfill(key, 1, None);
        }
    }
}

impl LocalTopic {
    /// Returns whether its state did not fit into the memory a short time ago.
    pub(super) fn was_refused_lately(&self, now_us: u64) -> bool {
        let order = self.owner.as_ref().and_then(|owner| owner.keyed_order());
        order.is_some_and(|order| order.was_refused_lately(now_us))
    }

    /// Returns whether its state is being read.
    pub(super) fn is_loading(&self) -> bool {
        self.feed.as_ref().is_some_and(|feed| feed.is_loading())
    }

    /// Returns whether events of a broker have come that the feed does not have yet.
    pub(super) fn has_arrived(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.order.arrived_events() > 0)
    }

    /// Returns whether reading its state has no use, because it does not fit into the memory.
    pub(super) fn refuses_keys(&self) -> bool {
        let order = self.owner.as_ref().and_then(|owner| owner.keyed_order());
        order.is_some_and(|order| order.is_refused)
    }
}

/// Returns when the keys of a page expire.
pub(super) fn expiries_of(page: &ReadPage) -> PageExpiries {
    let mut expiring = Vec::new();
    for (first, payloads) in &page.records {
        let keys = (*first..).zip(payloads.keyed_events()).zip(payloads.expiries());
        let expire = keys.filter(|(_, expires_ms)| **expires_ms > 0);
        expiring.extend(expire.map(|((offset, (key, _)), at)| (offset, key.into(), *at)));
    }
    expiring
}

/// Returns the removals of keys, given with the offsets of their events, and their terms.
fn removals_of<'a>(expired: impl Iterator<Item = (&'a [u8], Offset)>) -> (Payloads, PublishTerms) {
    let (mut payloads, mut offsets) = (Payloads::default(), Vec::new());
    for (name, offset) in expired {
        payloads.push_keyed(&key_text(name), b"null");
        offsets.push(offset);
    }
    let terms = PublishTerms { expired: Some(offsets.into()), ..PublishTerms::default() };
    (payloads, terms)
}

fn no_room() -> Refusal {
    Refusal::new(
        ErrorCode::TooManyKeys,
        "the memory for keys is full: remove keys or topics, or set limits.history-bytes to a larger size",
    )
}
