use std::sync::Arc;

use thalweg_wire::{KeyFilter, Offset};

/// How often a subscriber learns its position while the filter selects no event, in µs. A client that has this position loses nothing
/// if removals of other keys are forgotten while it is away.
const TOLD_US: u64 = 10_000_000;

/// The filter of a subscription to a keyed topic, and what its client knows.
#[derive(Debug)]
pub(super) struct Filtered {
    pub(super) filter: Arc<KeyFilter>,
    /// From this time on, the client must learn a position that it has reached without an event. 0: the client waits for a position at
    /// which its state is complete. `u64::MAX`: a poll, which learns its position when it ends.
    pub(super) tells_us: u64,
}

impl Filtered {
    pub(super) fn new(filter: Arc<KeyFilter>) -> Self {
        Self { filter, tells_us: 0 }
    }

    /// Notes that the client was told that its state is complete at `until`, or now. A client that resumes may wait for an `until` that an
    /// earlier connection, perhaps to another server, has told it.
    pub(super) fn confirmed(
        &mut self,
        until: Option<Offset>,
        is_resuming: bool,
        is_poll: bool,
        now_us: u64,
    ) {
        self.tells_us = match until {
            Some(_) => 0,
            // Polls resume, too. On a topic that changes often, none of them would wait.
            None if is_poll => u64::MAX,
            None if is_resuming => 0,
            None => now_us.saturating_add(TOLD_US),
        };
    }

    /// Notes that the client waits for a position, for example because it was told that it has no key.
    pub(super) fn waits(&mut self) {
        self.tells_us = 0;
    }

    /// Notes that the client got a message that ends before `next`.
    pub(super) fn told(&mut self, next: Offset, head: Offset, now_us: u64) {
        // Before the head, the message may have an `until`.
        self.tells_us = if next < head { 0 } else { now_us.saturating_add(TOLD_US) };
    }
}
