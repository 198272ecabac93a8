use std::{
    ops::{Deref, Range},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use thalweg_columns::Columns;
use thalweg_wire::{Before, Envelope, Epoch, Keyed as Keys, Offset, Topic};

use super::{
    ColumnCounts, Encoding, Payloads, VersionPatch,
    batch_columns::{BatchColumns, ColumnFrame, Rows},
    keyed_event::{BatchKeys, KeyedEvent},
};
use crate::patch::{self, PatchBudget};

/// Sealed events with consecutive offsets. A batch never changes, and all shards share it. A batch covers all
/// offsets after those of the previous batch. If offsets are sparse, the first offsets of a batch may have no
/// events: a frame from such an offset has the same events as a frame from [`Self::first`].
#[derive(Debug)]
pub struct Batch {
    start: Offset,
    first: Offset,
    bytes: Box<[u8]>,
    /// The end of each event in `bytes`, before its comma.
    ends: Box<[u32]>,
    sealed_us: u64,
    /// How long the oldest event waited before the batch was sealed, in µs.
    waited_us: u32,
    /// The time of publishing in ms since 1970, if known. All servers have the same time.
    published_ms: Option<i64>,
    /// The number of feeds that retain the batch.
    retained: AtomicU32,
    /// The patch from the previous version to the last event, made once for all shards. `None` if a patch
    /// would not help.
    patch: OnceLock<Option<Arc<VersionPatch>>>,
    columns: BatchColumns,
    keyed: Option<Arc<BatchKeys>>,
}

impl Batch {
    /// Seals one or more events. In their stream, they come after the offset `start` − 1. The first event has
    /// the offset `first`, which is `start` or later.
    pub fn seal(start: Offset, first: Offset, payloads: Payloads, now_us: u64) -> Self {
        let published_ms = payloads.published_ms();
        let (bytes, ends, keys) = payloads.into_parts();
        let mut batch = Self {
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
            keyed: None,
        };
        batch.keyed = keys.map(|keys| {
            let events = (0..).zip(batch.events_from(first));
            let shared = events.map(|(at, event)| {
                Arc::new(KeyedEvent::new(first + at as Offset, keys.get(at), event))
            });
            Arc::new(BatchKeys { events: shared.collect(), keys: *keys })
        });
        batch
    }

    /// Seals consecutive messages of a stream, each with the offset of its first event. Each batch
    /// covers the offsets after the previous batch; the first batch begins at `start`.
    pub fn seal_messages(
        start: Offset,
        messages: impl IntoIterator<Item = (Offset, Payloads)>,
        now_us: u64,
    ) -> impl Iterator<Item = Self> {
        messages.into_iter().scan(start, move |start, (first, payloads)| {
            // The first message may begin before the requested offset.
            let batch = Self::seal((*start).min(first), first, payloads, now_us);
            *start = batch.end();
            Some(batch)
        })
    }

    /// Returns a copy that covers the offsets from `start` on.
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
            keyed: self.keyed.clone(),
        }
    }

    /// Returns the offset after the last event of the previous batch.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// Returns the offset of the first event.
    pub fn first(&self) -> Offset {
        self.first
    }

    /// Returns the offset after the last event.
    pub fn end(&self) -> Offset {
        self.first + self.ends.len() as Offset
    }

    /// Returns the number of events.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns when the batch was sealed, in µs of the sealing shard's clock.
    pub fn sealed_us(&self) -> u64 {
        self.sealed_us
    }

    pub(super) fn opened_at(self, opened_us: u64) -> Self {
        let waited_us = self.sealed_us.saturating_sub(opened_us);
        Self { waited_us: u32::try_from(waited_us).unwrap_or(u32::MAX), ..self }
    }

    /// Returns when the oldest event was published, in µs of the sealing shard's clock.
    pub fn published_us(&self) -> u64 {
        self.sealed_us.saturating_sub(self.waited_us.into())
    }

    /// Sets when the events were published, in ms since 1970.
    pub fn published_at(self, unix_ms: i64) -> Self {
        Self { published_ms: Some(unix_ms), ..self }
    }

    /// Returns when the events were published, if known: in ms since 1970, by the clock of the machine that
    /// assigned their offsets.
    pub fn published_ms(&self) -> Option<i64> {
        self.published_ms
    }

    /// Returns the memory of the batch, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The allocation's header and the pointer in the history.
        const OVERHEAD: usize = size_of::<Batch>() + 64;
        let keyed = self.keyed.as_ref().map_or(0, |keyed| keyed.memory_bytes());
        self.bytes.len() + self.ends.len() * size_of::<u32>() + keyed + OVERHEAD
    }

    pub(super) fn is_retained(&self) -> bool {
        self.retained.load(Relaxed) > 0
    }

    pub(super) fn joined(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns where the events with these indices, at least one, are in [`Self::joined`].
    pub(super) fn range_of(&self, indices: Range<usize>) -> Range<usize> {
        self.start_of(indices.start)..self.ends[indices.end - 1] as usize
    }

    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1)
    }

    /// Returns the index of the first event at or after `from`.
    pub(super) fn index_of(&self, from: Offset) -> usize {
        from.saturating_sub(self.first) as usize
    }

    /// Appends the frame with the events from `from` on. The same arguments always give the same bytes, so
    /// the rest of a partly sent frame can be made later.
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

    /// Returns the envelope with the events from `from` on.
    pub fn envelope<'a>(&'a self, from: Offset, topic: &'a Topic, epoch: Epoch) -> Envelope<'a> {
        self.envelope_until(from, self.end(), topic, epoch)
    }

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
            keyed: self.keys_of(self.index_of(from)..self.index_of(end)),
            events,
        }
    }

    fn keys_of(&self, indices: Range<usize>) -> Option<Keys<'_>> {
        let BatchKeys { keys, .. } = &**self.keyed.as_ref()?;
        Some(Keys { keys: &keys.joined()[keys.range_of(indices)], until: None })
    }

    pub(super) fn before(&self, from: Offset) -> Before {
        // The result must not depend on the batch's start: a copy with another start must give the same frame.
        before(from, self.first)
    }

    /// Returns the events from `from` on.
    pub fn events_from(&self, from: Offset) -> impl Iterator<Item = &[u8]> {
        (self.index_of(from)..self.count())
            .map(|at| &self.bytes[self.start_of(at)..self.ends[at] as usize])
    }

    /// Returns the events with their keys. Empty if they have none.
    pub fn keyed_events(&self) -> &[Arc<KeyedEvent>] {
        self.keyed.as_ref().map_or(&[], |keyed| &keyed.events)
    }

    /// Returns the last event.
    pub fn last_event(&self) -> &[u8] {
        &self.bytes[self.start_of(self.count() - 1)..]
    }

    /// Returns the patch from the previous version to the last event, if there is one.
    pub fn patch(&self) -> Option<&Arc<VersionPatch>> {
        self.patch.get()?.as_ref()
    }

    /// Makes the patch from the previous version, whose document is `before`, unless another shard has tried.
    /// Returns whether the patch was made, or `None` if another shard has tried.
    pub(super) fn make_patch(&self, before: &[u8], is_over: impl FnMut() -> bool) -> Option<bool> {
        let mut is_made = None;
        self.patch.get_or_init(|| {
            let after = self.last_event();
            let made = patch::between(before, after, PatchBudget::new(after.len(), is_over));
            is_made = Some(made.is_ok());
            let (previous, offset) = (self.start - 1, self.end() - 1);
            Some(Arc::new(VersionPatch { previous, offset, operations: made.ok()?.into() }))
        });
        is_made
    }

    /// Returns the schema of the rows, if a reader has read them as columns.
    pub fn columns(&self) -> Option<&Arc<Columns>> {
        self.columns.schema()
    }

    pub(super) fn columns_after(&self, before: Option<&Arc<Columns>>) -> &Arc<Columns> {
        self.columns.schema_after(before, &self.bytes)
    }

    pub(super) fn column_frame(
        &self,
        before: Option<&Arc<Columns>>,
        bytes_max: usize,
    ) -> (Option<Arc<ColumnFrame>>, ColumnCounts) {
        let rows = Rows { first: self.first, count: self.count(), bytes: &self.bytes };
        self.columns.frame(rows, before, bytes_max)
    }

    pub(super) fn adopt_columns(&self, columns: &Arc<Columns>) {
        self.columns.adopt(columns);
    }

    /// Returns whether the frame of the rows as columns was too large to be kept.
    pub fn is_column_frame_too_large(&self) -> bool {
        self.columns.is_frame_too_large()
    }

    /// Returns whether a shard keeps the frame of the rows as columns.
    pub fn is_column_frame_kept(&self) -> bool {
        self.columns.is_frame_kept()
    }

    /// Returns the end of the longest run of events from `from` on that has at most `bytes_max` bytes, both
    /// as JSON and as cells of `columns`. The run has at least one event.
    pub(super) fn part_end(&self, from: Offset, columns: &Columns, bytes_max: usize) -> Offset {
        let index = self.index_of(from);
        let start = self.start_of(index);
        let fitting = self.ends[index..].partition_point(|end| *end as usize - start <= bytes_max);
        let count = fitting.min(bytes_max / columns.cell_bytes(1)).max(1);
        self.first + (index + count) as Offset
    }

    /// Returns the number of bytes of the events from `from` on.
    pub fn event_bytes(&self, from: Offset) -> usize {
        self.bytes.len() - self.start_of(self.index_of(from))
    }
}

/// Returns the link to the event before a frame whose first event is `first`, for readers at `from`.
pub(super) fn before(from: Offset, first: Offset) -> Before {
    match from < first {
        true => Before::Event(from.saturating_sub(1)),
        false => Before::Adjacent,
    }
}

/// A batch that a feed retains. The batch counts the feeds that retain it.
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
