//! The rows of a log as columns.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{Format, Offset};

use super::{
    super::{
        ColumnCounts, ColumnRows, Cursor, Encoding, Feed, batch_columns::ColumnFrame,
        log_columns::LogColumns,
    },
    Log,
};

/// Frames of columns are made for this part of the hot tail's size (64 KiB) at a time, counted as events or
/// as frames. Small frames are made together, so that one send takes them. A frame for one subscriber has no
/// more events than that, because the shard encodes it again whenever the socket takes only a part: a slow
/// reader would otherwise make the shard encode a whole batch many times.
const COLUMN_PART_DIVISOR: usize = 16;

impl ColumnRows for Log {
    fn columns_at(&self, cursor: &Cursor) -> Option<&Arc<Columns>> {
        // At the head, the next batch probably has the newest batch's schema.
        let at_cursor = self.batch_at(cursor.next).filter(|_| cursor.next < self.next);
        match at_cursor.or(self.history.newest()) {
            Some(batch) => Some(self.columns.schema_of(batch, None)),
            None => self.columns.newest(),
        }
    }

    fn columns_change_at(&self, cursor: &Cursor) -> bool {
        let before = cursor.next.checked_sub(1).and_then(|before| self.batch_at(before));
        let after = self.batch_at(cursor.next);
        LogColumns::changes_at(
            before.map(|before| &**before),
            after.map(|later| &**later),
            cursor.next,
        )
    }

    fn columns(&self) -> Option<Arc<Columns>> {
        self.columns.newest().cloned().or_else(|| self.infer_columns())
    }

    fn columns_told(&self, now_us: u64) -> Option<Arc<Columns>> {
        self.columns.told(now_us, || self.infer_columns())
    }
}

impl Log {
    fn infer_columns(&self) -> Option<Arc<Columns>> {
        Columns::infer_from(self.history.past(0).map(|batch| batch.joined())).map(Arc::new)
    }

    /// Returns the memory that frames of columns may take, in bytes: as much as the events, and at least as much
    /// as a hot tail. Frames are mostly smaller than their events, so nearly all frames of a history are kept. A
    /// frame that is larger than this memory is not kept.
    fn column_frames_bytes_max(&self) -> usize {
        self.history.bytes_max().max(self.tail_bytes)
    }

    /// Makes the frame of columns at a cursor, and those of small batches after it, for a stream with the schema `stream`.
    pub(super) fn make_column_frames(
        &mut self,
        cursor: &Cursor,
        stream: Option<&Arc<Columns>>,
        now_us: u64,
    ) -> ColumnCounts {
        let bytes_max = self.column_frames_bytes_max();
        let mut counts = ColumnCounts::default();
        let (mut next, mut left) = (cursor.next, self.part_bytes());
        while let Some(batch) = self.batch_at(next).map(Arc::clone) {
            counts += self.columns.make_frame(&batch, stream, bytes_max, now_us);
            next = batch.end();
            // A few bytes of JSON may make many bytes of columns.
            let frame = self.columns.frames.get(next).map_or(0, ColumnFrame::memory_bytes);
            let bytes = batch.event_bytes(batch.first()).max(frame);
            if bytes >= left || Encoding::new(Format::ARROW, stream).differs_from(batch.columns()) {
                break;
            }
            left -= bytes;
        }
        // Spare new frames, which are sent next, and partly sent frames, which would have to be made again.
        let is_new = |end: Offset| end > cursor.next && end <= next;
        let is_pinned = |end: Offset| self.pins.find(end - 1).is_some();
        let share = self.columns.frames.share().min(bytes_max);
        self.columns.frames.shrink_to(share, |end| is_new(end) || is_pinned(end));
        self.columns.frames.shrink_to(bytes_max, is_new);
        counts
    }

    pub(super) fn drop_column_frames(&mut self) {
        if !self.columns.frames.is_empty() {
            let mut frames = std::mem::take(&mut self.columns.frames);
            frames.drop_until(self.first_retained(), |end| self.batch_at(end - 1).is_some());
            self.columns.frames = frames;
        }
    }

    /// Returns the maximum bytes of events in a frame of columns for one subscriber. Shared frames are made for
    /// the same number of bytes at a time.
    pub(super) fn part_bytes(&self) -> usize {
        self.tail_bytes / COLUMN_PART_DIVISOR
    }
}
