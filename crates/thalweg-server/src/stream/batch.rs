use std::{
    ops::{Deref, Range},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use thalweg_wire::{Envelope, Epoch, Format, Offset, Topic};

use super::{Payloads, VersionPatch};
use crate::patch::{self, Budget};

/// Sealed consecutive events: never changed again, shared by all shards.
#[derive(Debug)]
pub struct Batch {
    first: Offset,
    bytes: Box<[u8]>,
    /// The end of each event in `bytes`, before its comma.
    ends: Box<[u32]>,
    sealed_us: u64,
    /// Number of feeds that retain it.
    retained: AtomicU32,
    /// What makes its last event of the version before it, made once for all shards; `None` if
    /// that is no use.
    patch: OnceLock<Option<Arc<VersionPatch>>>,
}

impl Batch {
    pub(super) fn seal(first: Offset, payloads: Payloads, now_us: u64) -> Self {
        let (bytes, ends) = payloads.into_parts();
        Self {
            first,
            bytes,
            ends,
            sealed_us: now_us,
            retained: AtomicU32::new(0),
            patch: OnceLock::new(),
        }
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

    /// The range of these events in [`Self::joined`]. At least one of them is in the batch.
    pub(super) fn range_of(&self, offsets: Range<Offset>) -> Range<usize> {
        let last = (offsets.end - 1 - self.first) as usize;
        self.start_of_event(offsets.start)..self.ends[last] as usize
    }

    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1)
    }

    /// Appends the frame that carries the events from `from` to the last.
    /// The same arguments always give the same bytes: a frame partly sent can
    /// be made again and finished.
    pub(super) fn write_frame(
        &self,
        from: Offset,
        topic: &Topic,
        epoch: Epoch,
        format: Format,
        out: &mut Vec<u8>,
    ) {
        format.batch(&self.envelope(from, topic, epoch), out);
    }

    /// The envelope with the events from `from` to the last.
    pub(super) fn envelope<'a>(
        &'a self,
        from: Offset,
        topic: &'a Topic,
        epoch: Epoch,
    ) -> Envelope<'a> {
        let events = &self.bytes[self.start_of_event(from)..];
        Envelope {
            topic,
            epoch,
            first: from,
            last: self.end() - 1,
            offsets: None,
            version: None,
            events,
        }
    }

    fn start_of_event(&self, offset: Offset) -> usize {
        self.start_of((offset - self.first) as usize)
    }

    /// Its events from `from` on, each in bytes.
    pub fn events_from(&self, from: Offset) -> impl Iterator<Item = &[u8]> {
        let index = from.saturating_sub(self.first) as usize;
        (index..self.count()).map(|at| &self.bytes[self.start_of(at)..self.ends[at] as usize])
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
            let (previous, offset) = (self.first - 1, self.end() - 1);
            Some(Arc::new(VersionPatch { previous, offset, operations: made.ok()?.into() }))
        });
        is_made
    }

    /// Bytes of its events from `from` on.
    pub fn event_bytes(&self, from: Offset) -> usize {
        self.bytes.len() - self.start_of_event(from)
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
