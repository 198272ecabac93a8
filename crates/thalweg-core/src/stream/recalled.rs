use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use thalweg_wire::Offset;

use super::{Batch, batch::Retained};

/// Memory of what one topic has been read back, in bytes: a few pages. Above this the oldest go,
/// and whoever still needs them has them read again.
const TOPIC_BYTES_MAX: usize = 4 << 20;

/// How long a batch that was read back stays, in µs: long enough for all who came back together.
const RECALLED_US: u64 = 10_000_000;

/// Batches older than the history that were read back from where they are stored.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    by_start: BTreeMap<Offset, Retained>,
    /// Where they start, and when they came, in µs, in the order in which they came. Some may be gone.
    order: VecDeque<(Offset, u64)>,
    bytes: usize,
}

impl Recalled {
    /// Makes room for so many bytes: what came first goes.
    pub(super) fn make_room(&mut self, bytes: usize) {
        while self.bytes > 0 && self.bytes + bytes > TOPIC_BYTES_MAX {
            let Some((start, _)) = self.order.pop_front() else { return };
            self.remove(start);
        }
    }

    pub(super) fn insert(&mut self, batch: Batch, now_us: u64) {
        self.bytes += batch.memory_bytes();
        let start = batch.start();
        self.remove(start);
        self.by_start.insert(start, Retained::new(Arc::new(batch)));
        self.order.push_back((start, now_us));
    }

    /// The batch that stands for `offset`.
    pub(super) fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let (_, batch) = self.by_start.range(..=offset).next_back()?;
        (offset < batch.end()).then_some(&**batch)
    }

    /// Forgets what is older than all who came back together need.
    pub(super) fn sweep(&mut self, now_us: u64) {
        let is_old = |since_us: u64| now_us.saturating_sub(since_us) >= RECALLED_US;
        while let Some((start, _)) = self.order.front().copied().filter(|(_, at_us)| is_old(*at_us))
        {
            self.order.pop_front();
            self.remove(start);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, start: Offset) {
        if let Some(batch) = self.by_start.remove(&start) {
            self.bytes -= batch.memory_bytes();
        }
    }
}
