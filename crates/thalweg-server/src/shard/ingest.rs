//! Events in: from requests, commands, sources and other shards.

use std::sync::Arc;

use thalweg_wire::Topic;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    Common, Mail, fed_order::Answer, fetching::Fetching, idempotency::IdempotencyCache,
    publish_result::PublishResult, queries::Queries, sources::Sources, topic_limits::Creator,
    topics::Topics,
};
use crate::{backend::RetryKey, clock::now_us, home::home_of, metrics::Counts, refusal::Refusal};
use thalweg_core::stream::Payloads;

/// The one way in of events.
pub(super) struct Ingest {
    shard: usize,
    common: Common,
    pub(super) idempotency_cache: IdempotencyCache,
    pub(super) sources: Sources,
    pub(super) queries: Queries,
    pub(super) fetching: Fetching,
    counts: Arc<Counts>,
}

/// Events on their way to their topic's home. A home on this shard appends them at once.
/// Another shard answers later.
pub(super) enum PendingPublish {
    Done(Result<PublishResult, Refusal>),
    /// The home has them, and will answer.
    Posted(oneshot::Receiver<Result<PublishResult, Refusal>>),
    /// The same; they are to be stored elsewhere.
    Storing(oneshot::Receiver<Result<PublishResult, Refusal>>),
    /// The home's queue is full: they wait here.
    Waiting(mpsc::Sender<Mail>, Mail, oneshot::Receiver<Result<PublishResult, Refusal>>),
}

impl PendingPublish {
    /// Their position.
    ///
    /// # Errors
    /// When the home refuses them, or has ended.
    pub(super) async fn result(self) -> Result<PublishResult, Refusal> {
        let result = match self {
            Self::Done(result) => return result,
            Self::Posted(result) => result,
            // It may have been stored when the home ended.
            Self::Storing(result) => return result.await.map_err(|_| Refusal::unknown())?,
            Self::Waiting(home, message, result) => {
                home.send(message).await.map_err(|_| Refusal::draining())?;
                result
            }
        };
        result.await.map_err(|_| Refusal::draining())?
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

    /// Whether there are events that sources or queries have not read.
    pub(super) fn has_pending_inputs(&self) -> bool {
        self.sources.has_pending_inputs() || self.queries.has_pending_inputs()
    }

    /// Passes events to their topic's home. All requests and commands that publish call this.
    pub(super) fn publish(
        &mut self,
        topics: &mut Topics,
        topic: &Topic,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
    ) -> PendingPublish {
        if let Err(refused) = self.fetching.check_publish(topic) {
            return PendingPublish::Done(Err(refused));
        }
        let home = home_of(topic, self.common.peers.len());
        let is_fed = topics.is_fed(topic);
        if home == self.shard && !is_fed {
            return PendingPublish::Done(self.append(topics, topic, payloads, retry_key));
        }
        let (answer, result) = oneshot::channel();
        if home == self.shard {
            topics.store(topic, payloads, retry_key, Answer::Published(answer));
            return PendingPublish::Storing(result);
        }
        let (topic, payloads) = (topic.clone(), std::mem::take(payloads));
        let message = Mail::Append { topic, payloads, retry_key, answer };
        let home = &self.common.peers[home].publishes;
        match home.try_send(message) {
            Err(TrySendError::Full(message)) => {
                PendingPublish::Waiting(home.clone(), message, result)
            }
            Ok(()) if is_fed => PendingPublish::Storing(result),
            // A shard that has drained never answers.
            Ok(()) | Err(TrySendError::Closed(_)) => PendingPublish::Posted(result),
        }
    }

    /// The same for events that come from another shard, for a topic whose home is this one.
    pub(super) fn answer(
        &mut self,
        topics: &mut Topics,
        topic: &Topic,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
        answer: oneshot::Sender<Result<PublishResult, Refusal>>,
    ) {
        if topics.is_fed(topic) {
            return topics.store(topic, payloads, retry_key, Answer::Published(answer));
        }
        // The publisher may be gone by then.
        let _ = answer.send(self.append(topics, topic, payloads, retry_key));
    }

    /// Appends events to a topic whose home is this shard, unless a retry was appended before.
    fn append(
        &mut self,
        topics: &mut Topics,
        topic: &Topic,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
    ) -> Result<PublishResult, Refusal> {
        let hasher = &self.common.idempotency_hasher;
        let idempotency_key = retry_key.map(|key| hasher.key(topic, &key, payloads.joined()));
        if let Some(idempotency_key) = idempotency_key
            && let Some(result) = self.idempotency_cache.look(idempotency_key)?
        {
            self.counts.retries_replayed.add(1);
            return Ok(PublishResult { replayed: true, ..result });
        }
        let key = topics.open(topic, Creator::Publisher)?;
        let now_us = now_us();
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
