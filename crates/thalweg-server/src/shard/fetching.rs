//! Topics that are fetched from elsewhere: what is wanted of them, and what has come.

use std::collections::VecDeque;

use thalweg_wire::{EndCode, Topic};
use tokio::sync::mpsc::error::TrySendError;

use super::{
    Common,
    demand::{Demand, DemandChange},
    fed_order::{Alone, Answer},
    local_topic::{Ending, LocalTopic},
    topic_limits::Creator,
    topics::Topics,
};
use crate::{
    clock::now_us,
    connection_limits::Address,
    fetch::{self, Fetched},
    refusal::Refusal,
};
use thalweg_core::{
    fanout::FeedKey,
    stream::{FeedKind, Payloads},
};

/// The fetched topics whose home is this shard, as the fetcher is told of them.
pub(super) struct Fetching {
    shard: usize,
    common: Common,
    /// Demands that the fetcher had no room for yet, in order.
    unsent: VecDeque<fetch::Demand>,
}

impl Fetching {
    pub(super) fn new(shard: usize, common: Common) -> Self {
        Self { shard, common, unsent: VecDeque::new() }
    }

    /// Refuses to publish to a topic that is fetched, or whose events are the rows of a query.
    ///
    /// # Errors
    /// If it is.
    pub(super) fn check_publish(&self, topic: &Topic) -> Result<(), Refusal> {
        match self.common.config.upstream(topic) {
            Some(_) => Err(Refusal::fetched(topic)),
            None if self.common.config.is_derived(topic) => Err(Refusal::derived(topic)),
            None => Ok(()),
        }
    }

    /// Has the document of a topic fetched from now on, or no longer.
    pub(super) fn demand_changed(
        &mut self,
        topics: &mut Topics,
        key: FeedKey,
        change: DemandChange,
    ) {
        let Some(local) = topics.feeds.get(key) else { return };
        let readers = local.readers.as_deref().copied().unwrap_or_default();
        let topic = local.topic.clone();
        let Some(upstream) = self.common.config.upstream(&topic) else { return };
        match change {
            DemandChange::Start if topics.looks_for_version(key) => {}
            DemandChange::Start => {
                let shard = self.shard;
                self.unsent.push_back(fetch::Demand::Start { shard, topic, upstream, readers });
            }
            DemandChange::Stop => {
                if let Some(local) = topics.feeds.get_mut(key) {
                    local.readers = None;
                }
                // Whoever comes later waits for a document that is not old.
                topics.forget(key, now_us());
                self.stop(topic);
            }
        }
    }

    /// Has a topic fetched no longer.
    pub(super) fn stop(&mut self, topic: Topic) {
        self.unsent.push_back(fetch::Demand::Stop(topic));
    }

    /// Has a topic fetched as one that several addresses read.
    pub(super) fn share(&mut self, topic: Topic) {
        self.unsent.push_back(fetch::Demand::Share(topic));
    }

    /// Tells the fetcher what is wanted; `false` if it had no room.
    pub(super) fn post_demands(&mut self) -> bool {
        let Some(demands) = &self.common.demands else { return true };
        while let Some(demand) = self.unsent.pop_front() {
            match demands.try_send(demand) {
                Err(TrySendError::Full(demand)) => {
                    self.unsent.push_front(demand);
                    return false;
                }
                // A fetcher that has ended ends the server.
                Ok(()) | Err(TrySendError::Closed(_)) => {}
            }
        }
        true
    }
}

impl Topics {
    /// A client counted for `address` reads a topic on this shard, or on another one whose home this is.
    /// The fetcher must know of topics that several addresses read.
    pub(super) fn add_reader(&mut self, key: FeedKey, address: Option<Address>) {
        let config = &self.common.config;
        let Some(local) = self.feeds.get_mut(key) else { return };
        if config.upstreams.is_empty() || config.upstream(&local.topic).is_none() {
            return;
        }
        if local.home.is_none() && local.subscribers.is_empty() {
            local.readers = None;
        }
        if local.readers.get_or_insert_default().add(address) {
            self.news.shared.push(local.topic.clone());
        }
    }

    /// Takes in what has come of a topic, if somebody still wants it.
    pub(super) fn take_fetched(&mut self, fetched: Fetched) {
        let Fetched { topic, document, asked_us } = fetched;
        let Some(key) = self.feeds.find(&topic).filter(|key| self.is_wanted(*key)) else { return };
        if self.is_fed(&topic) {
            return self.store_fetched(key, topic, document, asked_us);
        }
        let Some(mut payloads) = document else {
            return self.end(key, Ending::Told(EndCode::Gone), now_us());
        };
        match self.open(&topic, Creator::Publisher) {
            Ok(key) => drop(self.append(key, &mut payloads, now_us())),
            Err(refused) => {
                self.counts.count_refused(refused.code);
                tracing::warn!(%topic, why = refused.message, "not kept");
                self.fetch_anew(key);
            }
        }
    }

    /// Has a document stored that was fetched, if it is another one than the stream has, and no other
    /// server was faster: each server with subscribers fetches.
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
        // What has come from the stream is the newest.
        self.seal_feed(key, now_us());
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else { return };
        let (stored, newest) = (feed.newest_version(), order.newest);
        let has_come_since = stored.is_some_and(|stored| stored.sealed_us() >= asked_us);
        let stored = stored.map(|version| version.last_event());
        match (document, stored) {
            (Some(document), Some(stored)) if document.joined() == stored => {}
            // Another server may have stored a newer one; or what is under way would replace it, and may be
            // older.
            _ if has_come_since || !order.outbox.is_empty() => self.fetch_anew(key),
            (Some(mut document), _) => {
                let answer = Answer::Fetched(topic);
                self.store_in(key, &mut document, Some(Alone::Fetched(newest)), answer);
            }
            (None, Some(_)) => {
                let (mut none, end) = (Payloads::default(), Alone::Gone(newest));
                self.store_in(key, &mut none, Some(end), Answer::Fetched(topic));
            }
            // The stream has nothing that could end.
            (None, None) => self.end_fed(key, Ending::Told(EndCode::Gone)),
        }
    }

    /// Whether it is not known what the stream has of a topic. Then that is looked for, and
    /// [`Self::fetch_anew`] follows.
    fn looks_for_version(&mut self, key: FeedKey) -> bool {
        let feed = self.feeds.get(key).and_then(|local| local.feed.as_ref());
        let is_away = feed.is_some_and(|feed| feed.kind() == FeedKind::Value && feed.is_away(0));
        if is_away {
            self.recalls.want(key, 0, None);
        }
        is_away
    }

    /// A topic goes without its readers having gone: if it is fetched, the fetcher must be told.
    pub(super) fn stop_fetching(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get(key) else { return };
        if self.is_wanted(key) && self.common.config.upstream(&local.topic).is_some() {
            self.news.unfetched.push(local.topic.clone());
        }
    }

    /// A topic has no document, whatever the fetcher knows of one: if it is fetched, it must come again.
    pub(super) fn fetch_anew(&mut self, key: FeedKey) {
        let config = &self.common.config;
        let is_fetched = |local: &LocalTopic| config.upstream(&local.topic).is_some();
        if self.is_wanted(key) && self.feeds.get(key).is_some_and(is_fetched) {
            self.news.demand.push((key, DemandChange::Start));
        }
    }

    fn is_wanted(&self, key: FeedKey) -> bool {
        let home = self.feeds.get(key).and_then(|local| local.home.as_ref());
        home.is_some_and(|home| home.demand != Demand::None)
    }
}
