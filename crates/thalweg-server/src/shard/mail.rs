//! What shards say to each other.

use std::sync::Arc;

use thalweg_wire::{Epoch, Offset, Position, Topic};
use tokio::sync::oneshot;

use super::{placed::Placed, retries::Retry, topics::Topics};
use crate::{
    connection_limits::{Address, ConnectionPermit},
    refusal::Refusal,
    stream::{Batch, Payloads},
};

/// A message to a shard. The queue is bounded; batches are posted by cursor, so
/// that a full queue delays them and loses nothing.
pub(crate) enum Mail {
    /// A socket to serve.
    Connection(Arrival),
    /// Events for a topic whose home this shard is.
    Append {
        /// Where to.
        topic: Topic,
        /// What.
        payloads: Payloads,
        /// Whether it may be one made before.
        retry: Option<Retry>,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<Placed, Refusal>>,
    },
    /// The client of a source that waits for it, whose home this shard is, has come so
    /// far.
    Ack(Ack),
    /// Look at the topics of this shard, and answer with what is seen.
    Look(Box<dyn FnOnce(&Topics) + Send>),
    /// A shard has subscribers to a topic whose home this shard is.
    Attach {
        /// Which shard, and to what.
        reader: Reader,
        /// That the first of them counts for, if it does for any.
        address: Option<Address>,
    },
    /// It has none any more.
    Detach(Reader),
    /// A topic's home has no room for it; the reader is the shard that gets this.
    NoRoom(Reader),
    /// What a shard that is attached has not seen yet.
    Batches {
        /// Of this topic.
        topic: Topic,
        /// The attachment it is for; another one's are void.
        attachment: u64,
        /// The stream's incarnation.
        epoch: Epoch,
        /// Where the batches begin: the head, if there are none.
        from: Offset,
        /// In order.
        batches: Vec<Arc<Batch>>,
    },
    /// Send what has been published, to the other shards as well; then say so. The end
    /// is near.
    Settle(oneshot::Sender<()>),
    /// Say good-bye to everyone and end.
    Drain,
}

/// How far the client of a source has come.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    /// The source's topic.
    pub(crate) topic: Topic,
    /// The event processed.
    pub(crate) position: Position,
}

/// A socket that was accepted, and its place.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) permit: ConnectionPermit,
}

/// A shard that reads a topic.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    /// Which topic.
    pub(crate) topic: Topic,
    /// Which shard.
    pub(crate) shard: usize,
    /// A number never used before by that shard.
    pub(crate) attachment: u64,
}
