//! What is read without subscribing, as shards ask each other for it.

use thalweg_wire::{Position, Topic};

use crate::stream::Slice;

/// A topic's history from a cursor on, as the JSON of docs/wire.md, "Reading": what stands
/// before its events, these, and what stands after them.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) before: Vec<u8>,
    pub(super) events: Slice,
    pub(super) after: Vec<u8>,
}

/// One topic as a shard knows it.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) topic: Topic,
    /// Of its newest event; only its home knows.
    pub(crate) position: Option<Position>,
    /// How many are retained there.
    pub(crate) events: u64,
    /// How many subscribe to it here.
    pub(crate) subscribers: u64,
}

/// Which topics to list.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) after: String,
    pub(crate) prefix: String,
    pub(crate) limit: usize,
}
