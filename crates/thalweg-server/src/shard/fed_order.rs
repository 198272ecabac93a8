//! What a shard keeps of streams and of the topics that are fed from them.

use std::sync::Arc;

use thalweg_wire::{Epoch, Offset, Topic};
use tokio::sync::oneshot;

use super::publish_result::PublishResult;
use crate::{
    backend::{RetryKey, Stream, offset_of},
    config::Config,
    refusal::Refusal,
};
use thalweg_core::stream::{Batch, Outbox};

/// Where the answer goes when something is stored.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nobody waits for it.
    Nowhere,
    /// It was fetched: nobody waits for it, but a failure is said.
    Fetched(Topic),
    /// To a publisher.
    Published(oneshot::Sender<Result<PublishResult, Refusal>>),
    /// To whoever deletes a topic.
    Deleted(oneshot::Sender<Result<(), Refusal>>),
}

/// What is stored as a message of its own.
#[derive(Debug)]
pub(super) enum Alone {
    /// A publish with an `Idempotency-Key`.
    Retry(RetryKey),
    /// A document that was fetched. It is stored if the topic's newest message has this sequence
    /// number; 0 if there is none.
    Fetched(u64),
    /// The end of a topic whose document is gone, under the same condition.
    Gone(u64),
    /// The end of a topic that is deleted.
    Deleted,
    /// The topic has had no events for so many ms. It is stored if the topic's newest message has this sequence number.
    Paused { ms: u64, after: u64 },
}

/// The streams, as one shard has got them.
#[derive(Debug)]
pub(super) struct FedStreams {
    config: Arc<Config>,
    streams: Vec<FedStream>,
}

#[derive(Debug)]
struct FedStream {
    stream: Stream,
    /// The newest message of it that came to this shard.
    newest: u64,
    /// Of a topic that is not here this shard has got no message from this sequence number on.
    known_from: u64,
}

/// What a fed topic has on its home shard besides its feed.
#[derive(Debug)]
pub(super) struct FedOrder {
    pub(super) stream: usize,
    pub(super) outbox: Outbox<Alone, Answer>,
    /// The number of the message under way, and its bytes; 0 if none is.
    pub(super) under_way: u64,
    pub(super) under_way_bytes: usize,
    /// Batches that came since the last turn.
    pub(super) arrived: Vec<Batch>,
    /// One past the newest event that came.
    pub(super) head: Offset,
    /// Sequence number of the newest message that is known; 0 if none is.
    pub(super) newest: u64,
    /// Among those with a message to store.
    pub(super) is_unstored: bool,
}

impl FedStream {
    fn new(stream: Stream) -> Self {
        let known_from = stream.from_sequence;
        Self { stream, newest: known_from.saturating_sub(1), known_from }
    }
}

impl FedStreams {
    pub(super) fn new(config: Arc<Config>, streams: &[Stream]) -> Self {
        Self { config, streams: streams.iter().cloned().map(FedStream::new).collect() }
    }

    /// The stream that a topic is fed from. What is fetched has versions; where the stream keeps events,
    /// each server fetches for itself. Rows of queries each server makes for itself.
    pub(super) fn of(&self, topic: &Topic) -> Option<usize> {
        let index = self.streams.iter().position(|fed| fed.stream.pattern.matches(topic))?;
        let is_its = self.has_values(index) || self.config.upstream(topic).is_none();
        (is_its && !self.config.is_derived(topic)).then_some(index)
    }

    /// Whether a stream's topics are value topics.
    pub(super) fn has_values(&self, index: usize) -> bool {
        self.streams[index].stream.has_values
    }

    pub(super) fn epoch(&self, index: usize) -> Epoch {
        self.streams[index].stream.epoch
    }

    /// The offset from which on a topic that is not here has no events.
    pub(super) fn known_from(&self, index: usize) -> Offset {
        offset_of(self.streams[index].known_from, 0)
    }

    /// What a topic of a stream begins with here: its order, and its next offset.
    pub(super) fn begin(&self, index: usize, topic: &Topic) -> (FedOrder, Offset) {
        let FedStream { stream, known_from, .. } = &self.streams[index];
        let head = offset_of(*known_from, 0);
        let outbox = Outbox::new(stream.message_bounds(self.config.topic(topic).batch.bytes_max));
        let (arrived, is_unstored) = (Vec::new(), false);
        let (under_way, under_way_bytes) = (0, 0);
        let order = FedOrder {
            stream: index,
            outbox,
            under_way,
            under_way_bytes,
            arrived,
            head,
            newest: 0,
            is_unstored,
        };
        (order, head)
    }

    /// A topic of a stream is not here, or no longer, and may have events up to the newest message. So
    /// of topics that are not here this shard knows only what comes after that one.
    pub(super) fn move_known_from(&mut self, index: usize) {
        let fed = &mut self.streams[index];
        fed.known_from = fed.known_from.max(fed.newest + 1);
    }

    /// A message has come to this shard.
    pub(super) fn has_come(&mut self, index: usize, sequence: u64) {
        let newest = &mut self.streams[index].newest;
        *newest = sequence.max(*newest);
    }

    pub(super) fn restart(&mut self, index: usize, epoch: Epoch, from_sequence: u64) {
        let stream = Stream { epoch, from_sequence, ..self.streams[index].stream.clone() };
        self.streams[index] = FedStream::new(stream);
    }
}

impl Answer {
    /// Answers. Whoever waits for it may be gone by then.
    pub(super) fn send(self, result: Result<PublishResult, Refusal>) {
        match self {
            Self::Nowhere => {}
            Self::Fetched(topic) => {
                if let Err(refused) = result {
                    tracing::warn!(%topic, why = refused.message, "not stored");
                }
            }
            Self::Published(answer) => drop(answer.send(result)),
            Self::Deleted(answer) => drop(answer.send(result.map(drop))),
        }
    }
}

impl FedOrder {
    /// A message has come, is stored, or was read.
    pub(super) fn has_message(&mut self, sequence: u64) {
        self.newest = self.newest.max(sequence);
    }

    /// Takes the batches that came.
    pub(super) fn take_arrived(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.arrived)
    }

    /// Whether it holds events that are in no feed yet.
    pub(super) fn holds_events(&self) -> bool {
        !self.outbox.is_empty() || !self.arrived.is_empty()
    }
}
