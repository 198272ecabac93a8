//! The answer to a publish.

use serde::Deserialize;
use thalweg_wire::Offset;

/// What became of a publish: the events are in the topic, in this order, from `first`
/// to `position`. Events of other publishers may lie in between.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// The topic.
    pub topic: String,
    /// Position of the last event.
    pub position: String,
    /// Offset of the first event.
    pub first: Offset,
    /// How many events were appended; 0 if there were no lines.
    pub count: u64,
    /// Whether an earlier attempt had been appended already; this one then appended nothing.
    #[serde(skip)]
    pub is_replayed: bool,
}
