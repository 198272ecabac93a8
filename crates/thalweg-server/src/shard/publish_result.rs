//! The result of publishing events.

use thalweg_wire::{Epoch, Position, Topic, answer::Published};

use thalweg_core::stream::Appended;

/// The position of appended events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishResult {
    /// The stream's incarnation.
    pub(crate) epoch: Epoch,
    /// Their offsets; another publisher's events may lie between.
    pub(crate) appended: Appended,
    /// Number of events.
    pub(crate) count: u64,
    /// Whether this is the stored result of an earlier publish.
    pub(crate) replayed: bool,
}

impl PublishResult {
    /// Adds the next events that the same publisher appended.
    pub(crate) fn extend(&mut self, next: &Self) {
        self.count += next.count;
        if next.epoch == self.epoch {
            self.appended.end = next.appended.end;
        } else {
            // The topic was removed between two lines and created again.
            (self.epoch, self.appended) = (next.epoch, next.appended);
        }
    }

    /// The same as the answer that publishers get.
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
