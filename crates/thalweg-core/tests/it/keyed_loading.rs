//! A keyed topic whose state is read from a broker, page by page, while events come and the broker leaves removals out.

use std::{collections::BTreeMap, sync::Arc};

use fastrand::Rng;
use thalweg_core::stream::{
    Backfill as _, Batch, Cursor, Feed, HistoryBounds, KeyedFeed, Offsets, Page, Payloads, Start,
};
use thalweg_wire::{Epoch, Offset, Position, StartAt};

const SEEDS: u64 = 4000;

/// The age at which a feed and the broker forget removals, in ms.
const REMOVED_MS: i64 = 600_000;

#[derive(Debug, Clone)]
struct Stored {
    offset: Offset,
    key: String,
    event: String,
    time_ms: i64,
}

type State = BTreeMap<String, String>;

fn apply<'a>(state: &mut State, events: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (key, event) in events {
        match event {
            "null" => drop(state.remove(key)),
            event => drop(state.insert(key.to_owned(), event.to_owned())),
        }
    }
}

/// A broker's records of a topic.
struct Broker {
    /// All events that there ever were.
    all: Vec<Stored>,
    records: Vec<Stored>,
    compacted: Offset,
    now_ms: i64,
}

impl Broker {
    fn publish(&mut self, keys: usize, rng: &mut Rng) -> Stored {
        let offset = self.all.last().map_or(256, |last| last.offset + rng.u64(1..4));
        self.now_ms += rng.i64(0..200_000);
        let event = if rng.u8(0..3) == 0 { "null".to_owned() } else { offset.to_string() };
        let key = format!("k{}", rng.usize(0..keys));
        let stored = Stored { offset, key, event, time_ms: self.now_ms };
        self.all.push(stored.clone());
        self.records.push(stored.clone());
        stored
    }

    /// Leaves out events that were replaced, and old removals but the newest of them.
    fn compact(&mut self, rng: &mut Rng) {
        let newest: BTreeMap<String, Offset> =
            self.records.iter().map(|record| (record.key.clone(), record.offset)).collect();
        let oldest_ms = self.now_ms - REMOVED_MS;
        let is_old = |record: &Stored| {
            record.event == "null"
                && record.time_ms < oldest_ms
                && newest[&record.key] == record.offset
        };
        // A key that has come back may have had it.
        let old = self
            .records
            .iter()
            .rev()
            .find(|record| record.event == "null" && record.time_ms < oldest_ms);
        let marker = old.map(|record| record.offset);
        let gone =
            self.records.iter().filter(|record| is_old(record) && Some(record.offset) != marker);
        self.compacted =
            gone.map(|record| record.offset + 1).max().unwrap_or(0).max(self.compacted);
        let is_live =
            |record: &Stored| newest[&record.key] == record.offset && record.event != "null";
        if !self.records.iter().any(is_live) && rng.bool() {
            // The topic is forgotten.
            self.compacted = self.all.last().map_or(0, |last| last.offset + 1);
            self.records.clear();
        }
        let keeps_replaced = rng.bool();
        self.records.retain(|record| {
            let is_newest = newest[&record.key] == record.offset;
            // The older events of a removed key go with the removal.
            let removal = self.all.iter().find(|other| other.offset == newest[&record.key]);
            let is_gone =
                removal.is_some_and(|removal| is_old(removal) && Some(removal.offset) != marker);
            Some(record.offset) == marker || (!is_gone && (is_newest || keeps_replaced))
        });
    }

    fn page(&self, from: Offset, until: Offset, rng: &mut Rng) -> Page {
        let range = |record: &&Stored| (from..until).contains(&record.offset);
        let all: Vec<&Stored> = self.records.iter().filter(range).collect();
        let count =
            if rng.bool() { all.len() } else { rng.usize(0..=all.len()).max(1).min(all.len()) };
        let messages = all[..count].iter().map(|record| (record.offset, payloads(record)));
        Page {
            from,
            messages: messages.collect(),
            holes: Vec::new(),
            is_last_before: (count == all.len()).then_some(until),
            stored_from: 256,
            compacted: self.compacted,
            unix_ms: self.now_ms,
        }
    }

    fn state_at(&self, offset: Offset) -> State {
        let mut state = State::new();
        let events = self.all.iter().take_while(|event| event.offset <= offset);
        apply(&mut state, events.map(|event| (event.key.as_str(), event.event.as_str())));
        state
    }
}

fn payloads(stored: &Stored) -> Payloads {
    let mut payloads = Payloads::from_lines(stored.event.clone().into()).expect("an event");
    payloads.push_key(&stored.key);
    payloads.published_at(stored.time_ms)
}

/// Applies the newest events from a cursor on.
fn follow(feed: &KeyedFeed, from: Offset, state: &mut State) {
    let cursor = Cursor::before(from);
    let (part, _) = feed.state_part(&cursor, usize::MAX, None).expect("a keyed feed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let events = part.events.iter().filter(|event| event.offset() >= from);
    let events: Vec<(String, String)> = events
        .map(|event| (text(event.key()).trim_matches('"').to_owned(), text(event.event())))
        .collect();
    apply(state, events.iter().map(|(key, event)| (key.as_str(), event.as_str())));
}

fn run(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let keys = rng.usize(1..8);
    let mut broker =
        Broker { all: Vec::new(), records: Vec::new(), compacted: 0, now_ms: 1_000_000_000 };
    for _ in 0..rng.usize(0..30) {
        broker.publish(keys, &mut rng);
        if rng.u8(0..6) == 0 {
            broker.compact(&mut rng);
        }
    }
    let head = broker.all.last().map_or(256, |last| last.offset + 1) + rng.u64(0..10);
    let epoch = Epoch::new(7).expect("not 0");
    let bounds = HistoryBounds { events_max: 100, bytes_max: 1 << 20, age_us_max: u64::MAX };
    let mut feed =
        KeyedFeed::new("cars".parse().expect("a topic"), epoch, head, Offsets::Stored, bounds);
    feed.load();
    let mut now_us = 10_000_000_000;
    while feed.is_loading() {
        assert!(matches!(feed.start(StartAt::Latest), Start::Backfill(_)));
        match rng.u8(0..6) {
            0 => broker.compact(&mut rng),
            1 => {
                let mut stored = broker.publish(keys, &mut rng);
                // Records from the head on are delivered.
                if stored.offset < head {
                    let moved = head.max(stored.offset);
                    for list in [&mut broker.all, &mut broker.records] {
                        list.last_mut().expect("it was added").offset = moved;
                    }
                    stored.offset = moved;
                }
                let batch = Batch::seal(feed.head(), stored.offset, payloads(&stored), now_us);
                feed.push(Arc::new(batch), now_us);
            }
            _ => {
                let page = broker.page(feed.stored_from(), feed.backfill_until(1), &mut rng);
                feed.backfill(page, now_us);
            }
        }
        now_us += 1000;
    }
    let newest = broker.state_at(Offset::MAX);
    let mut state = State::new();
    follow(&feed, 1, &mut state);
    assert_eq!(state, newest);
    // Each reader that may go on has what one has that begins now.
    for at in broker.all.iter().map(|stored| stored.offset).chain([head - 1]) {
        let position = Position { epoch, offset: at };
        if let Start::At(_) = feed.start(StartAt::After(position)) {
            let mut state = broker.state_at(at);
            follow(&feed, at + 1, &mut state);
            assert_eq!(state, newest, "from {at}");
        }
    }
    let last = broker.all.last().map(|last| last.offset);
    for offset in last.into_iter().chain([feed.head() - 1]) {
        let position = Position { epoch, offset };
        assert!(matches!(feed.start(StartAt::After(position)), Start::At(_)), "it lacks nothing");
    }
}

#[test]
fn a_loaded_state_is_whole_and_readers_go_on_only_if_they_learn_of_all_removals() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        run(seed);
    }
}

/// A feed with the head 400 that has loaded these pages.
fn loaded(pages: impl IntoIterator<Item = Page>) -> KeyedFeed {
    let epoch = Epoch::new(7).expect("not 0");
    let bounds = HistoryBounds { events_max: 100, bytes_max: 1 << 20, age_us_max: u64::MAX };
    let mut feed =
        KeyedFeed::new("cars".parse().expect("a topic"), epoch, 400, Offsets::Stored, bounds);
    feed.load();
    pages.into_iter().for_each(|page| feed.backfill(page, 1));
    assert!(!feed.is_loading());
    feed
}

/// The only page of a topic, with these offsets, keys and events.
fn only_page(events: &[(Offset, &str, &str)]) -> Page {
    let time_ms = 1_000_000;
    let messages = events.iter().map(|&(offset, key, event)| {
        let stored = Stored { offset, key: key.to_owned(), event: event.to_owned(), time_ms };
        (offset, payloads(&stored))
    });
    Page {
        from: 1,
        messages: messages.collect(),
        holes: Vec::new(),
        is_last_before: Some(400),
        stored_from: 256,
        compacted: 0,
        unix_ms: time_ms,
    }
}

/// Returns the first of these offsets after which a reader may go on.
fn first_start(feed: &KeyedFeed, offsets: impl IntoIterator<Item = Offset>) -> Option<Offset> {
    let start = |offset: &Offset| {
        feed.start(StartAt::After(Position { epoch: feed.epoch(), offset: *offset }))
    };
    offsets.into_iter().find(|offset| matches!(start(offset), Start::At(_)))
}

#[test]
fn the_first_page_after_an_end_says_where_the_topic_begins() {
    // The file of the second page has no end.
    let first = Page { is_last_before: None, ..only_page(&[(256, "a", "1")]) };
    let second = Page { from: 257, stored_from: 1, ..only_page(&[(320, "b", "1")]) };
    assert_eq!(first_start(&loaded([first, second]), 100..400), Some(255));
}

#[test]
fn a_reader_from_before_forgotten_removals_begins_again() {
    // The broker has forgotten all keys, and one has come since.
    let feed = loaded([Page { compacted: 301, ..only_page(&[(320, "b", "1")]) }]);
    assert_eq!(first_start(&feed, 256..400), Some(300));
    // Another topic has lost the newer removals.
    let page = only_page(&[(280, "a", "null"), (320, "b", "1")]);
    let feed = loaded([Page { compacted: 301, ..page }]);
    assert_eq!(first_start(&feed, 256..400), Some(280));
    let feed = loaded([only_page(&[(280, "a", "null"), (320, "b", "1")])]);
    assert_eq!(first_start(&feed, 256..400), Some(256), "no removal is missing");
}

#[test]
fn a_wrong_clock_hides_no_removal() {
    // The clock was ahead when the broker left out a removal, and has the time of the marker again.
    let feed = loaded([Page { compacted: 271, ..only_page(&[(280, "b", "null")]) }]);
    assert_eq!(first_start(&feed, 256..400), Some(270));
}

#[test]
fn lost_events_may_be_of_any_key() {
    let page = only_page(&[(260, "a", "1"), (320, "b", "1")]);
    let feed = loaded([Page { holes: std::iter::once(300..310).collect(), ..page }]);
    let mut state = State::new();
    follow(&feed, 1, &mut state);
    assert_eq!(state.into_keys().collect::<Vec<_>>(), ["b"]);
    // The state without "a" is new to each reader.
    assert_eq!(first_start(&feed, 256..400), Some(399));
}
