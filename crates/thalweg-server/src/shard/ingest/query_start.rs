//! Finds the offset at which a shared query begins: far enough back for the windows that are open now, and for the
//! one that closed last. Pure.
//!
//! Only the times of events tell how far that is. The search looks at the events that are here, then twice as far
//! back each time, as far as the stream has events.

use thalweg_core::stream::{AnyFeed, Backfill as _, Feed as _};
use thalweg_query::{Beginning, Plan, limits};
use thalweg_wire::Offset;

use crate::config::REPLAY_OFFSETS_MAX;

/// The search for the first event.
#[derive(Debug, Default)]
pub(super) struct QueryStart {
    /// The head when the search began. 0 before.
    head: Offset,
    /// The distance from the head, in offsets. 0: the events that are here.
    back: Offset,
    /// The first events from there on.
    first: FirstEvents,
    /// The time of the newest event, and the offset up to which it was searched.
    newest_ms: Option<i64>,
    looked_to: Offset,
}

/// The first events from an offset on, as far as they were read. They are not read again, because a backfill may
/// be dropped before the next one comes.
#[derive(Debug, Default)]
struct FirstEvents {
    from: Offset,
    /// The next event to read.
    at: Offset,
    count: u32,
    /// The largest of their times, in ms.
    newest_ms: Option<i64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A backfill from this offset on comes first.
    Read(Offset),
    /// The query begins with the first event at or after this offset.
    Begin(Offset, Beginning),
}

impl QueryStart {
    /// Searches the events of a feed that are here. `is_broker_topic` is false for a topic of another query. All
    /// pauses from `complete_from` on are known.
    pub(super) fn step(
        &mut self,
        feed: &AnyFeed,
        is_broker_topic: bool,
        complete_from: Offset,
        plan: &Plan,
    ) -> Step {
        let here = block_from(feed.backfill_until(0));
        // The first block of a stream begins at 256.
        let oldest = feed.stored_from().max(complete_from).max(limits::BLOCK_OFFSETS);
        let oldest = block_from(oldest);
        let Some(replayed_ms) = plan.replayed_ms().filter(|_| is_broker_topic) else {
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
            if let Err(from) = self.first.read(feed, plan) {
                return Step::Read(from);
            }
            if from == oldest {
                // The stream has dropped older events, so nothing is known of them.
                let is_first = from == limits::BLOCK_OFFSETS;
                let beginning = if is_first { Beginning::First } else { Beginning::Block };
                return Step::Begin(from, beginning);
            }
            if self.first.count == limits::SETTLING_EVENTS
                && let Some(settled_ms) = self.first.newest_ms
            {
                let newest_ms = match self.newest_ms(feed, plan, from) {
                    Ok(newest_ms) => newest_ms,
                    Err(from) => return Step::Read(from),
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

    /// Returns the largest time in the newest batch. The search for that batch begins at `from`. The error is the offset from
    /// which a backfill is needed.
    fn newest_ms(&mut self, feed: &AnyFeed, plan: &Plan, from: Offset) -> Result<i64, Offset> {
        if let Some(newest_ms) = self.newest_ms {
            return Ok(newest_ms);
        }
        let last = feed.batch_at(feed.head().saturating_sub(1));
        let mut at = last.map_or(self.looked_to.max(from), |last| last.first());
        let mut newest_ms = i64::MIN;
        while at < feed.head() {
            let Some(batch) = feed.batch_at(at) else {
                if feed.needs_backfill(at) {
                    self.looked_to = at;
                    return Err(at);
                }
                let Some(end) = feed.hole_end(at) else { break };
                at = end;
                continue;
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
    /// Reads more events until there are enough, or no more. The error is the offset from which a backfill is needed.
    fn read(&mut self, feed: &AnyFeed, plan: &Plan) -> Result<(), Offset> {
        while self.at < feed.head() && self.count < limits::SETTLING_EVENTS {
            let Some(batch) = feed.batch_at(self.at) else {
                if feed.needs_backfill(self.at) {
                    return Err(self.at);
                }
                let Some(end) = feed.hole_end(self.at) else { return Ok(()) };
                self.at = end;
                continue;
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

/// Returns the offset at which groups without windows begin to count the events of a broker topic: all that are stored, or for a
/// client's query, which must not cost that much, all that are here.
pub(super) fn first_counted(feed: &AnyFeed, is_ad_hoc: bool) -> Offset {
    match is_ad_hoc {
        true => feed.backfill_until(0),
        false => feed.stored_from().max(limits::BLOCK_OFFSETS),
    }
}

/// Returns the start of the first block at or after this offset.
pub(super) fn block_from(offset: Offset) -> Offset {
    offset.div_ceil(limits::BLOCK_OFFSETS) * limits::BLOCK_OFFSETS
}
