/// What happened to events and windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were taken in.
    pub events: u64,
    /// Values that could not be read as their columns' types. They are NULL.
    pub unreadable: u64,
    /// Events without a time, which are in no window.
    pub without_time: u64,
    /// Events whose windows were over, each once for each such window.
    pub late: u64,
    /// Events too far ahead of all before them ([`Bounds::lead_ms`]).
    pub ahead: u64,
    /// Events whose group, window or texts would have been more than there may be; and rows that are too large.
    pub refused: u64,
    /// Windows that were emitted.
    pub windows: u64,
    /// Windows that were not, because events that were in them are lost.
    pub windows_lost: u64,
    /// Windows that were not, because the query began in the middle of them.
    pub windows_partial: u64,
    /// Rows.
    pub rows: u64,
    /// How often columns that were inferred became wider, because an event did not fit them.
    pub changes: u64,
    /// Texts that were longer than an expression may read or make ([`crate::Bounds::value_bytes`]). They are NULL there.
    pub oversized: u64,
    /// Steps that evaluating expressions took.
    pub steps: u64,
}
