//! Subscribers, and the bytes that each of them gets next. Pure: sockets are a [`Sink`], time is `now_us`.
//!
//! ```text
//! subscription    topic + cursor + policy
//! subscriber      one connection's subscriptions and its control messages
//! framing         the bytes that a connection adds to shared frames
//! ids             decides which frames name the cursors of several topics
//! filtered        the filter of keys of a subscription
//! window          the limit of bytes ahead of a client's acks
//! transmit        one send: planned, sent, committed
//! at_once         a visit that is a single send
//! deliver         consecutive sends, up to a budget
//! ```
//!
//! The owner of subscribers visits a subscriber with [`Subscriber::deliver`] when a feed that the
//! subscriber reads gets a batch, when the sink has room again, at the time that the last visit
//! returned, and after any other call on the subscriber.
//!
//! ```
//! use std::{io::IoSlice, sync::Arc};
//! use thalweg_core::fanout::{
//!     Budget, ConnectionFraming, Delivered, FeedKey, Feeds, ResponseMode, Scratch, Sent, Sink, Subscribe, Subscriber, Terms,
//! };
//! use thalweg_core::stream::{BatchBounds, Feed as _, HistoryBounds, Log, Offsets, Payloads, Sequencer};
//! use thalweg_wire::{Epoch, Format, StartAt};
//!
//! /// The only feed.
//! struct One(Log);
//!
//! impl Feeds for One {
//!     type Feed = Log;
//!
//!     fn feed(&self, _: FeedKey) -> Option<&Log> {
//!         Some(&self.0)
//!     }
//!     fn feed_mut(&mut self, _: FeedKey) -> Option<&mut Log> {
//!         Some(&mut self.0)
//!     }
//! }
//!
//! /// A sink that takes everything.
//! struct Bytes(Vec<u8>);
//!
//! impl Sink for Bytes {
//!     fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
//!         slices.iter().for_each(|slice| self.0.extend_from_slice(slice));
//!         Sent::Bytes(slices.iter().map(|slice| slice.len()).sum())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (epoch, now_us) = (Epoch::new(0x9f).ok_or("no epoch")?, 0);
//! let history = HistoryBounds { events_max: 100, bytes_max: 1 << 20, age_us_max: u64::MAX };
//! let mut feeds = One(Log::new("cars".parse()?, epoch, 1, Offsets::Consecutive, history));
//!
//! // A subscriber waits for events.
//! let subscribe = Subscribe { feed: 0, start: StartAt::Latest, terms: Terms::default() };
//! let framing = ConnectionFraming::new(Format::NDJSON);
//! let mut subscriber =
//!     Subscriber::new(Format::NDJSON, b"", &[subscribe], ResponseMode::Endless, framing);
//! let (mut sink, mut scratch) = (Bytes(Vec::new()), Scratch::default());
//! let budget = Budget { socket_bytes: 1 << 20 };
//! let delivered = subscriber.deliver(&mut feeds, &mut sink, now_us, budget, &mut scratch);
//! assert_eq!(delivered, Delivered::CaughtUp(None));
//!
//! // An event comes: the sequencer assigns its offset, then the batch is sealed and pushed.
//! let bounds = BatchBounds { flush_us: 0, events_max: 100, bytes_max: 1 << 20 };
//! let mut sequencer = Sequencer::new(epoch, bounds);
//! let mut payloads = Payloads::default();
//! payloads.push(|out| Ok::<(), ()>(out.extend_from_slice(b"{\"speed\":39}"))).ok();
//! sequencer.append(&mut payloads, now_us);
//! for batch in sequencer.seal(now_us) {
//!     feeds.0.push(Arc::new(batch), now_us);
//! }
//! subscriber.deliver(&mut feeds, &mut sink, now_us, budget, &mut scratch);
//! assert_eq!(
//!     String::from_utf8(sink.0)?,
//!     concat!(
//!         r#"{"topic":"cars","position":"9f.0","first":1,"events":[]}"#, "\n",
//!         r#"{"topic":"cars","position":"9f.1","first":1,"events":[{"speed":39}]}"#, "\n",
//!     )
//! );
//! # Ok(())
//! # }
//! ```

mod at_once;
mod control;
mod deliver;
mod filtered;
mod framing;
mod ids;
mod subscriber;
mod subscription;
mod transmit;
mod window;

use std::io::IoSlice;

use crate::stream::Feed;

pub use at_once::{AtOnce, Step};
pub use deliver::{Delivered, Scratch};
pub use framing::ConnectionFraming;
pub use subscriber::{ResponseMode, Subscriber};
pub use subscription::{Left, Policy, Subscribe, Terms};

/// A topic's key among a shard's feeds.
pub type FeedKey = u32;

/// A shard's feeds. During a visit a key always names the same feed, and a feed exists as long as a
/// subscriber reads it.
pub trait Feeds {
    /// The type of the feeds: a single kind, or an enum of all kinds.
    type Feed: Feed;

    /// Returns the feed of a key, or `None` until the shard has that feed. Then visit the subscribers that
    /// wait for it.
    fn feed(&self, key: FeedKey) -> Option<&Self::Feed>;

    /// Returns the feed of a key, to pin batches.
    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Self::Feed>;

    /// Notes that a sink has taken events of a subscription that has no interval and keeps up. `age_us` is
    /// the age of the oldest event.
    fn sent(&mut self, _age_us: u64) {}

    /// Notes that a subscriber of a feed was told of a gap, or that its subscription ended instead.
    fn gap(&mut self, _key: FeedKey) {}
}

/// The receiver of a subscriber's bytes: a socket with or without TLS, or a pipe.
pub trait Sink {
    /// Takes the first bytes of `slices`, as many as fit now, without waiting. The slices are shared memory,
    /// and at least one is not empty.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent;
}

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The sink took this many bytes. If it took fewer than were offered, even 0, the sink is full: the visit ends
    /// with [`Delivered::Full`], and the sink must report when it has room again.
    Bytes(usize),
    /// The sink will take no more bytes, because the peer is gone. The visit ends with [`Delivered::Gone`].
    Gone,
}

/// The budget of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes for one subscriber in one visit. When they are sent, the visit ends with [`Delivered::More`], so
    /// that other subscribers get their turn. The budget is checked between sends: a visit sends at least
    /// once, and may exceed the budget.
    pub socket_bytes: usize,
}
