//! One topic's ordered, bounded history, and the bytes that carry its newest
//! part. Pure: no socket, no clock, no runtime; time comes in as `now_us`.
//!
//! ```text
//! payloads    events' JSON, joined: the input of publishers
//! sequencer   gives offsets, seals batches            (home shard only)
//! outbox      events on their way to a store that gives the offsets   (home shard only)
//! batch       sealed events, shared by all shards
//! feed        what a subscription reads: one of these
//! log         the batches retained, and the hot tails (each shard that reads)
//! log_frames  a log as subscribers of one format read it
//! recalled    batches older than that, read back from where they are stored
//! value       the newest version of a topic
//! value_frames  the same as subscribers of one format read it
//! version_patch  what makes a version of the one before, and the short chain of these
//! cold        a frame made for one subscriber alone
//! next        what comes after a cursor
//! tail        hot tail: newest finished frames of one format, contiguous
//! format_map  a value for each format in use
//! cursor      where a subscription is in a log
//! slice       some of its events, for reads without a subscription
//! ```
//!
//! A subscription is a cursor into this, never a queue: a slow subscriber costs only its
//! cursor.

mod batch;
mod cold;
mod cursor;
mod feed;
mod format_map;
mod log;
mod log_frames;
mod next;
mod outbox;
mod payloads;
mod pins;
mod recalled;
mod sequencer;
mod slice;
mod tail;
mod value;
mod value_frames;
mod version_patch;

pub use batch::Batch;
pub use cursor::Cursor;
pub use feed::{Feed, FeedKind, Frames};
pub(crate) use format_map::FormatMap;
pub use log::{HistoryBounds, Log, Lost, Offsets, Page, Start};
pub use log_frames::LogFrames;
pub use next::Next;
pub use outbox::{Answered, Message, MessageBounds, Outbox, Outcome};
pub use payloads::Payloads;
pub use sequencer::{Appended, BatchBounds, Sequencer};
pub use slice::Slice;
pub use value::Value;
pub use value_frames::ValueFrames;
pub use version_patch::VersionPatch;
