//! What is published to fed topics: on its way to the backend, which stores it, and answered by
//! what became of it there.

use thalweg_wire::{EndCode, ErrorCode, Topic};
use tokio::sync::mpsc::error::TrySendError;

use super::{
    fed_order::{Alone, Answer},
    local_topic::LocalTopic,
    publish_result::PublishResult,
    topics::Topics,
};
use crate::{
    backend::{Content, Reply, RetryKey, Store, StoreError, Stored, offset_of},
    clock::now_us,
    config::UNSTORED_BYTES_MAX,
    refusal::Refusal,
};
use thalweg_core::{
    fanout::FeedKey,
    stream::{Answered, Appended, Message, Outbox, Outcome, Payloads},
};

impl Topics {
    /// Has events stored in a fed topic whose home is this shard, and answers then.
    pub(super) fn store(
        &mut self,
        topic: &Topic,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
        answer: Answer,
    ) {
        match self.open_fed(topic) {
            Ok(key) => self.store_in(key, payloads, retry_key.map(Alone::Retry), answer),
            Err(refusal) => {
                payloads.clear();
                answer.send(Err(refusal));
            }
        }
    }

    /// The same in a topic that is here.
    pub(super) fn store_in(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        mark: Option<Alone>,
        answer: Answer,
    ) {
        let before = self.unstored_bytes;
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else {
            payloads.clear();
            return answer.send(Err(Refusal::draining()));
        };
        if payloads.is_empty()
            && !matches!(mark, Some(Alone::Gone(_) | Alone::Deleted | Alone::Paused { .. }))
        {
            let (epoch, head) = (feed.epoch(), feed.head());
            let appended = Appended { first: head, end: head };
            let result = PublishResult { epoch, appended, count: 0, replayed: false };
            return answer.send(Ok(result));
        }
        let bytes_max = order.outbox.bounds().bytes_max;
        if payloads.iter().any(|event| event.len() > bytes_max) {
            let message = format!(
                "an event of this topic has at most {bytes_max} bytes, the largest message of its \
                 stream: make it smaller, or raise max_payload of the NATS servers"
            );
            payloads.clear();
            return answer.send(Err(Refusal::new(ErrorCode::EventTooLarge, message)));
        }
        let held = order.outbox.bytes();
        if before + payloads.joined().len() > UNSTORED_BYTES_MAX {
            payloads.clear();
            self.fetch_anew(key);
            return answer.send(Err(Refusal::busy("events that wait to be stored")));
        }
        order.outbox.push(payloads, mark, answer, now_us());
        self.unstored_bytes += order.outbox.bytes() - held;
        self.mark_unstored(key);
    }

    /// Notes that a topic may have a message to store.
    pub(super) fn mark_unstored(&mut self, key: FeedKey) {
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed)
            && order.outbox.is_due()
            && !std::mem::replace(&mut order.is_unstored, true)
        {
            self.unstored.push(key);
        }
    }

    /// Passes messages to the backend; `false` if it has no room for one now.
    pub(super) fn post_stores(&mut self) -> bool {
        let Some(stores) = &self.common.stores else { return true };
        while let Some(key) = self.unstored.last().copied() {
            let place = match stores.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(())) => return false,
                // A backend that has ended ends the server.
                Err(TrySendError::Closed(())) => return true,
            };
            self.unstored.pop();
            let Some(local) = self.feeds.get_mut(key) else { continue };
            let topic = local.topic.clone();
            let Some((_, order)) = local.fed() else { continue };
            order.is_unstored = false;
            if let Some(Message { payloads, mark, arrived_us }) = order.outbox.take() {
                self.stores += 1;
                self.stores_under_way += 1;
                (order.under_way, order.under_way_bytes) =
                    (self.stores, payloads.bytes_of_events());
                let reply = Reply::new(topic.clone(), self.stores, self.answers.clone());
                let (content, key, after) = match mark {
                    None => (Content::Events(payloads), None, None),
                    Some(Alone::Retry(key)) => (Content::Events(payloads), Some(key), None),
                    Some(Alone::Fetched(after)) => (Content::Events(payloads), None, Some(after)),
                    Some(Alone::Gone(after)) => (Content::End(EndCode::Gone), None, Some(after)),
                    Some(Alone::Deleted) => (Content::End(EndCode::Deleted), None, None),
                    Some(Alone::Paused { ms, after }) => (Content::Paused(ms), None, Some(after)),
                };
                let stream = order.stream;
                place.send(Store { stream, topic, content, key, after, arrived_us, reply });
            }
        }
        true
    }

    /// Whether every publish is answered that is to be stored.
    pub(super) fn has_stored_all(&self) -> bool {
        self.stores_under_way == 0 && self.unstored_bytes == 0
    }

    /// What was under way of a topic is stored, or not.
    pub(super) fn answer_stored(
        &mut self,
        topic: &Topic,
        number: u64,
        result: &Result<Stored, StoreError>,
    ) {
        let Some(key) = self.feeds.find(topic) else { return };
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else { return };
        // The topic may have ended, and another be there under its name.
        if order.under_way != number {
            return;
        }
        self.unstored_bytes -= std::mem::take(&mut order.under_way_bytes);
        order.under_way = 0;
        let outcome = match result {
            Ok(stored) => {
                // The stream may have become another one meanwhile.
                if stored.epoch == feed.epoch() {
                    order.has_message(stored.sequence);
                }
                Outcome::Stored(offset_of(stored.sequence, 0))
            }
            Err(StoreError::Unknown) => Outcome::Unknown,
            Err(StoreError::Outdated(Some(newest))) => {
                // It may be one that nobody can read, so that it never comes.
                order.newest = *newest;
                Outcome::NotStored
            }
            Err(_) => Outcome::NotStored,
        };
        let answered: Vec<Answered<Answer>> = order.outbox.settle(outcome).collect();
        let is_end = |answered: &Answered<Answer>| matches!(answered.answer, Answer::Deleted(_));
        let is_deleted = answered.iter().any(is_end);
        for Answered { answer, count, outcome } in answered {
            let stored = match (outcome, result) {
                (Outcome::Stored(appended), Ok(stored)) => {
                    // An end is no event.
                    let count = if is_deleted { 0 } else { count as u64 };
                    let epoch = stored.epoch;
                    let replayed = stored.is_repetition;
                    let counter = match replayed {
                        true => &self.counts.retries_replayed,
                        false => &self.counts.events_published,
                    };
                    counter.add(if replayed { 1 } else { count });
                    Ok(PublishResult { epoch, appended, count, replayed })
                }
                // Nobody waits for what may be outdated.
                (_, Err(StoreError::Outdated(_))) => continue,
                (Outcome::NotStored, Err(failure)) => Err(refusal(failure)),
                _ => Err(refusal(&StoreError::Unknown)),
            };
            answer.send(stored);
        }
        self.mark_unstored(key);
        // The end may have come before this answer, and what waited has made another topic.
        if is_deleted && self.feeds.get(key).is_some_and(LocalTopic::is_idle) {
            return self.forget(key, now_us());
        }
        if result.is_err() {
            // What was fetched would otherwise be missing until it changes.
            self.fetch_anew(key);
        }
    }

    /// Gives up what waits to be stored in a topic that is forgotten.
    pub(super) fn abandon_stores(&mut self, key: FeedKey) {
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) {
            let empty = Outbox::new(order.outbox.bounds());
            let outbox = std::mem::replace(&mut order.outbox, empty);
            order.under_way = 0;
            let under_way_bytes = std::mem::take(&mut order.under_way_bytes);
            self.abandon(outbox, under_way_bytes);
        }
    }

    /// Gives up what waits to be stored, and answers that.
    pub(super) fn abandon(&mut self, mut outbox: Outbox<Alone, Answer>, under_way_bytes: usize) {
        self.unstored_bytes -= outbox.bytes() + under_way_bytes;
        for Answered { answer, outcome, .. } in outbox.abandon() {
            let is_not = outcome == Outcome::NotStored;
            let why = if is_not { StoreError::Unavailable } else { StoreError::Unknown };
            answer.send(Err(refusal(&why)));
        }
    }
}

fn refusal(failure: &StoreError) -> Refusal {
    match failure {
        StoreError::Unavailable | StoreError::Outdated(_) => Refusal::new(
            ErrorCode::Unavailable,
            "the stream of this topic has no leader now, nothing was stored: try again",
        ),
        StoreError::Unknown => Refusal::unknown(),
        StoreError::KeyReused => Refusal::key_reused(),
        StoreError::Refused(why) => Refusal::new(ErrorCode::Unavailable, why.clone()),
    }
}
