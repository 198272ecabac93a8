//! A topic's ordered, bounded history, and the bytes of its newest part. Pure: no socket, no clock, no runtime. The
//! caller passes the time as `now_us`.
//!
//! ```text
//! payloads    events' JSON, joined
//! sequencer   assigns offsets, seals batches                          (owner shard only)
//! derived     seals rows of queries, with offsets from their events   (owner shard only)
//! outbox      events on their way to a store that assigns the offsets (owner shard only)
//! batch       sealed events, shared by all shards
//! feed        the traits of a topic that subscriptions read
//! kinds       the registered kinds of feed
//! log         a history and its hot tails: log/feed, log/columns; log/frames: how subscribers of a format read it
//! history     the retained batches
//! offsets     the relation of offsets to events
//! ahead       the broker's answers about positions after the head
//! page        events of a backfill
//! backfilled  batches from pages
//! value       the newest version of a topic: value/feed; value/frames: how subscribers read it
//! kept_frames finished frames of a value
//! keyed       the newest event of each key; its own files are listed there
//! keys, keyed_event  the keys of events; an event with its key
//! version_patch  patches between versions
//! encoding    a format, and the schema of a stream of columns
//! batch_columns, column_frames, log_columns  columns of a batch; column frames that a log keeps; columns of a log
//! start       the beginning of a subscription
//! next        the result of a read at a cursor
//! lost        the places where a cursor continues after a loss
//! tail        hot tail: the newest finished frames of one format, contiguous
//! pins        batches of partly sent frames
//! format_map  a value for each format in use
//! cursor      a subscription's place in a log
//! slice       consecutive events, for reads without a subscription
//! ```
//!
//! A subscription is a cursor, never a queue: a slow subscriber costs only its cursor.

mod ahead;
mod backfilled;
mod batch;
mod batch_columns;
mod column_frames;
mod cursor;
mod derived;
mod encoding;
mod feed;
mod format_map;
mod history;
mod kept_frames;
mod keyed;
mod keyed_event;
mod keys;
mod kinds;
mod log;
mod log_columns;
mod lost;
mod next;
mod offsets;
mod outbox;
mod page;
mod payloads;
mod pins;
mod sequencer;
mod slice;
mod start;
mod tail;
mod value;
mod version_patch;

pub use batch::Batch;
pub use batch_columns::ColumnCounts;
pub use column_frames::ColumnMemory;
pub use cursor::Cursor;
pub use derived::DerivedBatches;
pub use encoding::Encoding;
pub use feed::{Backfill, ColumnRows, Feed, Frames, Memory, Pinning};
pub use format_map::FormatMap;
pub use history::HistoryBounds;
pub use keyed::{JoinedKeys, KeyedFeed, KeyedFrames, RemovalBounds, StatePart};
pub use keyed_event::KeyedEvent;
pub use kinds::{AnyFeed, AnyFrames, FeedKind};
pub use log::{Log, LogFrames};
pub use lost::Lost;
pub use next::Next;
pub use offsets::Offsets;
pub use outbox::{Answered, Mark, Message, MessageBounds, Outbox, Outcome};
pub use page::Page;
pub use payloads::Payloads;
pub use sequencer::{Appended, BatchBounds, Sequencer};
pub use slice::Slice;
pub use start::Start;
pub use value::{Value, ValueFrames};
pub use version_patch::VersionPatch;
