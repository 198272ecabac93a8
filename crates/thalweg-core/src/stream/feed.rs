use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{
    Before, Epoch, Format, GapReason, KeyFilter, Keyed, Offset, Position, StartAt, Topic,
};

use super::{Batch, ColumnCounts, Cursor, Encoding, KeyedEvent, Next, Page, Start, StatePart};

/// A topic as one shard reads it, whatever its history is.
///
/// A subscription keeps a [`Cursor`], which only its feed understands. [`super::AnyFeed`] registers the kinds. A new kind
/// implements this trait, [`Frames`], [`Memory`], [`Pinning`], and as much as it can of [`Backfill`] and [`ColumnRows`].
pub trait Feed: Memory + Pinning + Backfill + ColumnRows {
    /// The feed as subscribers of one encoding read it.
    type Frames<'a, 'e>: Frames<'a>
    where
        Self: 'a;

    /// Returns the topic.
    fn topic(&self) -> &Topic;

    /// Returns the epoch of the stream.
    fn epoch(&self) -> Epoch;

    /// Returns the offset one past the newest event.
    fn head(&self) -> Offset;

    /// Returns where a new subscription begins.
    fn start(&self, at: StartAt) -> Start;

    /// Looks up the parts that subscribers of an encoding share. Reading is cheap after that.
    fn frames<'a, 'e>(&'a self, encoding: Encoding<'e>) -> Self::Frames<'a, 'e>;

    /// Returns the retained batches, from the one that holds `from` on.
    fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>>;

    /// Pushes a sealed batch. Batches must come in order, but some may be missing.
    fn push(&mut self, batch: Arc<Batch>, now_us: u64);

    /// Moves the head forward to `head`. Readers lose the events in between.
    fn skip_to(&mut self, head: Offset);

    /// Returns whether the newest event (of each key) is the state: without it, a reader has nothing until the next event. The
    /// state is therefore trimmed last, and readers are told if it is unknown. Older events never count as missing.
    fn is_state(&self) -> bool {
        false
    }

    /// Returns the format whose frames the readers of `format` get. Without versions there are no patches.
    fn frame_format(&self, format: Format) -> Format {
        format.without_patches()
    }

    /// Returns whether a reader has everything, if no more batches are pushed.
    fn has_all(&self, cursor: &Cursor) -> bool {
        !cursor.in_frame() && cursor.next() >= self.head()
    }

    /// Returns the position just before `next`.
    fn position_before(&self, next: Offset) -> Position {
        Position { epoch: self.epoch(), offset: next.saturating_sub(1) }
    }

    /// Returns the start of the oldest retained batch, or the head.
    fn first_retained(&self) -> Offset {
        self.batches_from(0).next().map_or(self.head(), |batch| batch.start())
    }

    /// Returns the offset of the oldest event that a reader may get, or of the next event.
    fn first_readable(&self) -> Offset {
        self.first_retained()
    }

    /// Returns how many events a reader may get.
    fn retained_events(&self) -> usize {
        self.batches_from(0).map(|batch| batch.count()).sum()
    }

    /// Returns how many events or versions there are from `from` on. It is approximate if offsets are not consecutive.
    fn events_from(&self, from: Offset) -> u64 {
        self.head().saturating_sub(from)
    }

    /// Returns a number that identifies the frame after a cursor.
    fn frame_after(&self, cursor: &Cursor) -> Offset {
        cursor.next()
    }

    /// Returns the batch that covers `offset`, if it is retained, backfilled or pinned.
    fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        self.batches_from(offset).next().filter(|batch| batch.start() <= offset)
    }

    /// Returns the publish time, in µs, of the event that a reader at `offset` gets. `None` if it is not here.
    fn published_us(&self, offset: Offset) -> Option<u64> {
        self.batch_at(offset).map(|batch| batch.published_us())
    }

    /// Returns the `Before` of the confirmation of a subscription at `cursor`.
    fn confirmed_after(&self, _cursor: &Cursor) -> Before {
        Before::Adjacent
    }

    /// Returns the list of keys in the confirmation of a subscription at `cursor`, if the topic is keyed.
    fn confirmed_keys(
        &self,
        _cursor: &Cursor,
        _filter: Option<&KeyFilter>,
    ) -> Option<Keyed<'static>> {
        None
    }

    /// Returns the newest version of a value, if it is here.
    fn newest_version(&self) -> Option<&Batch> {
        let newest = self.batches_from(0).next().filter(|_| self.is_state());
        newest.map(|batch| &**batch)
    }

    /// Makes the frame at a cursor, if readers of an encoding share it ([`Next::Unmade`]), and perhaps frames after it. Returns
    /// the counts of frames of columns.
    fn make_frames(
        &mut self,
        _cursor: &Cursor,
        _encoding: Encoding<'_>,
        _now_us: u64,
    ) -> ColumnCounts {
        ColumnCounts::default()
    }

    /// Returns the reason for the gap that [`Next::Unknown`] and [`Start::Unknown`] announce.
    fn unknown_reason(&self) -> GapReason {
        GapReason::Unknown
    }

    /// Returns whether readers with an interval get each key once per interval ([`Encoding::conflated`]). Their intervals end at
    /// the same times, so that they share frames.
    fn conflates(&self) -> bool {
        false
    }

    /// Returns a part of the state, of at most `count_max` events, for another shard that has everything before `cursor`, and the
    /// cursor after the part. With a filter, the part has only selected keys, perhaps none. `None` if the feed has no state besides
    /// its batches.
    fn state_part(
        &self,
        _cursor: &Cursor,
        _count_max: usize,
        _filter: Option<&KeyFilter>,
    ) -> Option<(StatePart, Cursor)> {
        None
    }

    /// Takes a part of the state of another shard's feed.
    fn take_state(&mut self, _part: StatePart, _now_us: u64) {}

    /// Forgets the state of keys, and waits for the pages of it that a broker stores ([`Backfill::backfill`]).
    fn load(&mut self) {}

    /// Returns whether pages of the state are to come. Readers and other shards wait for them.
    fn is_loading(&self) -> bool {
        false
    }

    /// Returns the newest event of a key, given as a JSON string, if there is one. It may be a removal.
    fn keyed_event(&self, _key: &[u8]) -> Option<&KeyedEvent> {
        None
    }

    /// Forgets the removals of keys, to make room. Readers who have an older state begin again.
    fn forget_removals(&mut self) {}

    /// Makes the patch from the newest version to a new batch's version, if a subscriber would take it. Stops when `is_over`
    /// returns `true`. Call this method before [`Self::push`]. Returns whether the patch was made, or `None` if this shard did not try.
    fn make_patch(&mut self, _batch: &Batch, _is_over: impl FnMut() -> bool) -> Option<bool> {
        None
    }
}

/// A feed as subscribers of one encoding read it.
///
/// A reader calls [`Self::next`] with its cursor and sends the bytes. After a complete send, its new cursor is the
/// one that came with the bytes. After a partial send, [`Self::advance`] returns the new cursor. A cursor within a
/// frame must be pinned ([`Pinning::pin`]) while it waits.
pub trait Frames<'a>: Copy {
    /// Returns what comes after `cursor`. With `one_frame` this is the rest of the frame at the cursor, otherwise
    /// all contiguous bytes. Appends cold bytes to `scratch`.
    fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a>;

    /// Returns the kept bytes after a cursor, which readers share, as [`Self::next`] does, and the cursor after
    /// them. Empty bytes mean that the cursor is at the head. `None` if the next bytes are not kept.
    fn kept(&self, _cursor: &Cursor, _one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        None
    }

    /// Returns the cursor after a partial send: `sent` of the bytes that [`Self::next`] gave for `cursor`.
    fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor;
}

/// The memory of a feed. Finished frames are kept for all readers of a format.
pub trait Memory {
    /// Returns the memory of retained batches, in bytes.
    fn history_bytes(&self) -> usize;

    /// Frees about `bytes` of retained batches, if necessary including the newest, but none sealed at `now_us` or
    /// later: no reader has seen those yet. Returns the bytes freed.
    fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize;

    /// Frees about `bytes` of retained batches, but never the newest. Returns the bytes freed.
    fn trim_bytes(&mut self, _bytes: usize) -> usize {
        0
    }

    /// Frees memory. Call it about once a second.
    fn sweep(&mut self, now_us: u64);

    /// Returns the memory of the state of keys, in bytes. It is part of [`Self::history_bytes`], and never freed for room.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Returns the memory of removals of keys, in bytes. It is part of [`Self::state_bytes`].
    fn removal_bytes(&self) -> usize {
        0
    }

    /// Returns how many removals of keys were forgotten for want of room since the last call.
    fn take_forgotten_early(&mut self) -> u64 {
        0
    }

    /// Returns the memory of finished frames, in bytes.
    fn tail_bytes(&self) -> usize {
        0
    }

    /// Keeps frames of `format` from the next batch on.
    fn open_tail(&mut self, _format: Format) {}

    /// Drops the frames of a format without subscribers, at once or soon.
    fn close_tail(&mut self, _format: Format) {}
}

/// Keeps the batches of partly sent frames until they are finished, whatever the feed trims.
pub trait Pinning {
    /// Keeps the batch of the frame in `format` that a cursor is in, until [`Self::unpin`] is called with a cursor in the same
    /// frame. If the frame cannot be made again, it is kept, too.
    fn pin(&mut self, cursor: &Cursor, format: Format);

    /// Undoes one call of [`Self::pin`].
    fn unpin(&mut self, cursor: &Cursor);

    /// Returns the memory of pinned batches that are not retained, in bytes.
    fn pinned_bytes(&self) -> usize;

    /// Returns about how many bytes are left of the frame in `format` that a pinned cursor is in.
    fn rest_of_frame(&self, _cursor: &Cursor, _format: Format) -> Option<usize> {
        None
    }
}

/// Events that a broker stores and that are not retained here. By default there are none.
pub trait Backfill {
    /// Returns whether a reader at `from` waits for a backfill. After the head, it waits for the broker's answer
    /// whether the stream has assigned `from` − 1.
    fn needs_backfill(&self, _from: Offset) -> bool {
        false
    }

    /// Returns whether a page of history from `from` on needs no backfill.
    fn holds_from(&self, _from: Offset) -> bool {
        true
    }

    /// Returns the offset up to which a reader at `from` lacks batches.
    fn backfill_until(&self, from: Offset) -> Offset {
        from
    }

    /// Returns the offset up to which a page for a reader at `from` is read: [`Self::backfill_until`], or where an earlier
    /// backfill begins.
    fn page_until(&self, from: Offset) -> Offset {
        self.backfill_until(from)
    }

    /// Returns the oldest offset that a backfill may have. 0 if it is unknown.
    fn stored_from(&self) -> Offset {
        0
    }

    /// Returns the end of the lost events from `from` on, if a backfill has reported the loss. The event at that end may need another
    /// backfill.
    fn hole_end(&self, _from: Offset) -> Option<Offset> {
        None
    }

    /// Takes the events of a backfill ([`Next::Backfill`]). The caller limits the memory ([`Self::shrink_backfilled`]).
    fn backfill(&mut self, _page: Page, _now_us: u64) {}

    /// Takes the broker's answer whether the stream has assigned `from` − 1. `from` is after the head.
    fn answer_ahead(&mut self, _from: Offset, _is_given: bool, _now_us: u64) {}

    /// Returns the memory of backfills, in bytes.
    fn backfilled_bytes(&self) -> usize {
        0
    }

    /// Drops the backfills that were read least recently, until the others have at most `bytes_max` bytes or only one is left.
    fn shrink_backfilled(&mut self, _bytes_max: usize) {}

    /// Drops backfills. Readers that still need them request them again.
    fn drop_backfilled(&mut self) {}
}

/// Events as rows of columns. By default there are none.
pub trait ColumnRows {
    /// Returns the schema of the rows after a cursor, with which a stream of columns begins there. `None` if there
    /// are no rows and no declared columns.
    fn columns_at(&self, _cursor: &Cursor) -> Option<&Arc<Columns>> {
        None
    }

    /// Returns whether the rows after a cursor are known to have another schema than the one before.
    fn columns_change_at(&self, _cursor: &Cursor) -> bool {
        false
    }

    /// Returns the columns of the events, declared or inferred from retained events.
    fn columns(&self) -> Option<Arc<Columns>> {
        None
    }

    /// Returns the columns as they were at most a second ago.
    fn columns_told(&self, _now_us: u64) -> Option<Arc<Columns>> {
        None
    }
}
