//! A shard: one thread with its own runtime, sockets and topics. Wiring only:
//! `stream` has what is read, `fanout` decides who gets it, `transport` sends it.
//!
//! A shard has three owners, and each field has one of them: `topics` never sees a subscriber,
//! `subscribers` and `ingest` see topics and not each other. Work that needs all three is done
//! here: a turn, a command, a new subscriber.
//!
//! ```text
//! turn              the loop: read sockets, run sources, seal, post, walk, sleep
//! commands          executes what clients ask for
//! subscribe         turns a request into a subscriber
//! inbound           what connections send, processed in order
//! leaving           subscribers are told to reconnect, one after the other
//! goodbyes          why, and when                                          (pure)
//! slice             the time that a turn may spend on reading
//! peers             what a shard does with its mail
//!
//! topics            order, batches, history
//!   feeds           the topics on this shard
//!   local_topic     one of them
//!   topic_ending    how they end and go
//!   topic_memory    what they take of memory
//!   fed             topics whose order a stream of the backend gives: what it brings
//!   storing         what is published to these, on its way to the backend
//!   recall          their older events, read back for subscribers
//!   recalls         what of them is wanted, under way and here
//!   fed_order       what is kept of one, and of the streams
//!   demand          whether somebody wants a topic
//!   topic_limits    how many topics there may be
//!   replication     copies of topics on other shards
//!   history_query   a topic's history, without a subscription
//!   read_back       the part of it that is not here
//!   page_parts      a page of it as JSON
//!   listing         the list of topics
//!   read_queue      the order of reads
//!   fair_turns      one work after the other, clients in turn
//!
//! subscribers       connections, and what is due to them
//!   walk            visits to dirty connections, within budgets
//!   upkeep          heartbeats and stalls
//!   disconnecting   connections that an administrator ends
//!   publishers      publishers of lines
//!   answering       answers that clients do not read
//!   poll            the shard's own epoll
//!
//! ingest            events in: from requests, commands, sources and other shards
//!   asking          queries that clients ask for
//!   planning        when they are read and planned
//!   queries         the queries that run here: which, when, and where their rows go
//!   running_query   one of them: what it reads
//!   query_pace      when a query pauses, and when it is over
//!   pauses          when a shared topic has paused, for queries
//!   pausing         written and read
//!   query_start     where one begins whose rows every node makes for itself
//!   sources         running sources: their ticks, inputs and outputs
//!   fetching        topics that are fetched from elsewhere
//!   publish_result  the result of publishing
//!   idempotency     publishes that may be repeated
//!
//! mail              messages between shards
//! timers            what is due at a time
//! alarm, wake       what wakes the loop besides sockets and mail
//! settling          how long a woken loop lets others run first
//! ```

mod alarm;
mod answering;
mod asking;
mod commands;
mod demand;
mod disconnecting;
mod fair_turns;
mod fed;
mod fed_order;
mod feeds;
mod fetching;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod goodbyes;
mod history_query;
mod idempotency;
mod inbound;
mod ingest;
mod leaving;
mod listing;
mod local_topic;
mod mail;
mod page_parts;
mod pauses;
mod pausing;
mod peers;
mod planning;
mod poll;
mod publish_result;
mod publishers;
mod queries;
mod query_log;
mod query_pace;
mod query_start;
mod read_back;
mod read_queue;
mod recall;
mod recalls;
mod replication;
mod running_query;
mod settling;
mod slice;
mod sources;
mod storing;
mod subscribe;
mod subscribers;
mod timers;
mod topic_ending;
mod topic_limits;
mod topic_memory;
mod topics;
mod turn;
mod upkeep;
mod wake;
mod walk;

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::Arc,
};

use thalweg_wire::Topic;
use tokio::sync::{Notify, futures::Notified, mpsc, oneshot};

pub(crate) use asking::Asked;
pub(crate) use commands::{Context, Request};
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::read_command;
pub(crate) use history_query::HistoryPage;
pub(crate) use idempotency::IdempotencyHasher;
pub(crate) use listing::Listing;
pub(crate) use mail::{Arrival, Disconnect, Mail};
pub(crate) use publish_result::PublishResult;
pub(crate) use subscribe::{NewSubscriber, Subscription};
pub(crate) use subscribers::SubscriberId;
pub(crate) use turn::run;

use crate::{
    access::{AccessPolicy, Allowed, Writing},
    backend::{FromBackend, Read, ReadTopics, Readiness, RetryKey, Store, Stream},
    clock::now_us,
    config::Config,
    connection_limits::{AddressCounts, AddressRates},
    derived::{AskedQueries, DerivedTopic},
    fetch::{Demands, Fetched},
    home::home_of,
    metrics::{Counts, Metrics},
    rates::AllRates,
    refusal::Refusal,
    source::{Inputs, Scheduled},
};
use alarm::Alarm;
use goodbyes::Hearing;
use ingest::{Ingest, PendingPublish};
use planning::Planning;
use publishers::Publishers;
use read_queue::ReadQueue;
use subscribers::Subscribers;
use thalweg_core::stream::Payloads;
use topics::Topics;
use wake::Wake;

/// What all shards of a server have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Metrics,
    /// Where each shard's mail goes.
    pub(crate) peers: Vec<Peer>,
    /// The queries that clients have asked for.
    pub(crate) asked: Arc<AskedQueries>,
    /// What sources read, on all shards.
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) idempotency_hasher: IdempotencyHasher,
    /// Counts, for each address, the topics that exist only for subscribers.
    pub(crate) shares: Arc<AddressCounts>,
    /// How often clients may do something.
    pub(crate) rates: Arc<AllRates>,
    /// Counts, for each address, the fetched topics that it is the first to ask for.
    pub(crate) fetched_rates: Arc<AddressRates>,
    /// Where it is said which topics are to be fetched. `None` if there are no upstreams.
    pub(crate) demands: Option<Demands>,
    /// The streams of the backend; none without one.
    pub(crate) streams: Arc<[Stream]>,
    /// Where it is asked for what is to be read back. `None` without a backend.
    pub(crate) reads: Option<mpsc::Sender<Read>>,
    /// Where messages to store go. `None` without a backend.
    pub(crate) stores: Option<mpsc::Sender<Store>>,
    /// Whether the backend has caught up. `None` without one.
    pub(crate) readiness: Option<Readiness>,
}

/// How to reach a shard.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Everything but publishes.
    pub(crate) mail: mpsc::Sender<Mail>,
    /// Publishes: bounded more tightly, because each may be large, and apart, so that batches
    /// do not wait behind publishes.
    pub(crate) publishes: mpsc::Sender<Mail>,
    /// What the backend brings.
    pub(crate) from_backend: mpsc::Sender<FromBackend>,
    /// What the backend is to bring at once.
    pub(crate) read_topics: Arc<ReadTopics>,
    /// What the backend answers: never more than was asked for.
    pub(crate) answers: mpsc::UnboundedSender<FromBackend>,
}

/// The receiving end of a [`Peer`].
pub(crate) struct Mailbox {
    pub(crate) mail: mpsc::Receiver<Mail>,
    pub(crate) publishes: mpsc::Receiver<Mail>,
    pub(crate) fetched: mpsc::Receiver<Fetched>,
    pub(crate) from_backend: mpsc::Receiver<FromBackend>,
    pub(crate) answers: mpsc::UnboundedReceiver<FromBackend>,
}

/// A shard, as the tasks on its thread share it. Nothing holds the borrow
/// across an await: each use is one synchronous step.
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) common: Common,
    pub(crate) counts: Arc<Counts>,
    shard: RefCell<Shard>,
    /// Who may do what.
    access: RefCell<Arc<AccessPolicy>>,
    /// Wakes the turn after a step that made work for it.
    wake: Wake,
    draining: Cell<bool>,
    /// Ends the tasks of requests once draining.
    drain: Notify,
    /// Connections that do not belong to one subscriber: none yet, or several.
    serving: Cell<usize>,
    /// Makes reads wait for each other.
    read_queue: ReadQueue,
    /// When queries of clients are read and planned.
    planning: Planning,
}

struct Shard {
    common: Common,
    /// It does what is done once for all shards.
    is_first: bool,
    /// Who may do what.
    access: Arc<AccessPolicy>,
    topics: Topics,
    subscribers: Subscribers,
    publishers: Publishers,
    ingest: Ingest,
    /// Wakes the loop when something is due by time.
    alarm: Alarm,
    /// When the next sweep is due, in µs.
    sweep_us: u64,
    hearing: Hearing,
}

impl Handle {
    /// A shard; call it on its own thread, in its runtime.
    ///
    /// # Errors
    /// When the kernel has no epoll or timer left.
    pub(crate) fn new(
        id: usize,
        common: Common,
        access: Arc<AccessPolicy>,
    ) -> io::Result<Rc<Self>> {
        let counts = common.metrics.of(id);
        let shard = Shard {
            is_first: id == 0,
            access: Arc::clone(&access),
            topics: Topics::new(id, common.clone(), &counts),
            subscribers: Subscribers::new(common.clone(), &counts)?,
            publishers: Publishers::default(),
            ingest: Ingest::new(id, common.clone(), &counts),
            alarm: Alarm::new()?,
            common: common.clone(),
            sweep_us: 0,
            hearing: Hearing::default(),
        };
        let planning = Planning::new(&counts);
        Ok(Rc::new(Self {
            id,
            common,
            counts,
            shard: RefCell::new(shard),
            access: RefCell::new(access),
            wake: Wake::default(),
            draining: Cell::new(false),
            drain: Notify::new(),
            serving: Cell::new(0),
            read_queue: ReadQueue::default(),
            planning,
        }))
    }

    /// One synchronous step. Then the turn is woken to process what it left.
    fn with_shard<T>(&self, step: impl FnOnce(&mut Shard) -> T) -> T {
        let result = step(&mut self.shard.borrow_mut());
        self.wake.wake();
        result
    }

    /// Who may do what.
    pub(crate) fn access(&self) -> Arc<AccessPolicy> {
        Arc::clone(&self.access.borrow())
    }

    /// Takes another access policy. Connections whose token is not good any more are closed, and
    /// topics end to which a connection has no right any more.
    pub(crate) fn change_access(&self, access: Arc<AccessPolicy>) {
        *self.access.borrow_mut() = Arc::clone(&access);
        self.with_shard(|shard| shard.change_access(access));
    }

    /// Puts a source to work on its output's home shard.
    pub(crate) fn start_source(&self, scheduled: Scheduled) {
        self.with_shard(|shard| shard.ingest.sources.start(&mut shard.topics, scheduled));
    }

    /// Puts a query to work on its topic's home shard.
    pub(crate) fn start_query(&self, topic: DerivedTopic) {
        self.with_shard(|shard| shard.ingest.queries.start(&mut shard.topics, topic, now_us()));
    }

    /// Creates a topic that sources or queries read, on its home shard.
    pub(crate) fn keep_input(&self, topic: &Topic) {
        if self.with_shard(|shard| shard.topics.open_permanent(topic).is_none()) {
            tracing::error!(%topic, "too many topics: no source takes it in");
        }
    }

    /// Appends events to a topic, wherever its home is. Returns their position.
    ///
    /// # Errors
    /// When the home refuses them, or has ended.
    pub(crate) async fn publish(
        &self,
        topic: &Allowed<Writing>,
        payloads: &mut Payloads,
        retry_key: Option<RetryKey>,
    ) -> Result<PublishResult, Refusal> {
        let Writing(topic) = &**topic;
        let bytes = payloads.joined().len();
        let appending = {
            let shard = &mut *self.shard.borrow_mut();
            shard.ingest.publish(&mut shard.topics, topic, payloads, retry_key)
        };
        // A message to store, too, goes out in a turn.
        if !matches!(appending, PendingPublish::Waiting(..)) {
            self.wake.wake_after(bytes);
        }
        appending.result().await
    }

    /// Deletes a topic, wherever its home is. What this shard has published to it before comes first.
    ///
    /// # Errors
    /// When there is none, when the server itself makes its events or reads them, or when its
    /// home has ended.
    pub(crate) async fn delete(&self, topic: Allowed<Writing>) -> Result<(), Refusal> {
        let Writing(topic) = topic.into_inner();
        let home = home_of(&topic, self.common.peers.len());
        if self.shard.borrow().topics.is_fed(&topic) {
            self.check_stored(&topic).await?;
        }
        let (answer, deleted) = oneshot::channel();
        if home == self.id {
            self.with_shard(|shard| shard.topics.delete(&topic, answer));
        } else {
            let mail = &self.common.peers[home].publishes;
            mail.send(Mail::Delete { topic, answer }).await.map_err(|_| Refusal::draining())?;
        }
        deleted.await.map_err(|_| Refusal::draining())?
    }

    /// Whether it is draining: new connections are not served.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Completes when it begins to drain.
    pub(crate) fn drain(&self) -> Notified<'_> {
        self.drain.notified()
    }

    /// Makes the shard wait for a connection when it ends, until this is dropped.
    pub(crate) fn serve(&self) -> Serving<'_> {
        self.serving.set(self.serving.get() + 1);
        Serving(self)
    }
}

/// A connection that a shard waits for when it ends.
pub(crate) struct Serving<'a>(&'a Handle);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.set(self.0.serving.get() - 1);
        self.0.wake.wake();
    }
}
