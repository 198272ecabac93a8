use std::{
    ops::{AddAssign, Range},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use thalweg_columns::Columns;
use thalweg_wire::{Format, Offset, format::TransferCoding};

use super::encoding::is_same;

/// A batch's rows as columns: schema and frame, the same on all shards, made for the first reader of columns.
#[derive(Debug, Default)]
pub(super) struct BatchColumns {
    schema: OnceLock<Arc<Columns>>,
    /// The frame, owned by the shards that keep it. The lock is held while a shard makes the frame. Another shard that
    /// needs the frame waits, which takes no longer than making it.
    frame: Mutex<Option<Weak<ColumnFrame>>>,
    is_too_large: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) first: Offset,
    pub(super) count: usize,
    pub(super) bytes: &'a [u8],
}

/// The finished frame of all rows of a batch, as a chunk (RFC 9112 §7.1).
#[derive(Debug)]
pub(super) struct ColumnFrame {
    columns: Arc<Columns>,
    bytes: Box<[u8]>,
    /// The chunk's content in `bytes`.
    content: Range<usize>,
}

/// Counts of frames of columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnCounts {
    /// Frames made: one for each batch, and another one if the frame was dropped and is needed again.
    pub frames: u64,
    /// Values that could not be read as declared, counted once per batch. They are null.
    pub unreadable: u64,
    /// Changes of a schema because of a batch whose rows did not fit.
    pub changes: u64,
}

impl AddAssign for ColumnCounts {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.unreadable += other.unreadable;
        self.changes += other.changes;
    }
}

/// The content of a frame in this format is also the frame of [`Format::ARROW`].
const CHUNKED: Format = match Format::ARROW.chunked() {
    Some(chunked) => chunked,
    None => Format::ARROW,
};

const CHUNK_END: usize = "\r\n".len();

impl BatchColumns {
    pub(super) fn schema(&self) -> Option<&Arc<Columns>> {
        self.schema.get()
    }

    /// Returns the schema. If no reader has read the rows yet, the schema is `before`, changed as little as the rows require.
    pub(super) fn schema_after(&self, before: Option<&Arc<Columns>>, rows: &[u8]) -> &Arc<Columns> {
        self.schema.get_or_init(|| match before {
            Some(before) => before.widened(rows).map_or_else(|| Arc::clone(before), Arc::new),
            None => Arc::new(Columns::infer(rows)),
        })
    }

    /// Returns the frame of `rows`, made unless a shard keeps it, and the counts for making it. Unread rows get their schema as
    /// in [`Self::schema_after`]. `None` if the frame would exceed `bytes_max`; then no shard tries again.
    pub(super) fn frame(
        &self,
        rows: Rows<'_>,
        before: Option<&Arc<Columns>>,
        bytes_max: usize,
    ) -> (Option<Arc<ColumnFrame>>, ColumnCounts) {
        let mut shared = self.lock();
        if self.is_frame_too_large() {
            return (None, ColumnCounts::default());
        }
        if let Some(frame) = shared.as_ref().and_then(Weak::upgrade) {
            return (Some(frame), ColumnCounts::default());
        }
        let (frame, unreadable) = self.make(rows, before, bytes_max).unzip();
        let mut counts = ColumnCounts { frames: frame.is_some().into(), ..Default::default() };
        if shared.is_none() {
            let is_change = before.zip(self.schema()).is_some_and(|(old, new)| !is_same(old, new));
            (counts.unreadable, counts.changes) = (unreadable.unwrap_or(0), is_change.into());
        }
        let frame = frame.filter(|frame| frame.bytes.len() <= bytes_max).map(Arc::new);
        *shared = frame.as_ref().map(Arc::downgrade);
        self.is_too_large.store(frame.is_none(), Relaxed);
        (frame, counts)
    }

    /// Sets the schema of rows that were read elsewhere.
    pub(super) fn adopt(&self, columns: &Arc<Columns>) {
        self.schema.get_or_init(|| Arc::clone(columns));
    }

    pub(super) fn is_frame_too_large(&self) -> bool {
        self.is_too_large.load(Relaxed)
    }

    pub(super) fn is_frame_kept(&self) -> bool {
        self.lock().as_ref().is_some_and(|frame| frame.strong_count() > 0)
    }

    /// Makes the frame. Also returns how many values could not be read as declared. `None` if the cells alone are too large.
    fn make(
        &self,
        rows: Rows<'_>,
        before: Option<&Arc<Columns>>,
        bytes_max: usize,
    ) -> Option<(ColumnFrame, u64)> {
        // A few bytes of JSON may have very many cells, so check before allocating memory.
        let fits = |columns: &Arc<Columns>| columns.cell_bytes(rows.count) <= bytes_max;
        // Most rows fit the previous schema, so they are read only once.
        if let Some(columns) = self.schema().or(before).filter(|columns| fits(columns))
            && let Some(made) = ColumnFrame::encode(columns, rows)
            && is_same(self.schema.get_or_init(|| Arc::clone(columns)), columns)
        {
            return Some(made);
        }
        let columns = self.schema_after(before, rows.bytes);
        if fits(columns) { ColumnFrame::encode(columns, rows) } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Weak<ColumnFrame>>> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for BatchColumns {
    /// Copies the schema and the frame, because a clone is of the same rows.
    fn clone(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            frame: Mutex::new(self.lock().clone()),
            is_too_large: self.is_frame_too_large().into(),
        }
    }
}

impl ColumnFrame {
    /// Encodes rows in a schema. Also returns how many values could not be read as declared. `None` if the rows do not fit.
    fn encode(columns: &Arc<Columns>, rows: Rows<'_>) -> Option<(Self, u64)> {
        let (mut bytes, mut content_bytes, mut unreadable) = (Vec::new(), 0, None);
        CHUNKED.own(&mut bytes, |out| {
            let before = out.len();
            unreadable = columns.write_rows(rows.first, rows.bytes, out).ok();
            content_bytes = out.len() - before;
        });
        let unreadable = unreadable?;
        let end = bytes.len() - CHUNK_END;
        let content = end - content_bytes..end;
        let bytes = bytes.into_boxed_slice();
        Some((Self { columns: Arc::clone(columns), bytes, content }, unreadable))
    }

    pub(super) fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    pub(super) fn bytes(&self, format: Format) -> &[u8] {
        match format.transfer() {
            TransferCoding::Chunked => &self.bytes,
            TransferCoding::Identity => &self.bytes[self.content.clone()],
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // The allocation of the frame, and its entry among the kept frames.
        const OVERHEAD: usize = size_of::<ColumnFrame>() + 64;
        self.bytes.len() + OVERHEAD
    }
}
