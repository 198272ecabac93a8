//! Rows out: each is written, counted, and given its offset.

use crate::{
    expr::{Expr, Row},
    json::write_row,
    ledger::Ledger,
    limits::{KEPT_BYTES, ROW_BYTES_MAX},
    meter::{Failure, Meter},
    places::Places,
    sink::Sink,
};

/// Writes the rows of a run.
#[derive(Debug)]
pub(crate) struct RowWriter {
    places: Places,
    /// The offset of the event that makes them.
    pub(crate) offset: u64,
    row: Vec<u8>,
}

impl RowWriter {
    pub(crate) fn new(places: Places) -> Self {
        Self { places, offset: 0, row: Vec::new() }
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
    pub(crate) fn write(
        &mut self,
        items: &[Expr],
        row: &Row<'_>,
        ledger: &mut Ledger,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.row.clear();
        let values = items.iter().map(|item| item.eval_whole(row));
        let fits = write_row(values, ROW_BYTES_MAX, &mut self.row);
        self.emit(fits, row.meter, ledger, sink)
    }

    /// Makes a row of an event as it is.
    #[inline]
    pub(crate) fn pass_on(
        &mut self,
        event: &[u8],
        ledger: &mut Ledger,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.row.clear();
        self.row.extend_from_slice(event);
        self.emit(true, &ledger.meter(), ledger, sink)
    }

    /// The row is made: it is lost if it does not fit.
    #[inline]
    fn emit(
        &mut self,
        fits: bool,
        meter: &Meter,
        ledger: &mut Ledger,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        let is_written = meter.write(self.row.len());
        ledger.charge(meter)?;
        if !fits || !is_written {
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
