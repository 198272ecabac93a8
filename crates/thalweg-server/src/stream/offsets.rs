/// Whether every offset of a stream is an event's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// So it is: the difference of two offsets is a number of events.
    #[default]
    Consecutive,
    /// Between two batches there may be offsets that were never given. Somebody else gives them, and
    /// stores the events, too: what is not here can be read back.
    Sparse,
}
