use std::{collections::BTreeMap, sync::Arc};

use smallvec::SmallVec;
use thalweg_wire::{Format, Offset};

use super::Batch;

/// Batches that must outlive the history, because frames made from them are partly sent. Each batch is kept once, by its end.
#[derive(Debug, Default)]
pub(super) struct Pins(BTreeMap<Offset, BatchPin>);

#[derive(Debug)]
struct BatchPin {
    batch: Arc<Batch>,
    holders: u32,
    /// Partly sent frames that cannot be made again, because their context changes.
    frames: SmallVec<[(Format, Box<[u8]>); 1]>,
}

impl Pins {
    pub(super) fn pin(&mut self, batch: &Arc<Batch>) {
        let make = || BatchPin { batch: Arc::clone(batch), holders: 0, frames: SmallVec::new() };
        let pin = self.0.entry(batch.end()).or_insert_with(make);
        // Copies of a batch may have different starts. Keep the one that covers the most offsets.
        if batch.start() < pin.batch.start() {
            pin.batch = Arc::clone(batch);
        }
        pin.holders += 1;
    }

    pub(super) fn unpin(&mut self, offset: Offset) {
        let Some((end, pin)) = self.0.range_mut(offset + 1..).next() else { return };
        pin.holders -= 1;
        if pin.holders == 0 {
            let end = *end;
            self.0.remove(&end);
        }
    }

    /// Keeps the frame of a pinned batch in `format`, unless it is kept already.
    pub(super) fn keep_frame<'a>(
        &mut self,
        offset: Offset,
        format: Format,
        frame: impl FnOnce() -> Option<&'a [u8]>,
    ) {
        let Some((_, pin)) = self.0.range_mut(offset + 1..).next() else { return };
        let is_kept = pin.frames.iter().any(|(kept, _)| *kept == format);
        if let Some(frame) = (!is_kept).then(frame).flatten() {
            pin.frames.push((format, frame.into()));
        }
    }

    /// Returns the kept frame of a pinned batch.
    pub(super) fn frame(&self, offset: Offset, format: Format) -> Option<&[u8]> {
        let (_, pin) = self.0.range(offset + 1..).next()?;
        let kept = pin.frames.iter().find(|(kept, _)| *kept == format);
        kept.map(|(_, frame)| &**frame)
    }

    /// Returns the memory of kept frames.
    pub(super) fn frame_bytes(&self) -> usize {
        let kept = self.0.values().flat_map(|pin| &pin.frames);
        kept.map(|(_, frame)| frame.len()).sum()
    }

    pub(super) fn find(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let (_, pin) = self.0.range(offset + 1..).next()?;
        (pin.batch.start() <= offset).then_some(&pin.batch)
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = Offset> {
        self.0.keys().copied()
    }

    /// Returns the memory of batches before the history, which starts at `history_start`.
    pub(super) fn bytes_before(&self, history_start: Offset) -> usize {
        self.0.range(..=history_start).map(|(_, pin)| pin.batch.memory_bytes()).sum()
    }
}
