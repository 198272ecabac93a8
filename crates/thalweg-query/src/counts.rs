/// Counts of events and windows by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events taken.
    pub events: u64,
    /// Values that are not of their column's type, and are NULL.
    pub unreadable: u64,
    /// Events without a time, which belong to no window.
    pub without_time: u64,
    /// Late events: the window had ended. An event counts once for each such window.
    pub late: u64,
    /// Events too far ahead of their publication ([`crate::Bounds::lead_ms`]).
    pub ahead: u64,
    /// Windows lost because of [`crate::Bounds::groups`]; without windows, events of groups that have no room.
    pub full_groups: u64,
    /// Windows lost because of [`crate::Bounds::state_bytes`]; without windows, events and rows of groups that have no room.
    pub full_state: u64,
    /// Events without room in a window because of [`crate::Bounds::windows`].
    pub full_windows: u64,
    /// Rows that are too large ([`crate::limits::ROW_BYTES_MAX`]), or whose key is too long
    /// ([`crate::limits::KEY_BYTES_MAX`]).
    pub large_rows: u64,
    /// Events before the query could run.
    pub skipped: u64,
    /// Emitted windows.
    pub windows: u64,
    /// Windows not emitted, because some of their events are lost or had no room. A query without windows that begins again counts
    /// as one.
    pub windows_lost: u64,
    /// Windows not emitted, because the query began in the middle of them.
    pub windows_partial: u64,
    /// Rows.
    pub rows: u64,
    /// Changes of inferred columns by an event that did not fit.
    pub changes: u64,
    /// Texts that were too long for an expression to read or make ([`crate::Bounds::value_bytes`]), and are NULL.
    pub oversized: u64,
    /// Casts, operations, functions and sums without a result, which are NULL, such as `CAST('x' AS INT)` and `1 / 0`.
    pub without_result: u64,
    /// Steps of evaluating expressions.
    pub steps: u64,
}

impl Counts {
    /// Returns how often a bound was reached or an event was not usable.
    pub fn refused(&self) -> u64 {
        self.full_groups + self.full_state + self.full_windows + self.large_rows + self.skipped
    }
}
