use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use thalweg_core::stream::{
    Backfill, Batch, ColumnMemory, ColumnRows, Cursor, Encoding, Feed, Frames, HistoryBounds, Lost,
    Memory, Next, Offsets, Pinning, Start,
};
use thalweg_wire::{Epoch, Format, Offset, StartAt, Topic};

use super::{conditions::Conditions, published::Published, shard::Feeding};

/// The tests' own kind of feed: a log without hot tails, whose history and pins share no code with the server's.
/// Each frame is made for its reader alone.
pub(super) struct PlainLog {
    topic: Topic,
    epoch: Epoch,
    next: Offset,
    bounds: HistoryBounds,
    batches: VecDeque<Arc<Batch>>,
    /// Batches of partly sent frames, by their ends, and the number of such frames.
    pins: BTreeMap<Offset, (Arc<Batch>, usize)>,
}

impl PlainLog {
    fn trim_while(&mut self, is_too_much: impl Fn(&Self, usize) -> bool) -> usize {
        let mut freed = 0;
        while !self.batches.is_empty() && is_too_much(self, freed) {
            freed += self.batches.pop_front().map_or(0, |batch| batch.memory_bytes());
        }
        freed
    }

    fn lost(&self, expected: Offset) -> Lost {
        let start = |batch: Option<&Arc<Batch>>| batch.map_or(self.next, |batch| batch.start());
        let resumable = start(self.batches_from(expected).next());
        Lost {
            expected,
            middle: start(self.batches.get(self.batches.len() / 2)).max(resumable),
            newest: start(self.batches.back()).max(resumable),
            offsets: Offsets::Consecutive,
            is_expired: false,
        }
    }
}

impl Feeding for PlainLog {
    fn make(
        published: &Published,
        next: Offset,
        conditions: &Conditions,
        _: &ColumnMemory,
    ) -> Self {
        let (topic, epoch, bounds) = (published.topic.clone(), published.epoch, conditions.history);
        let (batches, pins) = (VecDeque::new(), BTreeMap::new());
        Self { topic, epoch, next, bounds, batches, pins }
    }

    fn limit(conditions: &mut Conditions) {
        conditions.feeds = false;
        conditions.values = false;
        conditions.keyed = None;
        conditions.rows = false;
    }
}

impl Feed for PlainLog {
    type Frames<'a, 'e> = PlainFrames<'a, 'e>;

    fn topic(&self) -> &Topic {
        &self.topic
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn head(&self) -> Offset {
        self.next
    }

    fn start(&self, at: StartAt) -> Start {
        let first = self.first_retained();
        match at {
            StartAt::Latest => Start::At(Cursor::before(self.next)),
            StartAt::Earliest | StartAt::Since(_) | StartAt::Within(..) => {
                Start::At(Cursor::before(first))
            }
            StartAt::Newest(count) => {
                Start::At(Cursor::before(self.next.saturating_sub(count.into()).max(first)))
            }
            StartAt::After(position) if position.epoch != self.epoch => {
                Start::OtherEpoch(Cursor::before(first))
            }
            StartAt::After(position) if position.offset + 1 < first => {
                Start::Lost(self.lost(position.offset + 1))
            }
            StartAt::After(position) => Start::At(Cursor::before(position.offset + 1)),
        }
    }

    fn frames<'a, 'e>(&'a self, encoding: Encoding<'e>) -> PlainFrames<'a, 'e> {
        PlainFrames { log: self, encoding }
    }

    fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        self.batches.iter().filter(move |batch| batch.end() > from)
    }

    fn push(&mut self, batch: Arc<Batch>, _: u64) {
        self.next = batch.end();
        self.batches.push_back(batch);
        self.trim_while(|log, _| {
            log.batches.len() > 1
                && (log.retained_events() > log.bounds.events_max
                    || log.history_bytes() > log.bounds.bytes_max)
        });
    }

    fn skip_to(&mut self, head: Offset) {
        self.next = self.next.max(head);
    }

    fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let pinned = || self.pins.range(offset + 1..).next().map(|(_, (batch, _))| batch);
        let is_its = |batch: &&Arc<Batch>| batch.start() <= offset;
        self.batches_from(offset).next().filter(is_its).or_else(|| pinned().filter(is_its))
    }
}

impl Memory for PlainLog {
    fn history_bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.memory_bytes()).sum()
    }

    fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        self.trim_while(|log, freed| freed < bytes && log.batches[0].sealed_us() < now_us)
    }

    fn trim_bytes(&mut self, bytes: usize) -> usize {
        self.trim_while(|log, freed| freed < bytes && log.batches.len() > 1)
    }

    fn sweep(&mut self, now_us: u64) {
        let oldest_us = now_us.saturating_sub(self.bounds.age_us_max);
        self.trim_while(|log, _| log.batches[0].sealed_us() < oldest_us);
    }
}

impl Pinning for PlainLog {
    fn pin(&mut self, cursor: &Cursor, _: Format) {
        let batch = Arc::clone(self.batch_at(cursor.next()).expect("a batch"));
        self.pins.entry(batch.end()).or_insert((batch, 0)).1 += 1;
    }

    fn unpin(&mut self, cursor: &Cursor) {
        let (end, (_, count)) = self.pins.range_mut(cursor.next() + 1..).next().expect("a pin");
        *count -= 1;
        let (end, is_last) = (*end, *count == 0);
        if is_last {
            self.pins.remove(&end);
        }
    }

    fn pinned_bytes(&self) -> usize {
        let gone = self.pins.range(..=self.first_retained());
        gone.map(|(_, (batch, _))| batch.memory_bytes()).sum()
    }
}

impl Backfill for PlainLog {}

impl ColumnRows for PlainLog {}

#[derive(Clone, Copy)]
pub(super) struct PlainFrames<'a, 'e> {
    log: &'a PlainLog,
    encoding: Encoding<'e>,
}

impl<'a> Frames<'a> for PlainFrames<'a, '_> {
    fn next(&self, cursor: &Cursor, _one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a> {
        if cursor.next() >= self.log.next {
            return Next::Nothing;
        }
        let Some(batch) = self.log.batch_at(cursor.next()) else {
            return Next::Lost(self.log.lost(cursor.next()));
        };
        let envelope = batch.envelope(cursor.next(), &self.log.topic, self.log.epoch);
        let after = Cursor::before(batch.end());
        Next::cold(&envelope, self.encoding, true, cursor.sent(), after, scratch)
    }

    fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor {
        cursor.within(sent)
    }
}
