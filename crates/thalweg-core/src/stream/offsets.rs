/// Whether every offset of a stream is an event's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// So it is: the difference of two offsets is a number of events.
    #[default]
    Consecutive,
    /// Sparse: between two batches there may be offsets that were never given. Somebody else gives them, and
    /// stores the events, too: what is not here can be read back.
    Stored,
    /// Sparse, and what is not here any more is nowhere: they follow from those of the events that these are made of.
    Derived,
}
