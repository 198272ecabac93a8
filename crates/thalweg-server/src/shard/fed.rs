//! Topics that are fed: what a stream of the backend brings is appended, in its order.

use thalweg_wire::{Epoch, Topic};

use super::{
    local_topic::{Ending, LocalTopic},
    topic_limits::Creator,
    topics::Topics,
};
use crate::{
    backend::{Content, Fed, FromBackend, SEQUENCE_MAX, offset_of},
    clock::now_us,
    refusal::Refusal,
};
use thalweg_core::{
    fanout::FeedKey,
    stream::{Batch, Outbox, Payloads},
};

impl Topics {
    /// Whether a topic is fed.
    pub(super) fn is_fed(&self, topic: &Topic) -> bool {
        self.feeds.streams.of(topic).is_some()
    }

    /// Takes what comes from the backend.
    pub(super) fn take_from_backend(&mut self, message: FromBackend) {
        match message {
            FromBackend::Messages(fed) => fed.into_iter().for_each(|fed| self.take_fed(fed)),
            FromBackend::Stored { topic, number, result } => {
                self.stores_under_way -= 1;
                self.answer_stored(&topic, number, &result);
            }
            FromBackend::Page { id, result } => self.take_page(id, result),
            FromBackend::Restarted { stream, epoch, from_sequence } => {
                self.restart(stream, epoch, from_sequence);
            }
        }
    }

    /// Takes a message of a stream in.
    fn take_fed(&mut self, fed: Fed) {
        let Fed { stream, sequence, topic, content } = fed;
        if self.common.config.is_derived(&topic) {
            // Somebody has stored what only queries make.
            return self.feeds.streams.has_come(stream, sequence);
        }
        match content {
            Content::Events(payloads) => self.take_events(stream, sequence, &topic, payloads),
            Content::Paused(ms) => {
                self.feeds.streams.has_come(stream, sequence);
                self.take_pause(stream, &topic, sequence, ms);
            }
            Content::End(code) => {
                let streams = &mut self.feeds.streams;
                streams.has_come(stream, sequence);
                // Whoever opens it from now on opens another one, which begins after this.
                streams.move_known_from(stream);
                let key = self.feeds.find(&topic);
                let local = key.and_then(|key| self.feeds.get_mut(key));
                let head = local.and_then(|local| local.fed().map(|(_, order)| order.head));
                // What is here may have been read back, and be another one already.
                let is_its = head.is_some_and(|head| head <= offset_of(sequence, 0));
                if let Some(key) = key.filter(|_| is_its) {
                    self.end_fed(key, Ending::Told(code));
                }
            }
        }
    }

    /// Takes events of a topic in. A topic that there is no room for is not kept: who subscribes to it
    /// later has it read back.
    fn take_events(&mut self, stream: usize, sequence: u64, topic: &Topic, payloads: Payloads) {
        let opened = self.open_fed(topic);
        self.feeds.streams.has_come(stream, sequence);
        let is_kept = opened.is_ok();
        let Some(key) = opened.ok().or_else(|| self.feeds.find(topic)) else {
            return self.feeds.streams.move_known_from(stream);
        };
        let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else { return };
        let first = offset_of(sequence, 0);
        if first < order.head || sequence > SEQUENCE_MAX || payloads.is_empty() {
            return;
        }
        let batch = Batch::seal(order.head, first, payloads, now_us());
        order.head = batch.end();
        order.has_message(sequence);
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
        self.mark_unposted(key);
    }

    /// Opens a fed topic, and makes room for it if there is none.
    ///
    /// # Errors
    /// When no other one can go.
    pub(super) fn open_fed(&mut self, topic: &Topic) -> Result<FeedKey, Refusal> {
        let opened = self.open(topic, Creator::Publisher);
        match opened.is_err() && self.evict_unread() {
            true => self.open(topic, Creator::Publisher),
            false => opened,
        }
    }

    /// Makes room for another topic: one that is fed and that nobody reads goes. `false` if none
    /// was found soon.
    fn evict_unread(&mut self) -> bool {
        let Some(key) = self.feeds.unread_fed() else { return false };
        self.stop_fetching(key);
        self.history_bytes -= self.feeds.history_bytes(key);
        self.feeds.remove(key);
        self.counts.topics_evicted.add(1);
        true
    }

    /// A stream is another one. Subscribers come again with positions of the one before, and are
    /// told of the gap.
    fn restart(&mut self, stream: usize, epoch: Epoch, from_sequence: u64) {
        self.feeds.streams.restart(stream, epoch, from_sequence);
        let fed = self.feeds.iter_mut().filter_map(|(key, local)| Some((key, local.fed()?)));
        let restarted = fed.filter(|(_, (_, order))| order.stream == stream);
        let restarted: Vec<FeedKey> = restarted.map(|(key, _)| key).collect();
        for key in restarted {
            self.end_fed(key, Ending::Restarted);
        }
    }

    /// Ends a fed topic. What waits to be stored goes to the next one under its name.
    pub(super) fn end_fed(&mut self, key: FeedKey, ending: Ending) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let topic = local.topic.clone();
        let Some((_, order)) = local.fed() else { return };
        let empty = Outbox::new(order.outbox.bounds());
        let mut outbox = std::mem::replace(&mut order.outbox, empty);
        let under_way = std::mem::take(&mut order.under_way);
        let under_way_bytes = std::mem::take(&mut order.under_way_bytes);
        self.stop_fetching(key);
        self.end(key, ending, now_us());
        if outbox.is_empty() {
            return;
        }
        // If there is room for it.
        let opened = self.open_fed(&topic).ok();
        let order = opened.and_then(|key| self.feeds.get_mut(key)?.fed().map(|(_, order)| order));
        let Some(order) = order else {
            return self.abandon(outbox, under_way_bytes);
        };
        if ending == Ending::Restarted {
            outbox.restart();
        }
        order.outbox = outbox;
        (order.under_way, order.under_way_bytes) = (under_way, under_way_bytes);
        opened.into_iter().for_each(|key| self.mark_unstored(key));
    }
}
