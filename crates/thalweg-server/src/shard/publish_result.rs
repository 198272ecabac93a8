use thalweg_wire::{Epoch, Position, Topic, answer::Published};

use thalweg_core::stream::Appended;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishResult {
    pub(crate) epoch: Epoch,
    /// The offsets of the events. Other publishers' events may lie between them.
    pub(crate) appended: Appended,
    pub(crate) count: u64,
    /// Whether an earlier publish with the same idempotency key had this result.
    pub(crate) replayed: bool,
}

impl PublishResult {
    /// Adds the result of the same publisher's next events.
    pub(crate) fn extend(&mut self, next: &Self) {
        self.count += next.count;
        if next.epoch == self.epoch {
            self.appended.end = next.appended.end;
        } else {
            // The topic was removed and created again between two lines.
            (self.epoch, self.appended) = (next.epoch, next.appended);
        }
    }

    pub(crate) fn published(&self, topic: &Topic) -> Published {
        let Appended { first, end } = self.appended;
        Published {
            topic: topic.clone(),
            position: Position { epoch: self.epoch, offset: end - 1 },
            first,
            count: self.count,
        }
    }
}
