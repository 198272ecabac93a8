//! A keyed topic: the newest event of each key.
//!
//! ```text
//! table       the newest event of each key
//! pages       finished frames of several keys, which readers share
//! joined      events of several keys, as an envelope holds them
//! load_progress  how far that is read
//! loading     the state that a broker stores, page by page
//! frames      how subscribers of an encoding read it
//! feed        a keyed topic as a feed
//! state_part  a part of the table for another shard
//! ```
//!
//! A keyed topic is a log and its compaction, which has one event of each key in the order of offsets. Readers that keep up get every
//! event from the log's hot tail. Others get pages of the compaction from their cursor on: each key once. A page names the
//! head at which it was made. Once a client's position has reached every such head, the client has a state that existed
//! (docs/decisions/042-keyed-topics.md).

mod feed;
mod frames;
mod joined;
mod load_progress;
mod loading;
mod pages;
mod state_part;
mod table;

use std::sync::Arc;

use thalweg_wire::{Epoch, Format, Offset, Topic};

use super::{
    ColumnMemory, ColumnRows, Cursor, Encoding, Feed, HistoryBounds, KeyedEvent, Log, Memory,
    Offsets, Pinning, log::PART_DIVISOR, tail::TAIL_BYTES,
};
pub use frames::KeyedFrames;
pub use joined::JoinedKeys;
use load_progress::Loading;
use pages::{KeyedPage, Pages};
pub use state_part::StatePart;
use table::{Selected, Table};

/// The bounds of the removals that a keyed topic remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalBounds {
    /// The maximum age, in µs. A client that was away longer may get the whole state again.
    pub age_us_max: u64,
    /// The maximum number.
    pub count_max: usize,
}

impl Default for RemovalBounds {
    /// Returns bounds of ten minutes and 100,000 removals.
    fn default() -> Self {
        Self { age_us_max: 600_000_000, count_max: 100_000 }
    }
}

/// A keyed topic as one shard reads it.
#[derive(Debug)]
pub struct KeyedFeed {
    log: Log,
    table: Table,
    pages: Pages,
    removals: RemovalBounds,
    page_bytes: usize,
    /// The owner shard's head when it made the newest part of the state received here. Until the log reaches it, the feed is partial.
    state_head: Offset,
    /// Removals that were forgotten for want of room, since the last count.
    forgotten_early: u64,
    /// Whether a broker stores the state, and this shard reads it from there.
    is_stored: bool,
    /// Set while the state is being read.
    loading: Option<Box<Loading>>,
}

impl KeyedFeed {
    /// Creates an empty keyed topic whose next event is `next`.
    pub fn new(
        topic: Topic,
        epoch: Epoch,
        next: Offset,
        offsets: Offsets,
        bounds: HistoryBounds,
    ) -> Self {
        let mut table = Table::default();
        if next > 1 {
            table.restart(next);
        }
        Self {
            log: Log::new(topic, epoch, next, offsets, bounds),
            table,
            pages: Pages::default(),
            removals: RemovalBounds::default(),
            page_bytes: TAIL_BYTES / PART_DIVISOR,
            state_head: 0,
            forgotten_early: 0,
            is_stored: false,
            loading: None,
        }
    }

    /// Sets the rough size of later hot tails, in bytes. Pages have a sixteenth of it.
    pub fn with_tail_bytes(self, tail_bytes: usize) -> Self {
        let page_bytes = tail_bytes / PART_DIVISOR;
        Self { log: self.log.with_tail_bytes(tail_bytes), page_bytes, ..self }
    }

    /// Sets the memory account of kept pages.
    pub fn with_page_memory(self, memory: ColumnMemory) -> Self {
        Self { pages: Pages::counted_in(memory), ..self }
    }

    /// Sets the bounds of removals.
    pub fn with_removals(self, removals: RemovalBounds) -> Self {
        Self { removals, ..self }
    }

    /// Returns the offset from which on no removal is missing. A reader before that offset must begin again, unless its first
    /// page was made at this head or a later one.
    pub fn complete_from(&self) -> Offset {
        self.table.complete_from()
    }

    /// Returns whether parts of the state are still to come from the owner shard or a broker. Readers wait for these parts, because the
    /// `until` of a page must say which removals the reader does not need.
    pub fn is_partial(&self) -> bool {
        self.head() < self.state_head || self.loading.is_some()
    }

    /// Returns whether a reader learns of all changes after `cursor`.
    fn is_complete_after(&self, cursor: &Cursor) -> bool {
        let has_no_key_of_before = cursor.chain().unwrap_or(0).max(cursor.next);
        cursor.next <= 1 || self.complete_from() <= has_no_key_of_before
    }

    /// Makes the page at a cursor.
    fn make_page(&self, cursor: &Cursor, encoding: Encoding<'_>, now_us: u64) -> KeyedPage {
        let (from, head) = (cursor.next(), self.head());
        let mut joined = JoinedKeys::default();
        let to = match encoding.filter() {
            None => self.join(from, self.table.events_from(from), &mut joined),
            Some(filter) => {
                let Selected { events, end } =
                    self.table.selected_from(cursor.needed_from(), filter);
                self.join(from, events.into_iter(), &mut joined).or(end)
            }
        };
        let to = to.unwrap_or(head);
        let (format, filter) = (encoding.format(), encoding.filter().map(Arc::clone));
        let mut bytes = Vec::new();
        let envelope = joined.envelope((self.topic(), self.epoch()), (from, to), head);
        Encoding::from(format).batch(&envelope, &mut bytes);
        let bytes = (bytes, joined.end().is_none());
        KeyedPage::new((from, to, head), (format, filter), bytes, now_us)
    }

    /// Joins the events from `from` on, as many as a page has. Returns where the page ends, if it does not have all of them.
    fn join<'a>(
        &self,
        from: Offset,
        events: impl Iterator<Item = &'a Arc<KeyedEvent>>,
        joined: &mut JoinedKeys,
    ) -> Option<Offset> {
        // A reader without keys needs no removal.
        let mut events = events.filter(|event| from > 1 || !event.is_removal());
        let is_whole = events.all(|event| joined.push(event, self.page_bytes));
        if is_whole { None } else { joined.end() }
    }
}

impl Memory for KeyedFeed {
    fn history_bytes(&self) -> usize {
        self.log.history_bytes() + self.table.bytes()
    }

    fn state_bytes(&self) -> usize {
        self.table.bytes()
    }

    fn removal_bytes(&self) -> usize {
        self.table.removed_bytes()
    }

    // The state stays.
    fn trim_all(&mut self, bytes: usize, now_us: u64) -> usize {
        self.log.trim_all(bytes, now_us)
    }

    fn trim_bytes(&mut self, bytes: usize) -> usize {
        self.log.trim_bytes(bytes)
    }

    fn sweep(&mut self, now_us: u64) {
        self.log.sweep(now_us);
        if self.loading.is_some() {
            return;
        }
        let RemovalBounds { age_us_max, count_max } = self.removals;
        let early = self.table.forget_removals(now_us.saturating_sub(age_us_max), count_max);
        self.forgotten_early += early as u64;
        self.pages.sweep(now_us, self.table.complete_from());
    }

    fn take_forgotten_early(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten_early)
    }

    fn tail_bytes(&self) -> usize {
        self.log.tail_bytes() + self.pages.kept_bytes()
    }

    fn open_tail(&mut self, format: Format) {
        self.log.open_tail(format);
    }

    fn close_tail(&mut self, format: Format) {
        self.log.close_tail(format);
        self.pages.close(self.frame_format(format));
    }
}

impl Pinning for KeyedFeed {
    fn pin(&mut self, cursor: &Cursor, format: Format) {
        match cursor.page() {
            Some(serial) => self.pages.hold(serial),
            None => self.log.pin(cursor, format),
        }
    }

    fn unpin(&mut self, cursor: &Cursor) {
        match cursor.page() {
            Some(serial) => self.pages.release(serial),
            None => self.log.unpin(cursor),
        }
    }

    fn pinned_bytes(&self) -> usize {
        self.log.pinned_bytes() + self.pages.held_bytes()
    }

    fn rest_of_frame(&self, cursor: &Cursor, format: Format) -> Option<usize> {
        match cursor.page() {
            Some(serial) => Some(self.pages.get(serial)?.bytes.len() - cursor.sent()),
            None => self.log.rest_of_frame(cursor, format),
        }
    }
}

impl ColumnRows for KeyedFeed {}
