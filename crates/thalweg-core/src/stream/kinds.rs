//! The registered kinds of feed. Settings name them. No other file here depends on one kind. To add a kind, add
//! a variant to each of the enums, and a line wherever the compiler then needs one.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{
    Before, Epoch, Format, GapReason, KeyFilter, Keyed as Keys, Offset, StartAt, Topic,
};

use super::{
    Backfill, Batch, ColumnCounts, ColumnMemory, ColumnRows, Cursor, Encoding, Feed, Frames,
    HistoryBounds, KeyedEvent, KeyedFeed, KeyedFrames, Log, LogFrames, Memory, Next, Offsets, Page,
    Pinning, Start, StatePart, Value, ValueFrames,
};

/// The kind of a topic's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FeedKind {
    /// Every event counts: a [`Log`].
    #[default]
    Log,
    /// The newest event counts: a [`Value`].
    Value,
    /// The newest event of each key counts: a [`KeyedFeed`].
    Keyed,
}

impl FeedKind {
    /// The kind of topics whose events are documents that replace each other.
    pub const OF_DOCUMENTS: Self = Self::Value;

    /// The kind of topics that list the members of another topic.
    pub const OF_MEMBERS: Self = Self::Keyed;

    /// The kind of topics that have a row for each group of a query.
    pub const OF_GROUPS: Self = Self::Keyed;

    /// The names of all kinds in settings.
    pub const NAMES: [&str; 3] = ["log", "value", "keyed"];

    /// Parses the name of a kind in settings.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "log" => Some(Self::Log),
            "value" => Some(Self::Value),
            "keyed" => Some(Self::Keyed),
            _ => None,
        }
    }

    /// Returns the name of the kind in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Value => "value",
            Self::Keyed => "keyed",
        }
    }

    /// Returns whether the newest events are its state ([`Feed::is_state`]).
    pub fn is_state(self) -> bool {
        matches!(self, Self::Value | Self::Keyed)
    }

    /// Returns whether each event replaces the one before, as brokers store it.
    pub fn has_versions(self) -> bool {
        matches!(self, Self::Value)
    }

    /// Returns whether each event has a key.
    pub fn has_keys(self) -> bool {
        matches!(self, Self::Keyed)
    }

    /// Returns whether events may be rows of columns.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Log)
    }
}

/// The feed of a topic, of any kind: the static dispatcher.
#[derive(Debug)]
pub enum AnyFeed {
    /// Every event counts.
    Log(Log),
    /// The newest event counts.
    Value(Value),
    /// The newest event of each key counts.
    Keyed(Box<KeyedFeed>),
}

/// The frames of any kind of feed.
#[derive(Debug, Clone, Copy)]
pub enum AnyFrames<'a, 'e> {
    /// The frames of a log.
    Log(LogFrames<'a, 'e>),
    /// The frames of a value.
    Value(ValueFrames<'a>),
    /// The frames of a keyed topic.
    Keyed(KeyedFrames<'a, 'e>),
}

impl AnyFeed {
    /// Creates an empty feed of a stream whose next event is `next` or a later one. Not every kind has a history or columns.
    pub fn new(
        kind: FeedKind,
        (topic, epoch, next): (Topic, Epoch, Offset),
        offsets: Offsets,
        history: HistoryBounds,
        (columns, memory): (Option<Arc<Columns>>, ColumnMemory),
    ) -> Self {
        match kind {
            FeedKind::Log => {
                let log = Log::new(topic, epoch, next, offsets, history);
                Self::Log(log.with_columns(columns, memory))
            }
            FeedKind::Value => Self::Value(Value::new(topic, epoch, next, offsets)),
            FeedKind::Keyed => {
                let keyed = KeyedFeed::new(topic, epoch, next, offsets, history);
                Self::Keyed(Box::new(keyed.with_page_memory(memory)))
            }
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> FeedKind {
        match self {
            Self::Log(_) => FeedKind::Log,
            Self::Value(_) => FeedKind::Value,
            Self::Keyed(_) => FeedKind::Keyed,
        }
    }
}

impl Feed for AnyFeed {
    type Frames<'a, 'e> = AnyFrames<'a, 'e>;

    #[inline]
    fn frames<'a, 'e>(&'a self, encoding: Encoding<'e>) -> AnyFrames<'a, 'e> {
        match self {
            Self::Log(log) => AnyFrames::Log(log.frames(encoding)),
            Self::Value(value) => AnyFrames::Value(value.frames(encoding)),
            Self::Keyed(keyed) => AnyFrames::Keyed(keyed.frames(encoding)),
        }
    }

    fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        let (log, value, keyed) = match self {
            Self::Log(log) => (Some(log.batches_from(from)), None, None),
            Self::Value(value) => (None, Some(value.batches_from(from)), None),
            Self::Keyed(keyed) => (None, None, Some(keyed.batches_from(from))),
        };
        let log_or_value = log.into_iter().flatten().chain(value.into_iter().flatten());
        log_or_value.chain(keyed.into_iter().flatten())
    }

    delegate! { AnyFeed [Log Value Keyed]:
        fn topic(&self) -> &Topic;
        fn epoch(&self) -> Epoch;
        fn head(&self) -> Offset;
        fn start(&self, at: StartAt) -> Start;
        fn is_state(&self) -> bool;
        fn frame_format(&self, format: Format) -> Format;
        fn has_all(&self, cursor: &Cursor) -> bool;
        fn first_retained(&self) -> Offset;
        fn first_readable(&self) -> Offset;
        fn retained_events(&self) -> usize;
        fn events_from(&self, from: Offset) -> u64;
        fn frame_after(&self, cursor: &Cursor) -> Offset;
        fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>>;
        fn published_us(&self, offset: Offset) -> Option<u64>;
        fn confirmed_after(&self, cursor: &Cursor) -> Before;
        fn unknown_reason(&self) -> GapReason;
        fn conflates(&self) -> bool;
        fn is_loading(&self) -> bool;
        fn confirmed_keys(
            &self,
            cursor: &Cursor,
            filter: Option<&KeyFilter>
        ) -> Option<Keys<'static>>;
        fn keyed_event(&self, key: &[u8]) -> Option<&KeyedEvent>;
        fn state_part(
            &self,
            cursor: &Cursor,
            count_max: usize,
            filter: Option<&KeyFilter>
        ) -> Option<(StatePart, Cursor)>;
    }

    delegate! { AnyFeed [Log Value Keyed]:
        fn push(&mut self, batch: Arc<Batch>, now_us: u64);
        fn skip_to(&mut self, head: Offset);
        fn take_state(&mut self, part: StatePart, now_us: u64);
        fn forget_removals(&mut self);
        fn load(&mut self);
        fn make_frames(
            &mut self,
            cursor: &Cursor,
            encoding: Encoding<'_>,
            now_us: u64
        ) -> ColumnCounts;
        fn make_patch(&mut self, batch: &Batch, is_over: impl FnMut() -> bool) -> Option<bool>;
    }
}

impl<'a> Frames<'a> for AnyFrames<'a, '_> {
    delegate! { AnyFrames [Log Value Keyed]:
        fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a>;
        fn kept(&self, cursor: &Cursor, one_frame: bool) -> Option<(&'a [u8], Cursor)>;
        fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor;
    }
}

impl Memory for AnyFeed {
    delegate! { AnyFeed [Log Value Keyed]:
        fn history_bytes(&self) -> usize;
        fn state_bytes(&self) -> usize;
        fn removal_bytes(&self) -> usize;
        fn tail_bytes(&self) -> usize;
    }

    delegate! { AnyFeed [Log Value Keyed]:
        fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize;
        fn trim_bytes(&mut self, bytes: usize) -> usize;
        fn sweep(&mut self, now_us: u64);
        fn take_forgotten_early(&mut self) -> u64;
        fn open_tail(&mut self, format: Format);
        fn close_tail(&mut self, format: Format);
    }
}

impl Pinning for AnyFeed {
    delegate! { AnyFeed [Log Value Keyed]:
        fn pinned_bytes(&self) -> usize;
        fn rest_of_frame(&self, cursor: &Cursor, format: Format) -> Option<usize>;
    }

    delegate! { AnyFeed [Log Value Keyed]:
        fn pin(&mut self, cursor: &Cursor, format: Format);
        fn unpin(&mut self, cursor: &Cursor);
    }
}

impl Backfill for AnyFeed {
    delegate! { AnyFeed [Log Value Keyed]:
        fn needs_backfill(&self, from: Offset) -> bool;
        fn holds_from(&self, from: Offset) -> bool;
        fn backfill_until(&self, from: Offset) -> Offset;
        fn page_until(&self, from: Offset) -> Offset;
        fn stored_from(&self) -> Offset;
        fn hole_end(&self, from: Offset) -> Option<Offset>;
        fn backfilled_bytes(&self) -> usize;
    }

    delegate! { AnyFeed [Log Value Keyed]:
        fn backfill(&mut self, page: Page, now_us: u64);
        fn answer_ahead(&mut self, from: Offset, is_given: bool, now_us: u64);
        fn shrink_backfilled(&mut self, bytes_max: usize);
        fn drop_backfilled(&mut self);
    }
}

impl ColumnRows for AnyFeed {
    delegate! { AnyFeed [Log Value Keyed]:
        fn columns_at(&self, cursor: &Cursor) -> Option<&Arc<Columns>>;
        fn columns_change_at(&self, cursor: &Cursor) -> bool;
        fn columns(&self) -> Option<Arc<Columns>>;
        fn columns_told(&self, now_us: u64) -> Option<Arc<Columns>>;
    }
}
