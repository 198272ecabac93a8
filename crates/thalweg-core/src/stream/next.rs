use thalweg_wire::{Envelope, Offset};

use super::{Cursor, Encoding, Lost};

/// The result of a read at a cursor.
#[derive(Debug)]
pub enum Next<'a> {
    /// Finished bytes that all readers share, and the cursor after them. Send them without a copy. They are a part of the hot
    /// tail, for readers that keep up, or a frame of columns or its rest. The tail's other segment or the next frame may follow.
    Hot(&'a [u8], Cursor),
    /// A frame, or its rest, made for this cursor alone, because no hot tail has it. Send the first `before` of
    /// the bytes appended to the scratch, then `events`, then the other appended bytes.
    Cold {
        /// How many of the appended bytes come before the events.
        before: usize,
        /// Large events in the batch's own memory. Empty if the scratch has the whole frame.
        events: &'a [u8],
        /// The cursor after the frame.
        after: Cursor,
    },
    /// The next event is gone. Choose a place by policy, announce the gap, and read again with [`Cursor::before`]
    /// that place. A cursor within a pinned frame never gets this.
    Lost(Lost),
    /// The subscriber lacks a part of the state that no longer exists, for example the newest version of a value. Announce a gap
    /// ([`super::Feed::unknown_reason`]), and read again with this cursor.
    Unknown(Cursor),
    /// The reader's filter selects none of the next events. Read again with this cursor, which remembers that.
    Skipped(Cursor),
    /// The events from this offset on need a backfill ([`super::Backfill::backfill`]). Read again after it.
    Backfill(Offset),
    /// The frame at the cursor is not made yet. Make it ([`super::Feed::make_frames`]), and read again.
    Unmade,
    /// The next row's schema differs from the stream's, or the stream has none yet ([`super::ColumnRows::columns_at`]).
    OtherColumns,
    /// The cursor has everything. Read again after the next batch.
    Nothing,
}

impl<'a> Next<'a> {
    /// Returns a frame made for one cursor alone, without its first `sent` bytes. Appends the frame to `scratch`,
    /// except large events that it contains unchanged: these are sent from their own memory.
    pub fn cold(
        envelope: &Envelope<'a>,
        encoding: Encoding<'_>,
        is_large: bool,
        sent: usize,
        after: Cursor,
        scratch: &mut Vec<u8>,
    ) -> Self {
        let start = scratch.len();
        let around = is_large.then(|| encoding.around(envelope, scratch)).flatten();
        let (mut before, mut events): (usize, &[u8]) = match around {
            Some(before) => (before, envelope.events),
            None => {
                encoding.batch(envelope, scratch);
                (scratch.len() - start, &[])
            }
        };
        // This skips the bytes that were sent before, part by part.
        let mut sent = sent;
        let skipped = sent.min(before);
        scratch.drain(start..start + skipped);
        before -= skipped;
        sent -= skipped;
        let skipped = sent.min(events.len());
        events = &events[skipped..];
        scratch.drain(start + before..start + before + sent - skipped);
        Self::Cold { before, events, after }
    }
}
