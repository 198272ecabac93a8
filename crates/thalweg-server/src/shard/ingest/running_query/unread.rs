//! The events that a query has not read yet.

use std::sync::Arc;

use thalweg_core::stream::{AnyFeed, Backfill as _, Batch, Feed as _};
use thalweg_query::{Failure, Running};
use thalweg_wire::Offset;

use super::{super::query_pace::QueryPace, rows::Rows};
use crate::{clock, config::QUERY_BYTES, shard::broker::Pauses};

/// The unread events of a turn.
pub(super) struct Unread {
    pub(super) batches: Vec<Arc<Batch>>,
    /// A backfill is needed from this offset on.
    pub(super) backfill_from: Option<Offset>,
    pub(super) head: Offset,
    /// Whether a broker stores the source's events.
    is_stored: bool,
    /// The pauses of the source, in ms.
    pauses: Vec<(Offset, u64)>,
}

impl Unread {
    pub(super) fn new(feed: &AnyFeed, pauses: &Pauses, from: Offset) -> Self {
        let (head, pauses) = (feed.head(), pauses.since(from).collect());
        let (batches, is_stored) = (Vec::new(), feed.stored_from() > 0);
        let mut unread = Self { batches, backfill_from: None, head, is_stored, pauses };
        let (mut bytes, mut at) = (0, from);
        while at < head && bytes < QUERY_BYTES {
            let batch = match feed.batch_at(at) {
                Some(batch) => batch,
                None if feed.needs_backfill(at) => {
                    unread.backfill_from = Some(at);
                    break;
                }
                None => match feed.hole_end(at) {
                    Some(end) => {
                        at = end;
                        continue;
                    }
                    // The events in between are lost.
                    None => match feed.batches_from(at).next() {
                        Some(batch) => batch,
                        None => break,
                    },
                },
            };
            bytes += batch.event_bytes(at.max(batch.first()));
            at = batch.end();
            unread.batches.push(Arc::clone(batch));
        }
        unread
    }

    /// Makes rows from the events until none is left or the query must pause. Returns whether no work is left for
    /// the events that were taken.
    pub(super) fn take(
        &self,
        running: &mut Running,
        rows: &mut Rows<'_>,
        pace: &mut QueryPace<'_>,
        next: &mut Offset,
    ) -> Result<bool, Failure> {
        let now_ms = clock::unix_ms();
        let mut pauses = self.pauses.iter().copied().peekable();
        for batch in &self.batches {
            if batch.start() > *next {
                if !running.finish(rows, pace)? {
                    return Ok(false);
                }
                running.lose();
                if running.plan().has_state() && !self.is_stored {
                    // The oldest event leaves the history next, so groups that begin with it would lose events again at once.
                    *next = self.head;
                    return Ok(true);
                }
                *next = batch.start();
            }
            let events = (batch.first().max(*next)..).zip(batch.events_from(*next));
            for (offset, event) in events {
                while let Some(pause) = pauses.next_if(|(at, _)| *at < offset) {
                    if !running.finish(rows, pace)? || !pass(running, rows, pace, next, pause)? {
                        return Ok(false);
                    }
                }
                // If the time is unknown, no event is ahead of it.
                rows.published_ms = batch.published_ms().unwrap_or(i64::MAX);
                let times_ms = (rows.published_ms, now_ms);
                match running.take_in_part(offset, event, times_ms, rows, pace) {
                    Ok(true) => *next = offset + 1,
                    // The event is read again.
                    Ok(false) => {
                        *next = offset;
                        return Ok(false);
                    }
                    Err(failure) => {
                        *next = offset + 1;
                        return Err(failure);
                    }
                }
                if pace.is_over() {
                    return Ok(false);
                }
            }
            *next = (*next).max(batch.end());
        }
        if !running.finish(rows, pace)? {
            return Ok(false);
        }
        if self.is_behind_loss(*next) {
            // No event before the head is left.
            running.lose();
            *next = self.head;
        }
        if *next >= self.head {
            for pause in pauses {
                if !pass(running, rows, pace, next, pause)? {
                    return Ok(false);
                }
            }
            running.settle();
        }
        Ok(true)
    }

    /// Returns where the first batch starts, or the head if there is none.
    pub(super) fn start(&self) -> Offset {
        self.batches.first().map_or(self.head, |batch| batch.start())
    }

    /// Returns whether events from an offset on are lost, up to the first batch or, without one, to the head.
    pub(super) fn is_behind_loss(&self, from: Offset) -> bool {
        self.start() > from && (self.backfill_from.is_none() || !self.batches.is_empty())
    }
}

/// Passes a pause of `ms` at an offset, which may close windows: their rows are published at the time of the pause, not
/// of the next event. Returns whether no window is left to close.
fn pass(
    running: &mut Running,
    rows: &mut Rows<'_>,
    pace: &mut QueryPace<'_>,
    next: &mut Offset,
    (at, ms): (Offset, u64),
) -> Result<bool, Failure> {
    rows.pass(ms);
    running.pause(at, ms, rows);
    *next = at + 1;
    running.finish(rows, pace)
}
