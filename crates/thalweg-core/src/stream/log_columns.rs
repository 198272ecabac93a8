use std::{cell::RefCell, sync::Arc};

use thalweg_columns::Columns;
use thalweg_wire::Offset;

use super::{
    Batch, ColumnCounts,
    column_frames::{ColumnFrames, ColumnMemory},
    encoding::is_same,
};

/// How long columns that were inferred for a client's request stay valid, in µs. Inferring takes a millisecond
/// or two, and clients may ask often.
const TOLD_US: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct LogColumns {
    /// The schema of the newest batch that was read. Until then, the declared schema, or the one inferred for the first reader.
    newest: Option<Arc<Columns>>,
    newest_end: Offset,
    told: RefCell<Option<Box<Told>>>,
    pub(super) frames: ColumnFrames,
}

#[derive(Debug)]
struct Told {
    at_us: u64,
    columns: Arc<Columns>,
}

impl LogColumns {
    pub(super) fn new(declared: Option<Arc<Columns>>, memory: ColumnMemory) -> Self {
        let frames = ColumnFrames::counted_in(memory);
        Self { newest: declared, newest_end: 0, told: RefCell::default(), frames }
    }

    pub(super) fn newest(&self) -> Option<&Arc<Columns>> {
        self.newest.as_ref()
    }

    /// Returns the known columns, or those that `infer` returned at most [`TOLD_US`] ago.
    pub(super) fn told(
        &self,
        now_us: u64,
        infer: impl FnOnce() -> Option<Arc<Columns>>,
    ) -> Option<Arc<Columns>> {
        if let Some(newest) = &self.newest {
            return Some(Arc::clone(newest));
        }
        let mut told = self.told.borrow_mut();
        if told.as_ref().is_none_or(|told| now_us.saturating_sub(told.at_us) >= TOLD_US) {
            *told = infer().map(|columns| Box::new(Told { at_us: now_us, columns }));
        }
        told.as_ref().map(|told| Arc::clone(&told.columns))
    }

    /// Infers the schema for a new reader of columns from `batches`, the newest last, if there is no schema.
    pub(super) fn open<'a>(&mut self, batches: impl DoubleEndedIterator<Item = &'a Arc<Batch>>) {
        if self.newest.is_none() {
            let rows = batches.map(|batch| batch.joined());
            self.newest = Columns::infer_from(rows).map(Arc::new);
        }
    }

    /// Makes and keeps a batch's frame, unless it is kept already or has more than `bytes_max` bytes. `stream` is the
    /// schema that the rows should have.
    pub(super) fn make_frame(
        &mut self,
        batch: &Batch,
        stream: Option<&Arc<Columns>>,
        bytes_max: usize,
        now_us: u64,
    ) -> ColumnCounts {
        if self.frames.get(batch.end()).is_some() {
            return ColumnCounts::default();
        }
        let (frame, counts) = batch.column_frame(stream.or(self.newest.as_ref()), bytes_max);
        if batch.end() > self.newest_end
            && let Some(columns) = batch.columns()
        {
            self.newest = Some(Arc::clone(self.known(columns)));
            self.newest_end = batch.end();
        }
        if let Some(frame) = frame {
            self.frames.keep(batch.end(), frame, now_us);
        }
        counts
    }

    pub(super) fn schema_of<'a>(
        &'a self,
        batch: &'a Batch,
        stream: Option<&Arc<Columns>>,
    ) -> &'a Arc<Columns> {
        self.known(batch.columns_after(stream.or(self.newest.as_ref())))
    }

    /// Returns one of two equal schemas, so that pointers can be compared: the schema with more changes, because
    /// changes are limited per topic, whichever shard made them.
    fn known<'a>(&'a self, columns: &'a Arc<Columns>) -> &'a Arc<Columns> {
        let newest = self.newest.as_ref().filter(|newest| is_same(newest, columns));
        newest.filter(|newest| newest.changes() >= columns.changes()).unwrap_or(columns)
    }

    /// Returns whether the rows from `next` on are known to have another schema than the row before.
    pub(super) fn changes_at(before: Option<&Batch>, after: Option<&Batch>, next: Offset) -> bool {
        let known = |batch: Option<&Batch>| batch.and_then(Batch::columns).cloned();
        let is_between = after.is_none_or(|after| after.first() >= next);
        match (known(before), known(after)) {
            (Some(before), Some(after)) => is_between && !is_same(&before, &after),
            _ => false,
        }
    }
}
