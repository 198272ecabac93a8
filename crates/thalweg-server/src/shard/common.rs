//! The parts that all shards share, and the queues between shards.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use super::{
    ingest::IdempotencyHasher, message::ShardMessage, open_sockets::OpenSockets,
    presence_nodes::PresenceNodes, topic_samples::TopicSamples,
};
use crate::{
    broker::{BrokerLink, BrokerStream, FromBroker, ReadTopics},
    config::{Config, SharedTopics},
    connection_limits::{AddressCounts, AddressRates},
    derived::AdHocQueries,
    fetch::{Demands, Fetched},
    metrics::Metrics,
    rates::AllRates,
    source::Inputs,
    traces::Traces,
};

#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Metrics,
    pub(crate) peers: Vec<Peer>,
    /// The ad hoc queries of clients.
    pub(crate) ad_hoc: Arc<AdHocQueries>,
    /// The topics that sources and configured queries read, on all shards.
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) idempotency_hasher: IdempotencyHasher,
    /// The activity of all topics, for the overview. Requests take turns.
    pub(crate) samples: Arc<Mutex<TopicSamples>>,
    /// Counts the topics that exist only for subscribers, per address.
    pub(crate) shares: Arc<AddressCounts>,
    pub(crate) rates: Arc<AllRates>,
    /// Counts the fetched topics that an address is the first to request.
    pub(crate) fetched_rates: Arc<AddressRates>,
    /// The queue of the fetcher. `None` if there are no upstreams.
    pub(crate) demands: Option<Demands>,
    pub(crate) streams: Arc<[BrokerStream]>,
    /// The topics of these streams.
    pub(crate) shared_topics: Arc<SharedTopics>,
    pub(crate) brokers: Arc<[BrokerLink]>,
    pub(crate) open_sockets: Arc<OpenSockets>,
    /// The subjects that are traced.
    pub(crate) traces: Arc<Traces>,
    /// The servers that share the members of topics.
    pub(crate) presence_nodes: Arc<PresenceNodes>,
}

impl Common {
    /// Returns whether the server has caught up with all brokers. `None` if there is no broker.
    pub(crate) fn has_caught_up(&self) -> Option<bool> {
        let mut brokers = self.brokers.iter().map(|broker| broker.readiness.is_ready());
        (!self.brokers.is_empty()).then(|| brokers.all(|is_ready| is_ready))
    }
}

/// The senders of a shard's queues.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// All messages but publishes.
    pub(crate) messages: mpsc::Sender<ShardMessage>,
    /// Publishes. Each may be large, so this queue is shorter. Batches do not wait behind publishes.
    pub(crate) publishes: mpsc::Sender<ShardMessage>,
    pub(crate) from_broker: mpsc::Sender<FromBroker>,
    /// The topics that have readers: brokers deliver their records first.
    pub(crate) read_topics: Arc<ReadTopics>,
    /// Answers of brokers. The shard's own requests bound their number.
    pub(crate) answers: mpsc::UnboundedSender<FromBroker>,
}

/// The receivers of a shard's queues.
pub(crate) struct ShardQueues {
    pub(crate) messages: mpsc::Receiver<ShardMessage>,
    pub(crate) publishes: mpsc::Receiver<ShardMessage>,
    pub(crate) fetched: mpsc::Receiver<Fetched>,
    pub(crate) from_broker: mpsc::Receiver<FromBroker>,
    pub(crate) answers: mpsc::UnboundedReceiver<FromBroker>,
    /// Whether each queue, in the order above, was empty when the shard asked it last. Then it keeps the waker of the shard's task
    /// until a message comes, and costs nothing in a turn.
    pub(crate) watched: [bool; 5],
}

/// Queues a key, unless its item's flag says that it is queued.
pub(super) fn push_once<K>(queue: &mut impl Extend<K>, is_queued: &mut bool, key: K) {
    if !std::mem::replace(is_queued, true) {
        queue.extend([key]);
    }
}
