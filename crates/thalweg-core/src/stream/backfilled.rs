use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use thalweg_wire::Offset;

use super::{Batch, batch::Retained};

/// How long an unread page is kept, in µs: long enough for clients that reconnect together.
const UNREAD_US: u64 = 10_000_000;

/// Maximum number of holes kept, which is more than a page has. The oldest are dropped, like batches.
const HOLES_MAX: usize = 1024;

/// Batches from a broker that are older than the history.
#[derive(Debug, Default)]
pub(super) struct Backfilled {
    by_start: BTreeMap<Offset, CachedPage>,
    bytes: usize,
    /// The number of the newest read.
    reads: Cell<u64>,
    /// Offsets of lost events, and when the broker reported the loss, in µs, the oldest first.
    holes: VecDeque<(Range<Offset>, u64)>,
}

/// The batches of one backfill.
#[derive(Debug)]
struct CachedPage {
    /// The batches in order, at least one.
    batches: Vec<Retained>,
    bytes: usize,
    /// The number of the newest read of this page.
    last_read: Cell<u64>,
    /// The number of the newest read at the last sweep.
    swept_read: u64,
    /// When the page arrived, or a sweep last noticed a read, in µs.
    read_us: u64,
}

impl CachedPage {
    fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let after = self.batches.partition_point(|batch| batch.start() <= offset);
        let batch = &**self.batches.get(after.checked_sub(1)?)?;
        (offset < batch.end()).then_some(batch)
    }
}

impl Backfilled {
    /// Adds the batches of a page, which are in order.
    pub(super) fn insert(&mut self, batches: Vec<Batch>, now_us: u64) {
        let Some(start) = batches.first().map(Batch::start) else { return };
        let bytes = batches.iter().map(Batch::memory_bytes).sum();
        self.remove(start);
        let batches = batches.into_iter().map(|batch| Retained::new(Arc::new(batch))).collect();
        let last_read = Cell::new(self.count_read());
        let page = CachedPage { batches, bytes, last_read, swept_read: 0, read_us: now_us };
        self.bytes += bytes;
        self.by_start.insert(start, page);
    }

    /// Notes that the events in a range are lost.
    pub(super) fn insert_hole(&mut self, hole: Range<Offset>, now_us: u64) {
        self.holes.retain(|(other, _)| *other != hole);
        if self.holes.len() == HOLES_MAX {
            self.holes.pop_front();
        }
        self.holes.push_back((hole, now_us));
    }

    /// Returns the end of the hole that contains `offset`.
    pub(super) fn hole_end(&self, offset: Offset) -> Option<Offset> {
        let mut its = self.holes.iter().filter(|(hole, _)| hole.contains(&offset));
        its.next_back().map(|(hole, _)| hole.end)
    }

    pub(super) fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        // A page may begin within the last batch of the page before.
        let pages = self.by_start.range(..=offset).rev().take(2);
        let mut found = pages.filter_map(|(_, page)| Some((page, page.find(offset)?)));
        let (page, batch) = found.next()?;
        page.last_read.set(self.count_read());
        Some(batch)
    }

    /// Returns the first batch that begins after `offset`.
    pub(super) fn next_after(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let (_, page) = self.by_start.range(offset + 1..).next()?;
        page.batches.first().map(|batch| &**batch)
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        let is_old = |since_us: u64| now_us.saturating_sub(since_us) >= UNREAD_US;
        let bytes = &mut self.bytes;
        self.by_start.retain(|_, page| {
            if page.last_read.get() != page.swept_read {
                (page.swept_read, page.read_us) = (page.last_read.get(), now_us);
            }
            let is_kept = !is_old(page.read_us);
            *bytes -= if is_kept { 0 } else { page.bytes };
            is_kept
        });
        while self.holes.front().is_some_and(|(_, at_us)| is_old(*at_us)) {
            self.holes.pop_front();
        }
        if self.holes.is_empty() {
            self.holes = VecDeque::new();
        }
    }

    /// Drops the pages that were read least recently, until the others have at most `bytes_max` bytes or only one is left.
    pub(super) fn shrink_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.by_start.len() > 1 {
            let oldest = self.by_start.iter().min_by_key(|(_, page)| page.last_read.get());
            let Some((&start, _)) = oldest else { return };
            self.remove(start);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn count_read(&self) -> u64 {
        self.reads.set(self.reads.get() + 1);
        self.reads.get()
    }

    fn remove(&mut self, start: Offset) {
        if let Some(page) = self.by_start.remove(&start) {
            self.bytes -= page.bytes;
        }
    }
}
