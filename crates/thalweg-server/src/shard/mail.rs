//! What shards say to each other.

use std::sync::Arc;

use thalweg_wire::{Epoch, Offset, Pattern, Position, Topic};
use tokio::sync::oneshot;

use super::{
    local_topic::Ending,
    pauses::{Paused, Pauses},
    publish_result::PublishResult,
    topics::Topics,
};
use crate::{
    access::AccessPolicy,
    backend::{FromBackend, RetryKey},
    connection_limits::{Address, ConnectionPermit},
    fetch::Fetched,
    refusal::Refusal,
};
use thalweg_core::stream::{Batch, Payloads};

/// A message to a shard. The queue is bounded; batches are posted by cursor, so
/// that a full queue delays them and loses nothing.
pub(crate) enum Mail {
    /// A socket to serve.
    Connection(Arrival),
    /// Events for a topic whose home is this shard.
    Append {
        /// Where to.
        topic: Topic,
        /// What.
        payloads: Payloads,
        /// Set if it has an idempotency key.
        retry_key: Option<RetryKey>,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<PublishResult, Refusal>>,
    },
    /// A client has acked a position of a topic whose source runs on this shard and waits for
    /// acks.
    Ack(Ack),
    /// A shared topic whose home is this shard has paused, by the clock of a query.
    Paused(Paused),
    /// What the backend says of topics whose home is this shard.
    FromBackend(FromBackend),
    /// What has come of a topic that is fetched and whose home is this shard.
    Fetched(Fetched),
    /// Run this on the topics of this shard. The closure sends its answer itself.
    Look(Box<dyn FnOnce(&Topics) + Send>),
    /// A shard has subscribers to a topic whose home is this shard.
    Attach {
        /// Which shard, and to what.
        follower: FollowerId,
        /// The address that the first of them is counted for, if any.
        address: Option<Address>,
    },
    /// It has none any more.
    Detach(FollowerId),
    /// The topic's home has no room for it. The follower is the shard that gets this mail.
    NoRoom(FollowerId),
    /// Batches that an attached shard does not have yet.
    Batches {
        /// Of this topic.
        topic: Topic,
        /// The attachment it is for. Batches for another attachment are dropped.
        attachment: u64,
        /// What there is.
        posted: Posted,
    },
    /// Delete a topic whose home is this shard.
    Delete {
        /// Which.
        topic: Topic,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Another access policy.
    Access(Arc<AccessPolicy>),
    /// End connections. Answers how many.
    Disconnect {
        /// Which.
        wanted: Arc<Disconnect>,
        /// Where the answer goes.
        answer: oneshot::Sender<usize>,
    },
    /// Send what has been published, also to the other shards, then answer. The server will end
    /// soon.
    Flush(oneshot::Sender<()>),
    /// Close all connections and end.
    Drain,
}

/// Which connections are ended.
#[derive(Debug, Clone)]
pub(crate) enum Disconnect {
    /// Those whose token is of this subject.
    Subject(Box<str>),
    /// Those whose token has this name.
    Token(Box<str>),
    /// Those that read a topic that this means, or publish lines to one.
    Topics(Pattern),
}

/// What a topic's home posts to a shard that reads it.
#[derive(Debug)]
pub(crate) struct Posted {
    /// The stream's incarnation.
    pub(crate) epoch: Epoch,
    /// Where the batches begin.
    pub(crate) from: Offset,
    /// In order.
    pub(crate) batches: Vec<Arc<Batch>>,
    /// The head after them: what is before it and not among them was not kept.
    pub(crate) head: Offset,
    /// Where it has paused.
    pub(crate) pauses: Pauses,
    /// Set if the topic has ended after them.
    pub(crate) end: Option<Ending>,
}

/// How far the client of a source has processed its events.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    /// The source's topic.
    pub(crate) topic: Topic,
    /// The event processed.
    pub(crate) position: Position,
}

/// A socket that was accepted, and its place.
pub(crate) struct Arrival {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) permit: ConnectionPermit,
}

/// A shard that reads a topic.
#[derive(Debug, Clone)]
pub(crate) struct FollowerId {
    /// Which topic.
    pub(crate) topic: Topic,
    /// Which shard.
    pub(crate) shard: usize,
    /// A number never used before by that shard.
    pub(crate) attachment: u64,
}
