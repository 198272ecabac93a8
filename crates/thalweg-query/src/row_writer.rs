//! Rows out: each is written, counted, and given its offset.

use thalweg_columns::Cell;

use crate::{
    expr::{Expr, Row},
    json::write_row,
    ledger::Ledger,
    limits::{CONVERSION_STEPS, KEPT_BYTES, ROW_BYTES_MAX, ROW_STEPS},
    meter::Failure,
    places::Places,
    sink::Sink,
};

/// Writes the rows of a run.
#[derive(Debug)]
pub(crate) struct RowWriter {
    places: Places,
    /// The offset of the event that makes them.
    pub(crate) offset: u64,
    /// The row that is being made, and whether it is whole.
    row: Vec<u8>,
    fits: bool,
    /// Its numbers and times.
    conversions: u64,
}

impl RowWriter {
    pub(crate) fn new(places: Places) -> Self {
        Self { places, offset: 0, row: Vec::new(), fits: true, conversions: 0 }
    }

    /// Its memory, in bytes.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.row.capacity()
    }

    /// The offset of the first row that events from `offset` on may make.
    pub(crate) fn first_after(&self, offset: u64) -> u64 {
        self.places.first_after(offset)
    }

    /// The first offset of a block.
    pub(crate) fn first_of(&self, block: u64) -> u64 {
        self.places.first_of(block)
    }

    /// Says that a row, or the rows of a window, are lost.
    pub(crate) fn lose(&mut self, sink: &mut impl Sink) {
        sink.lost(self.places.next(self.offset));
    }

    /// Makes a row of these results.
    #[inline]
    pub(crate) fn make(&mut self, items: &[Expr], row: &Row<'_>) {
        self.row.clear();
        let conversions = &mut self.conversions;
        *conversions = 0;
        let values = items.iter().map(|item| {
            let value = item.eval_whole(row);
            let is_converted = matches!(value, Cell::Int(_) | Cell::Double(_) | Cell::Time(_));
            *conversions += u64::from(is_converted);
            value
        });
        self.fits = write_row(values, ROW_BYTES_MAX, &mut self.row);
    }

    /// Makes a row of an event as it is.
    #[inline]
    pub(crate) fn pass_on(&mut self, event: &[u8]) {
        self.row.clear();
        self.row.extend_from_slice(event);
        (self.fits, self.conversions) = (true, 0);
    }

    /// The row is made, and is counted: it is lost if it does not fit.
    ///
    /// # Errors
    /// When it costs more than it may.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        ledger: &mut Ledger,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        ledger.add_steps(ROW_STEPS + self.conversions * CONVERSION_STEPS);
        ledger.write(self.row.len())?;
        if !self.fits {
            ledger.counts.large_rows += 1;
            self.lose(sink);
        } else {
            ledger.emit(self.row.len())?;
            sink.row(self.places.next(self.offset), &self.row);
        }
        if self.row.capacity() > KEPT_BYTES {
            self.row = Vec::new();
        }
        Ok(())
    }
}
