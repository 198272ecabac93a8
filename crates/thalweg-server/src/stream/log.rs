use std::{collections::VecDeque, sync::Arc};

use thalweg_wire::{Envelope, Epoch, Framing, Offset, Position, StartAt, Topic};

use super::{
    Batch, Cursor,
    batch::Retained,
    cursor::COLD,
    pins::Pins,
    tail::{HotTail, TAIL_BYTES, Tails},
};

/// How much of a stream is retained; whatever is reached first counts. The
/// newest batch always stays, unless it is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Events.
    pub events_max: usize,
    /// Bytes of memory.
    pub bytes_max: usize,
    /// Age of a batch, in µs.
    pub age_us_max: u64,
}

/// Batches of this part of a hot tail (4 KiB) are sent from where they are, in three
/// slices, and not copied into a frame for one subscriber.
const BY_REFERENCE: usize = 256;

/// Batches of this part of a hot tail (256 KiB) do not enter it: everybody sends
/// them from where they are. A copy would cost more than three slices instead of one,
/// and the tail would hold little else.
const LARGE: usize = 4;

/// How long a hot tail without new frames keeps its memory, in µs.
const TAIL_IDLE_US: u64 = 2_000_000;

/// A stream as one shard reads it: the history, and a hot tail for each framing
/// in use. All hot tails have the same batch boundaries.
#[derive(Debug)]
pub struct Log {
    topic: Topic,
    epoch: Epoch,
    bounds: HistoryBounds,
    tail_bytes: usize,
    /// One past the newest event.
    next: Offset,
    history: VecDeque<Retained>,
    history_events: usize,
    history_bytes: usize,
    tails: Tails,
    pins: Pins,
}

/// What comes after a cursor.
#[derive(Debug)]
pub enum Next<'a> {
    /// These finished bytes of the hot tail.
    Hot(&'a [u8], Cursor),
    /// (The rest of) one frame: the bytes just appended to the scratch, of which
    /// so many come before these, and the others after.
    Cold {
        /// Bytes in the scratch before the events.
        before: usize,
        /// Events, where they are; none if all is in the scratch.
        events: &'a [u8],
        /// The cursor after it.
        after: Cursor,
    },
    /// Not the next event: it is no longer there.
    Lost(Lost),
    /// Nothing yet.
    Nothing,
}

/// Where a cursor whose events are gone can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The next event it should have got.
    pub expected: Offset,
    /// A batch in the middle of the history.
    pub middle: Offset,
    /// The newest batch.
    pub newest: Offset,
}

/// How a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At a cursor, nothing lost.
    At(Cursor),
    /// Older than the history.
    Lost(Lost),
    /// A cursor of another epoch: nobody knows what was missed.
    OtherEpoch(Cursor),
}

impl Log {
    /// An empty log of a stream whose next event is `next`.
    pub fn new(topic: Topic, epoch: Epoch, next: Offset, bounds: HistoryBounds) -> Self {
        Self {
            topic,
            epoch,
            bounds,
            tail_bytes: TAIL_BYTES,
            next,
            history: VecDeque::new(),
            history_events: 0,
            history_bytes: 0,
            tails: Tails::default(),
            pins: Pins::default(),
        }
    }

    /// The same with hot tails of about this many bytes each, from now on.
    pub fn with_tail_bytes(self, tail_bytes: usize) -> Self {
        Self { tail_bytes, ..self }
    }

    /// Its topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Its stream's incarnation.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The position just before `next`.
    pub fn position_before(&self, next: Offset) -> Position {
        Position { epoch: self.epoch, offset: next.saturating_sub(1) }
    }

    /// Offset one past the newest event.
    pub fn head(&self) -> Offset {
        self.next
    }

    /// The batches retained, from the one that holds `from` on.
    pub fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        let index = self.history.partition_point(|batch| batch.end() <= from);
        self.history.range(index..).map(|batch| &**batch)
    }

    /// Appends a sealed batch: to the history and to every hot tail.
    pub fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        self.tails.make(self.tail_bytes);
        if batch.first() > self.next {
            // This shard missed batches. A hot cursor would read on across the
            // hole without noticing; a cold one finds that its event is gone.
            self.tails.iter_mut().for_each(HotTail::cut);
        }
        let is_large = batch.event_bytes(batch.first()) >= self.tail_bytes / LARGE;
        for tail in self.tails.iter_mut() {
            let framing = tail.framing();
            if is_large && framing.keeps_events() {
                tail.cut();
                continue;
            }
            tail.append(batch.first(), now_us, |out| {
                batch.write_frame(batch.first(), &self.topic, self.epoch, framing, out);
            });
        }
        self.next = batch.end();
        self.history_events += batch.count();
        self.history_bytes += batch.memory_bytes();
        self.history.push_back(Retained::new(batch));
        self.trim_to_size();
    }

    /// Gives back what time has made superfluous. Call it about once a second.
    pub fn sweep(&mut self, now_us: u64) {
        let oldest_us = now_us.saturating_sub(self.bounds.age_us_max);
        while self.history.front().is_some_and(|batch| batch.sealed_us() < oldest_us) {
            self.drop_oldest();
        }
        for tail in self.tails.iter_mut() {
            tail.release_if_idle(now_us, TAIL_IDLE_US);
        }
    }

    /// Drops the oldest batches until about `bytes` are freed, but never the
    /// newest; says how many were.
    pub fn shed(&mut self, bytes: usize) -> usize {
        let before = self.history_bytes;
        while self.history.len() > 1 && before - self.history_bytes < bytes {
            self.drop_oldest();
        }
        before - self.history_bytes
    }

    /// The same to the last batch, if need be, but for those sealed at `now_us` or
    /// later: nobody has seen them yet.
    pub fn shed_all(&mut self, bytes: usize, now_us: u64) -> usize {
        let before = self.history_bytes;
        while before - self.history_bytes < bytes
            && self.history.front().is_some_and(|batch| batch.sealed_us() < now_us)
        {
            self.drop_oldest();
        }
        before - self.history_bytes
    }

    /// Makes sure that there is a hot tail for `framing` from the next batch on.
    pub fn open_tail(&mut self, framing: Framing) {
        self.tails.open(framing);
    }

    /// Gives up the hot tail of a framing that nobody uses any more.
    pub fn close_tail(&mut self, framing: Framing) {
        self.tails.close(framing);
    }

    /// Where a new subscription begins.
    pub fn start(&self, at: StartAt) -> Start {
        match at {
            StartAt::Latest => Start::At(Cursor::before(self.next)),
            StartAt::Earliest => Start::At(Cursor::before(self.first_retained())),
            StartAt::After(position) if position.epoch != self.epoch => {
                Start::OtherEpoch(Cursor::before(self.first_retained()))
            }
            StartAt::After(position) => {
                let expected = position.offset + 1;
                if expected < self.first_retained() {
                    Start::Lost(self.lost(expected))
                } else {
                    Start::At(Cursor::before(expected))
                }
            }
        }
    }

    /// Appends the frame that confirms a subscription at `cursor`: an envelope
    /// without events.
    pub fn write_confirmation(&self, cursor: &Cursor, framing: Framing, out: &mut Vec<u8>) {
        let envelope = Envelope {
            topic: &self.topic,
            epoch: self.epoch,
            first: cursor.next,
            last: cursor.next.saturating_sub(1),
            offsets: None,
            events: &[],
        };
        framing.batch(&envelope, out);
    }

    /// What comes after `cursor`, in frames of `framing`. With `one_frame` only
    /// the frame (or its rest) at the cursor, otherwise as much as is
    /// contiguous. Cold bytes are appended to `scratch`.
    pub fn next(
        &self,
        cursor: &Cursor,
        framing: Framing,
        one_frame: bool,
        scratch: &mut Vec<u8>,
    ) -> Next<'_> {
        // A tail may hold more than the history, but a frame that could not be
        // made again must not be begun: the tail may turn over before its end.
        let is_retained = cursor.next >= self.first_retained();
        if let Some((tail, at)) = self.hot_place(cursor, framing)
            && let Some(bytes) = tail.slice(at)
            && (is_retained || cursor.in_frame())
        {
            let one_frame = one_frame || !is_retained;
            let end = if one_frame { tail.frame_end(at) } else { at + bytes.len() as u64 };
            if end == at {
                return Next::Nothing;
            }
            return Next::Hot(&bytes[..(end - at) as usize], self.cursor_at(tail, end));
        }
        if cursor.next >= self.next {
            return Next::Nothing;
        }
        let Some(batch) = self.batch_at(cursor.next) else {
            return Next::Lost(self.lost(cursor.next));
        };
        let start = scratch.len();
        let (topic, epoch) = (&self.topic, self.epoch);
        let is_large = batch.event_bytes(cursor.next) >= self.tail_bytes / BY_REFERENCE;
        let around = is_large
            .then(|| batch.write_around(cursor.next, topic, epoch, framing, scratch))
            .flatten();
        let (mut before, mut events) = around.unwrap_or_else(|| {
            batch.write_frame(cursor.next, topic, epoch, framing, scratch);
            (scratch.len() - start, &[])
        });
        // What is sent of it is left away, part by part.
        let mut sent = cursor.sent as usize;
        let skipped = sent.min(before);
        scratch.drain(start..start + skipped);
        before -= skipped;
        sent -= skipped;
        let skipped = sent.min(events.len());
        events = &events[skipped..];
        scratch.drain(start + before..start + before + sent - skipped);
        Next::Cold { before, events, after: Cursor::before(batch.end()) }
    }

    /// The cursor after `sent` bytes of what [`Self::next`] gave for `cursor`,
    /// fewer than it gave.
    pub fn advance(&self, cursor: &Cursor, framing: Framing, sent: usize) -> Cursor {
        match self.hot_place(cursor, framing) {
            Some((tail, at)) if tail.slice(at).is_some() => self.cursor_at(tail, at + sent as u64),
            _ => Cursor { next: cursor.next, sent: cursor.sent + sent as u32, hot: COLD },
        }
    }

    /// Keeps the batch of a frame partly sent alive until it is finished.
    pub fn pin(&mut self, cursor: &Cursor) {
        if let Some(batch) = self.batch_at(cursor.next) {
            let batch = Arc::clone(batch);
            self.pins.pin(&batch);
        }
    }

    /// Undoes [`Self::pin`].
    pub fn unpin(&mut self, cursor: &Cursor) {
        self.pins.unpin(cursor.next);
    }

    /// Memory that partly sent frames hold beyond the history, in bytes.
    pub fn pinned_bytes(&self) -> usize {
        self.pins.bytes_before(self.first_retained())
    }

    /// Memory of the history, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    /// Memory of the hot tails, in bytes.
    pub fn tail_bytes(&self) -> usize {
        self.tails.iter().map(HotTail::memory_bytes).sum()
    }

    /// Offset of the oldest event retained; without any, of the next one.
    pub fn first_retained(&self) -> Offset {
        self.history.front().map_or(self.next, |batch| batch.first())
    }

    /// Where `cursor` is in the hot tail, joining it at a frame boundary.
    fn hot_place(&self, cursor: &Cursor, framing: Framing) -> Option<(&HotTail, u64)> {
        let tail = self.tails.get(framing)?;
        if cursor.hot != COLD {
            return Some((tail, cursor.hot));
        }
        if cursor.in_frame() {
            return None;
        }
        let at = if cursor.next == self.next { tail.head() } else { tail.byte_of(cursor.next)? };
        Some((tail, at))
    }

    fn cursor_at(&self, tail: &HotTail, at: u64) -> Cursor {
        match tail.frame_at(at) {
            Some((first, byte)) => Cursor { next: first, sent: (at - byte) as u32, hot: at },
            None => Cursor { next: self.next, sent: 0, hot: at },
        }
    }

    /// The batch that holds `offset`, if it is retained or pinned.
    pub fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let index = self.history.partition_point(|batch| batch.end() <= offset);
        let retained = self.history.get(index).filter(|batch| batch.first() <= offset);
        let retained = retained.map(|batch| &**batch);
        retained.or_else(|| self.pins.find(offset))
    }

    fn lost(&self, expected: Offset) -> Lost {
        let first_at = |index: usize| self.history.get(index).map_or(self.next, |b| b.first());
        // Never back: after a hole in this shard's copy the middle may lie
        // before the cursor.
        let resumable = self.batches_from(expected).next().map_or(self.next, |b| b.first());
        Lost {
            expected,
            middle: first_at(self.history.len() / 2).max(resumable),
            newest: first_at(self.history.len().saturating_sub(1)).max(resumable),
        }
    }

    fn trim_to_size(&mut self) {
        while self.history.len() > 1
            && (self.history_events > self.bounds.events_max
                || self.history_bytes > self.bounds.bytes_max)
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(batch) = self.history.pop_front() {
            self.history_events -= batch.count();
            self.history_bytes -= batch.memory_bytes();
        }
    }
}
