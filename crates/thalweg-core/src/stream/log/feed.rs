//! A log as a feed.

use std::sync::Arc;

use thalweg_wire::{ContextUse, Epoch, Offset, StartAt, Topic};

use super::{
    super::{Batch, ColumnCounts, Cursor, Encoding, Feed, Offsets, Start, tail::HotTail},
    Log, LogFrames, TAIL_BYPASS_DIVISOR,
};

impl Feed for Log {
    type Frames<'a, 'e> = LogFrames<'a, 'e>;

    #[inline]
    fn frames<'a, 'e>(&'a self, encoding: Encoding<'e>) -> LogFrames<'a, 'e> {
        LogFrames::new(self, encoding.without_patches())
    }

    fn topic(&self) -> &Topic {
        &self.topic
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn head(&self) -> Offset {
        self.next
    }

    // A subscription ahead of the newest event waits until the stream has passed its position. In a stored stream
    // it waits only if the stream has assigned such a position.
    fn start(&self, at: StartAt) -> Start {
        let oldest = |start: fn(Cursor) -> Start| {
            self.oldest().map_or(Start::Backfill(0), |oldest| start(Cursor::before(oldest)))
        };
        match at {
            StartAt::Latest => Start::At(Cursor::before(self.next)),
            StartAt::Earliest | StartAt::Since(_) => oldest(Start::At),
            StartAt::Newest(count) => {
                let from = self.history.newest_from(count as usize).unwrap_or(self.next);
                Start::At(Cursor::before(from))
            }
            StartAt::After(position) | StartAt::Within(position, _)
                if position.epoch != self.epoch =>
            {
                oldest(Start::OtherEpoch)
            }
            StartAt::After(position) | StartAt::Within(position, _) => {
                let expected = position.offset + 1;
                let is_lost = !self.is_stored(expected) || self.is_hole(expected);
                if expected < self.first_retained() && is_lost {
                    return Start::Lost(self.lost(expected));
                }
                let is_derived = self.offsets == Offsets::Derived;
                if is_derived && expected < self.next && self.batch_at(expected).is_none() {
                    return Start::Lost(self.lost(expected));
                }
                let is_ahead = expected > self.next && self.stored_from.is_some();
                match self.ahead.is_given(expected) {
                    None if is_ahead => Start::Backfill(expected),
                    Some(false) if is_ahead => oldest(Start::OtherEpoch),
                    _ => Start::At(Cursor::before(expected)),
                }
            }
        }
    }

    fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        self.history.past(from)
    }

    fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        // A hot cursor would skip missing batches unnoticed. A cold cursor finds that its event is gone.
        let is_missing = batch.start() > self.next;
        let is_large = batch.event_bytes(batch.first()) >= self.tail_bytes / TAIL_BYPASS_DIVISOR;
        for (format, tail) in self.tails.iter_mut() {
            let make = || Box::new(HotTail::new(self.tail_bytes, format));
            let tail = tail.get_or_insert_with(make);
            let is_left_out = is_large && format.keeps_events();
            if is_missing || is_left_out {
                tail.cut();
            }
            if !is_left_out {
                tail.append(batch.start(), now_us, |context, out| {
                    let envelope = batch.envelope(batch.start(), &self.topic, self.epoch);
                    match context {
                        Some(context) => format.batch_in_context(&envelope, context, out),
                        None => {
                            format.batch(&envelope, out);
                            ContextUse::Alone
                        }
                    }
                });
            }
        }
        self.next = batch.end();
        self.history.push(batch);
        self.drop_column_frames();
    }

    fn make_frames(
        &mut self,
        cursor: &Cursor,
        encoding: Encoding<'_>,
        now_us: u64,
    ) -> ColumnCounts {
        self.make_column_frames(cursor, encoding.columns(), now_us)
    }

    fn skip_to(&mut self, head: Offset) {
        if head <= self.next {
            return;
        }
        self.next = head;
        self.tails.iter_mut().filter_map(|(_, tail)| tail.as_mut()).for_each(|tail| tail.cut());
    }

    fn first_retained(&self) -> Offset {
        self.history.oldest().map_or(self.next, |batch| batch.start())
    }

    fn retained_events(&self) -> usize {
        self.history.events()
    }

    fn events_from(&self, from: Offset) -> u64 {
        match self.offsets {
            Offsets::Consecutive => self.next.saturating_sub(from),
            Offsets::Stored | Offsets::Derived => self.history.about_events_from(from),
        }
    }

    fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let retained = self.history.find(offset);
        retained.or_else(|| self.backfilled.find(offset)).or_else(|| self.pins.find(offset))
    }

    // Nearly every reader is at the newest batch.
    fn published_us(&self, offset: Offset) -> Option<u64> {
        let newest = self.history.newest().filter(|newest| newest.start() <= offset);
        newest.or_else(|| self.batch_at(offset)).map(|batch| batch.published_us())
    }
}
