use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use thalweg_wire::Offset;

use super::batch_columns::ColumnFrame;

/// The memory of all frames of columns that logs keep, and of pages of keyed topics, in bytes. All clones share one count.
#[derive(Debug, Clone)]
pub struct ColumnMemory {
    used: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl ColumnMemory {
    /// Creates an empty account. Above `bytes_max` a log keeps only frames that are partly sent or about to be
    /// sent.
    pub fn new(bytes_max: usize) -> Self {
        Self { used: Arc::default(), bytes_max }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn over(&self) -> usize {
        self.used.load(Relaxed).saturating_sub(self.bytes_max)
    }
}

impl Default for ColumnMemory {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

/// Finished frames of columns that a log keeps, by the ends of their batches.
#[derive(Debug, Default)]
pub(super) struct ColumnFrames {
    by_end: BTreeMap<Offset, Arc<ColumnFrame>>,
    bytes: usize,
    kept_us: u64,
    memory: ColumnMemory,
}

impl ColumnFrames {
    pub(super) fn counted_in(memory: ColumnMemory) -> Self {
        Self { by_end: BTreeMap::new(), bytes: 0, kept_us: 0, memory }
    }

    /// Returns the memory that this log may use, so that all logs stay within the limit.
    pub(super) fn share(&self) -> usize {
        self.bytes.saturating_sub(self.memory.over())
    }

    pub(super) fn get(&self, end: Offset) -> Option<&ColumnFrame> {
        self.by_end.get(&end).map(|frame| &**frame)
    }

    pub(super) fn keep(&mut self, end: Offset, frame: Arc<ColumnFrame>, now_us: u64) {
        self.kept_us = now_us;
        self.drop_frame(end);
        self.bytes += frame.memory_bytes();
        self.memory.used.fetch_add(frame.memory_bytes(), Relaxed);
        self.by_end.insert(end, frame);
    }

    /// Drops frames of the oldest batches, except spared frames, until at most `bytes_max` bytes are left.
    pub(super) fn shrink_to(&mut self, bytes_max: usize, is_spared: impl Fn(Offset) -> bool) {
        while self.bytes > bytes_max
            && let Some(end) = self.by_end.keys().copied().find(|end| !is_spared(*end))
        {
            self.drop_frame(end);
        }
    }

    /// Drops frames of batches that end at or before `end` and no longer exist.
    pub(super) fn drop_until(&mut self, end: Offset, is_here: impl Fn(Offset) -> bool) {
        let old = self.by_end.range(..=end).map(|(end, _)| *end);
        let gone: Vec<Offset> = old.filter(|end| !is_here(*end)).collect();
        gone.into_iter().for_each(|end| self.drop_frame(end));
    }

    pub(super) fn is_idle(&self, now_us: u64, idle_us: u64) -> bool {
        now_us.saturating_sub(self.kept_us) >= idle_us
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_frame(&mut self, end: Offset) {
        let bytes = self.by_end.remove(&end).map_or(0, |frame| frame.memory_bytes());
        self.bytes -= bytes;
        self.memory.used.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for ColumnFrames {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Relaxed);
    }
}
