//! Where in its source a query begins whose rows every node makes for itself: far enough back that it has the windows that
//! are open now, and the one that was over last. Pure.
//!
//! How far that is only the events say, by their times. So what is here is looked at, and then what is twice as far
//! back, and so on, as far as the source's stream has it.

use thalweg_query::{Beginning, Plan, limits};
use thalweg_wire::Offset;

use crate::{config::REPLAY_OFFSETS_MAX, stream::Feed};

/// The search for the first event.
#[derive(Debug, Default)]
pub(super) struct QueryStart {
    /// The head when it began; 0 before.
    head: Offset,
    /// How many offsets before it are looked at; 0: what is here.
    back: Offset,
    /// The time of the newest event, and up to where it was looked for, if it was.
    newest_ms: Option<i64>,
    looked_to: Offset,
}

/// What comes next in the search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Events from this offset on are to be read back first.
    Read(Offset),
    /// It begins with the first event that is not before this offset.
    Begin(Offset, Beginning),
}

/// What is known of the first events from an offset on.
enum Settled {
    /// The largest of their times, in ms.
    At(i64),
    /// There are too few, or they have no times.
    Unknown,
    /// Some are not here.
    Away(Offset),
}

impl QueryStart {
    /// Looks at what is here of a feed, which is fed from a stream, or has rows of another query.
    pub(super) fn step(&mut self, feed: &Feed, is_fed: bool, plan: &Plan) -> Step {
        let here = block_from(feed.here_from(0));
        // The first block of a stream begins here.
        let oldest = block_from(feed.stored_from()).max(limits::BLOCK_OFFSETS);
        let Some(replayed_ms) = plan.replayed_ms().filter(|_| is_fed) else {
            return Step::Begin(here, Beginning::Block);
        };
        if self.head == 0 {
            self.head = block_from(feed.head());
        }
        loop {
            let from = match self.back {
                0 => here,
                back => self.head.saturating_sub(back),
            };
            let from = from.max(oldest);
            if feed.is_away(from) {
                return Step::Read(from);
            }
            if from == oldest {
                // With an older one away nothing is known of what was before it.
                let is_first = from == limits::BLOCK_OFFSETS;
                let beginning = if is_first { Beginning::First } else { Beginning::Block };
                return Step::Begin(from, beginning);
            }
            match settled(feed, plan, from) {
                Settled::Away(from) => return Step::Read(from),
                Settled::Unknown => {}
                Settled::At(settled_ms) => {
                    let newest_ms = match self.newest_ms(feed, plan, from) {
                        Ok(newest_ms) => newest_ms,
                        Err(from) => return Step::Read(from),
                    };
                    if settled_ms.saturating_add(replayed_ms) <= newest_ms {
                        return Step::Begin(from, Beginning::Block);
                    }
                }
            }
            if self.head - from >= REPLAY_OFFSETS_MAX {
                return Step::Begin(from, Beginning::Block);
            }
            self.back = ((self.head - from) * 2).max(limits::BLOCK_OFFSETS * 256);
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

/// How far time has come with the first events from `from` on.
fn settled(feed: &Feed, plan: &Plan, from: Offset) -> Settled {
    let (mut at, mut events, mut newest_ms) = (from, 0, None);
    while at < feed.head() {
        let Some(batch) = feed.batch_at(at) else {
            return if feed.is_away(at) { Settled::Away(at) } else { Settled::Unknown };
        };
        for event in batch.events_from(at.max(batch.first())) {
            newest_ms = newest_ms.max(plan.time_ms(event));
            events += 1;
            if events == limits::SETTLING_EVENTS {
                return newest_ms.map_or(Settled::Unknown, Settled::At);
            }
        }
        at = batch.end();
    }
    Settled::Unknown
}

/// Where the first block begins that has no offset before this one.
fn block_from(offset: Offset) -> Offset {
    offset.div_ceil(limits::BLOCK_OFFSETS) * limits::BLOCK_OFFSETS
}
