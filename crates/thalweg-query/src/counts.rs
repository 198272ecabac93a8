/// Counts of events and windows by their fate.
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
    /// Events too far ahead of when they were published ([`crate::Bounds::lead_ms`]).
    pub ahead: u64,
    /// Windows that are lost because of [`crate::Bounds::groups`].
    pub full_groups: u64,
    /// Windows that are lost because of [`crate::Bounds::state_bytes`].
    pub full_state: u64,
    /// Events that had no room in a window because of [`crate::Bounds::windows`].
    pub full_windows: u64,
    /// Rows that are too large ([`crate::limits::ROW_BYTES_MAX`]).
    pub large_rows: u64,
    /// Events that were there before the query could run over them.
    pub skipped: u64,
    /// Windows that were emitted.
    pub windows: u64,
    /// Windows that were not, because events that were in them are lost, or had no room.
    pub windows_lost: u64,
    /// Windows that were not, because the query began in the middle of them.
    pub windows_partial: u64,
    /// Rows.
    pub rows: u64,
    /// How often columns that were inferred became wider, because an event did not fit them.
    pub changes: u64,
    /// Texts that were longer than an expression may read or make ([`crate::Bounds::value_bytes`]). They are NULL there.
    pub oversized: u64,
    /// Casts, operations, functions and sums of values that had no result, such as `CAST('x' AS INT)` and 1 / 0. They are NULL.
    pub without_result: u64,
    /// Steps that evaluating expressions took.
    pub steps: u64,
}

impl Counts {
    /// How often a bound was reached, or an event was no use to the query.
    pub fn refused(&self) -> u64 {
        self.full_groups + self.full_state + self.full_windows + self.large_rows + self.skipped
    }
}
