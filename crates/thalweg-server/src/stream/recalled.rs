use std::{collections::BTreeMap, sync::Arc};

use thalweg_wire::Offset;

use super::{Batch, batch::Retained};

/// Memory of what one topic has been read back, in bytes: a few pages. Above this the oldest go,
/// and whoever still needs them has them read again.
const RECALLED_BYTES_MAX: usize = 4 << 20;

/// How long a batch that was read back stays, in µs: long enough for all who came back together.
const RECALLED_US: u64 = 10_000_000;

/// Batches older than the history that were read back from where they are stored.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    by_start: BTreeMap<Offset, Entry>,
    bytes: usize,
    /// Numbers the batches in the order in which they came.
    count: u64,
}

#[derive(Debug)]
struct Entry {
    batch: Retained,
    number: u64,
    since_us: u64,
}

impl Recalled {
    pub(super) fn insert(&mut self, batch: Batch, now_us: u64) {
        self.count += 1;
        self.bytes += batch.memory_bytes();
        let start = batch.start();
        let batch = Retained::new(Arc::new(batch));
        let entry = Entry { batch, number: self.count, since_us: now_us };
        if let Some(before) = self.by_start.insert(start, entry) {
            self.bytes -= before.batch.memory_bytes();
        }
    }

    /// Keeps within bounds; call it when a page is complete.
    pub(super) fn trim(&mut self) {
        while self.bytes > RECALLED_BYTES_MAX && self.by_start.len() > 1 {
            let oldest = self.by_start.iter().min_by_key(|(_, entry)| entry.number);
            let Some(start) = oldest.map(|(start, _)| *start) else { return };
            self.remove(start);
        }
    }

    /// The batch that stands for `offset`.
    pub(super) fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let (_, entry) = self.by_start.range(..=offset).next_back()?;
        (offset < entry.batch.end()).then_some(&*entry.batch)
    }

    /// Forgets what is older than all who came back together need.
    pub(super) fn sweep(&mut self, now_us: u64) {
        let is_old = |entry: &Entry| now_us.saturating_sub(entry.since_us) >= RECALLED_US;
        let old = self.by_start.iter().filter(|(_, entry)| is_old(entry));
        let old: Vec<Offset> = old.map(|(start, _)| *start).collect();
        old.into_iter().for_each(|start| self.remove(start));
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.by_start.clear();
        self.bytes = 0;
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, start: Offset) {
        if let Some(entry) = self.by_start.remove(&start) {
            self.bytes -= entry.batch.memory_bytes();
        }
    }
}
