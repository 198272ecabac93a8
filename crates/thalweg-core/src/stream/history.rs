use std::{collections::VecDeque, sync::Arc};

use thalweg_wire::Offset;

use super::{Batch, batch::Retained};

/// The bounds of a stream's history. The bound that is reached first applies. The newest batch stays unless
/// it is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Maximum number of events.
    pub events_max: usize,
    /// Maximum memory, in bytes.
    pub bytes_max: usize,
    /// The maximum age of a batch, in µs.
    pub age_us_max: u64,
}

/// The newest batches of a log, in order.
#[derive(Debug)]
pub(super) struct History {
    bounds: HistoryBounds,
    batches: VecDeque<Retained>,
    events: usize,
    bytes: usize,
    whole_from: Offset,
}

impl History {
    pub(super) fn new(bounds: HistoryBounds, next: Offset) -> Self {
        Self { bounds, batches: VecDeque::new(), events: 0, bytes: 0, whole_from: next }
    }

    /// Returns the offset from which on no pushed batch is missing: a later offset without a batch was never
    /// pushed.
    pub(super) fn whole_from(&self) -> Offset {
        self.whole_from
    }

    pub(super) fn events(&self) -> usize {
        self.events
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bounds.bytes_max
    }

    pub(super) fn oldest(&self) -> Option<&Arc<Batch>> {
        self.batches.front().map(|batch| &**batch)
    }

    pub(super) fn middle(&self) -> Option<&Arc<Batch>> {
        self.batches.get(self.batches.len() / 2).map(|batch| &**batch)
    }

    pub(super) fn newest(&self) -> Option<&Arc<Batch>> {
        self.batches.back().map(|batch| &**batch)
    }

    pub(super) fn past(&self, offset: Offset) -> impl DoubleEndedIterator<Item = &Arc<Batch>> {
        self.batches.range(self.index_past(offset)..).map(|batch| &**batch)
    }

    pub(super) fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let is_its = |batch: &&Retained| batch.start() <= offset;
        let batch = self.batches.get(self.index_past(offset)).filter(is_its);
        batch.map(|batch| &**batch)
    }

    /// Estimates how many events there are from `from` on, by the average number of events in a batch.
    pub(super) fn about_events_from(&self, from: Offset) -> u64 {
        let batches = self.batches.len() - self.index_past(from);
        (self.events * batches).div_ceil(self.batches.len().max(1)) as u64
    }

    /// Returns the offset of the oldest of the `count` newest events, or of the oldest event. `None` if there is none.
    pub(super) fn newest_from(&self, count: usize) -> Option<Offset> {
        let mut left = count;
        for batch in self.batches.iter().rev() {
            match left.checked_sub(batch.count()) {
                None | Some(0) => return Some(batch.end() - left as Offset),
                Some(others) => left = others,
            }
        }
        self.oldest().map(|batch| batch.first())
    }

    /// Appends a batch, and drops the oldest ones that exceed the bounds.
    pub(super) fn push(&mut self, batch: Arc<Batch>) {
        self.events += batch.count();
        self.bytes += batch.memory_bytes();
        self.batches.push_back(Retained::new(batch));
        while self.batches.len() > 1
            && (self.events > self.bounds.events_max || self.bytes > self.bounds.bytes_max)
        {
            self.drop_oldest();
        }
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        let oldest_us = now_us.saturating_sub(self.bounds.age_us_max);
        while self.batches.front().is_some_and(|batch| batch.sealed_us() < oldest_us) {
            self.drop_oldest();
        }
    }

    pub(super) fn trim_bytes(&mut self, bytes: usize) -> usize {
        let before = self.bytes;
        while self.batches.len() > 1 && before - self.bytes < bytes {
            self.drop_oldest();
        }
        before - self.bytes
    }

    pub(super) fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        let before = self.bytes;
        while before - self.bytes < bytes
            && self.batches.front().is_some_and(|batch| batch.sealed_us() < now_us)
        {
            self.drop_oldest();
        }
        before - self.bytes
    }

    /// Returns the index of the first batch that ends after `offset`. Nearly every reader is near the newest batch, and each
    /// access may miss the cache. Therefore the search goes back from the newest batch in doubling steps, then bisects.
    fn index_past(&self, offset: Offset) -> usize {
        let ends_past = |index: usize| self.batches[index].end() > offset;
        let (mut low, mut high, mut step) = (0, self.batches.len(), 1);
        while low < high {
            let index = high.saturating_sub(step).max(low);
            if !ends_past(index) {
                low = index + 1;
                break;
            }
            (high, step) = (index, step * 2);
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if ends_past(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    fn drop_oldest(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.events -= batch.count();
            self.bytes -= batch.memory_bytes();
            self.whole_from = batch.end();
        }
    }
}
