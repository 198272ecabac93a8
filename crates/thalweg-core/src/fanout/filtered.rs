use std::sync::Arc;

use thalweg_wire::{KeyFilter, Offset};

/// How often a subscriber learns its position while the filter selects no event, in µs. A client that has this position loses nothing
/// if removals of other keys are forgotten while it is away.
const TOLD_US: u64 = 10_000_000;

/// The filter of a subscription to a keyed topic, and what its client knows.
#[derive(Debug)]
pub(super) struct Filtered {
    pub(super) filter: Arc<KeyFilter>,
    /// The client's state is complete at this position, or complete now if this is 0. The client must learn that it has reached the
    /// position, even if the filter selects no event there.
    until: Offset,
    /// When the client has learned its position, or 0 if its subscription has just begun.
    told_us: u64,
}

impl Filtered {
    pub(super) fn new(filter: Arc<KeyFilter>) -> Self {
        Self { filter, until: 0, told_us: 0 }
    }

    /// Notes that the client was told that its state is complete at `until`.
    pub(super) fn confirmed(&mut self, until: Option<Offset>) {
        self.until = until.unwrap_or(0);
    }

    /// Notes that the client was told that it has no key.
    pub(super) fn begins_again(&mut self) {
        self.until = Offset::MAX;
    }

    /// Notes that the client got a message that ends before `next`.
    pub(super) fn told(&mut self, next: Offset, head: Offset, now_us: u64) {
        self.told_us = now_us;
        // The message may have named any position before the head.
        self.until = if next < head { head - 1 } else { 0 };
    }

    /// Returns whether the client, which has everything and does not know the newest position, must learn it now.
    pub(super) fn must_tell(&mut self, now_us: u64) -> bool {
        if self.told_us == 0 {
            self.told_us = now_us;
        }
        self.until > 0 || now_us >= self.told_us.saturating_add(TOLD_US)
    }
}
