//! Work that needs several owners of a shard. The tasks on the shard's thread call it.

mod ad_hoc_queries;
mod commands;
mod disconnecting;
mod fair_turns;
mod inbound;
mod newest_search;
mod overview;
mod peers;
mod planning;
mod publishers;
mod reads;
mod reconnecting;
mod sessions;
mod stream_health;
mod subscribe;
mod time_search;
mod traced;
mod turn;
mod wake;

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::Arc,
};

use thalweg_core::stream::Payloads;
use thalweg_wire::{Condition, ErrorCode, Excerpt, Topic};
use tokio::sync::{Notify, futures::Notified, oneshot};

pub(crate) use ad_hoc_queries::AdHocQuery;
pub(crate) use commands::Context;
pub(crate) use reads::HistoryPage;
pub(crate) use sessions::Polled;
pub(crate) use subscribe::{NewSubscriber, Subscription};
pub(crate) use turn::run;

use super::{
    alarm::Alarm,
    common::Common,
    ingest::{Ingest, PendingPublish},
    message::{Lookup, ShardMessage},
    publish_result::PublishResult,
    session_input::SubscriberId,
    subscribers::Subscribers,
    topics::Topics,
};
use crate::{
    access::{AccessPolicy, Allowed, Holder, Writing},
    broker::PublishTerms,
    clock::now_us,
    config::Config,
    derived::DerivedTopic,
    metrics::Counts,
    owner_shard::owner_shard,
    refusal::Refusal,
    source::Scheduled,
};
use fair_turns::ReadQueue;
use planning::Planning;
use publishers::LinePublishers;
use stream_health::StreamHealth;
use wake::Wake;

/// The access to a shard that the tasks on its thread share. No borrow is held across an await: each use is one
/// synchronous step.
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) common: Common,
    pub(crate) counts: Arc<Counts>,
    shard: RefCell<Shard>,
    wake: Wake,
    draining: Cell<bool>,
    /// Ends the tasks of requests when the shard drains.
    drain: Notify,
    /// The number of connections that do not belong to one subscriber.
    serving: Cell<usize>,
    read_queue: ReadQueue,
    planning: Planning,
}

struct Shard {
    common: Common,
    counts: Arc<Counts>,
    /// Whether this shard does the work that one shard does for all.
    is_first: bool,
    access: Arc<AccessPolicy>,
    topics: Topics,
    subscribers: Subscribers,
    publishers: LinePublishers,
    ingest: Ingest,
    alarm: Alarm,
    /// When the next sweep is due, in µs.
    sweep_us: u64,
    stream_health: StreamHealth,
}

impl Handle {
    /// Creates a shard. Call this function on the shard's own thread, in its runtime. Fails if the kernel has
    /// no epoll or timer left.
    pub(crate) fn new(
        id: usize,
        common: Common,
        access: Arc<AccessPolicy>,
    ) -> io::Result<Rc<Self>> {
        let counts = common.metrics.shard_counts(id);
        let shard = Shard {
            is_first: id == 0,
            access,
            counts: Arc::clone(&counts),
            topics: Topics::new(id, common.clone(), &counts),
            subscribers: Subscribers::new(id, common.clone(), &counts)?,
            publishers: LinePublishers::default(),
            ingest: Ingest::new(id, common.clone(), &counts),
            alarm: Alarm::new()?,
            common: common.clone(),
            sweep_us: 0,
            stream_health: StreamHealth::default(),
        };
        let planning = Planning::new(&counts);
        Ok(Rc::new(Self {
            id,
            common,
            counts,
            shard: RefCell::new(shard),
            wake: Wake::default(),
            draining: Cell::new(false),
            drain: Notify::new(),
            serving: Cell::new(0),
            read_queue: ReadQueue::default(),
            planning,
        }))
    }

    /// Runs one synchronous step, then wakes the loop.
    fn with_shard<T>(&self, step: impl FnOnce(&mut Shard) -> T) -> T {
        let result = step(&mut self.shard.borrow_mut());
        self.wake.wake();
        result
    }

    /// Asks a shard, this one or another, about its topics. Fails if that shard has ended.
    async fn look_up<T>(
        &self,
        shard: usize,
        lookup: impl FnOnce(oneshot::Sender<T>) -> Lookup,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let lookup = lookup(answer);
        if shard == self.id {
            match lookup {
                // The state may have to be read, and events may get into the history.
                Lookup::Keys { .. } | Lookup::History { .. } => {
                    self.with_shard(|shard| shard.answer(lookup));
                }
                lookup => self.shard.borrow_mut().answer(lookup),
            }
        } else {
            let publishes = &self.common.peers[shard].publishes;
            publishes.send(ShardMessage::Lookup(lookup)).await.map_err(|_| Refusal::draining())?;
        }
        answered.await.map_err(|_| Refusal::draining())
    }

    /// Runs a step for a subscriber that still exists.
    fn with_subscriber(&self, id: SubscriberId, step: impl FnOnce(&mut Shard)) {
        self.with_shard(|shard| {
            if shard.subscribers.get_mut(id).is_some() {
                step(shard);
            }
        });
    }

    pub(crate) fn access(&self) -> Arc<AccessPolicy> {
        Arc::clone(&self.shard.borrow().access)
    }

    /// Starts a source. This shard owns its output.
    pub(crate) fn start_source(&self, scheduled: Scheduled) {
        self.with_shard(|shard| shard.ingest.start_source(&mut shard.topics, scheduled));
    }

    /// Starts a query. This shard owns its topic.
    pub(crate) fn start_query(&self, topic: DerivedTopic) {
        self.with_shard(|shard| shard.ingest.start_query(&mut shard.topics, topic, now_us()));
    }

    /// Creates a topic that sources or queries read. This shard owns it.
    pub(crate) fn keep_input(&self, topic: &Topic) {
        if self.with_shard(|shard| shard.topics.open_permanent(topic).is_none()) {
            tracing::error!(%topic, "the sources and queries that read this topic get no events, because there are too many topics: raise limits.topics");
        }
    }

    /// Appends events to a topic. Returns their position. Fails if the owner shard refuses them, or has ended.
    pub(crate) async fn publish(
        &self,
        topic: &Allowed<Writing>,
        payloads: &mut Payloads,
        terms: PublishTerms,
    ) -> Result<PublishResult, Refusal> {
        let Writing { topic, .. } = &**topic;
        let bytes = payloads.joined().len();
        let appending = {
            let shard = &mut *self.shard.borrow_mut();
            shard.ingest.publish(&mut shard.topics, topic, payloads, terms)
        };
        // A message to a broker goes out in a turn, too.
        if !matches!(appending, PendingPublish::Waiting { .. }) {
            self.wake.wake_after(bytes);
        }
        appending.result().await
    }

    /// Removes the key of a keyed topic that is allowed, for `holder`. Fails with `NoSuchKey` if there is none, or like [`Self::publish`].
    pub(crate) async fn remove_key(
        &self,
        holder: &Holder,
        topic: &Allowed<Writing>,
        condition: Option<Condition>,
    ) -> Result<(), Refusal> {
        let key = topic.key.as_deref().unwrap_or_default();
        let mut removal = Payloads::default();
        removal.push(|out| {
            out.extend_from_slice(b"null");
            Ok::<_, Refusal>(())
        })?;
        removal.push_key(key);
        let condition = condition.unwrap_or(Condition::Exists);
        let may_read = self.access().may_read_key(holder, &topic.topic, topic.key.as_deref());
        let terms =
            PublishTerms { condition: Some(condition), may_read, ..PublishTerms::default() };
        let removed = self.publish(topic, &mut removal, terms).await;
        removed.map(drop).map_err(|refusal| match (refusal.code, condition) {
            (ErrorCode::ConditionFailed, Condition::Exists) => Refusal::new(
                ErrorCode::NoSuchKey,
                format!(
                    "the key {:?} does not exist: check it, or treat it as removed",
                    Excerpt(key)
                ),
            ),
            _ => refusal,
        })
    }

    /// Returns the settings of the server.
    pub(crate) fn config(&self) -> &Config {
        &self.common.config
    }

    /// Deletes a topic, after this shard's earlier publishes to it. Fails if there is no such topic, if a source, query or
    /// upstream of the server uses the topic, or if the owner shard has ended.
    pub(crate) async fn delete(&self, topic: Allowed<Writing>) -> Result<(), Refusal> {
        let Writing { topic, .. } = topic.into_inner();
        let owner = owner_shard(&topic, self.common.peers.len());
        if self.shard.borrow().topics.origin(&topic).is_broker_topic() {
            self.check_stored(&topic).await?;
        }
        let (answer, deleted) = oneshot::channel();
        if owner == self.id {
            self.with_shard(|shard| shard.topics.delete(&topic, answer));
        } else {
            let publishes = &self.common.peers[owner].publishes;
            publishes
                .send(ShardMessage::Delete { topic, answer })
                .await
                .map_err(|_| Refusal::draining())?;
        }
        deleted.await.map_err(|_| Refusal::draining())?
    }

    /// Returns whether the shard drains: it serves no new connection.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Completes when the shard begins to drain.
    pub(crate) fn drain(&self) -> Notified<'_> {
        self.drain.notified()
    }

    /// Keeps the shard from ending until the result is dropped.
    pub(crate) fn serve(&self) -> Serving<'_> {
        self.serving.set(self.serving.get() + 1);
        Serving(self)
    }
}

pub(crate) struct Serving<'a>(&'a Handle);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.set(self.0.serving.get() - 1);
        self.0.wake.wake();
    }
}
