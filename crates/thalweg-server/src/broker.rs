//! Topics ordered and stored by brokers: the link between shards and brokers.
//!
//! Each broker has a thread (`driver`). A topic's owner shard passes published events to the topic's broker (`Store`), and
//! answers the publisher when the broker has stored them. The owner shard appends the records that brokers deliver: the events of
//! all servers, its own included, in the order of the stream. The streams of all brokers form one list; a topic belongs
//! to the first whose pattern matches.
//!
//! ```text
//! publish ─► owner ─► Store ─► append ─► broker ─► follow ─► Shards ─► owner ─► feed
//! ```

mod driver;
mod replies;
mod shards;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use thalweg_broker::{
    Append, AppendError, Delivery, ReadPage, ReadRange, Stored, Stream, TicketDigest, TopicRange,
    Unreadable,
};
use thalweg_core::fanout::FeedKey;
use thalweg_wire::{Condition, Epoch, Offset, Topic};
use tokio::sync::{mpsc, oneshot};

use crate::access::Identity;

pub use driver::BrokerService;
pub(crate) use driver::Inbox;
pub(crate) use replies::{BrokerReply, ReadCaller, StoreCaller, TicketReply};
pub(crate) use shards::{ReadTopics, Shards};

/// Lifetime of a ticket.
pub const TICKET_LIFE: std::time::Duration =
    std::time::Duration::from_secs(crate::access::TICKET_LIFE_S);

#[derive(Debug)]
pub(crate) struct BrokerLink {
    pub(crate) stores: mpsc::Sender<Store>,
    pub(crate) reads: mpsc::Sender<Read>,
    /// `None` if the broker lists no topics.
    pub(crate) lists: Option<mpsc::Sender<ListRequest>>,
    pub(crate) readiness: Readiness,
}

/// A stream among those of all brokers.
#[derive(Debug, Clone)]
pub(crate) struct BrokerStream {
    pub(crate) stream: Stream,
    /// The index of its broker, and its index there.
    pub(crate) broker: usize,
    pub(crate) index: usize,
    /// Whether its broker supports compare-and-set.
    pub(crate) can_compare: bool,
}

impl BrokerStream {
    /// Returns whether several servers share the keyed topics of the stream, and conditions on their keys hold for all of them.
    pub(crate) fn shares_keys(&self) -> bool {
        self.stream.kind.has_keys() && self.stream.is_shared && self.can_compare
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) append: Append,
    /// Store only if this record is the newest of the topic.
    pub(crate) after: Option<Offset>,
    /// When its first publish arrived ([`crate::now_us`]) and its publisher began to wait.
    pub(crate) arrived_us: u64,
    pub(crate) reply: BrokerReply<StoreCaller>,
}

/// A request for records of one topic.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) range: ReadRange,
    /// Whether this is a value topic, of which only the newest record is read.
    pub(crate) is_value: bool,
    pub(crate) reply: BrokerReply<ReadCaller>,
}

/// A request for a part of the list of stored topics. The receiver of the answer may be gone.
#[derive(Debug)]
pub(crate) struct ListRequest {
    pub(crate) range: TopicRange,
    pub(crate) answer: oneshot::Sender<Result<Vec<Topic>, Unreadable>>,
}

/// A request about tickets.
#[derive(Debug)]
pub(crate) enum TicketRequest {
    /// Keep a new ticket, which gives the rights of this holder.
    Keep { ticket: TicketDigest, holder: String, reply: TicketReply<()> },
    /// Redeem a ticket.
    Redeem { ticket: TicketDigest, reply: TicketReply<Option<String>> },
}

/// The terms of a publish.
#[derive(Debug, Clone, Default)]
pub(crate) struct PublishTerms {
    pub(crate) retry_key: Option<RetryKey>,
    /// A condition for a single event of a keyed topic.
    pub(crate) condition: Option<Condition>,
    /// Whether the publisher may read the topic. Only then the refusal of a conditional publish contains an event.
    pub(crate) may_read: bool,
    /// How long the keys stay, in µs.
    pub(crate) ttl_us: Option<u64>,
    /// Whether the events are changed members of another topic. The owner shard makes them when it can send them.
    pub(crate) are_members: bool,
    /// Set if the events remove keys that have expired: the offsets of the events that have. A key with another newest event stays.
    pub(crate) expired: Option<Box<[Offset]>>,
}

impl PublishTerms {
    /// Returns whether the events depend on the newest events of their keys.
    pub(crate) fn is_conditional(&self) -> bool {
        self.condition.is_some() || self.expired.is_some() || self.are_members
    }
}

/// Identifies a publish across retries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RetryKey {
    /// The publisher: two publishers with different tokens share no keys.
    pub(crate) identity: Identity,
    /// The publisher's `Idempotency-Key`.
    pub(crate) key: Box<[u8]>,
}

impl RetryKey {
    /// Returns bytes that identify the key among all keys of a topic, on every server.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [self.identity.as_bytes(), &*self.key].concat()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackfillId {
    pub(crate) broker: usize,
    pub(crate) key: FeedKey,
    /// The topic, because the feed's key may belong to another one when the page arrives.
    pub(crate) topic: Topic,
    /// The number of the topic's opening on its owner shard, because a topic that opens again needs other
    /// pages. 0 on other shards.
    pub(crate) serial: u64,
    pub(crate) epoch: Epoch,
    pub(crate) from: Offset,
    /// The end of the missing batches.
    pub(crate) until: Offset,
}

/// A message from a broker to a shard. A stream's number is its index among the streams of all brokers.
#[derive(Debug)]
pub(crate) enum FromBroker {
    /// In the order of their streams.
    Records(Vec<Delivery>),
    Stored {
        topic: Topic,
        number: u64,
        result: Result<Stored, AppendError>,
    },
    Page {
        id: BackfillId,
        result: Result<ReadPage, Unreadable>,
    },
    Restarted {
        stream: usize,
        epoch: Epoch,
        from: Offset,
    },
}

/// Whether the server has caught up with a broker's streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    pub(crate) fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.load(Relaxed)
    }
}
