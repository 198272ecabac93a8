//! Topics that are fed: a stream of the backend gives their order. What is published to them goes
//! to the backend, and what that brings is appended, in the order of the stream.

use thalweg_wire::{Epoch, ErrorCode, Topic};
use tokio::sync::mpsc::error::TrySendError;

use super::{
    fed_order::Answer,
    local_topic::{Ending, LocalTopic},
    publish_result::PublishResult,
    topic_limits::Creator,
    topics::Topics,
};
use crate::{
    backend::{
        Fed, FromBackend, Reply, RetryKey, SEQUENCE_MAX, Store, StoreError, Stored, offset_of,
    },
    clock::now_us,
    config::UNSTORED_BYTES_MAX,
    fanout::FeedKey,
    refusal::Refusal,
    stream::{Answered, Appended, Batch, Message, Outbox, Payloads},
};

impl Topics {
    /// Whether a topic is fed.
    pub(super) fn is_fed(&self, topic: &Topic) -> bool {
        self.feeds.streams.of(topic).is_some()
    }

    /// Has events stored in a fed topic whose home is this shard, and answers then.
    pub(super) fn store(
        &mut self,
        topic: &Topic,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
        answer: Answer,
    ) {
        match self.open(topic, Creator::Publisher) {
            Ok(key) => self.store_in(key, payloads, retry_key, answer),
            Err(refusal) => send(answer, Err(refusal)),
        }
    }

    /// The same in a topic that is here.
    pub(super) fn store_in(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
        answer: Answer,
    ) {
        let before = self.unstored_bytes;
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else {
            return send(answer, Err(Refusal::draining()));
        };
        if payloads.is_empty() {
            let (epoch, head) = (feed.epoch(), feed.head());
            let appended = Appended { first: head, end: head };
            let result = PublishResult { epoch, appended, count: 0, replayed: false };
            return send(answer, Ok(result));
        }
        let bytes_max = order.outbox.bounds().bytes_max;
        if payloads.iter().any(|event| event.len() > bytes_max) {
            let message = format!(
                "an event of this topic has at most {bytes_max} bytes, the largest message of its \
                 stream: make it smaller, or raise max_payload of the NATS servers"
            );
            return send(answer, Err(Refusal::new(ErrorCode::EventTooLarge, message)));
        }
        let held = order.outbox.bytes();
        if before + payloads.joined().len() > UNSTORED_BYTES_MAX {
            payloads.clear();
            return send(answer, Err(Refusal::busy("events that wait to be stored")));
        }
        order.outbox.push(payloads, retry_key, answer);
        self.unstored_bytes += order.outbox.bytes() - held;
        self.mark_unstored(key);
    }

    /// Notes that a topic may have a message to store.
    fn mark_unstored(&mut self, key: FeedKey) {
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
        let mut unstored = std::mem::take(&mut self.unstored);
        unstored.retain(|key| {
            let Some(local) = self.feeds.get_mut(*key) else { return false };
            let topic = local.topic.clone();
            let Some((_, order)) = local.fed() else { return false };
            let place = match stores.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(())) => return true,
                // A backend that has ended ends the server.
                Err(TrySendError::Closed(())) => return false,
            };
            order.is_unstored = false;
            let held = order.outbox.bytes();
            if let Some(Message { payloads, key }) = order.outbox.take() {
                self.unstored_bytes -= held - order.outbox.bytes();
                let shard = self.from_backend.clone();
                let (stream, reply) = (order.stream, Reply { topic: topic.clone(), shard });
                place.send(Store { stream, topic, payloads, key, reply });
            }
            false
        });
        self.unstored = unstored;
        self.unstored.is_empty()
    }

    /// Takes what comes from the backend.
    pub(super) fn take_from_backend(&mut self, message: FromBackend) {
        match message {
            FromBackend::Batch(fed) => self.take_batch(fed),
            FromBackend::Stored { topic, result } => self.answer_stored(&topic, &result),
            FromBackend::Page { id, result } => self.take_page(id, result),
            FromBackend::Restarted { stream, epoch, from_sequence } => {
                self.restart(stream, epoch, from_sequence);
            }
        }
    }

    /// A message of a stream. A topic that there is no room for is not kept: who subscribes to it
    /// later has it read back.
    fn take_batch(&mut self, fed: Fed) {
        let Fed { stream, sequence, topic, payloads } = fed;
        let mut opened = self.open(&topic, Creator::Publisher);
        if opened.is_err() && self.evict_unread() {
            opened = self.open(&topic, Creator::Publisher);
        }
        self.feeds.streams.has_come(stream, sequence);
        let is_kept = opened.is_ok();
        let Some(key) = opened.ok().or_else(|| self.feeds.find(&topic)) else {
            return self.feeds.streams.forget(stream);
        };
        let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else { return };
        let first = offset_of(sequence, 0);
        if first < order.head || sequence > SEQUENCE_MAX || payloads.is_empty() {
            return;
        }
        let batch = Batch::seal(order.head, first, payloads, now_us());
        order.head = batch.end();
        if is_kept {
            order.arrived.push(batch);
            return self.mark_due(key);
        }
        // Its readers find that it is not here, and have it read back.
        let head = batch.end();
        if let Some(feed) = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut()) {
            feed.skip_to(head);
            self.news.batches.push(key);
        }
    }

    /// Makes room for another topic: one that is fed and that nobody reads goes. `false` if none
    /// was found soon.
    fn evict_unread(&mut self) -> bool {
        let Some(key) = self.feeds.unread_fed() else { return false };
        self.history_bytes -= self.feeds.history_bytes(key);
        self.feeds.remove(key);
        self.counts.topics_evicted.add(1);
        true
    }

    /// What was under way of a topic is stored, or not.
    fn answer_stored(&mut self, topic: &Topic, result: &Result<Stored, StoreError>) {
        let Some(key) = self.feeds.find(topic) else { return };
        let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else { return };
        let failure = result.as_ref().err().cloned().unwrap_or(StoreError::Unknown);
        let answered: Vec<Answered<Answer>> = match result {
            Ok(stored) => order.outbox.stored(offset_of(stored.sequence, 0)).collect(),
            Err(_) => order.outbox.failed().collect(),
        };
        for Answered { answer, count, appended } in answered {
            let stored = result.as_ref().ok().zip(appended).map(|(stored, appended)| {
                let (epoch, count) = (stored.epoch, count as u64);
                PublishResult { epoch, appended, count, replayed: stored.is_repetition }
            });
            if let Some(stored) = stored.filter(|stored| !stored.replayed) {
                self.counts.events_published.add(stored.count);
            }
            send(answer, stored.ok_or_else(|| refusal(&failure)));
        }
        self.mark_unstored(key);
    }

    /// A stream is another one. Subscribers come again with positions of the one before, and are
    /// told of the gap.
    fn restart(&mut self, stream: usize, epoch: Epoch, from_sequence: u64) {
        self.feeds.streams.restart(stream, epoch, from_sequence);
        let fed = self.feeds.iter_mut().filter_map(|(key, local)| Some((key, local.fed()?)));
        let restarted = fed.filter(|(_, (_, order))| order.stream == stream);
        let restarted: Vec<FeedKey> = restarted.map(|(key, _)| key).collect();
        for key in restarted {
            self.restart_topic(key);
        }
    }

    fn restart_topic(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let topic = local.topic.clone();
        let Some((_, order)) = local.fed() else { return };
        let empty = Outbox::new(order.outbox.bounds());
        let outbox = std::mem::replace(&mut order.outbox, empty);
        self.unstored_bytes -= outbox.bytes();
        self.end(key, Ending::Restarted, now_us());
        // What waits to be stored goes to the new one.
        if outbox.is_empty() {
            return;
        }
        let Ok(key) = self.open(&topic, Creator::Publisher) else { return };
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) {
            self.unstored_bytes += outbox.bytes();
            order.outbox = outbox;
            self.mark_unstored(key);
        }
    }
}

fn send(answer: Answer, result: Result<PublishResult, Refusal>) {
    if let Some(answer) = answer {
        // The publisher may be gone by then.
        let _ = answer.send(result);
    }
}

fn refusal(failure: &StoreError) -> Refusal {
    match failure {
        StoreError::Unavailable => Refusal::new(
            ErrorCode::Unavailable,
            "the stream of this topic has no leader now, nothing was stored: try again",
        ),
        StoreError::Unknown => Refusal::new(
            ErrorCode::Unknown,
            "it may have been stored, nobody knows: read the topic, or publish with an \
             Idempotency-Key, which may be repeated",
        ),
        StoreError::KeyReused => Refusal::key_reused(),
        StoreError::Refused(why) => Refusal::new(ErrorCode::Unavailable, why.clone()),
    }
}
