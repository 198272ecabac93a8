use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::Offset;

use super::{Batch, BatchBounds, Payloads};

/// Gathers events whose offsets follow from those of others into batches: a batch has consecutive ones.
#[derive(Debug)]
pub struct DerivedBatches {
    bounds: BatchBounds,
    /// Where the next batch starts: behind the one before it, or behind what is lost.
    start: Offset,
    /// The offset of the first open event.
    first: Offset,
    open: Payloads,
    /// When the open events were published, in ms since 1970.
    published_ms: i64,
    full: Vec<Batch>,
    /// What is lost behind the newest batch is not sealed yet.
    has_lost: bool,
    /// The columns of the events, if they may change.
    columns: Option<Arc<Columns>>,
    full_bytes: usize,
}

/// Rows that were published in the same so many ms share a batch.
const TOGETHER_MS: i64 = 1_000;

impl DerivedBatches {
    /// None yet.
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

    /// Nothing is missing from this offset on. What is before it is not known, if anything was made.
    pub fn begin(&mut self, offset: Offset) {
        self.start = self.start.max(offset);
    }

    /// Whether it is said what columns events have.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Events from here on have these columns.
    pub fn set_columns(&mut self, columns: Columns, now_us: u64) {
        self.seal_open(now_us);
        self.columns = Some(Arc::new(columns));
    }

    /// Appends an event that was published at this time, in ms since 1970. Offsets increase.
    pub fn push(&mut self, offset: Offset, event: &[u8], published_ms: i64, now_us: u64) {
        // All that share it have the same, wherever batches are cut.
        let published_ms = published_ms - published_ms.rem_euclid(TOGETHER_MS);
        let count = self.open.count();
        let bytes = self.open.joined().len() + event.len();
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

    /// What would have had this offset, and all that are not taken yet before it, is lost: it is not known what
    /// it was.
    pub fn lose(&mut self, offset: Offset, now_us: u64) {
        self.seal_open(now_us);
        self.start = self.start.max(offset + 1);
        self.has_lost = true;
    }

    /// Where the next batch starts: what is before that and in no batch is lost. Only behind [`Self::seal`].
    pub fn next_start(&self) -> Offset {
        self.start
    }

    /// Whether there is something to seal.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.full.is_empty() && !self.has_lost
    }

    /// Bytes of the events that are not sealed.
    pub fn unsealed_bytes(&self) -> usize {
        self.open.joined().len() + self.full_bytes
    }

    /// Takes all batches, sealed, in order.
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
        self.full_bytes += self.open.joined().len();
        let batch = Batch::seal(self.start, self.first, std::mem::take(&mut self.open), now_us)
            .published_at(self.published_ms);
        self.start = batch.end();
        if let Some(columns) = &self.columns {
            batch.adopt_columns(columns);
        }
        self.full.push(batch);
    }
}
