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

/// The rows of a batch as columns: their schema and their frame, the same on all shards. Nothing is
/// made before somebody reads them so.
#[derive(Debug, Default)]
pub(super) struct BatchColumns {
    schema: OnceLock<Arc<Columns>>,
    /// The frame, once it was made. The shards that keep it own it. Locked while the frame is made: a shard that
    /// needs it too waits for it, which takes no longer than to make it.
    frame: Mutex<Option<Weak<ColumnFrame>>>,
    /// Whether it is too large to be kept.
    is_too_large: AtomicBool,
}

/// The rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    /// The offset of the first.
    pub(super) first: Offset,
    /// How many.
    pub(super) count: usize,
    /// All of them, joined.
    pub(super) bytes: &'a [u8],
}

/// The finished frame of all rows of a batch: a chunk (RFC 9112 §7.1).
#[derive(Debug)]
pub(super) struct ColumnFrame {
    columns: Arc<Columns>,
    bytes: Box<[u8]>,
    /// Where the chunk's content is.
    content: Range<usize>,
}

/// What happened when frames of columns were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnCounts {
    /// Frames made: one of a batch, and another if it was needed again after it was dropped.
    pub frames: u64,
    /// Values that could not be read as declared, once for each batch whose frame is made. They are null.
    pub unreadable: u64,
    /// How often the schema changed, because a batch came whose rows did not fit.
    pub changes: u64,
}

impl AddAssign for ColumnCounts {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.unreadable += other.unreadable;
        self.changes += other.changes;
    }
}

/// How a frame is made: what is in it is also the frame of [`Format::ARROW`].
const CHUNKED: Format = match Format::ARROW.chunked() {
    Some(chunked) => chunked,
    None => Format::ARROW,
};

/// After the content of a chunk.
const CHUNK_END: usize = "\r\n".len();

impl BatchColumns {
    /// The schema, if somebody has read the rows as columns.
    pub(super) fn schema(&self) -> Option<&Arc<Columns>> {
        self.schema.get()
    }

    /// The schema, found now if nobody has read the rows: `before` if they fit it, otherwise the least
    /// change of it.
    pub(super) fn schema_after(&self, before: Option<&Arc<Columns>>, rows: &[u8]) -> &Arc<Columns> {
        self.schema.get_or_init(|| match before {
            Some(before) => before.widened(rows).map_or_else(|| Arc::clone(before), Arc::new),
            None => Arc::new(Columns::infer(rows)),
        })
    }

    /// The frame of `rows`, and what happened. It is made now if no shard keeps it. Rows that nobody has
    /// read get their schema as by [`Self::schema_after`]. `None` if the frame would have more than `bytes_max`
    /// bytes: then it is not tried again.
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

    /// Says which schema the rows have, if nobody has read them: they have been read elsewhere.
    pub(super) fn adopt(&self, columns: &Arc<Columns>) {
        self.schema.get_or_init(|| Arc::clone(columns));
    }

    /// Whether its frame was too large to be kept.
    pub(super) fn is_frame_too_large(&self) -> bool {
        self.is_too_large.load(Relaxed)
    }

    /// Whether a shard keeps its frame.
    pub(super) fn is_frame_kept(&self) -> bool {
        self.lock().as_ref().is_some_and(|frame| frame.strong_count() > 0)
    }

    /// The frame, and how many values could not be read as declared; `None` if its cells alone are too large.
    fn make(
        &self,
        rows: Rows<'_>,
        before: Option<&Arc<Columns>>,
        bytes_max: usize,
    ) -> Option<(ColumnFrame, u64)> {
        // A few bytes of JSON may have very many cells: that is seen before memory is taken for them.
        let fits = |columns: &Arc<Columns>| columns.cell_bytes(rows.count) <= bytes_max;
        // Mostly rows fit what was before them, and are read only once.
        if let Some(columns) = self.schema().or(before).filter(|it| fits(it))
            && let Some(made) = ColumnFrame::of(columns, rows)
            && is_same(self.schema.get_or_init(|| Arc::clone(columns)), columns)
        {
            return Some(made);
        }
        let columns = self.schema_after(before, rows.bytes);
        if fits(columns) { ColumnFrame::of(columns, rows) } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Weak<ColumnFrame>>> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for BatchColumns {
    /// The same rows: their schema and their frame are those that this has now.
    fn clone(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            frame: Mutex::new(self.lock().clone()),
            is_too_large: self.is_frame_too_large().into(),
        }
    }
}

impl ColumnFrame {
    /// The frame of rows in a schema, and how many of their values could not be read as declared; `None`
    /// if they do not fit it.
    fn of(columns: &Arc<Columns>, rows: Rows<'_>) -> Option<(Self, u64)> {
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

    /// Its schema.
    pub(super) fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// Its bytes in a format of columns.
    pub(super) fn bytes(&self, format: Format) -> &[u8] {
        match format.transfer() {
            TransferCoding::Chunked => &self.bytes,
            TransferCoding::Identity => &self.bytes[self.content.clone()],
        }
    }

    /// The memory that it holds, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        // Its own allocation, and its place among those that are kept.
        const OVERHEAD: usize = size_of::<ColumnFrame>() + 64;
        self.bytes.len() + OVERHEAD
    }
}
