//! Who gets what next. Pure: sockets are a [`Sink`], time is `now_us`.
//!
//! ```text
//! subscription    topic + cursor + policy
//! subscriber      one connection's subscriptions and its own frames
//! ids             when several topics' cursors are named
//! window          how far one may be sent ahead of its acks
//! transmit        one send: planned, sent, committed
//! deliver         the one way out: one send after the other, up to a budget
//! ```

mod deliver;
mod ids;
mod own;
mod subscriber;
mod subscription;
mod transmit;
mod window;

use std::io::IoSlice;

use crate::stream::Log;

pub use deliver::{Delivered, Scratch};
pub use subscriber::{Life, Subscriber};
pub use subscription::{Policy, Subscribe, Terms};

/// A topic's place among a shard's feeds.
pub type FeedKey = u32;

/// The logs that a shard's subscribers read.
pub trait Feeds {
    /// `None` while the log is not here yet: its subscriptions wait.
    fn feed(&self, key: FeedKey) -> Option<&Log>;

    /// The same, to pin batches.
    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Log>;
}

/// Where a subscriber's bytes go.
pub trait Sink {
    /// Sends as much of `slices` as fits now.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent;
}

/// What a sink did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It took this many bytes; fewer than offered: it is full now.
    Bytes(usize),
    /// The peer is gone.
    Gone,
}

/// What a walk may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes to one socket in one visit, after which others get their turn.
    pub socket_bytes: usize,
}
