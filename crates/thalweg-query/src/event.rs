//! An event that was read.

use thalweg_columns::Cell;

use crate::{expr::Row, meter::Meter};

/// An event that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'e> {
    pub(crate) offset: u64,
    /// The event as it is.
    pub(crate) text: &'e [u8],
    /// When it was published, in ms since 1970.
    pub(crate) published_ms: i64,
    /// The time, in ms since 1970.
    pub(crate) now_ms: i64,
    /// Its values, as far as the query reads them.
    pub(crate) cells: &'e [Cell<'e>],
    /// How many of them could not be read.
    pub(crate) unreadable: u64,
}

impl<'e> Event<'e> {
    /// The event as a row in a window; (0, 0): in none.
    #[inline]
    pub(crate) fn row<'r>(&self, window: (i64, i64), meter: &'r Meter) -> Row<'r>
    where
        'e: 'r,
    {
        Row { cells: self.cells, window, now_ms: self.now_ms, meter }
    }
}
