//! Offsets of rows. They follow from those of the source alone, so that whoever runs a query over the same events
//! gives its rows the same offsets.

use crate::limits::{BLOCK_OFFSETS, PLACES};

/// Gives rows their offsets: in each block of the source's offsets they are counted.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Offsets of rows that a block of the source may make.
    per_block: u64,
    block: u64,
    next: u64,
}

impl Places {
    /// `is_one_each`: an event makes one row at most.
    pub(crate) fn new(is_one_each: bool) -> Self {
        let per_block = if is_one_each { BLOCK_OFFSETS } else { PLACES };
        Self { per_block, block: 0, next: 0 }
    }

    /// The first offset of a block.
    pub(crate) fn first_of(&self, block: u64) -> u64 {
        (block * self.per_block).max(1)
    }

    /// The first offset of the first block that has no offset before this one.
    pub(crate) fn first_after(&self, offset: u64) -> u64 {
        self.first_of(offset.div_ceil(BLOCK_OFFSETS))
    }

    /// The offset of the next row that an event with this offset makes.
    pub(crate) fn next(&mut self, offset: u64) -> u64 {
        let block = offset / BLOCK_OFFSETS;
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
        let mut places = Places::new(true);
        for offset in 1..1000 {
            assert_eq!(places.next(offset), offset);
        }
        // Those that are left out leave theirs to the next ones.
        assert_eq!((places.next(1030), places.next(1040), places.next(1280)), (1024, 1025, 1280));
    }

    #[test]
    fn rows_of_windows_are_counted_in_their_block() {
        let mut places = Places::new(false);
        assert_eq!((places.next(3), places.next(3), places.next(255)), (1, 2, 3));
        assert_eq!((places.next(256), places.next(300)), (PLACES, PLACES + 1));
    }
}
