use std::sync::Arc;

use thalweg_wire::Offset;

use super::super::KeyedEvent;

/// A part of a keyed topic's state for another shard: the newest event of each key that changed from one offset on, in order.
#[derive(Debug)]
pub struct StatePart {
    /// The first offset of the part. At 1 the receiver begins with an empty state.
    pub from: Offset,
    /// The events, removals included.
    pub events: Vec<Arc<KeyedEvent>>,
    /// One past the last offset of the part.
    pub to: Offset,
    /// The head when the part was made.
    pub head: Offset,
    /// Removals before this offset may be missing.
    pub complete_from: Offset,
}

impl StatePart {
    /// Returns whether the receiver has the whole state with this part.
    pub fn is_last(&self) -> bool {
        self.to == self.head
    }
}
