//! Where in its source a query begins whose rows every node makes for itself: far enough back that it has the windows that
//! are open now, and the one that was over last. Pure.
//!
//! How far that is only the events say, by their times. So what is here is looked at, and then what is twice as far
//! back, and so on, as far as the source's stream has it.

use thalweg_query::{Beginning, Plan, limits};
use thalweg_wire::Offset;

use crate::config::REPLAY_OFFSETS_MAX;
use thalweg_core::stream::Feed;

/// The search for the first event.
#[derive(Debug, Default)]
pub(super) struct QueryStart {
    /// The head when it began; 0 before.
    head: Offset,
    /// How many offsets before it are looked at; 0: what is here.
    back: Offset,
    /// What the first events from there say.
    first: FirstEvents,
    /// The time of the newest event, and up to where it was looked for, if it was.
    newest_ms: Option<i64>,
    looked_to: Offset,
}

/// The first events from an offset on, as far as they were looked at. What was is not needed again: it may be gone by the time
/// that others are read back.
#[derive(Debug, Default)]
struct FirstEvents {
    from: Offset,
    /// The next one.
    at: Offset,
    count: u32,
    /// The largest of their times, in ms.
    newest_ms: Option<i64>,
}

/// What comes next in the search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Events from this offset on are to be read back first.
    Read(Offset),
    /// It begins with the first event that is not before this offset.
    Begin(Offset, Beginning),
}

impl QueryStart {
    /// Looks at what is here of a feed, which is fed from a stream, or has rows of another query. All
    /// pauses are known from `complete_from` on.
    pub(super) fn step(
        &mut self,
        feed: &Feed,
        is_fed: bool,
        complete_from: Offset,
        plan: &Plan,
    ) -> Step {
        let here = block_from(feed.here_from(0));
        // The first block of a stream begins at 256.
        let oldest = feed.stored_from().max(complete_from).max(limits::BLOCK_OFFSETS);
        let oldest = block_from(oldest);
        let Some(replayed_ms) = plan.replayed_ms().filter(|_| is_fed) else {
            return Step::Begin(here, Beginning::Block);
        };
        if self.head == 0 {
            self.head = block_from(feed.head());
        }
        loop {
            let from = match self.back {
                0 => here.min(self.head),
                back => self.head.saturating_sub(back),
            };
            let from = from.max(oldest);
            if self.first.from != from {
                self.first = FirstEvents { from, at: from, count: 0, newest_ms: None };
            }
            if let Err(away) = self.first.look(feed, plan) {
                return Step::Read(away);
            }
            if from == oldest {
                // With an older one away nothing is known of what was before it.
                let is_first = from == limits::BLOCK_OFFSETS;
                let beginning = if is_first { Beginning::First } else { Beginning::Block };
                return Step::Begin(from, beginning);
            }
            if self.first.count == limits::SETTLING_EVENTS
                && let Some(settled_ms) = self.first.newest_ms
            {
                let newest_ms = match self.newest_ms(feed, plan, from) {
                    Ok(newest_ms) => newest_ms,
                    Err(away) => return Step::Read(away),
                };
                if settled_ms.saturating_add(replayed_ms) <= newest_ms {
                    return Step::Begin(from, Beginning::Block);
                }
            }
            let back = self.head.saturating_sub(from);
            if back >= REPLAY_OFFSETS_MAX {
                return Step::Begin(from, Beginning::Block);
            }
            self.back = (back * 2).max(limits::BLOCK_OFFSETS * 256);
        }
    }

    /// The time of the newest event, as the newest batch says. It is looked for from `from` on.
    ///
    /// # Errors
    /// When events are not here: from where on.
    fn newest_ms(&mut self, feed: &Feed, plan: &Plan, from: Offset) -> Result<i64, Offset> {
        if let Some(newest_ms) = self.newest_ms {
            return Ok(newest_ms);
        }
        let last = feed.batch_at(feed.head().saturating_sub(1));
        let mut at = last.map_or(self.looked_to.max(from), |last| last.first());
        let mut newest_ms = i64::MIN;
        while at < feed.head() {
            let Some(batch) = feed.batch_at(at) else {
                if !feed.is_away(at) {
                    break;
                }
                self.looked_to = at;
                return Err(at);
            };
            let times = batch.events_from(batch.first()).filter_map(|event| plan.time_ms(event));
            newest_ms = times.max().unwrap_or(newest_ms).max(newest_ms);
            at = batch.end();
        }
        self.newest_ms = Some(newest_ms);
        Ok(newest_ms)
    }
}

impl FirstEvents {
    /// Looks at more of them, until they are enough, or there are no others.
    ///
    /// # Errors
    /// When events are not here: from where on.
    fn look(&mut self, feed: &Feed, plan: &Plan) -> Result<(), Offset> {
        while self.at < feed.head() && self.count < limits::SETTLING_EVENTS {
            let Some(batch) = feed.batch_at(self.at) else {
                return if feed.is_away(self.at) { Err(self.at) } else { Ok(()) };
            };
            self.at = self.at.max(batch.first());
            for event in batch.events_from(self.at) {
                self.newest_ms = self.newest_ms.max(plan.time_ms(event));
                self.count += 1;
                self.at += 1;
                if self.count == limits::SETTLING_EVENTS {
                    return Ok(());
                }
            }
            self.at = batch.end();
        }
        Ok(())
    }
}

/// Where the first block begins that has no offset before this one.
pub(super) fn block_from(offset: Offset) -> Offset {
    offset.div_ceil(limits::BLOCK_OFFSETS) * limits::BLOCK_OFFSETS
}
