//! One group: its keys, and the aggregates of its rows.

use std::cmp::Ordering;

use thalweg_columns::Cell;

use crate::{
    aggregate::{Accumulator, Aggregate},
    expr::Row,
    limits::ALLOCATION_BYTES,
};

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) keys: Box<[Cell<'static>]>,
    pub(crate) values: Box<[Accumulator]>,
}

/// A group of an ended window, ordered by its keys.
#[derive(Debug)]
pub(crate) struct Keyed {
    pub(crate) key: Box<[u8]>,
    pub(crate) group: Group,
}

/// Memory of a group besides its keys and values, in bytes: its slot in the table, which may be half empty, and three
/// allocations.
const GROUP_BYTES: usize = 2 * size_of::<(Box<[u8]>, Group)>() + 3 * ALLOCATION_BYTES;

impl Group {
    /// Adds a row. Returns the growth of its texts in bytes, and whether all of them had room.
    #[inline]
    pub(crate) fn take(
        &mut self,
        row: &Row<'_>,
        aggregates: &[Aggregate],
        room: usize,
    ) -> (isize, bool) {
        let (mut grown, mut is_whole) = (0, true);
        for (aggregate, value) in aggregates.iter().zip(&mut self.values) {
            match aggregate.take(row, value, room.saturating_add_signed(-grown)) {
                Some(more) => grown += more,
                None => is_whole = false,
            }
        }
        (grown, is_whole)
    }

    pub(crate) fn bytes(&self, key: &[u8]) -> usize {
        let texts: isize = self.values.iter().map(Accumulator::text_bytes).sum();
        fixed_bytes(key, self.keys.len(), self.values.len()).saturating_add_signed(texts)
    }
}

/// Returns the memory of a group without the aggregated texts.
pub(crate) fn fixed_bytes(key: &[u8], keys: usize, values: usize) -> usize {
    // The key exists twice: as bytes, and as values, whose texts are allocations.
    let keys = keys * (size_of::<Cell<'_>>() + ALLOCATION_BYTES);
    2 * key.len() + keys + values * size_of::<Accumulator>() + GROUP_BYTES
}

impl PartialEq for Keyed {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Keyed {}

impl PartialOrd for Keyed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Keyed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}
