//! The answer to a publish.

use serde::Deserialize;
use thalweg_wire::Offset;

/// What became of a publish.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// Where to.
    pub topic: String,
    /// Position of the last event.
    pub position: String,
    /// Offset of the first event.
    pub first: Offset,
    /// How many events.
    pub count: u64,
    /// Whether an earlier attempt had done it already.
    #[serde(skip)]
    pub is_replayed: bool,
}
