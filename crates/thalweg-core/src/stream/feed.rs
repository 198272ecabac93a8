use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{Epoch, Format, Offset, Position, StartAt, Topic};

use super::{
    Batch, ColumnCounts, ColumnMemory, Cursor, Encoding, HistoryBounds, Log, LogFrames, Next,
    Offsets, Page, Start, Value, ValueFrames,
};

/// What subscriptions to a topic read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedKind {
    /// Every event: a [`Log`].
    #[default]
    Log,
    /// The newest event: a [`Value`].
    Value,
}

impl FeedKind {
    /// A format as this kind of feed has it: without versions there are no patches, and the frames
    /// are shared with those who take none.
    pub fn format(self, format: Format) -> Format {
        match self {
            Self::Log => format.without_patches(),
            Self::Value => format,
        }
    }
}

/// A topic as one shard reads it: what its subscriptions read, whatever its history is.
///
/// A subscription keeps a [`Cursor`], which only the feed that gave it understands.
#[derive(Debug)]
pub enum Feed {
    /// Every event counts.
    Log(Log),
    /// The newest event counts.
    Value(Value),
}

/// Does the same with every kind of feed.
macro_rules! of {
    ($feed:expr, $each:ident => $what:expr) => {
        match $feed {
            Feed::Log($each) => $what,
            Feed::Value($each) => $what,
        }
    };
}

impl Feed {
    /// An empty feed of a stream whose next event is `next` or a later one. `history` is of logs.
    pub fn new(
        kind: FeedKind,
        topic: Topic,
        epoch: Epoch,
        next: Offset,
        offsets: Offsets,
        history: HistoryBounds,
    ) -> Self {
        match kind {
            FeedKind::Log => Self::Log(Log::new(topic, epoch, next, offsets, history)),
            FeedKind::Value => Self::Value(Value::new(topic, epoch, next, offsets)),
        }
    }

    /// As [`Log::with_columns`].
    pub fn with_columns(self, columns: Option<Arc<Columns>>, memory: ColumnMemory) -> Self {
        match self {
            Self::Log(log) => Self::Log(log.with_columns(columns, memory)),
            Self::Value(value) => Self::Value(value),
        }
    }

    /// Which it is.
    pub fn kind(&self) -> FeedKind {
        match self {
            Self::Log(_) => FeedKind::Log,
            Self::Value(_) => FeedKind::Value,
        }
    }

    /// Its topic.
    pub fn topic(&self) -> &Topic {
        of!(self, feed => feed.topic())
    }

    /// Its stream's incarnation.
    pub fn epoch(&self) -> Epoch {
        of!(self, feed => feed.epoch())
    }

    /// The position just before `next`.
    pub fn position_before(&self, next: Offset) -> Position {
        Position { epoch: self.epoch(), offset: next.saturating_sub(1) }
    }

    /// Offset one past the newest event.
    pub fn head(&self) -> Offset {
        of!(self, feed => feed.head())
    }

    /// Where the oldest batch retained starts; the head, if none is retained.
    pub fn first_retained(&self) -> Offset {
        of!(self, feed => feed.first_retained())
    }

    /// Offset of the oldest event that somebody may read. If there is none, of the next event.
    pub fn first_readable(&self) -> Offset {
        match self {
            Self::Log(log) => log.first_retained(),
            Self::Value(value) => value.head() - u64::from(value.has_version()),
        }
    }

    /// The newest version of a value topic, if it is here.
    pub fn newest_version(&self) -> Option<&Batch> {
        match self {
            Self::Log(_) => None,
            Self::Value(value) => value.newest_version(),
        }
    }

    /// How many events somebody may read.
    pub fn retained_events(&self) -> usize {
        match self {
            Self::Log(log) => log.retained_events(),
            Self::Value(value) => usize::from(value.has_version()),
        }
    }

    /// How many events there are from `from` on: about, if offsets are not consecutive. Of a value
    /// topic they are versions.
    pub fn events_from(&self, from: Offset) -> u64 {
        match self {
            Self::Log(log) => log.events_from(from),
            // A cursor at 0 has no version, as one at 1.
            Self::Value(value) => value.head().saturating_sub(from.max(1)),
        }
    }

    /// What stands for the frame that comes after a cursor: another frame there has another.
    pub fn frame_after(&self, cursor: &Cursor) -> Offset {
        match self {
            Self::Log(_) => cursor.next(),
            Self::Value(value) => value.head(),
        }
    }

    /// The batches retained, from the one that holds `from` on.
    pub fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        let (log, value) = match self {
            Self::Log(log) => (Some(log.batches_from(from)), None),
            Self::Value(value) => (None, Some(value.batches_from(from))),
        };
        log.into_iter().flatten().chain(value.into_iter().flatten())
    }

    /// The batch that stands for `offset`, if it is here: retained, read back or pinned. Of a value there is none.
    pub fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        match self {
            Self::Log(log) => log.batch_at(offset),
            Self::Value(_) => None,
        }
    }

    /// When the event at `offset` was published, or of a value the newest one, in µs. `None`: it is not here.
    pub fn published_us(&self, offset: Offset) -> Option<u64> {
        match self {
            Self::Log(log) => log.published_us(offset),
            Self::Value(value) => value.newest_version().map(Batch::published_us),
        }
    }

    /// Where a new subscription begins.
    pub fn start(&self, at: StartAt) -> Start {
        of!(self, feed => feed.start(at))
    }

    /// Appends the frame that confirms a subscription at `cursor`.
    pub fn write_confirmation(&self, cursor: &Cursor, format: Format, out: &mut Vec<u8>) {
        of!(self, feed => feed.write_confirmation(cursor, format, out));
    }

    /// The schema that the rows after a cursor have: what a stream of columns that begins there
    /// begins with. `None`: there are no rows and none are declared, or the topic has none.
    pub fn columns_at(&self, cursor: &Cursor) -> Option<&Arc<Columns>> {
        match self {
            Self::Log(log) => log.columns_at(cursor),
            Self::Value(_) => None,
        }
    }

    /// Whether the rows after a cursor have another schema than the one before, as far as is known.
    pub fn columns_change_at(&self, cursor: &Cursor) -> bool {
        match self {
            Self::Log(log) => log.columns_change_at(cursor),
            Self::Value(_) => false,
        }
    }

    /// The columns of its events: as they are declared, or inferred from those that are retained; `None`: there are
    /// none.
    pub fn columns(&self) -> Option<Arc<Columns>> {
        match self {
            Self::Log(log) => log.columns_known(),
            Self::Value(_) => None,
        }
    }

    /// The same, for somebody who only wants to know them: they may be a second old.
    pub fn columns_told(&self, now_us: u64) -> Option<Arc<Columns>> {
        match self {
            Self::Log(log) => log.columns_told(now_us),
            Self::Value(_) => None,
        }
    }

    /// Makes the frame of columns at a cursor, and those of small batches after it, for a stream whose schema is
    /// `stream` ([`Next::Unmade`]). Returns what happened.
    pub fn make_column_frames(
        &mut self,
        cursor: &Cursor,
        stream: Option<&Arc<Columns>>,
        now_us: u64,
    ) -> ColumnCounts {
        match self {
            Self::Log(log) => log.make_column_frames(cursor, stream, now_us),
            Self::Value(_) => ColumnCounts::default(),
        }
    }

    /// Keeps what a frame partly sent is made of until it is finished. Each call needs a call of
    /// [`Self::unpin`] with a cursor in the same frame.
    pub fn pin(&mut self, cursor: &Cursor) {
        of!(self, feed => feed.pin(cursor));
    }

    /// Undoes [`Self::pin`].
    pub fn unpin(&mut self, cursor: &Cursor) {
        of!(self, feed => feed.unpin(cursor));
    }

    /// Memory that partly sent frames hold: of events beyond what is retained, and of columns, in bytes.
    pub fn pinned_bytes(&self) -> usize {
        of!(self, feed => feed.pinned_bytes())
    }

    /// Bytes that are left of the frame in `format` that a pinned cursor is in, about.
    pub fn rest_of_frame(&self, cursor: &Cursor, format: Format) -> Option<usize> {
        match self {
            Self::Log(log) => log.rest_of_frame(cursor, format),
            Self::Value(value) => value.rest_of_frame(cursor),
        }
    }

    /// Makes the patch that makes a new batch's version of the newest one, if a subscriber would
    /// take it. Call it before [`Self::push`]. It takes until `is_over` at most. Returns whether
    /// it was made here; `None` if it was not tried here.
    pub fn make_patch(&mut self, batch: &Batch, is_over: impl FnMut() -> bool) -> Option<bool> {
        match self {
            Self::Log(_) => None,
            Self::Value(value) => value.make_patch(batch, is_over),
        }
    }

    /// Takes a sealed batch in. Batches come in order; some may be missing.
    pub fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        of!(self, feed => feed.push(batch, now_us));
    }

    /// Whether a reader at `from` waits for what is not here, but can be read back. After the head:
    /// whether it waits to know if the stream has given the offset before.
    pub fn is_away(&self, from: Offset) -> bool {
        of!(self, feed => feed.is_away(from))
    }

    /// Whoever keeps the stream has answered whether it has given the offset before `from`, which
    /// is after the head.
    pub fn look_beyond(&mut self, from: Offset, is_given: bool, now_us: u64) {
        of!(self, feed => feed.look_beyond(from, is_given, now_us));
    }

    /// Up to where a reader at `from` lacks batches that are to be read back.
    pub fn here_from(&self, from: Offset) -> Offset {
        match self {
            Self::Log(log) => log.here_from(from),
            Self::Value(value) => value.head(),
        }
    }

    /// From here on what is not here can be read back, as far as that is known; 0 if it is not.
    pub fn stored_from(&self) -> Offset {
        match self {
            Self::Log(log) => log.stored_from(),
            Self::Value(_) => 0,
        }
    }

    /// Takes events in that were read back for a reader ([`Next::Away`]).
    pub fn recall(&mut self, page: Page, now_us: u64) {
        of!(self, feed => feed.recall(page, now_us));
    }

    /// Events before `head` will not come: whoever has not got them has lost them.
    pub fn skip_to(&mut self, head: Offset) {
        if head > self.head() {
            of!(self, feed => feed.skip_to(head));
        }
    }

    /// Frees what is no longer needed. Call it about once a second.
    pub fn sweep(&mut self, now_us: u64) {
        of!(self, feed => feed.sweep(now_us));
    }

    /// Frees about `bytes` of what is retained, but never the newest batch. Returns the bytes
    /// freed.
    pub fn trim_bytes(&mut self, bytes: usize) -> usize {
        match self {
            Self::Log(log) => log.trim_bytes(bytes),
            Self::Value(_) => 0,
        }
    }

    /// The same, the newest batch too if necessary, but none sealed at `now_us` or later.
    pub fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        match self {
            Self::Log(log) => log.trim_all(bytes, now_us),
            Self::Value(value) => value.trim_all(now_us),
        }
    }

    /// Memory of what is retained, in bytes.
    pub fn history_bytes(&self) -> usize {
        of!(self, feed => feed.history_bytes())
    }

    /// Memory of what was read back, in bytes.
    pub fn recalled_bytes(&self) -> usize {
        match self {
            Self::Log(log) => log.recalled_bytes(),
            Self::Value(_) => 0,
        }
    }

    /// Forgets what was read back.
    pub fn forget_recalled(&mut self) {
        if let Self::Log(log) = self {
            log.forget_recalled();
        }
    }

    /// Memory of finished frames, in bytes.
    pub fn tail_bytes(&self) -> usize {
        of!(self, feed => feed.tail_bytes())
    }

    /// Makes sure that frames of `format` are kept from the next batch on.
    pub fn open_tail(&mut self, format: Format) {
        of!(self, feed => feed.open_tail(format));
    }

    /// Nobody uses a format any more: its frames are no longer kept, at once or soon.
    pub fn close_tail(&mut self, format: Format) {
        of!(self, feed => feed.close_tail(format));
    }
}

/// A feed as subscribers of one encoding read it. Creating it looks up what they share. Then reading is cheap.
///
/// A reader calls [`Self::next`] with its cursor and sends what it gets. If all of it was sent,
/// the new cursor is the one that came with it. If only a part was sent, [`Self::advance`]
/// returns the new cursor. A cursor within a frame must be pinned ([`Feed::pin`]) while it
/// waits.
#[derive(Debug, Clone, Copy)]
pub enum Frames<'a, 'e> {
    /// Of a log.
    Log(LogFrames<'a, 'e>),
    /// Of a value topic.
    Value(ValueFrames<'a>),
}

impl<'a, 'e> Frames<'a, 'e> {
    /// A feed in an encoding.
    #[inline]
    pub fn of(feed: &'a Feed, encoding: Encoding<'e>) -> Self {
        match feed {
            Feed::Log(log) => Self::Log(LogFrames::of(log, encoding.without_patches())),
            Feed::Value(value) => Self::Value(ValueFrames::of(value, encoding.format())),
        }
    }

    /// What comes after `cursor`. With `one_frame` only the frame (or its rest) at the
    /// cursor, otherwise as much as is contiguous. Cold bytes are appended to `scratch`.
    #[inline]
    pub fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a> {
        match self {
            Self::Log(log) => log.next(cursor, one_frame, scratch),
            Self::Value(value) => value.next(cursor, scratch),
        }
    }

    /// As [`Self::next`], only if it is kept, finished, for all readers: the bytes, empty at the head, and the
    /// cursor after them.
    #[inline]
    pub(crate) fn kept(&self, cursor: &Cursor, one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        match self {
            Self::Log(log) => log.kept(cursor, one_frame),
            Self::Value(value) => value.kept(cursor),
        }
    }

    /// The cursor after `sent` bytes of what [`Self::next`] gave for `cursor`,
    /// fewer than it gave.
    #[inline]
    pub fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor {
        match self {
            Self::Log(log) => log.advance(cursor, sent),
            Self::Value(value) => value.advance(cursor, sent),
        }
    }
}
