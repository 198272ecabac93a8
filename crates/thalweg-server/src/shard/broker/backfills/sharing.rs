//! Readers that catch up together share pages.

use thalweg_core::stream::{Cursor, FeedKind, Frames as _, HistoryBounds, Next, Offsets, Payloads};
use thalweg_wire::{Epoch, Format};

use super::*;

const READERS: u32 = 100;

/// Records of the topic, each with one event and an offset.
const RECORDS: Offset = 128 * PAGE_RECORDS;

const RECORD_BYTES: usize = 128 << 10;

const PAGE_RECORDS: Offset = 8;

/// A topic that is on disk, and readers of its old events whose sockets are full now and then.
struct Scene {
    feed: AnyFeed,
    backfills: Backfills,
    memory: BackfillMemory,
    readers: Vec<Reader>,
    random: fastrand::Rng,
    pages: usize,
}

struct Reader {
    next: Offset,
    is_waiting: bool,
    /// The socket is full until this turn.
    blocked_until: u32,
}

impl Scene {
    fn new(starts: impl Iterator<Item = Offset>) -> Self {
        let history =
            HistoryBounds { events_max: usize::MAX, bytes_max: usize::MAX, age_us_max: u64::MAX };
        let start = ("cars".parse().unwrap(), Epoch::new(1).unwrap(), 1 + RECORDS);
        let feed = AnyFeed::new(
            FeedKind::Log,
            start,
            Offsets::Stored,
            history,
            (None, Default::default()),
        );
        let reader = |next| Reader { next, is_waiting: false, blocked_until: 0 };
        Self {
            feed,
            backfills: Backfills::default(),
            memory: BackfillMemory::default(),
            readers: starts.map(reader).collect(),
            random: fastrand::Rng::with_seed(1),
            pages: 0,
        }
    }

    /// Reads all events of all readers. Returns how many pages were read.
    fn run(mut self) -> usize {
        let mut turn = 0;
        while self.readers.iter().any(|reader| reader.next <= RECORDS) {
            turn += 1;
            for key in 0..self.readers.len() {
                self.visit(key, turn);
            }
            self.read_page();
        }
        self.pages
    }

    fn visit(&mut self, key: usize, turn: u32) {
        let reader = &mut self.readers[key];
        if reader.is_waiting || reader.blocked_until > turn {
            return;
        }
        let cursor = Cursor::before(reader.next);
        let frames = self.feed.frames(Format::NDJSON.into());
        match frames.next(&cursor, true, &mut Vec::new()) {
            Next::Cold { after, .. } | Next::Hot(_, after) => {
                assert!(after.next() > reader.next);
                reader.next = after.next();
                // Sockets have much room at times, and little at others.
                if self.random.u32(0..8) == 0 {
                    reader.blocked_until = turn + self.random.u32(1..40);
                }
            }
            Next::Backfill(from) => {
                reader.is_waiting = true;
                self.backfills.want(1, from, Some(key as u32));
            }
            other => assert!(matches!(other, Next::Nothing), "{other:?}"),
        }
    }

    fn read_page(&mut self) {
        let Some((key, from)) = self.backfills.next() else { return };
        self.pages += 1;
        let until = self.feed.page_until(from);
        let end = until.min(from + PAGE_RECORDS);
        let page = Page {
            from,
            messages: (from..end).map(|first| (first, record())).collect(),
            holes: Vec::new(),
            is_last_before: (end == until).then_some(until),
            stored_from: 1,
            compacted: 0,
            unix_ms: 0,
        };
        let before = self.feed.backfilled_bytes();
        self.feed.backfill(page, 0);
        let after = self.feed.backfilled_bytes();
        self.memory.add(key, after, before);
        self.feed.shrink_backfilled(self.memory.share());
        self.memory.subtract(after - self.feed.backfilled_bytes());
        assert!(self.feed.backfilled_bytes() <= BACKFILL_BYTES_MAX);
        let feed = &self.feed;
        for key in self.backfills.take_served(key, |from| feed.needs_backfill(from)) {
            self.readers[key as usize].is_waiting = false;
        }
    }
}

fn record() -> Payloads {
    let mut payloads = Payloads::default();
    let written = payloads.push(|bytes| {
        bytes.resize(RECORD_BYTES, b'1');
        Ok::<_, ()>(())
    });
    written.expect("an event");
    payloads
}

const PAGES: usize = (RECORDS / PAGE_RECORDS) as usize;

#[test]
fn readers_from_one_position_read_each_page_once() {
    let pages = Scene::new((0..READERS).map(|_| 1)).run();
    assert!(pages <= PAGES + PAGES / 20, "{pages} reads of {PAGES} pages");
}

/// The positions span twice as many bytes as are kept.
#[test]
fn readers_from_many_positions_share_pages() {
    let step = RECORDS / Offset::from(READERS);
    let pages = Scene::new((0..READERS).map(|nth| 1 + Offset::from(nth) * step)).run();
    assert!(pages <= 20 * PAGES, "{pages} reads of {PAGES} pages");
}
