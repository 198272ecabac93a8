use thalweg_wire::Offset;

use super::{Cursor, Lost};

/// What comes after a cursor.
#[derive(Debug)]
pub enum Next<'a> {
    /// Finished bytes, shared with all other readers, and the cursor after them. Send them
    /// without a copy. They are of the hot tail: a reader that keeps up gets this. Or they are a frame of columns,
    /// or the rest of one. There may be more after them, in the tail's other segment or in the next frame.
    Hot(&'a [u8], Cursor),
    /// One frame, or the rest of one, made for this cursor alone, because its bytes are in no
    /// hot tail. Send, in this order: the first `before` of the bytes that were appended to
    /// the scratch, then `events`, then the other bytes that were appended.
    Cold {
        /// How many of the appended bytes come before the events.
        before: usize,
        /// Large events, in the batch's own memory; empty if all of the frame is in the
        /// scratch.
        events: &'a [u8],
        /// The cursor after the frame.
        after: Cursor,
    },
    /// The next event is no longer there. Choose by policy where to go on, announce the gap,
    /// and ask again with [`Cursor::before`] that place. It never comes for a cursor within
    /// a frame that is pinned.
    Lost(Lost),
    /// Of a value topic: the newest version is lost, and the subscriber has not got it. Announce that the
    /// value is unknown, and ask again with this cursor.
    Unknown(Cursor),
    /// The events from this offset on are not here, but can be read back ([`super::Feed::recall`]).
    /// Ask again then.
    Away(Offset),
    /// The frame of columns at the cursor is not made. Have it made
    /// ([`super::Feed::make_column_frames`]), and ask again.
    Unmade,
    /// Its stream is of columns, and the next row has another schema, or the stream has none yet
    /// ([`super::Feed::columns_at`]).
    OtherColumns,
    /// The cursor has everything. Ask again when the log has got a batch.
    Nothing,
}
