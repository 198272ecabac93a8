//! Metrics of the log.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The upper bounds of the buckets of fsync latencies, in µs.
const SYNC_US_BOUNDS: [u64; 10] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000];

/// Counters of a log.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commits: AtomicU64,
    /// Bytes of groups, of runs, and of keys that were written.
    pub(crate) written: AtomicU64,
    /// Pages that were read.
    pub(crate) pages: AtomicU64,
    /// Appends that were refused because the disk was full.
    pub(crate) refused: AtomicU64,
    /// Reads that found damage.
    pub(crate) damaged: AtomicU64,
    /// Writes and syncs that failed.
    pub(crate) failures: AtomicU64,
    syncs: Mutex<SyncTimes>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct SyncTimes {
    pub(crate) buckets: [u64; SYNC_US_BOUNDS.len() + 1],
    pub(crate) sum_us: u64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    pub(crate) fn synced(&self, us: u64) {
        let mut syncs = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        syncs.buckets[SYNC_US_BOUNDS.partition_point(|bound| *bound < us)] += 1;
        syncs.sum_us += us;
    }

    pub(crate) fn sync_times(&self) -> (Vec<f64>, SyncTimes) {
        let bounds = SYNC_US_BOUNDS.map(|us| us as f64 / 1e6).to_vec();
        (bounds, self.syncs.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
