//! A broker orders and stores topics, so that several servers have the same order and the same history.
//!
//! A broker has **streams**. A stream has the topics of a pattern, one [epoch](Stream::epoch), and a list of records,
//! each of one topic. A [record](Content) takes one offset for each of its events, or one if it has no events. Offsets
//! rise within a stream, and the broker may leave some out. All servers that use a stream read the same
//! records at the same offsets, so a subscriber can continue at any server.
//!
//! ```text
//! publish ─► owner shard ─► append ─► broker ─► follow ─► owner shard ─► feed ─► subscribers
//!                                       └─────► read, newest ─► backfill
//! ```
//!
//! [`Broker`] is the contract. [`CompareAndSet`] and [`Tickets`] are optional capabilities. `thalweg-broker-tests` has
//! a suite that runs against any broker.
//!
//! ```text
//! broker        the contract, method by method
//! record        records: appended, delivered, and as a line of text
//! page          pages of records, and their builder
//! follower      the receiver of delivered records
//! keys          idempotency keys, for a broker that stores them itself
//! log           records in memory: appends them, reads them, and selects those that a server gets next
//! tickets       one-time tickets that any server redeems
//! topics        lists of stored topics
//! counts        metrics of a broker
//! log_throttle  decides when to log a frequent occurrence: at most every ten seconds
//! ```

mod broker;
mod counts;
mod follower;
mod keys;
mod log;
mod log_throttle;
mod page;
mod record;
mod tickets;
mod topics;

use std::pin::Pin;

pub use broker::{Broker, CompareAndSet, OFFSET_FIRST, Stream};
use counts::NoCounts;
pub use counts::{BrokerCounts, Family, FamilyValue};
pub use follower::Follower;
pub use keys::{IdempotencyKeys, KEY_LIFE};
pub use log::{LogCursor, News, RecordLog};
pub use log_throttle::LogThrottle;
pub use page::{PageBuilder, ReadPage, ReadRange, Unreadable};
pub use record::{Append, AppendError, Content, Delivery, Stored};
pub use tickets::{TicketDigest, TicketError, Tickets};
pub use topics::{FirstTopics, TopicIndex, TopicRange};

/// A future of an optional capability.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
