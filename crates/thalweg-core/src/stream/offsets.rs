/// The relation of a stream's offsets to its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// Every offset is an event's: the difference of two offsets is a number of events.
    #[default]
    Consecutive,
    /// Sparse: between two batches there may be offsets that were never given. A broker gives them and stores the
    /// events, so missing events can be backfilled.
    Stored,
    /// Sparse: they follow from the offsets of the source's events. Events that are not retained are lost.
    Derived,
}
