//! One group: its keys, and the aggregates of its rows.

use std::cmp::Ordering;

use smallvec::SmallVec;
use thalweg_columns::Cell;

use crate::{
    aggregate::{Accumulator, Aggregate},
    expr::Row,
    limits::ALLOCATION_BYTES,
    value::borrowed,
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

/// A group of a query without windows.
#[derive(Debug)]
pub(crate) struct RunningGroup {
    pub(crate) group: Group,
    /// Whether it has changed since it was emitted.
    pub(crate) is_changed: bool,
    /// Whether it exceeded a bound, so that events are missing in its values. It has none, and is never emitted again.
    pub(crate) is_lost: bool,
    /// The memory of its row in the topic, in bytes. 0: the topic has no row of it.
    pub(crate) row_bytes: usize,
    /// The hash of this row.
    pub(crate) row_hash: u64,
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

    /// Returns its keys and the results of its aggregates, and how many of the aggregates have no result.
    pub(crate) fn cells(&self) -> (SmallVec<[Cell<'_>; 8]>, u64) {
        let mut without_result = 0;
        let results = self.values.iter().map(|value| {
            value.result().unwrap_or_else(|| {
                without_result += 1;
                Cell::Null
            })
        });
        let cells = self.keys.iter().map(borrowed).chain(results).collect();
        (cells, without_result)
    }

    pub(crate) fn bytes(&self, key: &[u8]) -> usize {
        fixed_bytes(key, self.keys.len(), self.values.len())
            .saturating_add_signed(self.text_bytes())
    }

    /// Returns the memory of the aggregated texts, in bytes.
    pub(crate) fn text_bytes(&self) -> isize {
        self.values.iter().map(Accumulator::text_bytes).sum()
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
