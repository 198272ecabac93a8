use std::{collections::BTreeMap, sync::Arc};

use thalweg_wire::Offset;

use super::batch_columns::ColumnFrame;

/// Finished frames of columns that a log keeps, by the ends of their batches.
#[derive(Debug, Default)]
pub(super) struct ColumnFrames {
    by_end: BTreeMap<Offset, Arc<ColumnFrame>>,
    bytes: usize,
    /// When the last one came.
    kept_us: u64,
}

impl ColumnFrames {
    /// The frame of the batch that ends at `end`.
    pub(super) fn get(&self, end: Offset) -> Option<&ColumnFrame> {
        self.by_end.get(&end).map(|frame| &**frame)
    }

    /// Keeps the frame of the batch that ends at `end`.
    pub(super) fn keep(&mut self, end: Offset, frame: Arc<ColumnFrame>, now_us: u64) {
        self.kept_us = now_us;
        self.bytes += frame.memory_bytes();
        let before = self.by_end.insert(end, frame);
        self.bytes -= before.map_or(0, |before| before.memory_bytes());
    }

    /// Drops frames, of the oldest batches first, until they have `bytes_max` bytes at most; but none
    /// that is to be spared.
    pub(super) fn shrink_to(&mut self, bytes_max: usize, is_spared: impl Fn(Offset) -> bool) {
        while self.bytes > bytes_max
            && let Some(end) = self.by_end.keys().copied().find(|end| !is_spared(*end))
        {
            self.drop_frame(end);
        }
    }

    /// Drops the frames of batches that end at `end` at the latest and are not here any more.
    pub(super) fn drop_until(&mut self, end: Offset, is_here: impl Fn(Offset) -> bool) {
        let old = self.by_end.range(..=end).map(|(end, _)| *end);
        let gone: Vec<Offset> = old.filter(|end| !is_here(*end)).collect();
        gone.into_iter().for_each(|end| self.drop_frame(end));
    }

    /// Whether none has come for `idle_us`.
    pub(super) fn is_idle(&self, now_us: u64, idle_us: u64) -> bool {
        now_us.saturating_sub(self.kept_us) >= idle_us
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    /// Their memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_frame(&mut self, end: Offset) {
        self.bytes -= self.by_end.remove(&end).map_or(0, |frame| frame.memory_bytes());
    }
}
