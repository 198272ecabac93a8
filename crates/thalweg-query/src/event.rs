//! Decoded events.

use thalweg_columns::Cell;

use crate::{expr::Row, meter::Meter};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'e> {
    pub(crate) offset: u64,
    pub(crate) text: &'e [u8],
    /// The time of publication, in ms since 1970.
    pub(crate) published_ms: i64,
    pub(crate) now_ms: i64,
    pub(crate) cells: &'e [Cell<'e>],
    /// Number of values that are not of their column's type.
    pub(crate) unreadable: u64,
}

impl<'e> Event<'e> {
    /// Returns the event as a row in a window; (0, 0) means no window.
    #[inline]
    pub(crate) fn row<'r>(&self, window: (i64, i64), meter: &'r Meter) -> Row<'r>
    where
        'e: 'r,
    {
        Row { cells: self.cells, window, now_ms: self.now_ms, meter }
    }
}
