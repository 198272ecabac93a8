use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::Offset;

use super::{Batch, BatchBounds, Payloads};

/// A collection of events whose offsets follow from the offsets of other events, as batches of consecutive offsets.
#[derive(Debug)]
pub struct DerivedBatches {
    bounds: BatchBounds,
    /// The start of the next batch: the end of the previous batch, or of a loss.
    start: Offset,
    first: Offset,
    open: Payloads,
    /// When the open events were published, in ms since 1970.
    published_ms: i64,
    full: Vec<Batch>,
    /// Whether a loss after the newest batch is not sealed yet.
    has_lost: bool,
    columns: Option<Arc<Columns>>,
    full_bytes: usize,
}

/// Rows published within the same period of this length, in ms, share a batch.
const TOGETHER_MS: i64 = 1_000;

impl DerivedBatches {
    /// Creates an empty collection.
    pub fn new(bounds: BatchBounds) -> Self {
        Self {
            bounds,
            start: 1,
            first: 1,
            open: Payloads::default(),
            published_ms: 0,
            full: Vec::new(),
            has_lost: false,
            columns: None,
            full_bytes: 0,
        }
    }

    /// Notes that all events from this offset on will follow, and that earlier ones are unknown.
    pub fn begin(&mut self, offset: Offset) {
        self.start = self.start.max(offset);
    }

    /// Returns whether the columns are set.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Sets the columns of later events.
    pub fn set_columns(&mut self, columns: Columns, now_us: u64) {
        self.seal_open(now_us);
        self.columns = Some(Arc::new(columns));
    }

    /// Appends an event that was published at this time, in ms since 1970. Offsets must increase.
    pub fn push(&mut self, offset: Offset, event: &[u8], published_ms: i64, now_us: u64) {
        self.append(offset, ("", event), published_ms, now_us);
    }

    /// Appends an event with a key, like [`Self::push`]. All events have keys, or none has.
    pub fn push_keyed(
        &mut self,
        offset: Offset,
        (key, event): (&str, &[u8]),
        published_ms: i64,
        now_us: u64,
    ) {
        self.append(offset, (key, event), published_ms, now_us);
        self.open.push_key(key);
    }

    fn append(
        &mut self,
        offset: Offset,
        (key, event): (&str, &[u8]),
        published_ms: i64,
        now_us: u64,
    ) {
        // Round, so that the time of a row does not depend on where batches end.
        let published_ms = published_ms - published_ms.rem_euclid(TOGETHER_MS);
        let count = self.open.count();
        let bytes = self.open.joined_bytes() + key.len() + event.len();
        let fits = count < self.bounds.events_max && bytes <= self.bounds.bytes_max;
        let is_next = offset == self.first + count as Offset && published_ms == self.published_ms;
        if count > 0 && !(is_next && fits) {
            self.seal_open(now_us);
        }
        if self.open.is_empty() {
            self.first = offset;
            self.published_ms = published_ms;
        }
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(event);
            Ok::<_, std::convert::Infallible>(())
        };
        // This cannot fail.
        let _ = self.open.push(write);
    }

    /// Notes that the events up to this offset that were not pushed are lost.
    pub fn lose(&mut self, offset: Offset, now_us: u64) {
        self.seal_open(now_us);
        self.start = self.start.max(offset + 1);
        self.has_lost = true;
    }

    /// Returns the start of the next batch. Offsets before it that are in no batch are lost. Call this method after [`Self::seal`].
    pub fn next_start(&self) -> Offset {
        self.start
    }

    /// Returns whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.full.is_empty() && !self.has_lost
    }

    /// Returns the bytes of the events that [`Self::seal`] has not taken.
    pub fn unsealed_bytes(&self) -> usize {
        self.open.joined_bytes() + self.full_bytes
    }

    /// Seals and takes all batches, in order.
    pub fn seal(&mut self, now_us: u64) -> Vec<Batch> {
        self.seal_open(now_us);
        self.full_bytes = 0;
        self.has_lost = false;
        std::mem::take(&mut self.full)
    }

    fn seal_open(&mut self, now_us: u64) {
        if self.open.is_empty() {
            return;
        }
        self.full_bytes += self.open.joined_bytes();
        let batch = Batch::seal(self.start, self.first, std::mem::take(&mut self.open), now_us)
            .published_at(self.published_ms);
        self.start = batch.end();
        if let Some(columns) = &self.columns {
            batch.adopt_columns(columns);
        }
        self.full.push(batch);
    }
}
