use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use thalweg_wire::Offset;

use super::{Batch, batch::Retained};

/// The memory of one topic's backfills, in bytes: a few pages. Above this the oldest are dropped, and readers that
/// need them request them again.
const TOPIC_BYTES_MAX: usize = 4 << 20;

/// How long a backfilled batch stays, in µs: long enough for clients that reconnect together.
const BACKFILLED_US: u64 = 10_000_000;

/// The number of holes kept, which is more than a page has. The oldest are dropped, as batches are.
const HOLES_MAX: usize = 1024;

/// Batches older than the history that came from a broker.
#[derive(Debug, Default)]
pub(super) struct Backfilled {
    by_start: BTreeMap<Offset, Retained>,
    /// The batches' starts and the times at which they came, in µs, the oldest first. Some may be gone.
    order: VecDeque<(Offset, u64)>,
    bytes: usize,
    /// Offsets of lost events, and the times at which the broker said so, in µs, the oldest first.
    holes: VecDeque<(Range<Offset>, u64)>,
}

impl Backfilled {
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

    /// Notes that the events of a range are lost.
    pub(super) fn insert_hole(&mut self, hole: Range<Offset>, now_us: u64) {
        self.holes.retain(|(other, _)| *other != hole);
        if self.holes.len() == HOLES_MAX {
            self.holes.pop_front();
        }
        self.holes.push_back((hole, now_us));
    }

    /// Returns the end of the hole that has `offset`.
    pub(super) fn hole_end(&self, offset: Offset) -> Option<Offset> {
        let mut its = self.holes.iter().filter(|(hole, _)| hole.contains(&offset));
        its.next_back().map(|(hole, _)| hole.end)
    }

    pub(super) fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let (_, batch) = self.by_start.range(..=offset).next_back()?;
        (offset < batch.end()).then_some(&**batch)
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        let is_old = |since_us: u64| now_us.saturating_sub(since_us) >= BACKFILLED_US;
        while let Some((start, _)) = self.order.front().copied().filter(|(_, at_us)| is_old(*at_us))
        {
            self.order.pop_front();
            self.remove(start);
        }
        while self.holes.front().is_some_and(|(_, at_us)| is_old(*at_us)) {
            self.holes.pop_front();
        }
        if self.holes.is_empty() {
            self.holes = VecDeque::new();
        }
    }

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
