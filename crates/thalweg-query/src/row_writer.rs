//! Writes rows, counts them, and assigns their offsets.

use thalweg_columns::Cell;

use crate::{
    expr::{Expr, Row},
    json::write_row,
    ledger::Ledger,
    limits::{CONVERSION_STEPS, KEPT_BYTES, ROW_BYTES_MAX, ROW_STEPS},
    meter::Failure,
    row_offsets::RowOffsets,
    sink::Sink,
};

#[derive(Debug)]
pub(crate) struct RowWriter {
    row_offsets: RowOffsets,
    /// The offset of the event that makes the rows.
    pub(crate) offset: u64,
    /// The current row, and whether it is complete.
    row: Vec<u8>,
    fits: bool,
    /// How many numbers and times the row has.
    conversions: u64,
}

impl RowWriter {
    pub(crate) fn new(row_offsets: RowOffsets) -> Self {
        Self { row_offsets, offset: 0, row: Vec::new(), fits: true, conversions: 0 }
    }

    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.row.capacity()
    }

    /// Returns the offset of the first row that events from `offset` on may make.
    pub(crate) fn first_after(&self, offset: u64) -> u64 {
        self.row_offsets.first_after(offset)
    }

    pub(crate) fn first_of(&self, block: u64) -> u64 {
        self.row_offsets.first_of(block)
    }

    /// Announces the loss of a row, or of a window's rows.
    pub(crate) fn lose(&mut self, sink: &mut impl Sink) {
        sink.lost(self.row_offsets.next(self.offset));
    }

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

    /// Makes a row of an unchanged event.
    #[inline]
    pub(crate) fn pass_on(&mut self, event: &[u8]) {
        self.row.clear();
        self.row.extend_from_slice(event);
        (self.fits, self.conversions) = (true, 0);
    }

    /// Counts the cost of the finished row. Fails if it exceeds the bounds.
    #[inline]
    pub(crate) fn charge(&self, ledger: &mut Ledger) -> Result<(), Failure> {
        ledger.add_steps(ROW_STEPS + self.conversions * CONVERSION_STEPS);
        ledger.write(self.row.len())
    }

    /// Returns the finished row; `None` if it is too large.
    pub(crate) fn finished(&self) -> Option<&[u8]> {
        self.fits.then_some(&*self.row)
    }

    /// Emits the finished row as the new row of a key, or removes the row of this key.
    pub(crate) fn change(
        &mut self,
        key: &str,
        has_row: bool,
        ledger: &mut Ledger,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        let row = has_row.then_some(&*self.row);
        ledger.emit(key.len() + row.map_or(0, <[u8]>::len))?;
        sink.change(self.row_offsets.next(self.offset), key, row);
        if self.row.capacity() > KEPT_BYTES {
            self.row = Vec::new();
        }
        Ok(())
    }

    /// Emits and counts the finished row; a row that is too large is lost. Fails if it exceeds the bounds of cost.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        ledger: &mut Ledger,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.charge(ledger)?;
        if !self.fits {
            ledger.counts.large_rows += 1;
            self.lose(sink);
        } else {
            ledger.emit(self.row.len())?;
            sink.row(self.row_offsets.next(self.offset), &self.row);
        }
        if self.row.capacity() > KEPT_BYTES {
            self.row = Vec::new();
        }
        Ok(())
    }
}
