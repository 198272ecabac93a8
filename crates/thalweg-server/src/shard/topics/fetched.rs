//! Fetched topics: their readers, and their documents.

use thalweg_core::{
    fanout::FeedKey,
    stream::{Backfill as _, Feed as _, Payloads},
};
use thalweg_wire::{EndCode, Topic};

use super::{
    Topics,
    demand::{DemandChange, TopicDemand},
    limits::Creator,
    local_topic::LocalTopic,
};
use crate::{
    clock::now_us,
    connection_limits::Address,
    fetch::{Fetched, Readers},
    shard::{
        broker::{SingleMessage, StoreAnswer},
        message::Ending,
    },
};

impl Topics {
    /// Counts a reader of a topic, here or on another shard that follows it. The fetcher must know which topics
    /// several addresses read.
    pub(super) fn add_reader(&mut self, key: FeedKey, address: Option<Address>) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        if local.origin.upstream().is_none() {
            return;
        }
        if local.owner.is_none() && local.subscribers.is_empty() {
            local.readers = None;
        }
        if local.readers.get_or_insert_default().add(address) {
            self.news.shared.push(local.topic.clone());
        }
    }

    pub(in crate::shard) fn fetched_readers(&self, key: FeedKey) -> Readers {
        let readers = self.feeds.get(key).and_then(|local| local.readers.as_deref());
        readers.copied().unwrap_or_default()
    }

    /// Returns the upstream of a fetched topic, as an index.
    pub(in crate::shard) fn upstream(&self, key: FeedKey) -> Option<usize> {
        self.feeds.get(key)?.origin.upstream()
    }

    /// Removes a fetched topic that has no readers.
    pub(in crate::shard) fn forget_fetched(&mut self, key: FeedKey, now_us: u64) {
        if let Some(local) = self.feeds.get_mut(key) {
            local.readers = None;
        }
        self.forget(key, now_us);
    }

    /// Appends a fetched document, if the topic still has demand.
    pub(in crate::shard) fn receive_fetched(&mut self, fetched: Fetched) {
        let Fetched { topic, document, asked_us } = fetched;
        let Some(key) = self.feeds.find(&topic).filter(|key| self.is_wanted(*key)) else { return };
        if self.feeds.get(key).is_some_and(|local| local.origin.is_broker_topic()) {
            return self.store_fetched(key, topic, document, asked_us);
        }
        let Some(mut payloads) = document else {
            return self.end(key, Ending::Ended(EndCode::Gone), now_us());
        };
        match self.open(&topic, Creator::Publisher) {
            Ok(key) => drop(self.append(key, &mut payloads, now_us())),
            Err(refused) => {
                self.counts.count_refused(refused.code);
                tracing::warn!(%topic, why = refused.message, "a fetched document is dropped");
                self.fetch_again(key);
            }
        }
    }

    /// Stores a fetched document, unless the stream has the same one or another server was faster. Each server
    /// with subscribers fetches.
    fn store_fetched(
        &mut self,
        key: FeedKey,
        topic: Topic,
        document: Option<Payloads>,
        asked_us: u64,
    ) {
        if self.looks_for_version(key) {
            return;
        }
        // Records that have come are newer than the document.
        self.seal_feed(key, now_us());
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::broker_order) else {
            return;
        };
        let (stored, newest) = (feed.newest_version(), order.newest);
        let has_come_since = stored.is_some_and(|stored| stored.sealed_us() >= asked_us);
        let stored = stored.map(|version| version.last_event());
        match (document, stored) {
            (Some(document), Some(stored)) if document.joined() == stored => {}
            // Another server may have stored a newer document, or a publish in flight may be older and would replace this one.
            _ if has_come_since || !order.outbox.is_empty() => self.fetch_again(key),
            (Some(mut document), _) => {
                let answer = StoreAnswer::Fetched(topic);
                self.store_in(key, &mut document, Some(SingleMessage::Fetched(newest)), answer);
            }
            (None, Some(_)) => {
                let (mut none, end) = (Payloads::default(), SingleMessage::Gone(newest));
                self.store_in(key, &mut none, Some(end), StoreAnswer::Fetched(topic));
            }
            // The stream has no version that could end.
            (None, None) => self.end_broker_topic(key, Ending::Ended(EndCode::Gone)),
        }
    }

    /// Returns whether the version in the stream is unknown. If so, a backfill is requested, and [`Self::fetch_again`] follows.
    pub(in crate::shard) fn looks_for_version(&mut self, key: FeedKey) -> bool {
        let feed = self.feeds.get(key).and_then(|local| local.feed.as_ref());
        let is_unknown = feed.is_some_and(|feed| feed.is_state() && feed.needs_backfill(0));
        if is_unknown {
            self.want_backfill(key, 0, None);
        }
        is_unknown
    }

    /// Tells the fetcher that a fetched topic is removed although it has readers.
    pub(super) fn stop_fetching(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get(key) else { return };
        if self.is_wanted(key) && local.origin.upstream().is_some() {
            self.news.unfetched.push(local.topic.clone());
        }
    }

    /// Fetches the document of a topic again, even if the fetcher knows its version.
    pub(super) fn fetch_again(&mut self, key: FeedKey) {
        if self.is_wanted(key) && self.upstream(key).is_some() {
            self.news.demand.push((key, DemandChange::Start));
        }
    }

    fn is_wanted(&self, key: FeedKey) -> bool {
        let owner = self.feeds.get(key).and_then(|local| local.owner.as_ref());
        owner.is_some_and(|owner| owner.demand != TopicDemand::None)
    }
}
