//! The answer to a publish.

use serde::Deserialize;
use thalweg_wire::Offset;

/// The result of a publish: the events are in the topic, in this order, from `first` to `position`. Events of other
/// publishers may lie in between.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// The topic.
    pub topic: String,
    /// Position of the last event.
    pub position: String,
    /// Offset of the first event.
    pub first: Offset,
    /// Number of appended events; 0 without lines.
    pub count: u64,
    /// Whether an earlier attempt had already appended the event; this attempt then appended nothing.
    #[serde(skip)]
    pub is_replayed: bool,
}
