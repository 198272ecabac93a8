//! The server's end: what is to be stored comes from it, what was read goes to it. A trait, so that tests
//! can be the server.

use std::future::Future;

use thalweg_server::backend::{
    Content, Read, ReadPage, ReadReply, Readiness, Reply, Shards, Store, StoreError, Stored,
    Unreadable,
};
use thalweg_wire::{Epoch, Offset, Topic};

/// Where what was read goes.
pub trait Target: Clone + Send + Sync + 'static {
    /// See [`Shards::message`].
    fn message(
        &self,
        stream: usize,
        sequence: u64,
        topic: Topic,
        content: Content,
    ) -> impl Future<Output = ()> + Send;

    /// See [`Shards::restarted`]. With the same epoch: messages before `from_sequence` were removed
    /// before they were read.
    fn restarted(
        &self,
        stream: usize,
        epoch: Epoch,
        from_sequence: u64,
    ) -> impl Future<Output = ()> + Send;

    /// See [`Readiness::set`].
    fn set_ready(&self, is_ready: bool);
}

/// Where the answer to one store goes.
pub trait Answer: Send + 'static {
    /// See [`Reply::send`].
    fn send(self, result: Result<Stored, StoreError>);
}

/// What is to be stored.
#[derive(Debug)]
pub struct Work {
    /// The index of the stream.
    pub stream: usize,
    /// Of which topic.
    pub topic: Topic,
    /// See [`Store::content`].
    pub content: Content,
    /// What makes it the repetition of an earlier one: bytes that name it among all keys of the topic.
    pub key: Option<Vec<u8>>,
    /// See [`Store::after`].
    pub after: Option<u64>,
    /// See [`Store::arrived_us`].
    pub arrived_us: u64,
}

impl Work {
    /// What a [`Store`] asks for.
    pub fn of(store: Store) -> (Self, Reply) {
        let Store { stream, topic, content, key, after, arrived_us, reply } = store;
        let key = key.map(|key| key.to_bytes());
        (Self { stream, topic, content, key, after, arrived_us }, reply)
    }
}

/// Where the answer to one read goes.
pub trait PageAnswer: Send + 'static {
    /// See [`ReadReply::send`].
    fn send(self, result: Result<ReadPage, Unreadable>);
}

/// Older messages that are to be read again.
#[derive(Debug)]
pub struct Wanted {
    /// The index of the stream.
    pub stream: usize,
    /// Of which topic.
    pub topic: Topic,
    /// The incarnation of the stream that offsets are of.
    pub epoch: Epoch,
    /// Events from this offset on.
    pub from: Offset,
    /// Messages that begin before this one; see [`Read::until`].
    pub until: Offset,
}

impl Wanted {
    /// What a [`Read`] asks for.
    pub fn of(read: Read) -> (Self, ReadReply) {
        let Read { stream, topic, epoch, from, until, reply } = read;
        (Self { stream, topic, epoch, from, until }, reply)
    }
}

impl PageAnswer for ReadReply {
    fn send(self, result: Result<ReadPage, Unreadable>) {
        self.send(result);
    }
}

/// A [`thalweg_server::backend::Link`] without what is asked there.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) shards: Shards,
    pub(crate) readiness: Readiness,
}

impl Target for Server {
    async fn message(&self, stream: usize, sequence: u64, topic: Topic, content: Content) {
        self.shards.message(stream, sequence, topic, content).await;
    }

    async fn restarted(&self, stream: usize, epoch: Epoch, from_sequence: u64) {
        self.shards.restarted(stream, epoch, from_sequence).await;
    }

    fn set_ready(&self, is_ready: bool) {
        self.readiness.set(is_ready);
    }
}

impl Answer for Reply {
    fn send(self, result: Result<Stored, StoreError>) {
        self.send(result);
    }
}
