//! The entry point for events of requests, commands, sources and other shards.

mod fetching;
mod idempotency;
mod queries;
mod query_log;
mod query_pace;
mod query_start;
mod running_query;
mod sources;

use std::sync::Arc;

use thalweg_core::{fanout::FeedKey, stream::Payloads};
use thalweg_wire::{Position, Topic};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

pub(crate) use idempotency::IdempotencyHasher;

use super::{
    broker::StoreAnswer,
    common::Common,
    message::ShardMessage,
    publish_result::PublishResult,
    topics::{Creator, Topics},
};
use crate::{
    broker::PublishTerms, clock::now_us, derived::DerivedTopic, metrics::Counts,
    owner_shard::owner_shard, refusal::Refusal, source::Scheduled,
};
use fetching::Fetching;
use idempotency::IdempotencyCache;
use queries::Queries;
use sources::Sources;

pub(super) struct Ingest {
    shard: usize,
    common: Common,
    idempotency_cache: IdempotencyCache,
    sources: Sources,
    queries: Queries,
    fetching: Fetching,
    counts: Arc<Counts>,
}

/// A publish. If this shard owns the topic it is done at once. Otherwise the owner shard answers later.
pub(super) enum PendingPublish {
    Done(Result<PublishResult, Refusal>),
    /// The owner shard has the events. `is_stored`: a broker stores them, perhaps even if the owner shard ends before it answers.
    Posted {
        result: PublishAnswer,
        is_stored: bool,
    },
    /// The owner shard's queue is full, and the events wait here.
    Waiting {
        owner: mpsc::Sender<ShardMessage>,
        message: ShardMessage,
        result: PublishAnswer,
        is_stored: bool,
    },
}

type PublishAnswer = oneshot::Receiver<Result<PublishResult, Refusal>>;

impl PendingPublish {
    /// Waits for the result. Fails if the owner shard refuses the events, or has ended.
    pub(super) async fn result(self) -> Result<PublishResult, Refusal> {
        let (result, is_stored) = match self {
            Self::Done(result) => return result,
            Self::Posted { result, is_stored } => (result, is_stored),
            Self::Waiting { owner, message, result, is_stored } => {
                owner.send(message).await.map_err(|_| Refusal::draining())?;
                (result, is_stored)
            }
        };
        let lost = if is_stored { Refusal::unknown } else { Refusal::draining };
        result.await.map_err(|_| lost())?
    }
}

impl Ingest {
    pub(super) fn new(shard: usize, common: Common, counts: &Arc<Counts>) -> Self {
        Self {
            shard,
            idempotency_cache: IdempotencyCache::default(),
            sources: Sources::new(common.clone(), counts),
            queries: Queries::new(common.clone(), counts),
            fetching: Fetching::new(shard, common.clone()),
            common,
            counts: Arc::clone(counts),
        }
    }

    pub(super) fn start_source(&mut self, topics: &mut Topics, scheduled: Scheduled) {
        self.sources.start(topics, scheduled);
    }

    pub(super) fn start_query(&mut self, topics: &mut Topics, topic: DerivedTopic, now_us: u64) {
        self.queries.start(topics, topic, now_us);
    }

    /// Replaces ended topics, and runs the timers.
    pub(super) fn tick(&mut self, topics: &mut Topics, now_us: u64) {
        let moved = std::mem::take(&mut topics.news.moved);
        self.queries.follow(topics, &moved, now_us);
        self.sources.follow(moved.into_iter());
        self.queries.tick(topics, now_us);
        self.sources.tick(topics, now_us);
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        let next = [self.sources.next_us(), self.queries.next_us()];
        next.into_iter().flatten().min()
    }

    /// Notes that a topic that sources or queries may read has new events.
    pub(super) fn has_input(&mut self, key: FeedKey) {
        self.sources.has_input(key);
        self.queries.has_input(key);
    }

    /// Notes that a topic that queries may read has begun here, or has a new backfill.
    pub(super) fn has_query_input(&mut self, key: FeedKey) {
        self.queries.has_input(key);
    }

    /// Lets sources and queries read their new events.
    pub(super) fn take_inputs(&mut self, topics: &mut Topics, now_us: u64) {
        self.sources.take_inputs(topics, now_us);
        self.queries.take_inputs(topics, now_us);
    }

    /// Starts and stops sources, queries and fetches as the demand for topics changes.
    pub(super) fn follow_demand(&mut self, topics: &mut Topics, now_us: u64) {
        // Stop fetches first, because another topic with the same name may have demand.
        topics.news.unfetched.drain(..).for_each(|topic| self.fetching.stop(topic));
        for (key, change) in std::mem::take(&mut topics.news.demand) {
            self.sources.demand_changed(key, change, now_us);
            self.queries.demand_changed(topics, key, change, now_us);
            self.fetching.demand_changed(topics, key, change);
        }
        // These come last, after the fetch has started.
        topics.news.shared.drain(..).for_each(|topic| self.fetching.share(topic));
    }

    /// Notes that a client has processed the events of a topic up to `position`.
    pub(super) fn receive_ack(&mut self, topics: &mut Topics, topic: &Topic, position: Position) {
        self.sources.receive_ack(topics, topic, position);
    }

    /// Processes an ack from another shard for a topic that this shard owns.
    pub(super) fn ack(&mut self, topics: &mut Topics, topic: &Topic, position: Position) {
        self.sources.ack(topics, topic, position);
    }

    /// Sends demands to the fetcher and acks to other shards. Returns `false` if a queue is full.
    pub(super) fn post(&mut self) -> bool {
        self.fetching.post_demands() & self.sources.post_acks()
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        self.queries.sweep(now_us);
        self.idempotency_cache.sweep(now_us, &self.common.config.limits);
    }

    /// Returns whether sources or queries have unread events.
    pub(super) fn has_pending_inputs(&self) -> bool {
        self.sources.has_pending_inputs() || self.queries.has_pending_inputs()
    }

    /// Publishes events to a topic. All requests and commands call this.
    pub(super) fn publish(
        &mut self,
        topics: &mut Topics,
        topic: &Topic,
        payloads: &mut Payloads,
        terms: PublishTerms,
    ) -> PendingPublish {
        let origin = topics.origin(topic);
        let checked =
            origin.check_publish(topic).and_then(|()| topics.give_keys(topic, payloads, &terms));
        if let Err(refused) = checked {
            payloads.clear();
            return PendingPublish::Done(Err(refused));
        }
        let owner = owner_shard(topic, self.common.peers.len());
        let is_broker_topic = origin.is_broker_topic();
        if owner == self.shard && !is_broker_topic {
            return PendingPublish::Done(self.append(topics, topic, payloads, &terms));
        }
        let (answer, result) = oneshot::channel();
        if owner == self.shard {
            topics.store(topic, payloads, terms, StoreAnswer::Published(answer));
            return PendingPublish::Posted { result, is_stored: true };
        }
        let (topic, payloads) = (topic.clone(), std::mem::take(payloads));
        let message = ShardMessage::Append { topic, is_broker_topic, payloads, terms, answer };
        let owner = &self.common.peers[owner].publishes;
        match owner.try_send(message) {
            Err(TrySendError::Full(message)) => PendingPublish::Waiting {
                owner: owner.clone(),
                message,
                result,
                is_stored: is_broker_topic,
            },
            Ok(()) => PendingPublish::Posted { result, is_stored: is_broker_topic },
            // A shard that has drained never answers.
            Err(TrySendError::Closed(_)) => PendingPublish::Posted { result, is_stored: false },
        }
    }

    /// Appends another shard's events to a topic that this shard owns.
    pub(super) fn answer(
        &mut self,
        topics: &mut Topics,
        (topic, is_broker_topic): (&Topic, bool),
        payloads: &mut Payloads,
        terms: PublishTerms,
        answer: oneshot::Sender<Result<PublishResult, Refusal>>,
    ) {
        if is_broker_topic {
            return topics.store(topic, payloads, terms, StoreAnswer::Published(answer));
        }
        // The publisher may be gone.
        let _ = answer.send(self.append(topics, topic, payloads, &terms));
    }

    /// Appends events to a topic that this shard owns, unless they are a retry.
    fn append(
        &mut self,
        topics: &mut Topics,
        topic: &Topic,
        payloads: &mut Payloads,
        terms: &PublishTerms,
    ) -> Result<PublishResult, Refusal> {
        let hasher = &self.common.idempotency_hasher;
        let body = (payloads.joined(), payloads.joined_keys(), terms.condition, terms.ttl_us);
        let idempotency_key = terms.retry_key.as_ref().map(|key| hasher.key(topic, key, body));
        if let Some(idempotency_key) = idempotency_key
            && let Some(result) = self.idempotency_cache.find(idempotency_key)?
        {
            self.counts.retries_replayed.add(1);
            return Ok(PublishResult { replayed: true, ..result });
        }
        let key = topics.open(topic, Creator::Publisher)?;
        let now_us = now_us();
        if payloads.has_keys()
            && let Err(refused) = topics.check_keyed(key, payloads, terms, now_us)
        {
            payloads.clear();
            return Err(refused);
        }
        let result = topics.append(key, payloads, now_us).ok_or_else(Refusal::draining)?;
        if let Some(idempotency_key) = idempotency_key {
            self.idempotency_cache.remember(
                idempotency_key,
                result,
                now_us,
                &self.common.config.limits,
            );
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_wire::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn events_for_a_broker_may_be_stored_when_the_owner_does_not_answer() {
        for (is_stored, expected) in [(true, ErrorCode::Unknown), (false, ErrorCode::Draining)] {
            let (owner, mut messages) = mpsc::channel(1);
            let (answer, result) = oneshot::channel();
            let (topic, payloads) = ("t".parse().unwrap(), Payloads::default());
            let message = ShardMessage::Append {
                topic,
                is_broker_topic: is_stored,
                payloads,
                terms: PublishTerms::default(),
                answer,
            };
            let pending = PendingPublish::Waiting { owner, message, result, is_stored };
            let dropped = async { drop(messages.recv().await) };
            let (result, ()) = tokio::join!(pending.result(), dropped);
            assert_eq!(result.unwrap_err().code, expected);
        }
    }
}
