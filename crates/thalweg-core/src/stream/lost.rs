use thalweg_wire::Offset;

use super::Offsets;

/// Where a cursor whose events are gone can go on. Both places come after `expected`: the
/// events from `expected` to the place chosen are the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The next offset that it should have got.
    pub expected: Offset,
    /// Where a batch in the middle of the history starts; of a stream that is stored, its oldest
    /// event.
    pub middle: Offset,
    /// Where the newest batch starts.
    pub newest: Offset,
    pub(super) offsets: Offsets,
    pub(super) is_expired: bool,
}

impl Lost {
    /// Whether the events are gone however fast a reader is: from where they were stored, or because what they
    /// would have been made of was lost.
    pub fn is_expired(&self) -> bool {
        self.is_expired
    }

    /// Whether it is a hole in the history, and not before it: events behind it are all there, so the reader goes on with them.
    pub fn is_hole(&self) -> bool {
        self.is_expired && self.offsets == Offsets::Derived
    }

    /// How many events are missing if it goes on at `next`, if the offsets say that.
    pub fn missed(&self, next: Offset) -> Option<Offset> {
        (self.offsets == Offsets::Consecutive).then(|| next - self.expected)
    }
}
