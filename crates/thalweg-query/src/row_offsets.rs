//! Offsets of rows. They depend only on the source's offsets, so every run over the same events gives its rows the same offsets.

use crate::limits::{BLOCK_OFFSETS, PLACES};

#[derive(Debug, Clone)]
pub(crate) struct RowOffsets {
    /// Offsets of rows for each block of the source. 0: rows are counted alone.
    per_block: u64,
    block: u64,
    next: u64,
}

impl RowOffsets {
    /// Creates the offsets of a run. `is_one_each`: whether an event makes at most one row.
    pub(crate) fn new(is_one_each: bool) -> Self {
        let per_block = if is_one_each { BLOCK_OFFSETS } else { PLACES };
        Self { per_block, block: 0, next: 0 }
    }

    /// Creates offsets that count rows alone, for a topic whose rows differ between runs.
    pub(crate) fn consecutive() -> Self {
        Self { per_block: 0, block: 0, next: 0 }
    }

    pub(crate) fn first_of(&self, block: u64) -> u64 {
        (block * self.per_block).max(1)
    }

    /// Returns the first offset of the first block whose offsets are all at or after this one.
    pub(crate) fn first_after(&self, offset: u64) -> u64 {
        self.first_of(offset.div_ceil(BLOCK_OFFSETS))
    }

    pub(crate) fn next(&mut self, offset: u64) -> u64 {
        let block = if self.per_block == 0 { 0 } else { offset / BLOCK_OFFSETS };
        if block > self.block {
            (self.block, self.next) = (block, 0);
        }
        // Offset 0 is before all events.
        if self.block == 0 && self.next == 0 {
            self.next = 1;
        }
        let place = self.block * self.per_block + self.next;
        self.next += 1;
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_each_have_the_offsets_of_their_events() {
        let mut row_offsets = RowOffsets::new(true);
        for offset in 1..1000 {
            assert_eq!(row_offsets.next(offset), offset);
        }
        // A row that is not made leaves its offset to the next one.
        assert_eq!(
            (row_offsets.next(1030), row_offsets.next(1040), row_offsets.next(1280)),
            (1024, 1025, 1280)
        );
    }

    #[test]
    fn rows_may_be_counted_alone() {
        let mut row_offsets = RowOffsets::consecutive();
        assert_eq!([3, 256, 300].map(|offset| row_offsets.next(offset)), [1, 2, 3]);
    }

    #[test]
    fn rows_of_windows_are_counted_in_their_block() {
        let mut row_offsets = RowOffsets::new(false);
        assert_eq!((row_offsets.next(3), row_offsets.next(3), row_offsets.next(255)), (1, 2, 3));
        assert_eq!((row_offsets.next(256), row_offsets.next(300)), (PLACES, PLACES + 1));
    }
}
