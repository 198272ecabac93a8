use thalweg_wire::Offset;

use super::Offsets;

/// The places where a cursor whose events are gone can go on. Both are after `expected`. The events from
/// `expected` to the chosen place are the gap.
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
    /// Returns whether the loss is a hole in the history. All events after it are there, so the reader goes on with them.
    pub fn is_hole(&self) -> bool {
        self.is_expired && self.offsets == Offsets::Derived
    }

    /// Returns how many events are missing up to `next`, if the offsets tell that.
    pub fn missed(&self, next: Offset) -> Option<Offset> {
        (self.offsets == Offsets::Consecutive).then(|| next - self.expected)
    }
}
