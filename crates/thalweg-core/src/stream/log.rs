mod columns;
mod feed;
mod frames;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{Epoch, Format, Offset, Topic};

use super::{
    Backfill, Batch, ColumnMemory, Cursor, Feed, FormatMap, HistoryBounds, Lost, Memory, Offsets,
    Page, Pinning,
    ahead::AheadAnswers,
    backfilled::Backfilled,
    batch_columns::ColumnFrame,
    cursor::COLD_PART,
    history::History,
    log_columns::LogColumns,
    pins::Pins,
    tail::{HotTail, TAIL_BYTES},
};
pub use frames::LogFrames;

/// A page of a keyed topic has about 1/16 of the hot tail's size (64 KiB).
pub(super) const PART_DIVISOR: usize = 16;

/// A batch of at least 1/256 of the hot tail's size (4 KiB) is sent from its own memory as three slices, without a copy.
const ZERO_COPY_DIVISOR: usize = 256;

/// A batch of at least 1/4 of the hot tail's size (256 KiB) is not copied into the tail, if the format keeps events as they are:
/// all subscribers get it from its own memory. A copy would cost more than the two additional slices, and would fill the tail.
const TAIL_BYPASS_DIVISOR: usize = 4;

/// How long a hot tail without new frames keeps its memory, and how long frames of columns stay, in µs.
const TAIL_IDLE_US: u64 = 2_000_000;

/// A shard's copy of a stream: its history, and a hot tail for each format in use. All hot tails have the
/// same batch boundaries.
///
/// The owner of the log pushes each sealed batch ([`Self::push`]), opens a hot tail for each format with
/// subscribers, closes those of other formats, and calls [`Self::sweep`] about once a second. On a follower
/// batches may be missing: readers then get [`super::Next::Lost`].
#[derive(Debug)]
pub struct Log {
    topic: Topic,
    epoch: Epoch,
    offsets: Offsets,
    tail_bytes: usize,
    /// The offset after the newest event.
    next: Offset,
    history: History,
    /// A tail is created for the first batch, so a topic without events has none.
    tails: FormatMap<Option<Box<HotTail>>>,
    columns: LogColumns,
    pins: Pins,
    backfilled: Backfilled,
    /// Older events from this offset on can be backfilled. `None` if the stream is not stored in a broker.
    stored_from: Option<Offset>,
    ahead: AheadAnswers,
}

impl Log {
    /// Creates an empty log of a stream whose next event is `next`.
    pub fn new(
        topic: Topic,
        epoch: Epoch,
        next: Offset,
        offsets: Offsets,
        bounds: HistoryBounds,
    ) -> Self {
        Self {
            topic,
            epoch,
            offsets,
            tail_bytes: TAIL_BYTES,
            next,
            history: History::new(bounds, next),
            tails: FormatMap::default(),
            columns: LogColumns::default(),
            pins: Pins::default(),
            backfilled: Backfilled::default(),
            stored_from: (offsets == Offsets::Stored).then_some(0),
            ahead: AheadAnswers::default(),
        }
    }

    /// Sets the rough size of later hot tails, in bytes.
    pub fn with_tail_bytes(self, tail_bytes: usize) -> Self {
        Self { tail_bytes, ..self }
    }

    /// Sets declared columns, if any, and the memory account of column frames.
    pub fn with_columns(self, columns: Option<Arc<Columns>>, memory: ColumnMemory) -> Self {
        Self { columns: LogColumns::new(columns, memory), ..self }
    }

    /// Returns the oldest readable offset. `None` if a backfill must find it.
    fn oldest(&self) -> Option<Offset> {
        let Some(from) = self.stored_from else { return Some(self.first_retained()) };
        let is_known = from >= self.next || self.batch_at(from).is_some() || self.is_hole(from);
        (from > 0 && is_known).then_some(from)
    }

    /// Returns whether missing events from `offset` on can be backfilled.
    fn is_stored(&self, offset: Offset) -> bool {
        self.stored_from.is_some_and(|stored_from| offset >= stored_from)
    }

    /// Returns whether a backfill has reported that the events from `offset` on are lost.
    fn is_hole(&self, offset: Offset) -> bool {
        self.hole_end(offset).is_some()
    }

    /// Returns the size in bytes from which on a batch's events are sent from its own memory.
    fn zero_copy_bytes(&self) -> usize {
        self.tail_bytes / ZERO_COPY_DIVISOR
    }

    /// Notes that the events from `from`, the end of a page, to `until` are lost. Returns the later one of the
    /// two offsets.
    fn insert_hole(&mut self, from: Offset, until: Offset, now_us: u64) -> Offset {
        if from < until {
            self.backfilled.insert_hole(from..until, now_us);
        }
        from.max(until)
    }

    fn lost(&self, expected: Offset) -> Lost {
        if let Some(end) = self.hole_end(expected).filter(|_| self.is_stored(expected)) {
            let (offsets, is_expired) = (self.offsets, true);
            return Lost { expected, middle: end, newest: end, offsets, is_expired };
        }
        let start_of = |batch: Option<&Arc<Batch>>| batch.map_or(self.next, |batch| batch.start());
        // If this shard lacks batches, the middle may lie before the cursor, but a reader never goes back.
        let resumable = self.backfill_until(expected);
        let middle = start_of(self.history.middle()).max(resumable);
        // A backfill may begin with the oldest stored event.
        let stored = self.stored_from.filter(|from| (expected..middle).contains(from));
        let lost = Lost {
            expected,
            middle: stored.unwrap_or(middle),
            newest: start_of(self.history.newest()).max(resumable),
            offsets: self.offsets,
            is_expired: match self.offsets {
                Offsets::Consecutive => false,
                Offsets::Stored => true,
                Offsets::Derived => expected >= self.history.whole_from(),
            },
        };
        match lost.is_hole() {
            true => Lost { middle: resumable, newest: resumable, ..lost },
            false => lost,
        }
    }
}

impl Memory for Log {
    fn history_bytes(&self) -> usize {
        self.history.bytes()
    }

    fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        let freed = self.history.trim_all(bytes, now_us);
        self.drop_column_frames();
        freed
    }

    fn trim_bytes(&mut self, bytes: usize) -> usize {
        let freed = self.history.trim_bytes(bytes);
        self.drop_column_frames();
        freed
    }

    fn sweep(&mut self, now_us: u64) {
        self.history.sweep(now_us);
        self.backfilled.sweep(now_us);
        self.ahead.sweep(now_us);
        self.drop_column_frames();
        let frames = &mut self.columns.frames;
        let is_idle = frames.is_idle(now_us, TAIL_IDLE_US);
        let bytes_max = if is_idle { 0 } else { frames.share() };
        frames.shrink_to(bytes_max, |end| self.pins.find(end - 1).is_some());
        for tail in self.tails.iter_mut().filter_map(|(_, tail)| tail.as_mut()) {
            tail.release_if_idle(now_us, TAIL_IDLE_US);
        }
    }

    fn tail_bytes(&self) -> usize {
        let made = self.tails.iter().filter_map(|(_, tail)| tail.as_ref());
        made.map(|tail| tail.memory_bytes()).sum::<usize>() + self.columns.frames.bytes()
    }

    // Columns have no tail: a read makes their frames.
    fn open_tail(&mut self, format: Format) {
        match format.has_columns() {
            true => self.columns.open(self.history.past(0)),
            false => drop(self.tails.get_or_insert_with(self.frame_format(format), || None)),
        }
    }

    fn close_tail(&mut self, format: Format) {
        self.tails.remove(self.frame_format(format));
    }
}

impl Pinning for Log {
    fn pin(&mut self, cursor: &Cursor, format: Format) {
        let Some(batch) = self.batch_at(cursor.next) else { return };
        let batch = Arc::clone(batch);
        self.pins.pin(&batch);
        let format = self.frame_format(format);
        if format.has_context() && cursor.is_hot() {
            let tail = self.tails.get(format).and_then(Option::as_deref);
            self.pins.keep_frame(cursor.next, format, || tail?.unique_frame(cursor.hot));
        }
    }

    fn unpin(&mut self, cursor: &Cursor) {
        self.pins.unpin(cursor.next);
    }

    fn pinned_bytes(&self) -> usize {
        let frames = self.pins.ends().filter_map(|end| self.columns.frames.get(end));
        let frame_bytes: usize = frames.map(ColumnFrame::memory_bytes).sum();
        self.pins.bytes_before(self.first_retained()) + self.pins.frame_bytes() + frame_bytes
    }

    fn rest_of_frame(&self, cursor: &Cursor, format: Format) -> Option<usize> {
        if let Some(frame) = self.pins.frame(cursor.next, self.frame_format(format)) {
            return Some(frame.len().saturating_sub(cursor.sent()));
        }
        let batch = self.batch_at(cursor.next)?;
        let kept = self.columns.frames.get(batch.end()).filter(|_| format.has_columns());
        let bytes = match kept {
            _ if cursor.hot == COLD_PART => batch.event_bytes(cursor.next).min(self.part_bytes()),
            Some(frame) => frame.bytes(format).len(),
            None => batch.event_bytes(cursor.next),
        };
        // A part of columns may be many times as large as its events, so the sent bytes say little about the
        // rest.
        let sent = if cursor.hot == COLD_PART { 0 } else { cursor.sent() };
        Some(bytes.saturating_sub(sent))
    }
}

impl Backfill for Log {
    fn needs_backfill(&self, from: Offset) -> bool {
        if from == 0 {
            self.oldest().is_none()
        } else if from > self.next {
            self.stored_from.is_some() && self.ahead.is_given(from).is_none()
        } else {
            let is_here = self.batch_at(from).is_some() || self.is_hole(from);
            from < self.next && !is_here && self.is_stored(from)
        }
    }

    fn holds_from(&self, from: Offset) -> bool {
        self.backfill_until(from) <= from && from <= self.next
    }

    fn backfill_until(&self, from: Offset) -> Offset {
        self.batches_from(from).next().map_or(self.next, |batch| batch.start())
    }

    fn page_until(&self, from: Offset) -> Offset {
        let (until, next) = (self.backfill_until(from), self.backfilled.next_after(from));
        next.map_or(until, |next| next.start().min(until))
    }

    fn stored_from(&self) -> Offset {
        self.stored_from.unwrap_or_default()
    }

    fn hole_end(&self, from: Offset) -> Option<Offset> {
        let mut end = from;
        // Holes that follow each other are one gap.
        while self.batch_at(end).is_none()
            && let Some(next) = self.backfilled.hole_end(end)
        {
            end = next;
        }
        let end = end.min(self.next);
        (end > from).then_some(end)
    }

    // If no event lies between the page and the next batch, that batch starts at the page's end. Without a next
    // batch, the head goes back to that end.
    fn backfill(&mut self, page: Page, now_us: u64) {
        let Page { from, messages, holes, is_last_before, stored_from, .. } = page;
        let mut holes = holes.into_iter().peekable();
        self.stored_from = self.stored_from.map(|before| before.max(stored_from));
        let mut end = from;
        let mut batches = Vec::with_capacity(messages.len() + 1);
        for (first, payloads) in messages {
            while let Some(hole) = holes.next_if(|hole| hole.start < first) {
                end = self.insert_hole(end, hole.end.min(first), now_us);
            }
            // The first message may begin before the requested offset.
            let batch = Batch::seal(end.min(first), first, payloads, now_us);
            end = batch.end();
            // The frame may have outlived another copy of the batch.
            if let Some(frame) = self.columns.frames.get(end) {
                batch.adopt_columns(frame.columns());
            }
            batches.push(batch);
        }
        end = holes.fold(end, |end, hole| self.insert_hole(end, hole.end, now_us));
        let until = self.page_until(from);
        if end < until && is_last_before == Some(until) {
            let next = self.backfilled.next_after(from).filter(|next| next.start() == until);
            match next.or_else(|| self.batches_from(from).next()).map(|next| next.starting_at(end))
            {
                Some(next) => batches.push(next),
                None => self.next = end,
            }
        }
        self.backfilled.insert(batches, now_us);
    }

    fn answer_ahead(&mut self, from: Offset, is_given: bool, now_us: u64) {
        self.ahead.answer(from, is_given, now_us);
    }

    fn backfilled_bytes(&self) -> usize {
        self.backfilled.bytes()
    }

    fn shrink_backfilled(&mut self, bytes_max: usize) {
        self.backfilled.shrink_to(bytes_max);
    }

    fn drop_backfilled(&mut self) {
        self.backfilled.clear();
    }
}
