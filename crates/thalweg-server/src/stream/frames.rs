use thalweg_wire::Format;

use super::{Cursor, Log, Lost, cursor::COLD, tail::HotTail};

/// A log as subscribers of one format read it. To make one looks the format's hot tail
/// up; to read is cheap then.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    log: &'a Log,
    format: Format,
    tail: Option<&'a HotTail>,
}

/// What comes after a cursor.
#[derive(Debug)]
pub enum Next<'a> {
    /// These finished bytes of the hot tail.
    Hot(&'a [u8], Cursor),
    /// (The rest of) one frame: the bytes just appended to the scratch, of which
    /// so many come before these, and the others after.
    Cold {
        /// Bytes in the scratch before the events.
        before: usize,
        /// Events, where they are; none if all is in the scratch.
        events: &'a [u8],
        /// The cursor after it.
        after: Cursor,
    },
    /// Not the next event: it is no longer there.
    Lost(Lost),
    /// Nothing yet.
    Nothing,
}

impl<'a> Frames<'a> {
    /// A log in a format.
    pub fn of(log: &'a Log, format: Format) -> Self {
        Self { log, format, tail: log.tail(format) }
    }

    /// What comes after `cursor`. With `one_frame` only the frame (or its rest) at the
    /// cursor, otherwise as much as is contiguous. Cold bytes are appended to `scratch`.
    pub fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a> {
        // A tail may hold more than the history, but a frame that could not be
        // made again must not be begun: the tail may turn over before its end.
        let is_retained = cursor.next >= self.log.first_retained();
        if let Some((tail, at)) = self.hot_place(cursor)
            && let Some(bytes) = tail.slice(at)
            && (is_retained || cursor.in_frame())
        {
            let one_frame = one_frame || !is_retained;
            let end = if one_frame { tail.frame_end(at) } else { at + bytes.len() as u64 };
            if end == at {
                return Next::Nothing;
            }
            return Next::Hot(&bytes[..(end - at) as usize], self.cursor_at(tail, end));
        }
        if cursor.next >= self.log.head() {
            return Next::Nothing;
        }
        self.cold(cursor, scratch)
    }

    /// (The rest of) the frame at the cursor, made for it alone.
    fn cold(&self, cursor: &Cursor, scratch: &mut Vec<u8>) -> Next<'a> {
        let Some(batch) = self.log.batch_at(cursor.next) else {
            return Next::Lost(self.log.lost(cursor.next));
        };
        let start = scratch.len();
        let (topic, epoch) = (self.log.topic(), self.log.epoch());
        let is_large = batch.event_bytes(cursor.next) >= self.log.by_reference();
        let around = is_large
            .then(|| batch.write_around(cursor.next, topic, epoch, self.format, scratch))
            .flatten();
        let (mut before, mut events) = around.unwrap_or_else(|| {
            batch.write_frame(cursor.next, topic, epoch, self.format, scratch);
            (scratch.len() - start, &[])
        });
        // What is sent of it is left away, part by part.
        let mut sent = cursor.sent as usize;
        let skipped = sent.min(before);
        scratch.drain(start..start + skipped);
        before -= skipped;
        sent -= skipped;
        let skipped = sent.min(events.len());
        events = &events[skipped..];
        scratch.drain(start + before..start + before + sent - skipped);
        Next::Cold { before, events, after: Cursor::before(batch.end()) }
    }

    /// The cursor after `sent` bytes of what [`Self::next`] gave for `cursor`,
    /// fewer than it gave.
    pub fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor {
        match self.hot_place(cursor) {
            Some((tail, at)) if tail.slice(at).is_some() => self.cursor_at(tail, at + sent as u64),
            _ => Cursor { next: cursor.next, sent: cursor.sent + sent as u32, hot: COLD },
        }
    }

    /// Where `cursor` is in the hot tail, joining it at a frame boundary.
    fn hot_place(&self, cursor: &Cursor) -> Option<(&'a HotTail, u64)> {
        let tail = self.tail?;
        if cursor.hot != COLD {
            return Some((tail, cursor.hot));
        }
        if cursor.in_frame() {
            return None;
        }
        let is_at_head = cursor.next == self.log.head();
        let at = if is_at_head { tail.head() } else { tail.byte_of(cursor.next)? };
        Some((tail, at))
    }

    fn cursor_at(&self, tail: &HotTail, at: u64) -> Cursor {
        match tail.frame_at(at) {
            Some((first, byte)) => Cursor { next: first, sent: (at - byte) as u32, hot: at },
            None => Cursor { next: self.log.head(), sent: 0, hot: at },
        }
    }
}
