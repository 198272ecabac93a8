/// The relation of a stream's offsets to its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// Each offset belongs to an event, so the difference of two offsets is a number of events.
    #[default]
    Consecutive,
    /// Sparse: between two batches there may be offsets without events. A broker assigns the offsets and
    /// stores the events, so missing events can be backfilled.
    Stored,
    /// Sparse: offsets follow from the offsets of the source's events. Events that are not retained are lost.
    Derived,
}
