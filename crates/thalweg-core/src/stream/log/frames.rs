use std::sync::Arc;

use thalweg_wire::Offset;

use super::{
    super::{
        Batch, Cursor, Encoding, Feed, Frames, Next,
        batch_columns::ColumnFrame,
        cursor::{COLD, COLD_PART},
        tail::HotTail,
    },
    Log,
};

/// A log as subscribers of one encoding read it, with the encoding's hot tail.
#[derive(Debug, Clone, Copy)]
pub struct LogFrames<'a, 'e> {
    log: &'a Log,
    encoding: Encoding<'e>,
    tail: Option<&'a HotTail>,
}

impl<'a, 'e> LogFrames<'a, 'e> {
    #[inline]
    pub(super) fn new(log: &'a Log, encoding: Encoding<'e>) -> Self {
        Self { log, encoding, tail: log.tails.get(encoding.format()).and_then(Option::as_deref) }
    }

    /// Makes the frame at the cursor, or the rest of it, for this cursor only.
    fn cold(&self, cursor: &Cursor, scratch: &mut Vec<u8>) -> Next<'a> {
        let Some(batch) = self.log.batch_at(cursor.next) else {
            let is_lost = !self.log.is_stored(cursor.next) || self.log.is_hole(cursor.next);
            return match is_lost {
                true => Next::Lost(self.log.lost(cursor.next)),
                false => Next::Backfill(cursor.next),
            };
        };
        if self.encoding.format().has_columns()
            && let Some(next) = self.columns(cursor, batch)
        {
            return next;
        }
        let end = match self.encoding.columns().filter(|_| self.is_part(cursor)) {
            Some(columns) => batch.part_end(cursor.next, columns, self.log.part_bytes()),
            None => batch.end(),
        };
        let after = Cursor::before(end).with_context(self.context_after(cursor));
        if let Some(frame) = self.pinned_frame(cursor) {
            return Next::Hot(&frame[cursor.sent()..], after);
        }
        let envelope = batch.envelope_until(cursor.next, end, &self.log.topic, self.log.epoch);
        let is_large = envelope.events.len() >= self.log.zero_copy_bytes();
        Next::cold(&envelope, self.encoding, is_large, cursor.sent(), after, scratch)
    }

    /// Returns the next frame of columns in a batch. `None` if the caller must make a frame for this cursor
    /// only.
    fn columns(&self, cursor: &Cursor, batch: &'a Batch) -> Option<Next<'a>> {
        if let Some(frame) = self.whole_frame(cursor, batch) {
            return match self.encoding.differs_from(Some(frame.columns())) {
                false => {
                    let rest = &frame.bytes(self.encoding.format())[cursor.sent()..];
                    Some(Next::Hot(rest, Cursor::before(batch.end())))
                }
                true => (!cursor.in_frame()).then_some(Next::OtherColumns),
            };
        }
        if is_at_whole_frame(cursor, batch) && !batch.is_column_frame_too_large() {
            return Some(Next::Unmade);
        }
        let columns = self.log.columns.schema_of(batch, self.encoding.columns());
        let is_other = !cursor.in_frame() && self.encoding.differs_from(Some(columns));
        is_other.then_some(Next::OtherColumns)
    }

    /// Returns the kept frame that has all rows of a batch, if the cursor is in this frame or before it.
    fn whole_frame(&self, cursor: &Cursor, batch: &Batch) -> Option<&'a ColumnFrame> {
        let frames = &self.log.columns.frames;
        is_at_whole_frame(cursor, batch).then(|| frames.get(batch.end())).flatten()
    }

    /// Returns whether the frame at the cursor has columns, and only some events of its batch.
    fn is_part(&self, cursor: &Cursor) -> bool {
        let is_whole = |batch: &Arc<Batch>| self.whole_frame(cursor, batch).is_some();
        self.encoding.format().has_columns()
            && cursor.wants_part()
            && !self.log.batch_at(cursor.next).is_some_and(is_whole)
    }

    /// Returns the context of a reader after the frame at its cursor. The hot tail's context consists of
    /// pushed batches. Batches of a backfill may have other boundaries, and therefore other text.
    fn context_after(&self, cursor: &Cursor) -> Option<Offset> {
        let is_pushed =
            self.encoding.format().has_context() && self.log.history.find(cursor.next).is_some();
        is_pushed.then(|| cursor.context().unwrap_or(cursor.next))
    }

    /// Returns the copy of the partly sent frame at the cursor, if there is one.
    fn pinned_frame(&self, cursor: &Cursor) -> Option<&'a [u8]> {
        let format = self.encoding.format();
        let is_in_shared_frame = format.has_context() && cursor.in_frame() && cursor.is_hot();
        is_in_shared_frame.then(|| self.log.pins.frame(cursor.next, format)).flatten()
    }

    /// Returns the kept frame without a context, and the cursor after it, for a reader that cannot read the
    /// shared frame.
    fn alone(&self, cursor: &Cursor) -> Option<(&'a [u8], Cursor)> {
        let tail = self.tail.filter(|tail| tail.has_context())?;
        if cursor.in_frame() && cursor.is_hot() {
            return None;
        }
        let batch = self.log.history.find(cursor.next)?;
        let make = || {
            let mut frame = Vec::new();
            let (topic, epoch) = (&self.log.topic, self.log.epoch);
            batch.write_frame(batch.start(), topic, epoch, self.encoding, &mut frame);
            Some(frame)
        };
        let is_whole = batch.start() == cursor.next;
        let frame = is_whole.then(|| tail.alone(cursor.next, make)).flatten()?;
        let after = Cursor::before(batch.end()).with_context(self.context_after(cursor));
        Some((&frame[cursor.sent()..], after))
    }

    /// Returns whether a reader between frames can read the frame at its cursor, which may refer to earlier frames.
    fn can_read(&self, tail: &HotTail, cursor: &Cursor) -> bool {
        // A reader that got the previous frame from the tail has the context of this frame.
        (cursor.is_hot() && cursor.has_context())
            || cursor.next == self.log.next
            || tail.is_readable(cursor.next, cursor.context())
    }

    /// Returns the hot tail, the cursor's place there, and the bytes from there on.
    #[inline]
    fn hot(&self, cursor: &Cursor) -> Option<(&'a HotTail, u64, &'a [u8])> {
        let (tail, at) = self.hot_place(cursor)?;
        let bytes = tail.slice(at)?;
        // A tail may hold more than the history. A frame that could not be made again must not be begun, because
        // the tail may drop its rest.
        (cursor.in_frame() || self.is_retained(cursor)).then_some((tail, at, bytes))
    }

    fn is_retained(&self, cursor: &Cursor) -> bool {
        cursor.next >= self.log.first_retained()
    }

    /// Returns the place of `cursor` in the hot tail. A cold cursor can enter the tail only at a frame boundary.
    fn hot_place(&self, cursor: &Cursor) -> Option<(&'a HotTail, u64)> {
        let tail = self.tail?;
        if tail.has_context() && !cursor.in_frame() && !self.can_read(tail, cursor) {
            return None;
        }
        if cursor.is_hot() {
            return Some((tail, cursor.hot));
        }
        if cursor.in_frame() {
            return None;
        }
        let is_at_head = cursor.next == self.log.next;
        let at = if is_at_head { tail.head() } else { tail.byte_of(cursor.next)? };
        Some((tail, at))
    }

    /// Returns the cursor at a byte of the tail, for a reader who was at `before`.
    fn cursor_at(&self, tail: &HotTail, at: u64, before: &Cursor) -> Cursor {
        let (next, sent) = match tail.frame_at(at) {
            Some((first, byte)) => (first, (at - byte) as u32),
            None => (self.log.next, 0),
        };
        let after = Cursor { sent, hot: at, ..Cursor::before(next) };
        if !tail.has_context() {
            return after;
        }
        // The first frame of a context refers to no other, and its reader has the context from there on.
        let begins = next > before.next;
        after.with_context(before.context().or(begins.then_some(before.next)))
    }
}

impl<'a> Frames<'a> for LogFrames<'a, '_> {
    fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a> {
        match self.kept(cursor, one_frame) {
            Some(([], _)) => Next::Nothing,
            Some((bytes, after)) => Next::Hot(bytes, after),
            None if cursor.next >= self.log.next => Next::Nothing,
            None => self.cold(cursor, scratch),
        }
    }

    #[inline]
    fn kept(&self, cursor: &Cursor, one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        let Some((tail, at, bytes)) = self.hot(cursor) else { return self.alone(cursor) };
        let one_frame = one_frame || !self.is_retained(cursor);
        let end = if one_frame { tail.frame_end(at) } else { at + bytes.len() as u64 };
        Some((&bytes[..(end - at) as usize], self.cursor_at(tail, end, cursor)))
    }

    fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor {
        match self.hot(cursor) {
            Some((tail, at, _)) => self.cursor_at(tail, at + sent as u64, cursor),
            None => {
                let hot = match self.pinned_frame(cursor) {
                    Some(_) => cursor.hot,
                    None if self.is_part(cursor) => COLD_PART,
                    None => COLD,
                };
                Cursor { sent: cursor.sent + sent as u32, hot, ..*cursor }
            }
        }
    }
}

fn is_at_whole_frame(cursor: &Cursor, batch: &Batch) -> bool {
    cursor.next <= batch.first() && cursor.hot != COLD_PART
}
