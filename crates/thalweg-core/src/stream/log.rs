mod columns;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{Before, Envelope, Epoch, Format, Offset, StartAt, Topic};

use super::{
    Batch, Cursor, FormatMap, HistoryBounds, Lost, Offsets, Page, Payloads, Start,
    batch_columns::ColumnFrame,
    beyond::Beyond,
    column_frames::ColumnMemory,
    cursor::COLD_PART,
    history::History,
    log_columns::LogColumns,
    pins::Pins,
    recalled::Recalled,
    tail::{HotTail, TAIL_BYTES},
};

/// A batch of at least 1/256 of the hot tail's size (4 KiB) is sent from its own memory as
/// three slices, without a copy.
const ZERO_COPY_DIVISOR: usize = 256;

/// A batch of at least 1/4 of the hot tail's size (256 KiB) is not copied into the tail, if the
/// format keeps events as they are: it is sent to all from its own memory. A copy would cost
/// more than three slices instead of one, and the tail would contain little else.
const TAIL_BYPASS_DIVISOR: usize = 4;

/// How long a hot tail without new frames keeps its memory, and frames of columns stay without new ones,
/// in µs.
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
    tail_bytes: usize,
    /// One past the newest event.
    next: Offset,
    history: History,
    /// Made for the first batch: a topic without events has none.
    tails: FormatMap<Option<Box<HotTail>>>,
    columns: LogColumns,
    pins: Pins,
    /// What was read back of what is older than the history.
    recalled: Recalled,
    /// From here on, what is not here is stored elsewhere and can be read back. `None`: nothing is.
    stored_from: Option<Offset>,
    beyond: Beyond,
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
            tail_bytes: TAIL_BYTES,
            next,
            history: History::new(bounds, next),
            tails: FormatMap::default(),
            columns: LogColumns::default(),
            pins: Pins::default(),
            recalled: Recalled::default(),
            stored_from: (offsets == Offsets::Stored).then_some(0),
            beyond: Beyond::default(),
        }
    }

    /// The same with hot tails of about this many bytes each, from now on.
    pub fn with_tail_bytes(self, tail_bytes: usize) -> Self {
        Self { tail_bytes, ..self }
    }

    /// The same with columns as they are declared, if they are, and frames of them counted in `memory`.
    pub fn with_columns(self, columns: Option<Arc<Columns>>, memory: ColumnMemory) -> Self {
        Self { columns: LogColumns::new(columns, memory), ..self }
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
        self.history.past(from)
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
                    let encoding = format.into();
                    batch.write_frame(batch.start(), &self.topic, self.epoch, encoding, out);
                });
            }
        }
        self.next = batch.end();
        self.history.push(batch);
        self.drop_column_frames();
    }

    /// Moves the head, with nothing before it: as [`super::Feed::skip_to`].
    pub(super) fn skip_to(&mut self, head: Offset) {
        self.next = head;
        self.tails.iter_mut().filter_map(|(_, tail)| tail.as_mut()).for_each(|tail| tail.cut());
    }

    /// Frees what is no longer needed. Call it about once a second.
    pub fn sweep(&mut self, now_us: u64) {
        self.history.sweep(now_us);
        self.recalled.sweep(now_us);
        self.beyond.sweep(now_us);
        self.drop_column_frames();
        let frames = &mut self.columns.frames;
        let is_idle = frames.is_idle(now_us, TAIL_IDLE_US);
        let bytes_max = if is_idle { 0 } else { frames.share() };
        frames.shrink_to(bytes_max, |end| self.pins.find(end - 1).is_some());
        for tail in self.tails.iter_mut().filter_map(|(_, tail)| tail.as_mut()) {
            tail.release_if_idle(now_us, TAIL_IDLE_US);
        }
    }

    /// Drops the oldest batches until about `bytes` are freed, but never the newest. Returns
    /// the bytes freed.
    pub fn trim_bytes(&mut self, bytes: usize) -> usize {
        let freed = self.history.trim_bytes(bytes);
        self.drop_column_frames();
        freed
    }

    /// The same, down to the last batch if necessary. Batches sealed at `now_us` or later stay,
    /// because nobody has seen them yet.
    pub fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        let freed = self.history.trim_all(bytes, now_us);
        self.drop_column_frames();
        freed
    }

    /// Makes sure that there is a hot tail for `format` from the next batch on. Columns have none: their
    /// frames are made when somebody reads them ([`super::Feed::make_column_frames`]).
    pub fn open_tail(&mut self, format: Format) {
        match format.has_columns() {
            true => self.columns.open(self.history.past(0)),
            false => drop(self.tails.get_or_insert_with(format, || None)),
        }
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
    /// the stream has passed its position; if the stream is stored elsewhere, only if it has given
    /// such a position.
    pub fn start(&self, at: StartAt) -> Start {
        let oldest = |start: fn(Cursor) -> Start| {
            self.oldest().map_or(Start::Away(0), |oldest| start(Cursor::before(oldest)))
        };
        match at {
            StartAt::Latest => Start::At(Cursor::before(self.next)),
            StartAt::Earliest => oldest(Start::At),
            StartAt::Newest(count) => {
                let from = self.history.newest_from(count as usize).unwrap_or(self.next);
                Start::At(Cursor::before(from))
            }
            StartAt::After(position) if position.epoch != self.epoch => oldest(Start::OtherEpoch),
            StartAt::After(position) => {
                let expected = position.offset + 1;
                if expected < self.first_retained() && !self.is_stored(expected) {
                    return Start::Lost(self.lost(expected));
                }
                let is_derived = self.offsets == Offsets::Derived;
                if is_derived && expected < self.next && self.batch_at(expected).is_none() {
                    return Start::Lost(self.lost(expected));
                }
                let is_beyond = expected > self.next && self.stored_from.is_some();
                match self.beyond.is_given(expected) {
                    None if is_beyond => Start::Away(expected),
                    Some(false) if is_beyond => oldest(Start::OtherEpoch),
                    _ => Start::At(Cursor::before(expected)),
                }
            }
        }
    }

    /// Where the oldest event is that can be read. `None`: it is stored elsewhere, and must be looked
    /// for.
    fn oldest(&self) -> Option<Offset> {
        let Some(from) = self.stored_from else { return Some(self.first_retained()) };
        (from > 0 && (from >= self.next || self.batch_at(from).is_some())).then_some(from)
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

    /// Memory that partly sent frames hold, in bytes: batches beyond the history, and frames of columns.
    pub fn pinned_bytes(&self) -> usize {
        let frames = self.pins.ends().filter_map(|end| self.columns.frames.get(end));
        let frame_bytes: usize = frames.map(ColumnFrame::memory_bytes).sum();
        self.pins.bytes_before(self.first_retained()) + frame_bytes
    }

    /// Bytes that are left of the frame in `format` that a pinned cursor is in, about.
    pub fn rest_of_frame(&self, cursor: &Cursor, format: Format) -> Option<usize> {
        let batch = self.batch_at(cursor.next)?;
        let kept = self.columns.frames.get(batch.end()).filter(|_| format.has_columns());
        let bytes = match kept {
            _ if cursor.hot == COLD_PART => batch.event_bytes(cursor.next).min(self.part_bytes()),
            Some(frame) => frame.bytes(format).len(),
            None => batch.event_bytes(cursor.next),
        };
        // A part of columns may be many times its events: what was sent of it says little of its rest.
        let sent = if cursor.hot == COLD_PART { 0 } else { cursor.sent() };
        Some(bytes.saturating_sub(sent))
    }

    /// How many events are retained.
    pub fn retained_events(&self) -> usize {
        self.history.events()
    }

    /// As [`super::Feed::events_from`].
    pub(super) fn events_from(&self, from: Offset) -> u64 {
        match self.offsets {
            Offsets::Consecutive => self.next.saturating_sub(from),
            Offsets::Stored | Offsets::Derived => self.history.about_events_from(from),
        }
    }

    /// Memory of the history, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.history.bytes()
    }

    /// Memory of what was read back, in bytes.
    pub fn recalled_bytes(&self) -> usize {
        self.recalled.bytes()
    }

    /// Forgets what was read back.
    pub fn forget_recalled(&mut self) {
        self.recalled.clear();
    }

    /// Memory of the hot tails and of the frames of columns that are kept, in bytes.
    pub fn tail_bytes(&self) -> usize {
        let made = self.tails.iter().filter_map(|(_, tail)| tail.as_ref());
        made.map(|tail| tail.memory_bytes()).sum::<usize>() + self.columns.frames.bytes()
    }

    /// Where the oldest batch retained starts; the head, if none is retained.
    pub fn first_retained(&self) -> Offset {
        self.history.oldest().map_or(self.next, |batch| batch.start())
    }

    /// The batch that stands for `offset`, if it is retained, read back or pinned.
    pub fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let retained = self.history.find(offset);
        retained.or_else(|| self.recalled.find(offset)).or_else(|| self.pins.find(offset))
    }

    /// As [`super::Feed::published_us`]. Nearly every reader is at the newest batch.
    pub(super) fn published_us(&self, offset: Offset) -> Option<u64> {
        let newest = self.history.newest().filter(|newest| newest.start() <= offset);
        newest.or_else(|| self.batch_at(offset)).map(|batch| batch.published_us())
    }

    /// As [`super::Feed::is_away`].
    pub(super) fn is_away(&self, from: Offset) -> bool {
        if from == 0 {
            self.oldest().is_none()
        } else if from > self.next {
            self.stored_from.is_some() && self.beyond.is_given(from).is_none()
        } else {
            from < self.next && self.batch_at(from).is_none() && self.is_stored(from)
        }
    }

    /// As [`super::Feed::look_beyond`].
    pub(super) fn look_beyond(&mut self, from: Offset, is_given: bool, now_us: u64) {
        self.beyond.answer(from, is_given, now_us);
    }

    /// As [`super::Feed::stored_from`].
    pub(super) fn stored_from(&self) -> Offset {
        self.stored_from.unwrap_or_default()
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
        let mut end = from;
        let bytes = |(_, payloads): &(Offset, Payloads)| payloads.joined().len();
        self.recalled.make_room(messages.iter().map(bytes).sum());
        for batch in Batch::seal_messages(from, messages, now_us) {
            end = batch.end();
            // The frame may have outlived another copy of the batch.
            if let Some(frame) = self.columns.frames.get(end) {
                batch.adopt_columns(frame.columns());
            }
            self.recalled.insert(batch, now_us);
        }
        if end < self.here_from(from) && is_last_before == Some(self.here_from(from)) {
            let next = self.batches_from(from).next().map(|batch| batch.starting_at(end));
            match next {
                Some(next) => self.recalled.insert(next, now_us),
                None => self.next = end,
            }
        }
    }

    /// The size, in bytes, from which on a batch's events are sent from its own memory.
    pub(super) fn zero_copy_bytes(&self) -> usize {
        self.tail_bytes / ZERO_COPY_DIVISOR
    }

    pub(super) fn lost(&self, expected: Offset) -> Lost {
        let start_of = |batch: Option<&Arc<Batch>>| batch.map_or(self.next, |it| it.start());
        // Never backwards: if this shard's copy lacks batches, the middle may lie before the
        // cursor.
        let resumable = self.here_from(expected);
        let middle = start_of(self.history.middle()).max(resumable);
        // What is stored can still be read back, from its beginning.
        let stored = self.stored_from.filter(|from| (expected..middle).contains(from));
        let lost = Lost {
            expected,
            middle: stored.unwrap_or(middle),
            newest: start_of(self.history.newest()).max(resumable),
            offsets: self.offsets,
            is_expired: match self.offsets {
                Offsets::Consecutive => false,
                Offsets::Stored => true,
                Offsets::Derived => expected >= self.history.whole_from(),
            },
        };
        match lost.is_hole() {
            true => Lost { middle: resumable, newest: resumable, ..lost },
            false => lost,
        }
    }
}
