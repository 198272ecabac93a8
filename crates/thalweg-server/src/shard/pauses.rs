//! When a shared topic has paused, as a node has written it that tells the time. All nodes read it at the same place. Pure.

use std::collections::BTreeMap;

use thalweg_wire::{Offset, Topic};

/// Pauses that are known of one topic; of more the oldest go. There is one for each time that windows wait.
const PAUSES_MAX: usize = 256;

/// Where a topic has paused, and for how many ms at least.
#[derive(Debug, Default, Clone)]
pub(super) struct Pauses(BTreeMap<Offset, u64>);

/// A topic has paused: its home is to write that, if nothing has come since.
#[derive(Debug)]
pub(crate) struct Paused {
    pub(super) topic: Topic,
    /// The events up to here were read.
    pub(super) next: Offset,
    pub(super) ms: u64,
}

impl Pauses {
    pub(super) fn insert(&mut self, at: Offset, ms: u64) {
        self.0.insert(at, ms);
        while self.0.len() > PAUSES_MAX {
            self.0.pop_first();
        }
    }

    /// The newest one.
    pub(super) fn newest(&self) -> Offset {
        self.0.last_key_value().map_or(0, |(at, _)| *at)
    }

    /// Those from an offset on.
    pub(super) fn since(&self, from: Offset) -> Vec<(Offset, u64)> {
        self.0.range(from..).map(|(at, ms)| (*at, *ms)).collect()
    }
}
