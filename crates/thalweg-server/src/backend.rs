//! Topics whose order and history another system keeps, so that several servers have the same:
//! what this server and that system say to each other.
//!
//! The other system has **streams**. A stream is an ordered, stored list of messages, numbered from
//! 1 on; a message is a topic and up to [`EVENTS_MAX`] events of it. Which topics are **fed** from
//! which stream, a pattern says. A topic's home shard passes what is published to it to the backend
//! ([`Store`]), and answers when it is stored. It appends what the backend brings
//! ([`Shards::message`]): the events of all servers, its own included, in the order of the stream.
//!
//! ```text
//! publish ─► home ─► Store ─► Backend ─► stream ─► Backend ─► message ─► home ─► feed
//! ```
//!
//! The offset of an event is [`offset_of`] its message's sequence number and its place there. So
//! every server gives it the same position, and a subscriber can go on with any of them.

mod replies;
mod shards;
mod tickets;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

pub(crate) use shards::ReadTopics;
pub use shards::Shards;
use thalweg_wire::{EndCode, Epoch, Offset, Pattern, Topic, limits::OFFSET_MAX};
use tokio::sync::mpsc;

use crate::access::Identity;
use thalweg_core::{
    fanout::FeedKey,
    stream::{MessageBounds, Payloads},
};

pub(crate) use replies::Reader;
pub use replies::{ReadReply, Reply};
pub use tickets::{TICKET_LIFE, TicketDigest, TicketError, TicketReply, TicketRequest};

/// Events in one message. Positions outlive releases, so this never changes.
pub const EVENTS_MAX: usize = 256;

/// The largest sequence number whose offsets are all at most 2^53 − 1.
pub const SEQUENCE_MAX: u64 = OFFSET_MAX / EVENTS_MAX as u64 - 1;

/// The offset of the event at a place (from 0) in the message with a sequence number (from 1).
pub fn offset_of(sequence: u64, place: usize) -> Offset {
    sequence * EVENTS_MAX as u64 + place as u64
}

/// The sequence number of the message that has the event with an offset.
pub fn sequence_of(offset: Offset) -> u64 {
    offset / EVENTS_MAX as u64
}

/// A system that keeps streams.
pub trait Backend: Send + 'static {
    /// Its streams; of several whose pattern means a topic the first has it. Called once.
    fn streams(&self) -> Vec<Stream>;

    /// What it counts, for `/metrics`. Called once.
    fn counts(&self) -> Arc<dyn BackendCounts>;

    /// Runs, on a thread of its own, until there are no more [`Link::stores`].
    ///
    /// # Errors
    /// When it cannot go on. The server ends then.
    fn run(self: Box<Self>, link: Link) -> io::Result<()>;
}

/// What a backend counts. It is asked whenever somebody looks at `/metrics`.
pub trait BackendCounts: fmt::Debug + Send + Sync {
    /// Each family, by name: `thalweg_` comes before it.
    fn families(&self) -> Vec<Family>;
}

/// A metric.
#[derive(Debug, Clone)]
pub struct Family {
    /// Without `thalweg_` and without what its kind ends with.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// What it is now.
    pub value: FamilyValue,
}

/// The value of a metric.
#[derive(Debug, Clone)]
pub enum FamilyValue {
    /// It only rises.
    Counter(u64),
    /// It rises and falls.
    Gauge(f64),
    /// How many observations there were up to each bound, not more than the one before, and above
    /// the last one; and their sum.
    Histogram {
        /// In seconds, rising.
        bounds: Vec<f64>,
        /// One more than there are bounds.
        counts: Vec<u64>,
        /// In seconds.
        sum: f64,
    },
}

/// A stream when the server starts.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The topics that are fed from it.
    pub pattern: Pattern,
    /// Whether they are value topics. Then it keeps the newest message of each.
    pub has_values: bool,
    /// This incarnation of it: another one's sequence numbers mean other events.
    pub epoch: Epoch,
    /// The sequence number from which on all of its messages will be brought. Nothing is known of
    /// earlier ones.
    pub from_sequence: u64,
    /// Bytes of events that a message may hold.
    pub message_bytes_max: usize,
}

impl ReadPage {
    /// What is older than this cannot be read: it is not there any more, or another topic's of this name.
    pub(crate) fn stored_from(&self) -> Offset {
        let after_end = self.ended_at.map_or(0, |sequence| sequence + 1);
        offset_of(self.first_sequence.max(after_end), 0)
    }

    /// The newest message of the topic that was seen; 0 if there was none.
    pub(crate) fn newest(&self) -> u64 {
        let newest = self.messages.last().map(|(sequence, _)| *sequence);
        let paused = self.pauses.last().map(|(sequence, _)| *sequence);
        newest.max(paused).or(self.ended_at).unwrap_or_default()
    }

    /// Whether the stream has given an offset, or a later one.
    pub(crate) fn has_given(&self, offset: Offset) -> bool {
        sequence_of(offset) <= self.last_sequence
    }
}

impl Stream {
    pub(crate) fn message_bounds(&self, batch_bytes_max: usize) -> MessageBounds {
        let bytes_max = self.message_bytes_max;
        MessageBounds { events_max: EVENTS_MAX, bytes_max, batch_bytes_max }
    }
}

/// The server's end of a [`Backend`].
#[derive(Debug)]
pub struct Link {
    /// What is to be stored. At most one message of each topic is here at a time.
    pub stores: mpsc::Receiver<Store>,
    /// What is to be read again.
    pub reads: mpsc::Receiver<Read>,
    /// Tickets to keep and to redeem. A bounded number of them is not answered at a time.
    pub tickets: mpsc::Receiver<TicketRequest>,
    /// Where batches go.
    pub shards: Shards,
    /// Whether this server has caught up with all streams: `/readyz` says so.
    pub readiness: Readiness,
}

impl Content {
    /// The same, stored at this time by the stream's clock, in ns since 1970.
    pub fn stored_at(self, time_ns: u64) -> Self {
        match self {
            Self::Events(payloads) => {
                Self::Events(payloads.published_at((time_ns / 1_000_000) as i64))
            }
            Self::Paused(_) | Self::End(_) => self,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Events(payloads) => payloads.joined().len(),
            Self::Paused(_) | Self::End(_) => 0,
        }
    }
}

/// A message to be stored.
#[derive(Debug)]
pub struct Store {
    /// The index of the topic's stream.
    pub stream: usize,
    /// Of which topic.
    pub topic: Topic,
    /// What it says.
    pub content: Content,
    /// Set if it may be the repetition of an earlier one. Then it has one event.
    pub key: Option<RetryKey>,
    /// Set if it is to be stored only after this message of the topic, its newest: a sequence
    /// number; 0 if there must be none.
    pub after: Option<u64>,
    /// When its first publish arrived ([`crate::now_us`]): the publisher waits from then on.
    pub arrived_us: u64,
    /// Where the answer goes.
    pub reply: Reply,
}

/// What a message says of its topic.
#[derive(Debug, Clone)]
pub enum Content {
    /// At least one event, within the stream's bounds. Those that the backend brings say when they were stored
    /// ([`Self::stored_at`]).
    Events(Payloads),
    /// It has had no events for so many ms at least, by the clock of a node that tells the time. Only queries ask for that.
    Paused(u64),
    /// The topic has ended. Its earlier messages are not read any more, and can be removed. A later one
    /// begins another topic under its name.
    End(EndCode),
}

/// What makes a publish that is sent again the same publish.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RetryKey {
    /// Whose it is: two publishers with different tokens share no keys.
    pub(crate) identity: Identity,
    /// The publisher's `Idempotency-Key`.
    pub(crate) key: Box<[u8]>,
}

impl RetryKey {
    /// Bytes that name it among all keys of a topic, on every server.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.identity.as_bytes(), &*self.key].concat()
    }
}

/// Where a stored message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The incarnation of the stream.
    pub epoch: Epoch,
    /// Its sequence number.
    pub sequence: u64,
    /// Whether it was stored before, by an earlier publish with the same key.
    pub is_repetition: bool,
}

/// Why a message is not stored, or not known to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// It is not stored, and nobody else is likely to have more luck now.
    Unavailable,
    /// Nobody knows: it may be stored, or may be yet.
    Unknown,
    /// An earlier publish had the same key and another body.
    KeyReused,
    /// It is not stored, because the topic's newest message is not [`Store::after`], but this one, if
    /// that is known.
    Outdated(Option<u64>),
    /// It is not stored, and will not be: one sentence.
    Refused(String),
}

/// Messages of one topic that are to be read again.
#[derive(Debug)]
pub struct Read {
    /// The index of the topic's stream.
    pub stream: usize,
    /// Of which topic.
    pub topic: Topic,
    /// The incarnation of the stream that offsets are of.
    pub epoch: Epoch,
    /// Events from this offset on, whether there is one or not.
    pub from: Offset,
    /// Messages that begin before this one; of a value topic the newest, whatever its number. It may
    /// be less than `from`: then only numbers are wanted.
    pub until: Offset,
    /// Where the answer goes.
    pub reply: ReadReply,
}

/// Messages of one topic that were read: the first ones, if there are more than fit.
#[derive(Debug)]
pub struct ReadPage {
    /// Each with its sequence number, in order, none left out. The first has an event that was asked
    /// for. None comes before an [end](Content::End) of the topic.
    pub messages: Vec<(u64, Payloads)>,
    /// Where among them the topic has [paused](Content::Paused): sequence numbers, and ms.
    pub pauses: Vec<(u64, u64)>,
    /// Whether there are no more of those that were asked for. If there are, this page has some.
    pub is_whole: bool,
    /// The oldest sequence number that the stream still has.
    pub first_sequence: u64,
    /// The sequence number of the newest [end](Content::End) of the topic that was seen.
    pub ended_at: Option<u64>,
    /// The newest sequence number that the stream has given, as its leader knows; 0 if none.
    pub last_sequence: u64,
}

/// Nothing can be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// A page of a feed that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecallId {
    pub(crate) key: FeedKey,
    /// The key may be another topic's by the time that the page comes.
    pub(crate) topic: Topic,
    pub(crate) epoch: Epoch,
    pub(crate) from: Offset,
    /// Up to where batches are missing.
    pub(crate) until: Offset,
}

/// What a shard gets.
#[derive(Debug)]
pub(crate) enum FromBackend {
    /// In the order of their streams.
    Messages(Vec<Fed>),
    Stored {
        topic: Topic,
        number: u64,
        result: Result<Stored, StoreError>,
    },
    Page {
        id: RecallId,
        result: Result<ReadPage, Unreadable>,
    },
    Restarted {
        stream: usize,
        epoch: Epoch,
        from_sequence: u64,
    },
}

/// One message of a stream.
#[derive(Debug)]
pub(crate) struct Fed {
    pub(crate) stream: usize,
    pub(crate) sequence: u64,
    pub(crate) topic: Topic,
    pub(crate) content: Content,
}

/// Whether the server has caught up with its streams.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether it has.
    pub fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.load(Relaxed)
    }
}
