//! What became of events that were published.

use thalweg_wire::{Epoch, Position, Topic, answer::Published};

use crate::stream::Appended;

/// Where appended events stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    /// The stream's incarnation.
    pub(crate) epoch: Epoch,
    /// Their offsets; another publisher's events may lie between.
    pub(crate) appended: Appended,
    /// How many they are.
    pub(crate) count: u64,
    /// Whether this is what became of them earlier.
    pub(crate) replayed: bool,
}

impl Placed {
    /// Takes in what the same publisher appended next.
    pub(crate) fn extend(&mut self, next: &Self) {
        self.count += next.count;
        if next.epoch == self.epoch {
            self.appended.end = next.appended.end;
        } else {
            // The topic was forgotten between two lines and began anew.
            (self.epoch, self.appended) = (next.epoch, next.appended);
        }
    }

    /// The same as publishers are told it.
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
