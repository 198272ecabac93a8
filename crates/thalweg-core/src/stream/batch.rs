use std::{
    ops::{Deref, Range},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use thalweg_columns::Columns;
use thalweg_wire::{Before, Envelope, Epoch, Offset, Topic};

use super::{
    ColumnCounts, Encoding, Payloads, VersionPatch,
    batch_columns::{BatchColumns, ColumnFrame, Rows},
};
use crate::patch::{self, Budget};

/// Sealed events of consecutive offsets: never changed again, shared by all shards.
///
/// A batch stands for all offsets after those of the batch before. The first of them may never
/// have been given: a frame from one of these has the same events as one from [`Self::first`].
#[derive(Debug)]
pub struct Batch {
    start: Offset,
    first: Offset,
    bytes: Box<[u8]>,
    /// The end of each event in `bytes`, before its comma.
    ends: Box<[u32]>,
    sealed_us: u64,
    /// How long before its oldest event was published, in µs.
    waited_us: u32,
    /// When its events were published, in ms since 1970, if that is known: the same for whoever has them.
    published_ms: Option<i64>,
    /// Number of feeds that retain it.
    retained: AtomicU32,
    /// What makes its last event of the version before it, made once for all shards; `None` if
    /// that is no use.
    patch: OnceLock<Option<Arc<VersionPatch>>>,
    columns: BatchColumns,
}

impl Batch {
    /// Events that follow `start` − 1 in their stream. The first of them is `first`, which is
    /// not less than `start`; there is at least one.
    pub fn seal(start: Offset, first: Offset, payloads: Payloads, now_us: u64) -> Self {
        let published_ms = payloads.published_ms();
        let (bytes, ends) = payloads.into_parts();
        Self {
            start,
            first,
            bytes,
            ends,
            sealed_us: now_us,
            waited_us: 0,
            published_ms,
            retained: AtomicU32::new(0),
            patch: OnceLock::new(),
            columns: BatchColumns::default(),
        }
    }

    /// Messages that follow each other in their stream, with the offset of their first event. Each
    /// stands for all offsets since the one before, the first for those from `start` on.
    pub fn seal_messages(
        start: Offset,
        messages: impl IntoIterator<Item = (Offset, Payloads)>,
        now_us: u64,
    ) -> impl Iterator<Item = Self> {
        messages.into_iter().scan(start, move |start, (first, payloads)| {
            // The first message may begin before what was asked for.
            let batch = Self::seal((*start).min(first), first, payloads, now_us);
            *start = batch.end();
            Some(batch)
        })
    }

    /// The same events, after others.
    pub fn starting_at(&self, start: Offset) -> Self {
        Self {
            start,
            first: self.first,
            bytes: self.bytes.clone(),
            ends: self.ends.clone(),
            sealed_us: self.sealed_us,
            waited_us: self.waited_us,
            published_ms: self.published_ms,
            retained: AtomicU32::new(0),
            patch: OnceLock::new(),
            columns: self.columns.clone(),
        }
    }

    /// One past the last event of the batch before.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// Offset of the first event.
    pub fn first(&self) -> Offset {
        self.first
    }

    /// Offset one past the last event.
    pub fn end(&self) -> Offset {
        self.first + self.ends.len() as Offset
    }

    /// How many events.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// When it was sealed, in µs of the clock that appended it.
    pub fn sealed_us(&self) -> u64 {
        self.sealed_us
    }

    /// The same, of events that waited to be sealed since the first of them was appended.
    pub(super) fn opened_at(self, opened_us: u64) -> Self {
        let waited_us = self.sealed_us.saturating_sub(opened_us);
        Self { waited_us: u32::try_from(waited_us).unwrap_or(u32::MAX), ..self }
    }

    /// When its oldest event was published, in µs of the same clock.
    pub fn published_us(&self) -> u64 {
        self.sealed_us.saturating_sub(self.waited_us.into())
    }

    /// The same, whose events were published at this time, in ms since 1970.
    pub fn published_at(self, unix_ms: i64) -> Self {
        Self { published_ms: Some(unix_ms), ..self }
    }

    /// When its events were published, in ms since 1970, if that is known: by the clock of whoever gave them their offsets, so
    /// that it is the same for all who have them.
    pub fn published_ms(&self) -> Option<i64> {
        self.published_ms
    }

    /// The memory it holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The allocation's own header and the pointer in the history.
        const OVERHEAD: usize = size_of::<Batch>() + 64;
        self.bytes.len() + self.ends.len() * size_of::<u32>() + OVERHEAD
    }

    /// Whether a feed retains it.
    pub(super) fn is_retained(&self) -> bool {
        self.retained.load(Relaxed) > 0
    }

    /// All its events, joined.
    pub(super) fn joined(&self) -> &[u8] {
        &self.bytes
    }

    /// Where these events are in [`Self::joined`]: a range of their indices that is not empty.
    pub(super) fn range_of(&self, indices: Range<usize>) -> Range<usize> {
        self.start_of(indices.start)..self.ends[indices.end - 1] as usize
    }

    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1)
    }

    /// Index of the first event that is not before `from`.
    pub(super) fn index_of(&self, from: Offset) -> usize {
        from.saturating_sub(self.first) as usize
    }

    /// Appends the frame that carries the events from `from` to the last.
    /// The same arguments always give the same bytes: a frame partly sent can
    /// be made again and finished.
    pub(super) fn write_frame(
        &self,
        from: Offset,
        topic: &Topic,
        epoch: Epoch,
        encoding: Encoding<'_>,
        out: &mut Vec<u8>,
    ) {
        encoding.batch(&self.envelope(from, topic, epoch), out);
    }

    /// The envelope with the events from `from` to the last.
    pub(super) fn envelope<'a>(
        &'a self,
        from: Offset,
        topic: &'a Topic,
        epoch: Epoch,
    ) -> Envelope<'a> {
        self.envelope_until(from, self.end(), topic, epoch)
    }

    /// The envelope with the events from `from` to the one before `end`; there must be one.
    pub(super) fn envelope_until<'a>(
        &'a self,
        from: Offset,
        end: Offset,
        topic: &'a Topic,
        epoch: Epoch,
    ) -> Envelope<'a> {
        let events = &self.bytes[self.range_of(self.index_of(from)..self.index_of(end))];
        Envelope {
            topic,
            epoch,
            first: from.max(self.first),
            last: end - 1,
            before: self.before(from),
            offsets: None,
            events,
        }
    }

    /// What comes before the first event that is not before `from`.
    pub(super) fn before(&self, from: Offset) -> Before {
        // It does not depend on where this batch starts: a frame that was begun from another copy of
        // it, with another start, is to be the same.
        match from < self.first {
            true => Before::Event(from.saturating_sub(1)),
            false => Before::Adjacent,
        }
    }

    /// Its events from `from` on, each in bytes.
    pub fn events_from(&self, from: Offset) -> impl Iterator<Item = &[u8]> {
        (self.index_of(from)..self.count())
            .map(|at| &self.bytes[self.start_of(at)..self.ends[at] as usize])
    }

    /// Its last event.
    pub fn last_event(&self) -> &[u8] {
        &self.bytes[self.start_of(self.count() - 1)..]
    }

    /// The patch that makes its last event of the version before, if one was made.
    pub fn patch(&self) -> Option<&Arc<VersionPatch>> {
        self.patch.get()?.as_ref()
    }

    /// Makes the patch from the version just before this batch, whose document is `before`, unless
    /// another shard has tried. Returns whether it was made here; `None` if it was not tried here.
    pub(super) fn make_patch(&self, before: &[u8], is_over: impl FnMut() -> bool) -> Option<bool> {
        let mut is_made = None;
        self.patch.get_or_init(|| {
            let after = self.last_event();
            let made = patch::between(before, after, Budget::new(after.len(), is_over));
            is_made = Some(made.is_ok());
            let (previous, offset) = (self.start - 1, self.end() - 1);
            Some(Arc::new(VersionPatch { previous, offset, operations: made.ok()?.into() }))
        });
        is_made
    }

    /// The schema of its rows, if somebody has read them as columns.
    pub fn columns(&self) -> Option<&Arc<Columns>> {
        self.columns.schema()
    }

    /// As [`BatchColumns::schema_after`].
    pub(super) fn columns_after(&self, before: Option<&Arc<Columns>>) -> &Arc<Columns> {
        self.columns.schema_after(before, &self.bytes)
    }

    /// As [`BatchColumns::frame`].
    pub(super) fn column_frame(
        &self,
        before: Option<&Arc<Columns>>,
        bytes_max: usize,
    ) -> (Option<Arc<ColumnFrame>>, ColumnCounts) {
        let rows = Rows { first: self.first, count: self.count(), bytes: &self.bytes };
        self.columns.frame(rows, before, bytes_max)
    }

    /// As [`BatchColumns::adopt`].
    pub(super) fn adopt_columns(&self, columns: &Arc<Columns>) {
        self.columns.adopt(columns);
    }

    /// Whether the frame of its rows as columns was too large to be kept.
    pub fn is_column_frame_too_large(&self) -> bool {
        self.columns.is_frame_too_large()
    }

    /// Whether some shard keeps the frame of its rows as columns.
    pub fn is_column_frame_kept(&self) -> bool {
        self.columns.is_frame_kept()
    }

    /// One past the last of the events from `from` on that have `bytes_max` bytes together, both as they
    /// are and as cells of `columns`; at least one event.
    pub(super) fn part_end(&self, from: Offset, columns: &Columns, bytes_max: usize) -> Offset {
        let index = self.index_of(from);
        let start = self.start_of(index);
        let fitting = self.ends[index..].partition_point(|end| *end as usize - start <= bytes_max);
        let count = fitting.min(bytes_max / columns.cell_bytes(1)).max(1);
        self.first + (index + count) as Offset
    }

    /// Bytes of its events from `from` on.
    pub fn event_bytes(&self, from: Offset) -> usize {
        self.bytes.len() - self.start_of(self.index_of(from))
    }
}

/// A batch that a feed retains. The batch counts how many do.
#[derive(Debug)]
pub(super) struct Retained(Arc<Batch>);

impl Retained {
    pub(super) fn new(batch: Arc<Batch>) -> Self {
        batch.retained.fetch_add(1, Relaxed);
        Self(batch)
    }
}

impl Deref for Retained {
    type Target = Arc<Batch>;

    fn deref(&self) -> &Arc<Batch> {
        &self.0
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.0.retained.fetch_sub(1, Relaxed);
    }
}
