use std::{collections::VecDeque, sync::Arc};

use thalweg_wire::{Before, Envelope, Epoch, Format, Offset, StartAt, Topic};

use super::{
    Batch, Cursor, FormatMap, Payloads,
    batch::Retained,
    pins::Pins,
    recalled::Recalled,
    tail::{HotTail, TAIL_BYTES},
};

/// How much of a stream is retained. The bound that is reached first counts. The newest batch
/// always stays, unless it is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Events.
    pub events_max: usize,
    /// Bytes of memory.
    pub bytes_max: usize,
    /// Age of a batch, in µs.
    pub age_us_max: u64,
}

/// A batch of at least 1/256 of the hot tail's size (4 KiB) is sent from its own memory as
/// three slices, without a copy.
const ZERO_COPY_DIVISOR: usize = 256;

/// A batch of at least 1/4 of the hot tail's size (256 KiB) is not copied into the tail, if the
/// format keeps events as they are: it is sent to all from its own memory. A copy would cost
/// more than three slices instead of one, and the tail would contain little else.
const TAIL_BYPASS_DIVISOR: usize = 4;

/// How long a hot tail without new frames keeps its memory, in µs.
const TAIL_IDLE_US: u64 = 2_000_000;

/// A stream as one shard reads it: the history, and a hot tail for each format
/// in use. All hot tails have the same batch boundaries.
///
/// Its owner passes it every sealed batch ([`Self::push`]), opens a hot tail for each format
/// that has subscribers, closes those of formats that have none any more, and calls
/// [`Self::sweep`] about once a second. On a shard that is not the topic's home batches may be
/// missing in between; then they are lost for its readers ([`super::Next::Lost`]).
#[derive(Debug)]
pub struct Log {
    topic: Topic,
    epoch: Epoch,
    offsets: Offsets,
    bounds: HistoryBounds,
    tail_bytes: usize,
    /// One past the newest event.
    next: Offset,
    history: VecDeque<Retained>,
    history_events: usize,
    history_bytes: usize,
    /// Made for the first batch: a topic without events has none.
    tails: FormatMap<Option<Box<HotTail>>>,
    pins: Pins,
    /// What was read back of what is older than the history.
    recalled: Recalled,
    /// From here on, what is not here is stored elsewhere and can be read back. `None`: nothing is.
    stored_from: Option<Offset>,
}

/// Events that were read back, from an offset on.
#[derive(Debug)]
pub struct Page {
    /// The offset that was asked for. The page has every event from here on, up to its last.
    pub from: Offset,
    /// Messages with the offset of their first event, in order. The first may begin before `from`.
    pub messages: Vec<(Offset, Payloads)>,
    /// Set if no event comes between its last one and this offset, where the next batch that is here
    /// starts ([`super::Feed::here_from`]).
    pub is_last_before: Option<Offset>,
    /// What is older than this cannot be read.
    pub stored_from: Offset,
}

/// Whether every offset of a stream is an event's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offsets {
    /// So it is: the difference of two offsets is a number of events.
    #[default]
    Consecutive,
    /// Between two batches there may be offsets that were never given. Somebody else gives them, and
    /// stores the events, too: what is not here can be read back.
    Sparse,
}

/// Where a cursor whose events are gone can go on. Both places come after `expected`: the
/// events from `expected` to the place chosen are the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The next offset that it should have got.
    pub expected: Offset,
    /// Where a batch in the middle of the history starts; of a stream that is stored, its oldest
    /// event.
    pub middle: Offset,
    /// Where the newest batch starts.
    pub newest: Offset,
    offsets: Offsets,
}

impl Lost {
    /// Whether the events are gone from where they were stored, however fast a reader is.
    pub fn is_expired(&self) -> bool {
        self.offsets == Offsets::Sparse
    }

    /// How many events are missing if it goes on at `next`, if the offsets say that.
    pub fn missed(&self, next: Offset) -> Option<Offset> {
        (self.offsets == Offsets::Consecutive).then(|| next - self.expected)
    }
}

/// How a subscription begins. The caller tells the subscriber before it sends any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this cursor, and nothing is lost. Confirm it ([`Log::write_confirmation`]).
    At(Cursor),
    /// The position is older than the history. Announce a gap of known size and go on where
    /// the policy says.
    Lost(Lost),
    /// The position is of another epoch, so nobody knows how much was missed. Announce a gap
    /// of unknown size and go on at this cursor, the oldest event that is retained.
    OtherEpoch(Cursor),
}

impl Log {
    /// An empty log of a stream whose next event is `next`.
    pub fn new(
        topic: Topic,
        epoch: Epoch,
        next: Offset,
        offsets: Offsets,
        bounds: HistoryBounds,
    ) -> Self {
        Self {
            topic,
            epoch,
            offsets,
            bounds,
            tail_bytes: TAIL_BYTES,
            next,
            history: VecDeque::new(),
            history_events: 0,
            history_bytes: 0,
            tails: FormatMap::default(),
            pins: Pins::default(),
            recalled: Recalled::default(),
            stored_from: (offsets == Offsets::Sparse).then_some(0),
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

    /// Offset one past the newest event.
    pub fn head(&self) -> Offset {
        self.next
    }

    /// The batches retained, from the one that holds `from` on.
    pub fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        self.history.range(self.index_past(from)..).map(|batch| &**batch)
    }

    /// Appends a sealed batch to the history and to every hot tail. Batches come in order. If
    /// one does not start at [`Self::head`], batches are missing before it.
    pub fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        // If batches are missing, a hot cursor would skip them without noticing. A cold cursor
        // finds that its event is gone.
        let is_missing = batch.start() > self.next;
        let is_large = batch.event_bytes(batch.first()) >= self.tail_bytes / TAIL_BYPASS_DIVISOR;
        for (format, tail) in self.tails.iter_mut() {
            let tail = tail.get_or_insert_with(|| Box::new(HotTail::new(self.tail_bytes)));
            let is_left_out = is_large && format.keeps_events();
            if is_missing || is_left_out {
                tail.cut();
            }
            if !is_left_out {
                tail.append(batch.start(), now_us, |out| {
                    batch.write_frame(batch.start(), &self.topic, self.epoch, format, out);
                });
            }
        }
        self.next = batch.end();
        self.history_events += batch.count();
        self.history_bytes += batch.memory_bytes();
        self.history.push_back(Retained::new(batch));
        self.trim_to_size();
    }

    /// Moves the head, with nothing before it: as [`super::Feed::skip_to`].
    pub(super) fn skip_to(&mut self, head: Offset) {
        self.next = head;
        self.tails.iter_mut().filter_map(|(_, tail)| tail.as_mut()).for_each(|tail| tail.cut());
    }

    /// Frees what is no longer needed. Call it about once a second.
    pub fn sweep(&mut self, now_us: u64) {
        let oldest_us = now_us.saturating_sub(self.bounds.age_us_max);
        while self.history.front().is_some_and(|batch| batch.sealed_us() < oldest_us) {
            self.drop_oldest();
        }
        self.recalled.sweep(now_us);
        for tail in self.tails.iter_mut().filter_map(|(_, tail)| tail.as_mut()) {
            tail.release_if_idle(now_us, TAIL_IDLE_US);
        }
    }

    /// Drops the oldest batches until about `bytes` are freed, but never the newest. Returns
    /// the bytes freed.
    pub fn trim_bytes(&mut self, bytes: usize) -> usize {
        let before = self.history_bytes;
        while self.history.len() > 1 && before - self.history_bytes < bytes {
            self.drop_oldest();
        }
        before - self.history_bytes
    }

    /// The same, down to the last batch if necessary. Batches sealed at `now_us` or later stay,
    /// because nobody has seen them yet.
    pub fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        let before = self.history_bytes;
        while before - self.history_bytes < bytes
            && self.history.front().is_some_and(|batch| batch.sealed_us() < now_us)
        {
            self.drop_oldest();
        }
        before - self.history_bytes
    }

    /// Makes sure that there is a hot tail for `format` from the next batch on.
    pub fn open_tail(&mut self, format: Format) {
        self.tails.get_or_insert_with(format, || None);
    }

    /// Removes the hot tail of a format that nobody uses any more.
    pub fn close_tail(&mut self, format: Format) {
        self.tails.remove(format);
    }

    /// The hot tail of a format.
    pub(super) fn tail(&self, format: Format) -> Option<&HotTail> {
        self.tails.get(format).and_then(Option::as_deref)
    }

    /// Where a new subscription begins. A subscription ahead of the newest event waits until
    /// the stream has passed its position.
    pub fn start(&self, at: StartAt) -> Start {
        match at {
            StartAt::Latest => Start::At(Cursor::before(self.next)),
            StartAt::Earliest => Start::At(Cursor::before(self.first_retained())),
            StartAt::After(position) if position.epoch != self.epoch => {
                Start::OtherEpoch(Cursor::before(self.first_retained()))
            }
            StartAt::After(position) => {
                let expected = position.offset + 1;
                if expected < self.first_retained() && !self.is_stored(expected) {
                    Start::Lost(self.lost(expected))
                } else {
                    Start::At(Cursor::before(expected))
                }
            }
        }
    }

    /// Appends the frame that confirms a subscription at `cursor`: an envelope
    /// without events.
    pub fn write_confirmation(&self, cursor: &Cursor, format: Format, out: &mut Vec<u8>) {
        let envelope = Envelope {
            topic: &self.topic,
            epoch: self.epoch,
            first: cursor.next,
            last: cursor.next.saturating_sub(1),
            before: Before::Adjacent,
            offsets: None,
            events: &[],
        };
        format.batch(&envelope, out);
    }

    /// Keeps the batch of a frame partly sent alive until it is finished, however much is
    /// trimmed until then. Each call needs a call of [`Self::unpin`] with a cursor in the same
    /// batch.
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

    /// Bytes of events that are left of the frame that a pinned cursor is in.
    pub fn rest_of_frame(&self, cursor: &Cursor) -> Option<usize> {
        let batch = self.batch_at(cursor.next)?;
        Some(batch.event_bytes(cursor.next).saturating_sub(cursor.sent()))
    }

    /// How many events are retained.
    pub fn retained_events(&self) -> usize {
        self.history_events
    }

    /// As [`super::Feed::events_from`].
    pub(super) fn events_from(&self, from: Offset) -> u64 {
        match self.offsets {
            Offsets::Consecutive => self.next.saturating_sub(from),
            Offsets::Sparse => {
                let batches = self.history.len() - self.index_past(from);
                (self.history_events * batches).div_ceil(self.history.len().max(1)) as u64
            }
        }
    }

    /// Memory of the history, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    /// Memory of what was read back, in bytes.
    pub fn recalled_bytes(&self) -> usize {
        self.recalled.bytes()
    }

    /// Forgets what was read back.
    pub fn forget_recalled(&mut self) {
        self.recalled.clear();
    }

    /// Memory of the hot tails, in bytes.
    pub fn tail_bytes(&self) -> usize {
        let made = self.tails.iter().filter_map(|(_, tail)| tail.as_ref());
        made.map(|tail| tail.memory_bytes()).sum()
    }

    /// Where the oldest batch retained starts; the head, if none is retained.
    pub fn first_retained(&self) -> Offset {
        self.history.front().map_or(self.next, |batch| batch.start())
    }

    /// The batch that stands for `offset`, if it is retained, read back or pinned.
    pub fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let is_its = |batch: &&Retained| batch.start() <= offset;
        let retained = self.history.get(self.index_past(offset)).filter(is_its);
        let retained = retained.map(|batch| &**batch);
        retained.or_else(|| self.recalled.find(offset)).or_else(|| self.pins.find(offset))
    }

    /// Whether what is not here from `offset` on can be read back.
    pub(super) fn is_stored(&self, offset: Offset) -> bool {
        self.stored_from.is_some_and(|stored_from| offset >= stored_from)
    }

    /// Where the next batch retained starts that ends past `from`; the head, if there is none.
    pub(super) fn here_from(&self, from: Offset) -> Offset {
        self.batches_from(from).next().map_or(self.next, |batch| batch.start())
    }

    /// Takes events in that were read back. The head goes back if there is nothing before it: the next
    /// batch is to start there.
    pub fn recall(&mut self, page: Page, now_us: u64) {
        let Page { from, messages, is_last_before, stored_from } = page;
        self.stored_from = self.stored_from.map(|before| before.max(stored_from));
        let mut start = from;
        let bytes = |(_, payloads): &(Offset, Payloads)| payloads.joined().len();
        self.recalled.make_room(messages.iter().map(bytes).sum());
        for (first, payloads) in messages {
            let batch = Batch::seal(start.min(first), first, payloads, now_us);
            start = batch.end();
            self.recalled.insert(batch, now_us);
        }
        if start < self.here_from(from) && is_last_before == Some(self.here_from(from)) {
            let next = self.batches_from(from).next().map(|batch| batch.starting_at(start));
            match next {
                Some(next) => self.recalled.insert(next, now_us),
                None => self.next = start,
            }
        }
    }

    /// Index of the first batch retained that ends past `offset`. Searches from the newest
    /// batch backwards, twice as far each time, then by halves: nearly every reader is near the
    /// newest batch, and each batch that is looked at may miss the cache.
    fn index_past(&self, offset: Offset) -> usize {
        let ends_past = |index: usize| self.history[index].end() > offset;
        let (mut low, mut high, mut step) = (0, self.history.len(), 1);
        while low < high {
            let index = high.saturating_sub(step).max(low);
            if !ends_past(index) {
                low = index + 1;
                break;
            }
            (high, step) = (index, step * 2);
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if ends_past(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The size, in bytes, from which on a batch's events are sent from its own memory.
    pub(super) fn zero_copy_bytes(&self) -> usize {
        self.tail_bytes / ZERO_COPY_DIVISOR
    }

    pub(super) fn lost(&self, expected: Offset) -> Lost {
        let start_of = |index: usize| self.history.get(index).map_or(self.next, |b| b.start());
        // Never backwards: if this shard's copy lacks batches, the middle may lie before the
        // cursor.
        let resumable = self.here_from(expected);
        let middle = start_of(self.history.len() / 2).max(resumable);
        // What is stored can still be read back, from its beginning.
        let stored = self.stored_from.filter(|from| (expected..middle).contains(from));
        Lost {
            expected,
            middle: stored.unwrap_or(middle),
            newest: start_of(self.history.len().saturating_sub(1)).max(resumable),
            offsets: self.offsets,
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

#[cfg(test)]
mod tests {
    use super::{
        super::{Feed, FeedKind, Frames, Next, Payloads},
        *,
    };

    const FORMAT: Format = Format::NDJSON;

    fn feed(offsets: Offsets) -> Feed {
        let bounds = HistoryBounds { events_max: 9, bytes_max: 1 << 20, age_us_max: u64::MAX };
        let epoch = Epoch::new(1).unwrap();
        let mut feed = Feed::new(FeedKind::Log, "cars".parse().unwrap(), epoch, 1, offsets, bounds);
        feed.open_tail(FORMAT);
        feed
    }

    /// One event at `first`, after everything up to `start`.
    fn push(feed: &mut Feed, start: Offset, first: Offset) {
        let mut payloads = Payloads::default();
        let write = |out: &mut Vec<u8>| {
            out.push(b'1');
            Ok::<_, ()>(())
        };
        payloads.push(write).unwrap();
        feed.push(Arc::new(Batch::seal(start, first, payloads, 1)), 1);
    }

    fn hot<'a>(feed: &'a Feed, cursor: &Cursor) -> (&'a str, Cursor) {
        match Frames::of(feed, FORMAT).next(cursor, false, &mut Vec::new()) {
            Next::Hot(bytes, after) => (str::from_utf8(bytes).unwrap(), after),
            other => panic!("no hot frame: {other:?}"),
        }
    }

    #[test]
    fn what_was_lost_at_the_end_is_known_to_be_lost() {
        let mut feed = feed(Offsets::Consecutive);
        push(&mut feed, 1, 1);
        let (_, after) = hot(&feed, &Cursor::before(1));
        feed.skip_to(5);
        for cursor in [after, Cursor::before(2)] {
            let next = Frames::of(&feed, FORMAT).next(&cursor, false, &mut Vec::new());
            let Next::Lost(lost) = next else { panic!("{cursor:?} has lost nothing") };
            assert_eq!((lost.expected, lost.middle, lost.newest), (2, 5, 5));
            assert_eq!(lost.missed(lost.newest), Some(3));
        }
        feed.skip_to(3);
        assert_eq!(feed.head(), 5);
    }

    #[test]
    fn who_keeps_up_reads_hot_over_offsets_that_were_never_given() {
        let mut feed = feed(Offsets::Sparse);
        push(&mut feed, 1, 256);
        let (_, after) = hot(&feed, &Cursor::before(1));
        push(&mut feed, 257, 1024);
        let (frame, after) = hot(&feed, &after);
        assert!(frame.contains(r#""first":1024,"after":256,"events":[1]"#), "{frame}");
        push(&mut feed, 1025, 1280);
        hot(&feed, &after);
        feed.skip_to(2000);
        let next = Frames::of(&feed, FORMAT).next(&after, false, &mut Vec::new());
        assert!(matches!(next, Next::Cold { .. }), "{next:?}");
        let next = |feed: &Feed| match Frames::of(feed, FORMAT).next(
            &Cursor::before(1281),
            false,
            &mut Vec::new(),
        ) {
            Next::Away(from) => Ok(from),
            Next::Lost(lost) => Err(lost.missed(lost.newest)),
            other => panic!("{other:?}"),
        };
        assert_eq!(next(&feed), Ok(1281), "it can be read back");
        let (messages, is_last_before) = (Vec::new(), Some(2000));
        feed.recall(Page { from: 1536, messages, is_last_before, stored_from: 1536 }, 2);
        assert_eq!(next(&feed), Err(None), "it is not stored any more");
    }
}
