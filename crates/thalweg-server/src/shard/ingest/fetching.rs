//! Tells the fetcher about the demand for fetched topics.

use std::collections::VecDeque;

use thalweg_core::fanout::FeedKey;
use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use crate::{
    clock::now_us,
    fetch,
    shard::{
        common::Common,
        topics::{DemandChange, Topics},
    },
};

pub(super) struct Fetching {
    shard: usize,
    common: Common,
    /// Demands that the fetcher had no room for, in order.
    unsent: VecDeque<fetch::FetchDemand>,
}

impl Fetching {
    pub(super) fn new(shard: usize, common: Common) -> Self {
        Self { shard, common, unsent: VecDeque::new() }
    }

    /// Starts or stops the fetches of a topic.
    pub(super) fn demand_changed(
        &mut self,
        topics: &mut Topics,
        key: FeedKey,
        change: DemandChange,
    ) {
        let Some(topic) = topics.topic(key).cloned() else { return };
        let Some(upstream) = topics.upstream(key) else { return };
        match change {
            DemandChange::Start if topics.looks_for_version(key) => {}
            DemandChange::Start => {
                let (shard, readers) = (self.shard, topics.fetched_readers(key));
                self.unsent.push_back(fetch::FetchDemand::Start {
                    shard,
                    topic,
                    upstream,
                    readers,
                });
            }
            DemandChange::Stop => {
                // A later subscriber waits for a new document.
                topics.forget_fetched(key, now_us());
                self.stop(topic);
            }
        }
    }

    pub(super) fn stop(&mut self, topic: Topic) {
        self.unsent.push_back(fetch::FetchDemand::Stop(topic));
    }

    /// Tells the fetcher that several addresses read a topic.
    pub(super) fn share(&mut self, topic: Topic) {
        self.unsent.push_back(fetch::FetchDemand::Share(topic));
    }

    /// Sends the demands to the fetcher. Returns `false` if its queue is full.
    pub(super) fn post_demands(&mut self) -> bool {
        let Some(demands) = &self.common.demands else { return true };
        while let Some(demand) = self.unsent.pop_front() {
            match demands.try_send(demand) {
                Err(TrySendError::Full(demand)) => {
                    self.unsent.push_front(demand);
                    return false;
                }
                // The server ends when the fetcher has ended.
                Ok(()) | Err(TrySendError::Closed(_)) => {}
            }
        }
        true
    }
}
