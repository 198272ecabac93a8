use std::{collections::BTreeMap, sync::Arc};

use thalweg_wire::Offset;

use super::Batch;

/// Batches that must outlive the history, because frames made from them are partly sent. Each batch is kept once, by its end.
#[derive(Debug, Default)]
pub(super) struct Pins(BTreeMap<Offset, BatchPin>);

#[derive(Debug)]
struct BatchPin {
    batch: Arc<Batch>,
    holders: u32,
}

impl Pins {
    pub(super) fn pin(&mut self, batch: &Arc<Batch>) {
        let make = || BatchPin { batch: Arc::clone(batch), holders: 0 };
        let pin = self.0.entry(batch.end()).or_insert_with(make);
        // Copies of a batch may have different starts. This one covers the most offsets.
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
