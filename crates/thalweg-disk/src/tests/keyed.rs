//! Keyed topics: the newest event of each key stays, whatever is merged.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use thalweg_broker::{AppendError, Content, ReadPage};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_wire::{EndCode, Offset};

use super::{
    moving,
    rules::{Bench, bounds, store},
};
use crate::{
    batch::Outcome, commit::Committed, import::import_behind, log::Bounds, recovery::find,
    settings::SyncMode, state::Hole,
};

/// The newest event of each key, with its offset.
type Newest = BTreeMap<String, (Offset, String)>;

struct Keyed {
    bench: Bench,
    newest: Newest,
}

fn keyed(events: &[(String, String)]) -> Content {
    let lines: Vec<&str> = events.iter().map(|(_, event)| event.as_str()).collect();
    let mut payloads = Payloads::from_lines(lines.join("\n").into()).expect("events");
    for (at, (key, event)) in events.iter().enumerate() {
        payloads.push_key(key);
        if event.len() % 3 == 0 && event != "null" {
            payloads.set_expiry(at, 9_000_000_000_000 + at as i64);
        }
    }
    Content::Events(payloads)
}

impl Keyed {
    fn new(bounds: Bounds) -> Self {
        let sync = SyncMode::Always;
        let stores =
            vec![store("log/**", FeedKind::Log, sync), store("keys/**", FeedKind::Keyed, sync)];
        Self { bench: Bench::with_stores(stores, bounds), newest: Newest::new() }
    }

    fn put(&mut self, events: &[(&str, &str)]) -> Offset {
        let events: Vec<(String, String)> =
            events.iter().map(|(key, event)| ((*key).to_owned(), (*event).to_owned())).collect();
        let stored = self.bench.append("keys/a", keyed(&events), None).expect("stored");
        for (offset, (key, event)) in (stored.first..).zip(events) {
            let key = serde_json::to_string(&key).expect("text");
            self.newest.insert(key, (offset, event));
        }
        stored.first
    }

    /// Turns all that is there into runs. Another topic's event makes a new run, so that the older ones are merged.
    fn seal(&mut self) {
        let other = keyed(&[("other".to_owned(), "1".to_owned())]);
        self.bench.append("keys/b", other, None).expect("stored");
        self.bench.seal();
    }

    fn pages(&self) -> Vec<ReadPage> {
        let (mut pages, mut from) = (Vec::new(), 0);
        loop {
            let page = self.bench.log.read(&self.bench.range(1, "keys/a", from), false);
            let page = page.expect("readable");
            assert!(page.holes.is_empty(), "{page:?}");
            from = page.end().unwrap_or(from);
            let is_whole = page.is_whole;
            pages.push(page);
            if is_whole {
                return pages;
            }
        }
    }

    /// Returns the events that are stored: offsets, keys and events.
    fn stored(&self) -> Vec<(Offset, String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let records: Vec<_> = self.pages().into_iter().flat_map(|page| page.records).collect();
        let events = records.iter().flat_map(|(first, payloads)| {
            assert_eq!(payloads.keyed_events().count(), payloads.count(), "each has a key");
            (*first..).zip(payloads.keyed_events())
        });
        events.map(|(offset, (key, event))| (offset, text(key), text(event))).collect()
    }

    fn read(&self) -> Newest {
        let stored = self.stored();
        assert!(stored.is_sorted_by(|one, two| one.0 < two.0));
        stored.into_iter().map(|(offset, key, event)| (key, (offset, event))).collect()
    }

    /// Returns the newest events without removals.
    fn live(newest: &Newest) -> Newest {
        let mut live = newest.clone();
        live.retain(|_, (_, event)| event != "null");
        live
    }
}

fn small() -> Bounds {
    Bounds { removed_ms: 1000, ended_ms: 5000, ..bounds() }
}

#[test]
fn a_merge_keeps_the_newest_event_of_each_key_and_few_others() {
    let mut log = Keyed::new(small());
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..60 {
        let events: Vec<(String, String)> = (0..rng.usize(1..12))
            .map(|nth| {
                let event = format!("[{round},{nth},\"{}\"]", "x".repeat(rng.usize(0..20)));
                (
                    format!("k{}", rng.usize(0..30)),
                    if rng.u8(0..5) == 0 { "null".into() } else { event },
                )
            })
            .collect();
        let events: Vec<(&str, &str)> =
            events.iter().map(|(key, event)| (key.as_str(), event.as_str())).collect();
        log.put(&events);
        if round % 7 == 0 {
            log.bench.seal();
        }
        if round % 20 == 19 {
            log.bench.reopen(round % 40 == 19);
        }
        assert_eq!(log.read(), log.newest, "round {round}");
    }
    (0..8).for_each(|_| log.seal());
    assert_eq!(log.read(), log.newest);
    let expiries: usize = log
        .pages()
        .iter()
        .flat_map(|page| &page.records)
        .map(|(_, payloads)| payloads.expiries().iter().filter(|expiry| **expiry > 0).count())
        .sum();
    assert!(expiries > 0, "expiries stay with their events");
    let (stored, newest) = (log.stored().len(), log.newest.len());
    assert!(
        stored < 4 * newest,
        "{stored} events of {newest} keys: those that were replaced are merged away"
    );
}

#[test]
fn old_removals_go_but_for_the_newest_of_a_topic() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    log.put(&[("a", "null")]);
    let marker = log.put(&[("b", "null")]);
    (0..4).for_each(|_| log.seal());
    assert_eq!(log.read(), log.newest, "they are young");
    log.bench.now_ms += 2000;
    let young = log.put(&[("c", "null"), ("e", "5")]);
    (0..8).for_each(|_| log.seal());
    let removals: Vec<Offset> = log
        .stored()
        .into_iter()
        .filter(|(.., event)| event == "null")
        .map(|(offset, ..)| offset)
        .collect();
    assert_eq!(removals, [marker, young]);
    assert_eq!(Keyed::live(&log.read()), Keyed::live(&log.newest));
    for is_power_cut in [false, true] {
        let page = log.pages().pop().expect("a page");
        assert!(page.compacted > 0 && page.compacted <= marker, "{page:?}");
        log.bench.reopen(is_power_cut);
    }
}

#[test]
fn the_newest_old_removal_stays_although_its_key_has_come_back() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1"), ("b", "2")]);
    log.put(&[("a", "null")]);
    let marker = log.put(&[("b", "null")]);
    log.bench.now_ms += 2000;
    for _ in 0..8 {
        log.seal();
        log.put(&[("b", "3")]);
    }
    (0..8).for_each(|_| log.seal());
    let stored = log.stored();
    assert!(!stored.iter().any(|(_, key, _)| key == "\"a\""), "{stored:?}");
    assert!(stored.iter().any(|(offset, ..)| *offset == marker), "{stored:?}");
}

#[test]
fn removals_stay_behind_one_that_stays_although_the_clock_has_gone_back() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    let first = log.put(&[("a", "null")]);
    log.bench.now_ms += 2000;
    let before = log.bench.now_ms;
    log.bench.now_ms += 5 * 86_400_000;
    let ahead = log.put(&[("b", "null")]);
    log.bench.now_ms = before;
    log.put(&[("c", "null")]);
    log.put(&[("d", "null")]);
    log.bench.now_ms += 2000;
    let filler = format!("\"{}\"", "x".repeat(1000));
    for _ in 0..8 {
        log.seal();
        log.put(&[("e", &filler)]);
    }
    log.seal();
    let stored = log.stored();
    let removals = stored.iter().filter(|(.., event)| event == "null");
    let removals: Vec<Offset> = removals.map(|(offset, ..)| *offset).collect();
    assert_eq!(removals[0], ahead, "{stored:?}");
    let page = log.pages().pop().expect("a page");
    assert_eq!(page.compacted, first + 1, "a reader learns of all others");
    assert_eq!(removals.len(), 3);
}

#[test]
fn a_topic_without_keys_is_forgotten_at_last() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1")]);
    let last = log.put(&[("a", "null")]);
    log.bench.now_ms += 6000;
    (0..8).for_each(|_| log.seal());
    let page = log.pages().pop().expect("a page");
    assert!(page.records.is_empty(), "{page:?}");
    assert!(page.compacted > last, "a reader learns that removals are missing");
}

#[test]
fn a_forgotten_end_counts_as_a_forgotten_removal() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1")]);
    let end = log.bench.append("keys/a", Content::End(EndCode::Deleted), None).expect("stored");
    (0..8).for_each(|_| log.seal());
    assert_eq!(log.pages()[0].compacted, 0, "the end is there");
    log.bench.now_ms += 6000;
    (0..8).for_each(|_| log.seal());
    let page = log.pages().pop().expect("a page");
    assert!(page.records.is_empty() && page.stored_from <= end.first, "{page:?}");
    assert!(page.compacted > end.first, "{page:?}");
}

#[test]
fn an_end_that_may_be_lost_is_a_hole_of_a_keyed_topic() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1")]);
    log.bench.put("log/a", "1");
    let lost = log.put(&[("b", "2")]);
    log.put(&[("c", "3")]);
    log.bench.log.with(|shared| {
        let hole = Hole { from: 0, until: lost + 1, low: 0, high: u64::MAX };
        shared.state.stores.iter_mut().for_each(|store| store.add_hole(hole));
    });
    let page = log.bench.log.read(&log.bench.range(1, "keys/a", 1), false).expect("readable");
    assert_eq!((page.holes.len(), page.records.len()), (1, 1));
    assert_eq!(page.holes[0], 1..lost + 1);
    let page = log.bench.log.read(&log.bench.range(0, "log/a", 1), false).expect("readable");
    assert!(page.holes.is_empty() && page.stored_from == lost + 1, "{page:?}");
}

#[test]
fn an_import_knows_that_removals_are_left_out() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1"), ("b", "2")]);
    let removal = log.put(&[("a", "null")]);
    log.put(&[("b", "null")]);
    log.bench.now_ms += 2000;
    (0..8).for_each(|_| log.seal());
    log.put(&[("b", "3")]);
    log.bench.keeper.lock().expect("no panic").close();
    let (_, text) = moving::export(&log.bench.disk, "**");
    let (copy, _) = moving::import(&text).expect("imported");
    log.bench.disk = copy;
    log.bench.reopen(false);
    let page = log.pages().pop().expect("a page");
    assert!(page.compacted > removal, "{page:?}");
    assert_eq!(Keyed::live(&log.read()), Keyed::live(&log.newest));
    // Offsets are checked.
    let name = "\"compacted\":";
    let (before, after) = text.split_once(name).expect("a store with removals");
    let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let later = [before, name, "999999999", after].concat();
    assert!(moving::import(&later).is_err());
}

#[test]
fn an_import_finds_stores_as_a_server_does() {
    let sync = SyncMode::Always;
    let stores = || vec![store("**", FeedKind::Log, sync), store("keys/*", FeedKind::Keyed, sync)];
    let mut log = Keyed { bench: Bench::with_stores(stores(), small()), newest: Newest::new() };
    let source = {
        let mut source = Keyed::new(small());
        source.put(&[("a", "1")]);
        source.bench.put("log/a", "0");
        source.bench.keeper.lock().expect("no panic").close();
        moving::export(&source.bench.disk, "**").1
    };
    log.bench.keeper.lock().expect("no panic").close();
    let found = find(&log.bench.disk).expect("a log");
    let imported = import_behind(log.bench.disk.clone(), &found, &mut source.as_bytes());
    assert_eq!(imported.expect("imported").events, 2);
    log.bench.reopen(true);
    assert_eq!(log.read().into_keys().collect::<Vec<_>>(), ["\"a\""]);
}

#[test]
fn a_large_topic_is_merged_in_slices() {
    let mut log = Keyed::new(Bounds { slice_bytes: 1000, ..small() });
    // A run is synced after each slice.
    let syncs = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let counts = Arc::clone(&syncs);
    log.bench.disk.set_hook(Some(Box::new(move |what| {
        if what.starts_with("sync run-") {
            *counts.lock().expect("no panic").entry(what.to_owned()).or_default() += 1;
        }
    })));
    let filler = format!("\"{}\"", "x".repeat(300));
    for round in 0..4 {
        for key in 0..24 {
            log.put(&[(&key.to_string(), &filler), ("same", &round.to_string())]);
        }
        log.bench.seal();
    }
    assert_eq!(log.read(), log.newest);
    let most = syncs.lock().expect("no panic").values().max().copied();
    assert!(most > Some(8), "{most:?}");
}

#[test]
fn the_end_of_a_topic_ends_its_keys_and_a_newer_one_stays() {
    let mut log = Keyed::new(small());
    log.put(&[("a", "1"), ("b", "2")]);
    log.bench.seal();
    log.bench.append("keys/a", Content::End(EndCode::Deleted), None).expect("stored");
    log.newest.clear();
    log.put(&[("b", "3")]);
    (0..8).for_each(|_| log.seal());
    assert_eq!(log.read(), log.newest);
    log.bench.reopen(true);
    assert_eq!(log.read(), log.newest);
}

#[test]
fn an_export_has_keys_and_expiries() {
    let mut log = Keyed::new(small());
    for round in 0..3 {
        log.put(&[("a", "1"), ("b\"", "[2]"), ("c", "{\"x\":1}")]);
        log.put(&[("c", "null"), ("d", &round.to_string())]);
        log.bench.put("log/a", "0");
        log.bench.seal();
    }
    log.put(&[("d", "4"), ("e", "5")]);
    log.bench.keeper.lock().expect("no panic").close();
    moving::check(&log.bench.disk, false);
    let (_, text) = moving::export(&log.bench.disk, "keys/**");
    assert!(text.contains(r#""kind":"keyed""#), "{text}");
    assert!(text.contains(r#""key":"b\"","expires":9000000000001,"event":[2]"#), "{text}");
    assert!(text.contains(r#""key":"c","event":null"#), "{text}");
    assert_eq!(text.matches(r#""key":"#).count(), log.newest.len());
    // A line without its key is no event.
    let changed = text.replace(r#""key":"d","#, "");
    assert!(moving::import(&changed).is_err());
    log.bench.reopen(false);
    assert_eq!(log.read(), log.newest);
}

#[test]
fn versions_before_keyed_stores_do_not_open_the_directory() {
    let log = Keyed::new(small());
    let text = log.bench.log.with(|shared| shared.state.to_text());
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find(|line| line.ends_with("keys/**")).expect("a line");
    assert!(line.starts_with("keyed "), "they know lines that begin with store alone: {line}");
    assert!(text.lines().any(|line| line.starts_with("store ") && line.ends_with("log/**")));
}

/// The worlds of one run.
const SEEDS: u64 = 40;

/// A keyed topic on a disk that loses power at any operation, and a model that knows which events have to be there.
struct World {
    log: Keyed,
    rng: fastrand::Rng,
    /// The offset of each key's newest event that was answered or read, the event, and when it was stored.
    certain: BTreeMap<String, (Offset, String, u64)>,
    /// Events that may be stored.
    uncertain: Vec<(String, String)>,
    events: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let bounds = Bounds {
            wal_bytes: rng.usize(3..8) << 10,
            group_bytes: rng.usize(300..2000),
            slice_bytes: rng.usize(1..3000),
            removed_ms: rng.u64(50..3000),
            ended_ms: 1_000_000,
            ..bounds()
        };
        let (certain, uncertain) = (BTreeMap::new(), Vec::new());
        Self { log: Keyed::new(bounds), rng, certain, uncertain, events: 0 }
    }

    fn put(&mut self) {
        let events: Vec<(String, String)> = (0..self.rng.usize(1..6))
            .map(|_| {
                self.events += 1;
                let filler = "x".repeat(self.rng.usize(0..150));
                let event = format!("[{},\"{filler}\"]", self.events);
                let is_removal = self.rng.u8(0..4) == 0;
                (
                    format!("k{}", self.rng.usize(0..12)),
                    if is_removal { "null".into() } else { event },
                )
            })
            .collect();
        let mut answer = self.log.bench.request("keys/a", keyed(&events), None);
        self.commit();
        match answer.try_recv() {
            Ok(Outcome::Append(Ok(stored))) => {
                for (offset, (key, event)) in (stored.first..).zip(events) {
                    let newest = (offset, event, self.log.bench.now_ms);
                    self.certain.insert(format!("\"{key}\""), newest);
                }
            }
            Ok(Outcome::Append(Err(AppendError::Unknown))) | Err(_) => {
                let quoted = events.into_iter().map(|(key, event)| (format!("\"{key}\""), event));
                self.uncertain.extend(quoted);
            }
            Ok(_) => {}
        }
    }

    /// Commits what waits, unless the disk has lost its power.
    fn commit(&mut self) {
        let bench = &mut self.log.bench;
        while !bench.disk.has_crashed()
            && bench.committer.commit(&mut bench.queue, bench.now_ms) == Committed::NoRoom
        {
            bench.keeper.lock().expect("no panic").step(bench.now_ms);
            bench.committer.refuse(&mut bench.queue, bench.now_ms);
        }
        // A publish without an answer may be stored or not.
        bench.queue.clear();
    }

    fn check(&mut self) {
        let read = self.log.read();
        let removed_ms = self.log.bench.now_ms.saturating_sub(self.log.bench.bounds.removed_ms);
        for (key, (offset, event)) in &read {
            let newest = self.certain.get(key);
            let is_newest = newest.is_some_and(|(at, text, _)| (at, text) == (offset, event));
            let is_newer = newest.is_none_or(|(at, ..)| at < offset);
            let is_uncertain = self.uncertain.contains(&(key.clone(), event.clone()));
            assert!(is_newest || (is_newer && is_uncertain), "{key} {offset} {event}: {newest:?}");
            if !is_newest {
                self.certain.insert(key.clone(), (*offset, event.clone(), self.log.bench.now_ms));
            }
        }
        for (key, (offset, event, time_ms)) in &self.certain {
            let may_be_gone = event == "null" && *time_ms < removed_ms;
            assert!(read.contains_key(key) || may_be_gone, "{key} {offset} {event} is lost");
        }
    }

    fn run(&mut self) {
        for _ in 0..150 {
            self.log.bench.now_ms += self.rng.u64(0..60);
            match self.rng.u8(0..12) {
                0..6 => self.put(),
                6 => {
                    let filler = format!("\"{}\"", "y".repeat(300));
                    drop(self.log.bench.request("log/a", super::rules::event(&filler), None));
                    self.commit();
                }
                7 | 8 => self.log.bench.step(),
                9 => self.log.bench.disk.crash_after(self.rng.u64(1..40)),
                _ => {}
            }
            let has_failed = self.log.bench.log.with(|shared| shared.failed.is_some());
            if self.log.bench.disk.has_crashed() || has_failed {
                self.log.bench.disk.crash_after(u64::MAX);
                let is_power_cut = self.rng.bool();
                self.log.bench.reopen(is_power_cut);
                self.check();
            }
        }
        self.log.bench.disk.crash_after(u64::MAX);
        self.log.bench.reopen(true);
        self.check();
        self.log.bench.step();
        self.check();
        self.log.bench.keeper.lock().expect("no panic").close();
        moving::check(&self.log.bench.disk, false);
    }
}

#[test]
fn the_newest_event_of_each_key_survives_any_crash() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        World::new(seed).run();
    }
}
