use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::Offset;

use super::{Batch, encoding::is_same};

/// The schema of a log's rows, as far as somebody reads columns. It is declared, or inferred when the
/// first one comes.
#[derive(Debug, Default)]
pub(super) struct LogColumns {
    /// Of the newest batch.
    newest: Option<Arc<Columns>>,
    counts: ColumnCounts,
}

/// What happened to columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnCounts {
    /// Values that could not be read as declared. They are null.
    pub unreadable: u64,
    /// How often the schema changed, because rows came that did not fit.
    pub changes: u64,
}

impl LogColumns {
    pub(super) fn declared(columns: Option<Arc<Columns>>) -> Self {
        Self { newest: columns, counts: ColumnCounts::default() }
    }

    pub(super) fn newest(&self) -> Option<&Arc<Columns>> {
        self.newest.as_ref()
    }

    /// Somebody is going to read columns: infers the schema from `batches`, the newest last, if there
    /// is none.
    pub(super) fn open<'a>(&mut self, batches: impl DoubleEndedIterator<Item = &'a Arc<Batch>>) {
        if self.newest.is_none() {
            let rows = batches.map(|batch| batch.joined());
            self.newest = Columns::infer_from(rows).map(Arc::new);
        }
    }

    /// Appends a new batch's rows in its schema. Returns whether that is another one than that of
    /// the batch before.
    pub(super) fn write_newest(&mut self, batch: &Batch, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let fits = self.newest.as_ref().is_some_and(|newest| {
            let written = newest.write_rows(batch.first(), batch.joined(), out);
            self.counts.unreadable += written.unwrap_or_default();
            // Another shard may have found another one.
            written.is_ok() && is_same(batch.columns_or(newest), newest)
        });
        if fits {
            return false;
        }
        out.truncate(before);
        let columns = Arc::clone(batch.columns_after(self.newest.as_ref()));
        let _ = columns.write_rows(batch.first(), batch.joined(), out);
        self.counts.changes += u64::from(self.newest.is_some());
        self.newest = Some(columns);
        true
    }

    /// The schema of a batch for a reader whose stream has `stream`.
    pub(super) fn of<'a>(
        &'a self,
        batch: &'a Batch,
        stream: Option<&Arc<Columns>>,
    ) -> &'a Arc<Columns> {
        let columns = batch.columns_after(stream.or(self.newest.as_ref()));
        // One of two equal ones, so that they are compared by where they are.
        self.newest.as_ref().filter(|newest| is_same(newest, columns)).unwrap_or(columns)
    }

    /// Whether the rows from `next` on have another schema than the row before, as far as is known.
    pub(super) fn changes_at(before: Option<&Batch>, after: Option<&Batch>, next: Offset) -> bool {
        let known = |batch: Option<&Batch>| batch.and_then(Batch::columns).cloned();
        let is_between = after.is_none_or(|after| after.first() >= next);
        match (known(before), known(after)) {
            (Some(before), Some(after)) => is_between && !is_same(&before, &after),
            _ => false,
        }
    }

    /// What happened since this was called last.
    pub(super) fn take_counts(&mut self) -> ColumnCounts {
        std::mem::take(&mut self.counts)
    }
}
