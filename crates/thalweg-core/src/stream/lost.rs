use thalweg_wire::Offset;

use super::Offsets;

/// The two places where a cursor can continue if its next events are gone: `middle` and `newest`. Both are
/// after `expected`. The gap has the events from `expected` to the chosen place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The next offset of the cursor.
    pub expected: Offset,
    /// The start of a batch in the middle of the history, or the oldest event of a stored stream.
    pub middle: Offset,
    /// The start of the newest batch.
    pub newest: Offset,
    /// The kind of offsets, which decides whether the gap's size is known.
    pub offsets: Offsets,
    /// Whether a faster reader would have lost the events, too: they are no longer stored, or their source lost events.
    pub is_expired: bool,
}

impl Lost {
    /// Returns whether the loss is a hole in the history. All events after the hole exist, so the reader
    /// continues with them.
    pub fn is_hole(&self) -> bool {
        self.is_expired && self.offsets == Offsets::Derived
    }

    /// Returns how many events are missing up to `next`, if offsets count events.
    pub fn missed(&self, next: Offset) -> Option<Offset> {
        (self.offsets == Offsets::Consecutive).then(|| next - self.expected)
    }
}
