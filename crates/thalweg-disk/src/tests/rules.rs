//! The rules of decision 039, one by one.

#![allow(clippy::single_range_in_vec_init, reason = "a page may have one hole, which is a range")]

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use thalweg_broker::{
    Append, AppendError, Content, Delivery, Follower, KEY_LIFE, ReadPage, ReadRange, Stored,
};
use thalweg_core::stream::FeedKind;
use thalweg_core::stream::Payloads;
use thalweg_wire::{EndCode, Epoch, Offset};
use tokio::sync::oneshot;

use super::simulated::{Faults, SimulatedDisk};
use crate::{
    batch::{Job, Outcome, Request},
    broker::Handle,
    commit::{Committed, Committer},
    disk::Disk as _,
    follow::FollowCursor,
    group::scan,
    keeper::Keeper,
    log::{Bounds, Log, read_state},
    record::Record,
    recovery::{self, Opened},
    settings::{Settings, StoreSettings, SyncMode},
    threads::Threads,
};

const LOG: usize = 0;
const VALUES: usize = 1;

/// `EMFILE`: the process has no file descriptors left.
const EMFILE: i32 = 24;

const NOW_MS: u64 = 1_000_000_000;

/// A log that the test drives.
pub(super) struct Bench {
    pub(super) disk: SimulatedDisk,
    pub(super) stores: Vec<StoreSettings>,
    pub(super) bounds: Bounds,
    pub(super) log: Arc<Log<SimulatedDisk>>,
    pub(super) committer: Committer<SimulatedDisk>,
    pub(super) keeper: Arc<Mutex<Keeper<SimulatedDisk>>>,
    pub(super) queue: VecDeque<Request>,
    pub(super) now_ms: u64,
}

pub(super) fn store(pattern: &str, kind: FeedKind, sync: SyncMode) -> StoreSettings {
    let pattern = pattern.parse().expect("a pattern");
    StoreSettings { pattern, kind, age: None, bytes: None, sync }
}

/// Returns the kind of the topics of a pattern.
pub(super) fn kind(pattern: &str) -> FeedKind {
    if pattern == "values/**" { FeedKind::Value } else { FeedKind::Log }
}

pub(super) fn bounds() -> Bounds {
    Bounds {
        wal_bytes: 4 << 10,
        wal_files: 4,
        group_bytes: 2 << 10,
        merge_bytes: 0,
        slice_bytes: 1 << 10,
        total_bytes: None,
        log_bytes: None,
        ended_ms: 1000,
        removed_ms: 1000,
        kept_from: None,
    }
}

pub(super) fn event(text: &str) -> Content {
    Content::Events(Payloads::from_lines(text.into()).expect("events"))
}

impl Bench {
    pub(super) fn new(sync: SyncMode, bounds: Bounds) -> Self {
        let stores =
            vec![store("log/**", FeedKind::Log, sync), store("values/**", FeedKind::Value, sync)];
        Self::with_stores(stores, bounds)
    }

    pub(super) fn with_stores(stores: Vec<StoreSettings>, bounds: Bounds) -> Self {
        Self::open(SimulatedDisk::new(7, usize::MAX), stores, bounds)
    }

    /// Opens the log of a disk, or a new one.
    pub(super) fn open(disk: SimulatedDisk, stores: Vec<StoreSettings>, bounds: Bounds) -> Self {
        let opened = recovery::open(disk.clone(), bounds, &stores).expect("a log");
        let Opened { log, committer, keeper } = opened;
        let keeper = Arc::new(Mutex::new(keeper));
        let mut bench = Self {
            disk,
            stores,
            bounds,
            log,
            committer,
            keeper,
            queue: VecDeque::new(),
            now_ms: NOW_MS,
        };
        bench.step();
        bench
    }

    pub(super) fn reopen(&mut self, is_power_cut: bool) {
        self.disk.restart(is_power_cut);
        let opened = recovery::open(self.disk.clone(), self.bounds, &self.stores).expect("a log");
        (self.log, self.committer) = (opened.log, opened.committer);
        self.keeper = Arc::new(Mutex::new(opened.keeper));
    }

    pub(super) fn step(&mut self) {
        while self.keeper.lock().expect("no panic").step(self.now_ms) {}
    }

    pub(super) fn request(
        &mut self,
        topic: &str,
        content: Content,
        key: Option<&str>,
    ) -> oneshot::Receiver<Outcome> {
        let topic: thalweg_wire::Topic = topic.parse().expect("a topic");
        let stream =
            self.stores.iter().position(|store| store.pattern.matches(&topic)).expect("a store");
        let key = key.map(|key| key.as_bytes().to_vec());
        let append = Append { stream, topic, content, key, waited: Duration::ZERO };
        let (reply, answer) = oneshot::channel();
        self.queue.push_back(Request {
            job: Job::Append(append, None),
            reply,
            until_ms: self.now_ms + 1,
        });
        answer
    }

    pub(super) fn commit(&mut self) {
        while self.committer.commit(&mut self.queue, self.now_ms) == Committed::NoRoom {
            self.step();
            self.committer.refuse(&mut self.queue, self.now_ms);
        }
    }

    pub(super) fn append(
        &mut self,
        topic: &str,
        content: Content,
        key: Option<&str>,
    ) -> Result<Stored, AppendError> {
        let mut answer = self.request(topic, content, key);
        self.commit();
        match answer.try_recv() {
            Ok(Outcome::Append(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn put(&mut self, topic: &str, text: &str) -> Offset {
        self.append(topic, event(text), None).expect("stored").first
    }

    /// Appends until all that is there now is in runs.
    pub(super) fn seal(&mut self) {
        let head = self.log.with(|shared| shared.head);
        let filler = format!("\"{}\"", "x".repeat(900));
        while self.log.with(|shared| shared.state.sealed) < head {
            self.put("log/filler", &filler);
            self.step();
        }
    }

    pub(super) fn range(&self, stream: usize, topic: &str, from: Offset) -> ReadRange {
        let (epoch, until) =
            self.log.with(|shared| (shared.store_at(stream).expect("a store").epoch, shared.head));
        ReadRange { stream, topic: topic.parse().expect("a topic"), epoch, from, until }
    }

    pub(super) fn read(&self, topic: &str, from: Offset) -> ReadPage {
        self.log.read(&self.range(LOG, topic, from), false).expect("a page")
    }

    pub(super) fn newest(&self, topic: &str, from: Offset) -> ReadPage {
        self.log.read(&self.range(VALUES, topic, from), true).expect("a page")
    }

    pub(super) fn epoch(&self, place: usize) -> Epoch {
        self.log.with(|shared| shared.store_at(place).expect("a store").epoch)
    }

    /// Returns the names of files with a prefix.
    pub(super) fn files(&self, prefix: &str) -> Vec<String> {
        let mut names = self.disk.names();
        names.retain(|name| name.starts_with(prefix));
        names
    }
}

fn firsts(page: &ReadPage) -> Vec<Offset> {
    page.records.iter().map(|(first, _)| *first).collect()
}

fn holes(page: &ReadPage) -> Vec<(Offset, Offset)> {
    page.holes.iter().map(|hole| (hole.start, hole.end)).collect()
}

#[test]
fn a_start_takes_a_generation_above_all_that_files_have() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    for life in 0..5 {
        let used = |bench: &Bench| {
            let scanned =
                bench.files("wal-").into_iter().map(|name| scan(&bench.disk.bytes(&name)));
            scanned.flatten().map(|(_, head)| head.generation).max().unwrap_or(0)
        };
        let before = used(&bench);
        bench.reopen(true);
        bench.step();
        bench.put("log/a", &life.to_string());
        let last = bench.log.with(|shared| shared.wal.back().expect("a file").generation);
        assert!(last > before, "{last} is used again");
    }
}

#[test]
fn a_file_without_a_group_is_damaged_and_not_free() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    bench.put("log/a", "1");
    let epochs = [LOG, VALUES].map(|place| bench.epoch(place));
    let name = bench.log.with(|shared| shared.wal.back().expect("a file").name());
    bench.disk.damage(&name, 0, &[0; 4 << 10]);
    bench.reopen(false);
    for (place, before) in epochs.into_iter().enumerate() {
        assert_ne!(bench.epoch(place), before, "the positions of lost records are given again");
    }
}

#[test]
fn a_page_is_planned_again_if_records_were_deleted_meanwhile() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let first = bench.put("log/a", "1");
    bench.seal();
    bench.put("log/a", "2");
    let mut keeper = Some(Arc::clone(&bench.keeper));
    bench.disk.set_hook(Some(Box::new(move |what| {
        if what.starts_with("read run")
            && let Some(keeper) = keeper.take()
        {
            keeper.lock().expect("no panic").trim();
        }
    })));
    let page = bench.read("log/a", first);
    assert!(
        page.records.is_empty() && page.stored_from > first,
        "a hole is not announced: {page:?}"
    );
}

#[test]
fn a_record_is_read_only_at_its_own_offset() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let [first, second] = ["1", "2"].map(|text| bench.put("log/a", text));
    // The place of the first record has the second one, as a file that is used again may have.
    let name = bench.log.with(|shared| shared.wal.back().expect("a file").name());
    let places = bench.log.with(|shared| {
        let topic: thalweg_wire::Topic = "log/a".parse().expect("a topic");
        shared.wal.back().expect("a file").topics[&topic].records.clone()
    });
    let bytes = bench.disk.bytes(&name);
    let at = |nth: usize| places[nth].position as usize;
    let other = bytes[at(1)..at(1) + places[1].length as usize].to_vec();
    bench.disk.damage(&name, at(0), &other);
    let page = bench.read("log/a", first);
    assert_eq!((firsts(&page), holes(&page)), (vec![second], vec![(first, second)]));
    assert!(page.stored_from <= first, "older records are unreadable: {page:?}");
}

#[test]
fn a_lack_of_descriptors_is_no_damage() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let first = bench.put("log/a", "1");
    bench.seal();
    let range = bench.range(LOG, "log/a", first);
    bench.disk.set_read_error(Some(EMFILE));
    assert!(bench.log.read(&range, false).is_err());
    bench.disk.restart(false);
    assert!(recovery::open(bench.disk.clone(), bench.bounds, &bench.stores).is_err());
    bench.disk.set_read_error(None);
    bench.reopen(false);
    assert_eq!(firsts(&bench.read("log/a", first)), [first]);
}

#[test]
fn a_hole_is_saved_when_it_is_found() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let offsets = ["1", "2", "3"].map(|text| bench.put("log/a", text));
    let name = bench.log.with(|shared| shared.wal.back().expect("a file").name());
    let position = bench.log.with(|shared| shared.wal.back().expect("a file").groups[1].position);
    bench.disk.damage(&name, position as usize + 70, b"damage");
    let values = bench.epoch(VALUES);
    bench.reopen(false);
    let saved = read_state(&bench.disk).expect("whole").expect("a state");
    assert_eq!(saved.stores[0].holes.len(), 1, "the next start forgets it");
    assert_ne!(bench.epoch(VALUES), values, "a newer value may be lost");
    let values = bench.epoch(VALUES);
    for is_power_cut in [false, true, false] {
        // Its file is not in runs yet.
        bench.reopen(is_power_cut);
        assert_eq!(bench.epoch(VALUES), values, "a hole has one new epoch");
    }
    for from in [0, offsets[0], offsets[1]] {
        let page = bench.read("log/a", from);
        let expected: Vec<_> =
            [offsets[0], offsets[2]].into_iter().filter(|first| *first >= from).collect();
        assert_eq!((firsts(&page), page.is_whole), (expected, true));
        assert_eq!(holes(&page), [(offsets[1], offsets[2])]);
        assert!(page.stored_from <= offsets[0], "older records are unreadable: {page:?}");
    }
}

#[test]
fn damage_is_not_a_newer_value_and_whole_values_stay() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let whole = bench.put("values/whole", "1");
    let older = bench.put("values/a", "1");
    bench.seal();
    let newer = bench.put("values/a", "2");
    let damage = |bench: &Bench| {
        for name in bench.files("run-") {
            let bytes = bench.disk.bytes(&name);
            let mut at = 0;
            while let Some((record, length)) = Record::parse(&bytes[at..]) {
                if record.first == newer {
                    bench.disk.damage(&name, at + 40, b"damage");
                    return true;
                }
                at += length;
            }
        }
        false
    };
    let filler = format!("\"{}\"", "x".repeat(900));
    while !damage(&bench) {
        bench.put("log/filler", &filler);
        // The values of two runs are merged afterwards, unless one is damaged.
        bench.keeper.lock().expect("no panic").step(NOW_MS);
    }
    bench.step();
    bench.reopen(true);
    bench.step();
    let page = bench.newest("values/a", 0);
    assert!(
        page.records.is_empty() && page.stored_from > newer,
        "{older} is no newest value: {page:?}"
    );
    assert_eq!(firsts(&bench.newest("values/whole", 0)), [whole], "and others are whole");
}

#[test]
fn a_durable_value_stays_until_the_next_one_is_durable() {
    for seed in 0..20 {
        let mut bench = Bench::new(SyncMode::Never, bounds());
        let older = bench.put("values/a", "1");
        bench.seal();
        let newer = bench.put("values/a", &seed.to_string());
        bench.step();
        bench.keeper.lock().expect("no panic").step(NOW_MS);
        bench.reopen(true);
        let found = firsts(&bench.newest("values/a", 0));
        assert!(found == [older] || found == [newer], "{found:?}");
    }
}

#[test]
fn keys_outlive_the_runs_of_their_events() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let stored = bench.append("log/a", event("1"), Some("k")).expect("stored");
    bench.seal();
    bench.keeper.lock().expect("no panic").trim();
    bench.reopen(true);
    let again = bench.append("log/a", event("1"), Some("k")).expect("known");
    assert_eq!((again.first, again.is_repetition), (stored.first, true));
    assert_eq!(bench.append("log/a", event("2"), Some("k")), Err(AppendError::KeyReused));
}

#[test]
fn a_store_remembers_that_a_value_topic_has_ended() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let value = bench.put("values/a", "1");
    let end = bench.append("values/a", Content::End(EndCode::Gone), None).expect("stored").first;
    let other = bench.put("values/b", "1");
    bench.seal();
    // A second run is merged with the first one after the end was long ago.
    bench.put("values/b", "2");
    bench.seal();
    while bench.keeper.lock().expect("no panic").step(NOW_MS + 10_000) {}
    bench.reopen(true);
    let page = bench.newest("values/a", value + 1);
    assert!(page.newest == end || page.stored_from > end, "a reader keeps the value: {page:?}");
    assert!(firsts(&bench.newest("values/b", 0))[0] > other);
}

#[test]
fn a_start_on_a_full_disk_deletes_what_nobody_needs_and_refuses_publishes() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let first = bench.put("log/a", "1");
    bench.seal();
    bench.disk.create("run-999").expect("created");
    bench.disk.write_at("run-999", 0, &[1; 500]).expect("written");
    bench.disk.sync_directory().expect("synced");
    bench.disk.set_capacity(bench.disk.used());
    bench.reopen(true);
    assert!(!bench.files("run-").contains(&"run-999".to_owned()));
    assert_eq!(firsts(&bench.read("log/a", first)), [first]);
    let filler = format!("\"{}\"", "x".repeat(900));
    let refused = (0..100).find_map(|_| bench.append("log/filler", event(&filler), None).err());
    assert_eq!(refused, Some(AppendError::Full));
    assert_eq!(firsts(&bench.read("log/a", first)), [first], "readers continue");
    bench.disk.set_capacity(usize::MAX);
    bench.step();
    bench.put("log/a", "2");
}

/// A server that takes all records, or none.
#[derive(Clone)]
struct Reader {
    is_stalled: bool,
}

impl Follower for Reader {
    async fn deliver(&self, _: Delivery) {
        if self.is_stalled {
            std::future::pending::<()>().await;
        }
    }

    async fn restarted(&self, _: usize, _: Epoch, _: Offset) {}

    fn set_ready(&self, _: bool) {}
}

#[test]
fn a_stalled_follower_stops_the_committer_also_after_a_timeout() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let head = bench.log.with(|shared| shared.head);
    let mut cursor = FollowCursor::new(&bench.log, head, vec![(bench.epoch(LOG), 0); 2]);
    bench.put("log/a", "1");
    let mut context = Context::from_waker(Waker::noop());
    {
        let follow = pin!(cursor.follow(&Reader { is_stalled: true }));
        assert!(matches!(follow.poll(&mut context), Poll::Pending));
    }
    let filler = format!("\"{}\"", "x".repeat(900));
    for _ in 0..100 {
        let answer = bench.request("log/filler", event(&filler), None);
        bench.committer.commit(&mut bench.queue, NOW_MS);
        bench.step();
        drop(answer);
    }
    assert!(!bench.queue.is_empty(), "the log grows");
    let (head, files) = bench.log.with(|shared| (shared.head, shared.wal.len()));
    assert!(files <= bench.bounds.wal_files, "{files} files");
    bench.committer.refuse(&mut bench.queue, NOW_MS + 10_000);
    assert!(bench.queue.is_empty());
    assert_eq!(bench.committer.commit(&mut bench.queue, NOW_MS + 10_000), Committed::Idle);
    assert_eq!(bench.log.with(|shared| shared.head), head, "refused records are not stored");
    drop(cursor);
    bench.step();
    bench.put("log/a", "2");
}

#[test]
fn a_thread_that_panics_ends_the_log() {
    let disk = SimulatedDisk::new(7, usize::MAX);
    let settings = Settings {
        directory: "unused".into(),
        stores: vec![store("log/**", FeedKind::Log, SyncMode::Always)],
        bytes: None,
        log_bytes: None,
        event_bytes: 1000,
        ticket_life: None,
    };
    let handle = Handle::open(disk.clone(), bounds(), &settings).expect("a log");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
    let append = || Append {
        stream: 0,
        topic: "log/a".parse().expect("a topic"),
        content: event("1"),
        key: None,
        waited: Duration::ZERO,
    };
    runtime.block_on(handle.append(append(), None)).expect("stored");
    disk.panic_at_group();
    let answer = runtime.block_on(handle.append(append(), None));
    assert_eq!(answer, Err(AppendError::Unknown));
    let streams = handle.streams.clone();
    let reason = runtime.block_on(handle.cursor(0, &streams).follow(&Reader { is_stalled: false }));
    assert!(reason.contains("panicked"), "{reason}");
    let answer = runtime.block_on(handle.append(append(), None));
    assert!(matches!(answer, Err(AppendError::Unavailable | AppendError::Unknown)), "{answer:?}");
}

#[test]
fn a_weak_store_begins_a_new_epoch_after_an_unclean_stop_only() {
    let mut bench = Bench::new(SyncMode::Never, bounds());
    let before = bench.epoch(LOG);
    bench.put("log/a", "1");
    bench.committer.sync_all();
    bench.keeper.lock().expect("no panic").close();
    bench.reopen(true);
    assert_eq!(bench.epoch(LOG), before);
    bench.put("log/a", "2");
    bench.reopen(false);
    assert_ne!(bench.epoch(LOG), before);
}

#[test]
fn a_store_whose_topics_were_elsewhere_has_a_new_epoch() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let [log, values] = [LOG, VALUES].map(|place| bench.epoch(place));
    let first = bench.put("log/b/c", "1");
    bench.stores.insert(0, store("log/b/**", FeedKind::Log, SyncMode::Always));
    bench.reopen(false);
    assert!(bench.epoch(1) != log && bench.epoch(2) == values);
    bench.put("log/b/c", "2");
    bench.stores.remove(0);
    bench.reopen(false);
    assert!(bench.epoch(0) != log && bench.epoch(1) == values);
    assert_eq!(firsts(&bench.read("log/b/c", 0)), [first]);
}

#[test]
fn a_damaged_or_missing_state_is_reported() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    bench.put("log/a", "1");
    let open =
        |bench: &Bench| recovery::open(bench.disk.clone(), bench.bounds, &bench.stores).err();
    bench.disk.damage("state", 30, b"xx");
    assert!(open(&bench).expect("refused").contains("is damaged"));
    bench.disk.remove("state").expect("removed");
    assert!(open(&bench).expect("refused").contains("without its file"));
}

#[test]
fn a_failed_sync_of_answered_records_ends_the_log_and_its_threads() {
    let disk = SimulatedDisk::new(7, usize::MAX);
    let stores = [store("log/**", FeedKind::Log, SyncMode::Never)];
    let opened = recovery::open(disk.clone(), bounds(), &stores).expect("a log");
    let threads = Threads::start(opened, Some(Duration::from_millis(100))).expect("threads");
    let log = Arc::clone(threads.log());
    let append = Append {
        stream: 0,
        topic: "log/a".parse().expect("a topic"),
        content: event("1"),
        key: None,
        waited: Duration::ZERO,
    };
    let stored = threads.request(Job::Append(append, None), Duration::ZERO).blocking_recv();
    assert!(matches!(stored, Ok(Outcome::Append(Ok(_)))), "{stored:?}");
    disk.set_faults(Faults { sync: 1000, ..Faults::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
    let mut changes = log.changes.subscribe();
    runtime.block_on(async {
        while log.with(|shared| shared.failed.is_none()) {
            changes.changed().await.expect("the log is there");
        }
    });
    // It waits for both threads.
    drop(threads);
}

#[test]
fn a_clock_that_was_ahead_makes_no_key_and_no_ticket_immortal() {
    const DAY_MS: u64 = 24 * 3_600_000;
    for is_restarted in [false, true] {
        let mut bench = Bench::new(SyncMode::Always, bounds());
        let ticket = |bench: &mut Bench, job| {
            let (reply, mut answer) = oneshot::channel();
            bench.queue.push_back(Request { job, reply, until_ms: bench.now_ms + 1 });
            bench.commit();
            match answer.try_recv() {
                Ok(Outcome::Ticket(Ok(holder))) => holder,
                other => panic!("{other:?}"),
            }
        };
        bench.now_ms += 30 * DAY_MS;
        for name in ["early", "late"] {
            ticket(&mut bench, Job::Keep(name.into(), "holder".into(), 60_000));
        }
        bench.append("log/a", event("1"), Some("k")).expect("stored");
        bench.now_ms = NOW_MS;
        if is_restarted {
            bench.reopen(true);
            bench.step();
        }
        let again = bench.append("log/a", event("1"), Some("k")).expect("known");
        assert!(again.is_repetition);
        let redeemed = ticket(&mut bench, Job::Redeem("early".into()));
        assert_eq!(redeemed.as_deref(), Some("holder"));
        assert_eq!(bench.log.with(|shared| shared.time_ms), NOW_MS);
        bench.now_ms += 2 * KEY_LIFE.as_millis() as u64;
        bench.append("log/a", event("2"), Some("l")).expect("stored");
        assert_eq!(ticket(&mut bench, Job::Redeem("late".into())), None);
        let again = bench.append("log/a", event("1"), Some("k")).expect("stored");
        assert!(!again.is_repetition, "the key is never forgotten");
    }
}

#[test]
fn the_loss_of_the_newest_records_is_announced_and_no_offset_is_given_twice() {
    [false, true].into_iter().for_each(lose_the_newest);
}

/// After a power cut nothing may say that there were newer records.
fn lose_the_newest(is_power_cut: bool) {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let kept = bench.put("log/a", "1");
    let lost = ["2", "3"].map(|text| bench.put("log/a", text));
    let (name, position) = bench.log.with(|shared| {
        let file = shared.wal.back().expect("a file");
        (file.name(), file.groups[1].position as usize)
    });
    bench.disk.damage(&name, position, &[0; 4 << 10]);
    bench.reopen(is_power_cut);
    bench.step();
    let next = bench.put("log/a", "4");
    assert!(next > lost[1], "{next} is given again");
    for _ in 0..2 {
        // Readers that have not seen the lost records get a gap, and others get none.
        for (from, hole) in [(kept, kept + 1), (kept + 1, kept + 1), (lost[1], lost[1])] {
            let page = bench.read("log/a", from);
            assert_eq!(firsts(&page).last(), Some(&next), "{page:?}");
            let is_unknown = is_power_cut && page.holes.is_empty();
            assert!(is_unknown || holes(&page) == [(hole, lost[1] + 1)], "{page:?}");
            assert!(page.stored_from <= kept, "older records are unreadable: {page:?}");
        }
        let page = bench.read("log/a", lost[1] + 1);
        assert_eq!((firsts(&page), page.holes), (vec![next], vec![]));
        bench.keeper.lock().expect("no panic").close();
        let head = bench.log.with(|shared| shared.head);
        bench.reopen(true);
        assert_eq!(bench.log.with(|shared| shared.head), head, "a clean stop skips nothing");
        bench.step();
    }
}

#[test]
fn a_group_that_was_not_answered_is_no_loss() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let first = bench.put("log/a", "1");
    for part in ["write", "sync"] {
        let answer = bench.request("log/a", event("2"), None);
        let disk = bench.disk.clone();
        bench.disk.set_hook(Some(Box::new(move |what| {
            // The process ends before the group is synced, or before it is written.
            if what.starts_with(&format!("{part} wal-")) {
                disk.crash_after(0);
            }
        })));
        bench.commit();
        drop(answer);
        bench.reopen(false);
        let page = bench.read("log/a", first);
        assert!(page.holes.is_empty() && firsts(&page)[0] == first, "{part}: {page:?}");
        bench.step();
    }
}

#[test]
fn a_page_behind_an_end_has_the_records_behind_it() {
    let mut bench = Bench::new(SyncMode::Always, Bounds { wal_bytes: 1 << 20, ..bounds() });
    let first = bench.put("log/a", "1");
    for _ in 0..1100 {
        bench.put("log/a", "1");
    }
    bench.append("log/a", Content::End(EndCode::Gone), None).expect("stored");
    let after = bench.put("log/a", "2");
    let page = bench.read("log/a", first);
    assert_eq!((firsts(&page), page.is_whole), (vec![after], true));
}

#[test]
fn the_last_end_is_found_with_one_read_per_block() {
    let mut bench = Bench::new(SyncMode::Always, Bounds { wal_bytes: 1 << 20, ..bounds() });
    bench.append("log/other", Content::End(EndCode::Gone), None).expect("stored");
    let filler = format!("\"{}\"", "x".repeat(500));
    let first = bench.put("log/a", "1");
    for _ in 0..640 {
        bench.put("log/a", &filler);
    }
    bench.seal();
    let reads = Arc::new(Mutex::new(0));
    let count = Arc::clone(&reads);
    bench.disk.set_hook(Some(Box::new(move |what| {
        *count.lock().expect("no panic") += usize::from(what.starts_with("read run"));
    })));
    let page = bench.read("log/a", first);
    let reads = *reads.lock().expect("no panic");
    bench.disk.set_hook(None);
    assert!(page.records.len() > 200, "{}", page.records.len());
    assert!(reads < page.records.len() + 50, "{reads} reads");
}

#[test]
fn a_damaged_end_does_not_bring_a_topic_back() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let first = bench.put("log/a", "1");
    bench.seal();
    bench.append("log/a", Content::End(EndCode::Gone), None).expect("stored");
    let (name, position) = bench.log.with(|shared| {
        let topic: thalweg_wire::Topic = "log/a".parse().expect("a topic");
        let file = shared.wal.back().expect("a file");
        (file.name(), file.topics[&topic].records[0].position as usize)
    });
    bench.disk.damage(&name, position + 40, b"damage");
    bench.seal();
    let page = bench.read("log/a", first);
    assert!(page.records.is_empty() && page.stored_from > first, "it is back: {page:?}");
}

#[test]
fn files_are_ready_before_the_keeper_merges() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let filler = format!("\"{}\"", "x".repeat(900));
    let (log, fewest) = (Arc::clone(&bench.log), Arc::new(Mutex::new(usize::MAX)));
    for nth in 0..60 {
        bench.put("values/a", &filler);
        bench.put("values/b", &filler);
        let (log, fewest) = (Arc::clone(&log), Arc::clone(&fewest));
        let serial = bench.log.with(|shared| shared.state.serial);
        bench.disk.set_hook(Some(Box::new(move |what| {
            // A run is read when it is merged.
            if what.starts_with("read run-") && nth > 30 && serial > 0 {
                let ready = log.with(|shared| shared.ready.len() + shared.wal.len());
                let mut fewest = fewest.lock().expect("no panic");
                *fewest = ready.min(*fewest);
            }
        })));
        bench.step();
        bench.disk.set_hook(None);
    }
    assert_eq!(*fewest.lock().expect("no panic"), bench.bounds.wal_files);
}

#[test]
fn runs_of_a_state_that_was_not_saved_are_removed() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    bench.put("log/a", "1");
    let filler = format!("\"{}\"", "x".repeat(900));
    let (disk, has_failed) = (bench.disk.clone(), Arc::new(Mutex::new(false)));
    let failed = Arc::clone(&has_failed);
    let mut last_run = false;
    bench.disk.set_hook(Some(Box::new(move |what| {
        last_run |= what.starts_with("create run-");
        let mut failed = failed.lock().expect("no panic");
        let fails = last_run && !*failed && what == "write state-new";
        *failed |= fails;
        disk.set_faults(Faults { write: if fails { 1000 } else { 0 }, ..Faults::default() });
    })));
    while !*has_failed.lock().expect("no panic") {
        bench.put("log/filler", &filler);
        bench.step();
    }
    bench.disk.set_hook(None);
    bench.disk.set_faults(Faults::default());
    bench.seal();
    let named = bench.log.with(|shared| {
        let runs = shared.state.stores.iter().flat_map(|store| &store.runs);
        runs.map(|run| format!("run-{}", run.serial)).collect::<Vec<_>>()
    });
    let mut files = bench.files("run-");
    files.retain(|name| !named.contains(name));
    assert!(files.is_empty(), "{files:?} stay");
}

#[test]
fn a_record_of_a_later_version_is_a_hole() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    let answers = ["1", "2", "3"].map(|text| bench.request("log/a", event(text), None));
    bench.commit();
    drop(answers);
    let (name, group, place) = bench.log.with(|shared| {
        let topic: thalweg_wire::Topic = "log/a".parse().expect("a topic");
        let file = shared.wal.back().expect("a file");
        (file.name(), file.groups[0], file.topics[&topic].records[1])
    });
    let at = group.position as usize;
    let mut bytes = bench.disk.bytes(&name)[at..at + group.length as usize].to_vec();
    let record = place.position as usize - at..(place.position + place.length) as usize - at;
    bytes[record.start + 30] = 200;
    for range in [record, 0..bytes.len()] {
        // The checksum of a record is before its length, that of a group behind its magic.
        let checksum_at = if range.start == 0 { 4 } else { range.start };
        let checksum = crc32fast::hash(&bytes[checksum_at + 4..range.end]);
        bytes[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    bench.disk.damage(&name, at, &bytes);
    bench.reopen(false);
    assert_eq!(scan(&bench.disk.bytes(&name))[1].1.count, 3, "the group is whole");
    let page = bench.read("log/a", place.first - 1);
    let hole = place.first..place.first + 2;
    assert_eq!((firsts(&page), page.is_whole), (vec![place.first - 1], true));
    assert_eq!(page.holes.first().map(|lost| lost.start..hole.end.min(lost.end)), Some(hole));
}
