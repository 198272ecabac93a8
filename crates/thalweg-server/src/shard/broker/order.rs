//! A shard's state of the brokers' streams, and the order of a broker topic.

use thalweg_core::stream::{Batch, Mark, MessageBounds, Outbox};
use thalweg_wire::{Epoch, Offset, Topic};

use super::{KeyedOrder, StoreAnswer};
use crate::broker::{BrokerStream, RetryKey};

/// A mark of a message that is stored on its own.
#[derive(Debug)]
pub(in crate::shard) enum SingleMessage {
    Retry(RetryKey),
    /// An event that is not stored. The broker says whether it knows its idempotency key.
    Repeated(RetryKey),
    /// An event with a condition on its key, or removals of expired keys, under the condition that the topic's newest record has
    /// this offset. Servers that share a topic check such conditions in this way.
    Compared {
        after: Offset,
        retry_key: Option<RetryKey>,
    },
    /// A fetched document. The broker stores it if the topic's newest record has this offset (0: there is none).
    Fetched(Offset),
    /// The end of a topic whose document is gone, under the same condition.
    Gone(Offset),
    Deleted,
    /// A pause of this many ms, under the same condition.
    Paused {
        ms: u64,
        after: Offset,
    },
}

impl Mark for SingleMessage {
    /// A publisher with an idempotency key waits for the answer before it publishes a later event.
    fn may_overlap(&self) -> bool {
        matches!(self, Self::Retry(_) | Self::Repeated(_))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Retry(key)
            | Self::Repeated(key)
            | Self::Compared { retry_key: Some(key), .. } => {
                key.identity.as_bytes().len() + key.key.len()
            }
            Self::Compared { retry_key: None, .. }
            | Self::Fetched(_)
            | Self::Gone(_)
            | Self::Deleted
            | Self::Paused { .. } => 0,
        }
    }
}

#[derive(Debug)]
pub(in crate::shard) struct BrokerStreams {
    streams: Vec<StreamState>,
}

#[derive(Debug)]
struct StreamState {
    stream: BrokerStream,
    /// One past the newest record that has come to this shard.
    next: Offset,
    /// No topic that this shard lacks has a record at this offset or a later one.
    known_from: Offset,
}

/// The owner shard's part of a broker topic besides its feed.
#[derive(Debug)]
pub(in crate::shard) struct BrokerOrder {
    pub(in crate::shard) stream: usize,
    /// The indices of the broker, and of the stream in the broker.
    pub(super) broker: usize,
    pub(super) index: usize,
    pub(in crate::shard) outbox: Outbox<SingleMessage, StoreAnswer>,
    /// Batches that have come since the last turn.
    pub(in crate::shard) arrived: Vec<Batch>,
    /// One past the newest event that has come.
    pub(in crate::shard) head: Offset,
    /// The offset of the newest known record. 0: none is known.
    pub(in crate::shard) newest: Offset,
    /// Whether the topic is queued to send a message.
    pub(in crate::shard) is_unstored: bool,
    /// Set if the topic is keyed.
    pub(in crate::shard) keyed: Option<Box<KeyedOrder>>,
}

impl StreamState {
    fn new(stream: BrokerStream) -> Self {
        let from = stream.stream.from;
        Self { stream, next: from, known_from: from }
    }
}

impl BrokerStreams {
    pub(in crate::shard) fn new(streams: &[BrokerStream]) -> Self {
        Self { streams: streams.iter().cloned().map(StreamState::new).collect() }
    }

    /// Returns the first stream whose pattern a topic matches, of those that keep keys if it is keyed, or else of the others.
    pub(in crate::shard) fn matching(&self, topic: &Topic, is_keyed: bool) -> Option<usize> {
        self.streams.iter().position(
            |StreamState { stream: BrokerStream { stream, .. }, .. }| {
                stream.kind.has_keys() == is_keyed && stream.pattern.matches(topic)
            },
        )
    }

    pub(in crate::shard) fn get(&self, index: usize) -> &BrokerStream {
        &self.streams[index].stream
    }

    pub(in crate::shard) fn epoch(&self, index: usize) -> Epoch {
        self.get(index).stream.epoch
    }

    /// Returns the offset from which a topic that this shard lacks has no events.
    pub(in crate::shard) fn known_from(&self, index: usize) -> Offset {
        self.streams[index].known_from
    }

    /// Returns the order of a new topic, and its next offset.
    pub(in crate::shard) fn begin(
        &self,
        index: usize,
        batch_bytes_max: usize,
    ) -> (BrokerOrder, Offset) {
        let of_stream = self.get(index);
        let BrokerStream { stream, broker, index: in_broker, .. } = of_stream;
        let outbox = Outbox::new(MessageBounds {
            events_max: stream.events_max,
            bytes_max: stream.bytes_max,
            batch_bytes_max,
            in_flight_max: stream.in_flight_max,
        });
        let head = self.known_from(index);
        let order = BrokerOrder {
            stream: index,
            broker: *broker,
            index: *in_broker,
            outbox,
            arrived: Vec::new(),
            head,
            newest: 0,
            is_unstored: false,
            keyed: stream
                .kind
                .has_keys()
                .then(|| Box::new(KeyedOrder::new(of_stream.shares_keys()))),
        };
        (order, head)
    }

    /// Notes that a topic that this shard lacks may have events up to the newest record, but no later ones.
    pub(in crate::shard) fn move_known_from(&mut self, index: usize) {
        let state = &mut self.streams[index];
        state.known_from = state.known_from.max(state.next);
    }

    /// Notes that a record that ends before this offset has come.
    pub(in crate::shard) fn has_come(&mut self, index: usize, end: Offset) {
        let next = &mut self.streams[index].next;
        *next = end.max(*next);
    }

    pub(in crate::shard) fn restart(&mut self, index: usize, epoch: Epoch, from: Offset) {
        let mut stream = self.get(index).clone();
        (stream.stream.epoch, stream.stream.from) = (epoch, from);
        self.streams[index] = StreamState::new(stream);
    }
}

impl BrokerOrder {
    /// Returns whether the topic belongs to this broker.
    pub(in crate::shard) fn is_of(&self, broker: usize) -> bool {
        self.broker == broker
    }

    /// Notes the offset of a record that has come, was stored or was read.
    pub(in crate::shard) fn has_record(&mut self, first: Offset) {
        self.newest = self.newest.max(first);
    }

    pub(in crate::shard) fn take_unstored(&mut self) -> Outbox<SingleMessage, StoreAnswer> {
        let empty = Outbox::new(self.outbox.bounds());
        std::mem::replace(&mut self.outbox, empty)
    }

    /// Returns whether there are events that the feed does not have.
    pub(in crate::shard) fn holds_events(&self) -> bool {
        let is_awaited = self.keyed.as_ref().is_some_and(|keyed| keyed.is_awaited());
        !self.outbox.is_empty() || !self.arrived.is_empty() || is_awaited
    }
}
