//! One topic's ordered, bounded history, and the bytes that carry its newest
//! part. Pure: no socket, no clock, no runtime; time comes in as `now_us`.
//!
//! ```text
//! payloads    events' JSON, joined: the input of publishers
//! sequencer   gives offsets, seals batches            (home shard only)
//! derived     the same, for events whose offsets follow from those of others
//! outbox      events on their way to a store that gives the offsets   (home shard only)
//! batch       sealed events, shared by all shards
//! feed        what a subscription reads: one of these
//! log         the history and the hot tails           (each shard that reads)
//! log/columns its rows as columns
//! history     the batches retained
//! offsets     whether each is an event's
//! log_frames  a log as subscribers of one format read it
//! beyond      positions after the head: whether there is such an event
//! page        events read back from where they are stored
//! recalled    batches older than the history, made of these
//! value       the newest version of a topic
//! kept_frames  its finished frames
//! value_frames  the same as subscribers of one format read it
//! version_patch  what makes a version of the one before, and the short chain of these
//! encoding    how a frame is made: a format, and the schema of its columns
//! batch_columns  a batch's rows as columns: their schema and their frame
//! column_frames  such frames that a log keeps
//! log_columns the columns of a log's rows
//! cold        a frame made for one subscriber alone
//! start       how a subscription begins
//! next        what comes after a cursor
//! lost        where a cursor goes on whose events are gone
//! tail        hot tail: newest finished frames of one format, contiguous
//! format_map  a value for each format in use
//! cursor      where a subscription is in a log
//! slice       some of its events, for reads without a subscription
//! ```
//!
//! A subscription is a cursor into this, never a queue: a slow subscriber costs only its
//! cursor.

mod batch;
mod batch_columns;
mod beyond;
mod cold;
mod column_frames;
mod cursor;
mod derived;
mod encoding;
mod feed;
mod format_map;
mod history;
mod kept_frames;
mod log;
mod log_columns;
mod log_frames;
mod lost;
mod next;
mod offsets;
mod outbox;
mod page;
mod payloads;
mod pins;
mod recalled;
mod sequencer;
mod slice;
mod start;
mod tail;
mod value;
mod value_frames;
mod version_patch;

pub use batch::Batch;
pub use batch_columns::ColumnCounts;
pub use column_frames::ColumnMemory;
pub use cursor::Cursor;
pub use derived::DerivedBatches;
pub use encoding::Encoding;
pub use feed::{Feed, FeedKind, Frames};
pub use format_map::FormatMap;
pub use history::HistoryBounds;
pub use log::Log;
pub use log_frames::LogFrames;
pub use lost::Lost;
pub use next::Next;
pub use offsets::Offsets;
pub use outbox::{Answered, Message, MessageBounds, Outbox, Outcome};
pub use page::Page;
pub use payloads::Payloads;
pub use sequencer::{Appended, BatchBounds, Sequencer};
pub use slice::Slice;
pub use start::Start;
pub use value::Value;
pub use value_frames::ValueFrames;
pub use version_patch::VersionPatch;
