//! Worlds: a log on a simulated disk, and a model that knows which records have to be there.
//!
//! A world is made of its seed. It appends, reads, follows, and lets the keeper work, also in the middle of other
//! operations; the disk fails, is full, loses power at any operation, and is damaged.

mod model;
mod tally;

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use fastrand::Rng;
use thalweg_broker::{Append, AppendError, Content, Delivery, Follower, KEY_LIFE, ReadRange};
use thalweg_core::stream::FeedKind;
use thalweg_core::stream::Payloads;
use thalweg_wire::{EndCode, Epoch, Offset, Topic};
use tokio::sync::oneshot;

use super::{
    moving,
    simulated::{Faults, SimulatedDisk},
};
use crate::{
    batch::{Condition, Job, Outcome, Request},
    commit::{Committed, Committer},
    follow::FollowCursor,
    group::scan,
    keeper::Keeper,
    log::{Bounds, Log},
    recovery::{self, Opened},
    settings::{StoreSettings, SyncMode},
};
use model::{Body, Fate, Model};
pub(in crate::tests) use tally::Tally;

/// The worlds of one run, unless `THALWEG_DISK_SEEDS` sets their number.
const SEEDS: u64 = 400;

/// Stores: events, values, and events that are answered before they are durable.
const LOG: usize = 0;
const VALUES: usize = 1;
const WEAK: usize = 2;

const STEPS: usize = 250;

/// The kinds of trouble that a world has.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    crashes: bool,
    faults: bool,
    read_faults: bool,
    damage: bool,
    is_small: bool,
    has_weak: bool,
    age_ms: Option<u64>,
    bytes: Option<u64>,
}

type Shared<T> = Arc<Mutex<T>>;

struct World {
    rng: Rng,
    seed: u64,
    trouble: Trouble,
    disk: SimulatedDisk,
    bounds: Bounds,
    now_ms: u64,
    log: Arc<Log<SimulatedDisk>>,
    committer: Shared<Committer<SimulatedDisk>>,
    keeper: Shared<Keeper<SimulatedDisk>>,
    queue: Shared<VecDeque<Request>>,
    /// Appends without an answer: the number of each in the model.
    pending: Vec<(usize, oneshot::Receiver<Outcome>)>,
    model: Model,
    cursor: Option<FollowCursor<SimulatedDisk>>,
    /// The number of lives.
    lives: u32,
    tally: Tally,
}

/// A server that notes what it gets.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Called>>>);

#[derive(Debug)]
enum Called {
    Record(Delivery),
    Restarted(usize, Offset),
}

impl Follower for Recorder {
    async fn deliver(&self, delivery: Delivery) {
        self.0.lock().expect("no panic").push(Called::Record(delivery));
    }

    async fn restarted(&self, stream: usize, _: Epoch, from: Offset) {
        self.0.lock().expect("no panic").push(Called::Restarted(stream, from));
    }

    fn set_ready(&self, _: bool) {}
}

fn stores(trouble: Trouble) -> Vec<StoreSettings> {
    let store = |pattern: &str, kind: FeedKind, sync| StoreSettings {
        pattern: pattern.parse().expect("a pattern"),
        kind,
        age: trouble.age_ms.filter(|_| !kind.is_state()).map(Duration::from_millis),
        bytes: trouble.bytes.filter(|_| !kind.is_state()),
        sync,
    };
    let mut stores = vec![
        store("log/**", FeedKind::Log, SyncMode::Always),
        store("values/**", FeedKind::Value, SyncMode::Always),
    ];
    if trouble.has_weak {
        stores.push(store("weak/**", FeedKind::Log, SyncMode::Never));
    }
    stores
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let trouble = Trouble {
            crashes: rng.u8(0..8) > 0,
            faults: rng.u8(0..3) == 0,
            read_faults: rng.u8(0..5) == 0,
            damage: rng.u8(0..3) == 0,
            is_small: rng.u8(0..3) == 0,
            has_weak: rng.u8(0..4) == 0,
            age_ms: (rng.u8(0..3) == 0).then(|| rng.u64(20_000..400_000)),
            bytes: (rng.u8(0..3) == 0).then(|| rng.u64(2_000..40_000)),
        };
        let bounds = Bounds {
            wal_bytes: rng.usize(4..16) << 10,
            wal_files: 4,
            group_bytes: rng.usize(300..3000),
            merge_bytes: rng.u64(2_000..20_000),
            slice_bytes: rng.usize(1..5000),
            total_bytes: (rng.u8(0..6) == 0).then(|| rng.u64(60_000..100_000)),
            log_bytes: (rng.u8(0..6) == 0).then(|| rng.u64(2_000..60_000)),
            ended_ms: rng.u64(1_000..1_000_000),
            removed_ms: 600_000,
            kept_from: None,
        };
        let capacity = if trouble.is_small { rng.usize(70..160) << 10 } else { usize::MAX };
        let disk = SimulatedDisk::new(seed, capacity);
        let opened = recovery::open(disk.clone(), bounds, &stores(trouble));
        let Opened { log, committer, keeper } = opened.expect("a new log");
        let shared =
            |committer, keeper| (Arc::new(Mutex::new(committer)), Arc::new(Mutex::new(keeper)));
        let (committer, keeper) = shared(committer, keeper);
        let mut world = Self {
            rng,
            seed,
            trouble,
            disk,
            bounds,
            now_ms: 1_000_000_000,
            model: Model::new(stores(trouble).len()),
            log,
            committer,
            keeper,
            queue: Shared::default(),
            pending: Vec::new(),
            cursor: None,
            lives: 1,
            tally: Tally::default(),
        };
        world.begin_life();
        world
    }

    fn begin_life(&mut self) {
        let places = stores(self.trouble).len();
        let (head, known) = self.log.with(|shared| {
            let known = (0..places).map(|place| shared.store_at(place).expect("a store"));
            (shared.head, known.map(|store| (store.epoch, store.start)).collect::<Vec<_>>())
        });
        let epochs: Vec<Epoch> = known.iter().map(|(epoch, _)| *epoch).collect();
        for (place, epoch) in epochs.iter().enumerate() {
            let may_change = self.trouble.damage || self.trouble.read_faults || place == WEAK;
            let has_changed = self.model.set_epoch(place, *epoch);
            assert!(self.lives == 1 || may_change || !has_changed, "store {place} has a new epoch");
            if place == WEAK && self.lives > 1 {
                assert!(has_changed, "events of the weak store may be lost");
            }
        }
        self.model.follow_from(head);
        self.cursor = Some(FollowCursor::new(&self.log, head, known));
    }

    /// Runs the world to its end. Returns the situations that it had.
    fn run(&mut self) -> Tally {
        for _ in 0..STEPS {
            self.now_ms += self.rng.u64(0..200);
            match self.rng.u8(0..24) {
                0..8 => self.append(),
                8..12 => self.step(),
                12..15 => self.read(),
                15..17 => self.newest(),
                17..19 => self.follow(),
                19 => self.retry(),
                20 => self.now_ms += self.rng.u64(0..60_000),
                21 if self.trouble.crashes => self.disk.crash_after(self.rng.u64(1..60)),
                22 if self.trouble.faults || self.trouble.read_faults => self.change_faults(),
                22 if self.trouble.damage => self.damage(),
                23 if self.rng.u8(0..4) == 0 => self.restart(),
                _ => {}
            }
            self.take_answers();
            self.note_holes();
            if self.disk.has_crashed() || self.log.with(|shared| shared.failed.is_some()) {
                self.restart();
            }
        }
        self.disk.set_faults(Faults::default());
        self.disk.crash_after(u64::MAX);
        if !self.trouble.damage || self.rng.bool() {
            self.restart();
        }
        self.check_all();
        self.recover();
        self.restart();
        self.check_all();
        let has_losses = self.trouble.damage || self.trouble.faults || self.trouble.read_faults;
        moving::check(&self.disk, has_losses);
        self.tally.add("worlds", 1);
        self.tally.add("lives", self.lives.into());
        self.tally.merge(&self.disk.tally());
        std::mem::take(&mut self.tally)
    }

    /// With room and without faults, everything is stored again.
    fn recover(&mut self) {
        self.disk.set_capacity(usize::MAX);
        for _ in 0..20 {
            self.follow();
            self.step();
        }
        for _ in 0..20 {
            self.append();
            self.step();
            self.follow();
        }
        for _ in 0..50 {
            self.commit();
            self.take_answers();
            self.follow();
            self.step();
        }
        assert!(
            self.queue.lock().expect("no panic").is_empty(),
            "appends wait for room that is there"
        );
    }

    fn topic(&mut self, place: usize) -> Topic {
        let name = ["log", "values", "weak"][place];
        format!("{name}/{}", self.rng.u8(0..6)).parse().expect("a topic")
    }

    fn place(&mut self) -> usize {
        let places = stores(self.trouble).len();
        if self.rng.bool() { LOG } else { self.rng.usize(0..places) }
    }

    fn append(&mut self) {
        for _ in 0..self.rng.usize(1..8) {
            let place = self.place();
            let topic = self.topic(place);
            let body = match self.rng.u8(0..30) {
                0 => Body::End,
                1 | 2 => Body::Paused(self.rng.u64(1..1000)),
                _ => {
                    let count = if self.rng.bool() { 1 } else { self.rng.usize(1..6) };
                    let filler = "x".repeat(self.rng.usize(0..200));
                    Body::Events((0..count).map(|_| self.model.event(&filler)).collect())
                }
            };
            let is_single = matches!(&body, Body::Events(events) if events.len() == 1);
            let key =
                (is_single && self.rng.u8(0..3) == 0).then(|| self.model.event("key").into_bytes());
            let is_conditional = key.is_none() && self.rng.u8(0..6) == 0;
            let expected = self.model.newest(place, &topic).filter(|_| is_conditional);
            let condition =
                expected.map(|newest| if self.rng.u8(0..4) == 0 { newest + 1 } else { newest });
            self.submit(place, topic, body, key, condition);
        }
        if self.rng.u8(0..4) > 0 {
            self.commit();
        }
    }

    fn submit(
        &mut self,
        place: usize,
        topic: Topic,
        body: Body,
        key: Option<Vec<u8>>,
        newest: Option<Offset>,
    ) {
        let content = match &body {
            Body::Events(events) => Content::Events(
                Payloads::from_lines(events.join("\n").into_bytes()).expect("events"),
            ),
            Body::Paused(ms) => Content::Paused(*ms),
            Body::End => Content::End(EndCode::Deleted),
        };
        let number = self.model.submit(place, &topic, body, key.clone(), newest);
        let condition = match newest {
            None => None,
            Some(newest) => {
                let epoch = self.model.epoch(place);
                let range =
                    ReadRange { stream: place, topic: topic.clone(), epoch, from: 0, until: 0 };
                let Ok((in_runs, sealed)) = self.log.newest_in_runs(&range) else {
                    return self.model.settle(number, Fate::Refused, self.now_ms);
                };
                Some(Condition { newest, in_runs, sealed })
            }
        };
        let append = Append { stream: place, topic, content, key, waited: Duration::ZERO };
        let (reply, answer) = oneshot::channel();
        let request =
            Request { job: Job::Append(append, condition), reply, until_ms: self.now_ms + 5_000 };
        self.queue.lock().expect("no panic").push_back(request);
        self.pending.push((number, answer));
    }

    fn commit(&mut self) {
        let mut queue = self.queue.lock().expect("no panic");
        let mut committer = self.committer.lock().expect("no panic");
        loop {
            match committer.commit(&mut queue, self.now_ms) {
                Committed::Some => {}
                Committed::Idle => break,
                Committed::NoRoom => {
                    committer.refuse(&mut queue, self.now_ms);
                    break;
                }
            }
        }
        if self.rng.u8(0..10) == 0 {
            committer.sync_all();
        }
    }

    /// Lets the keeper work while the committer does.
    fn step(&mut self) {
        let (committer, queue) = (Arc::clone(&self.committer), Arc::clone(&self.queue));
        let (mut rng, now_ms) = (self.rng.fork(), self.now_ms);
        self.disk.set_hook(Some(Box::new(move |_| {
            if rng.u8(0..8) == 0 {
                let mut queue = queue.lock().expect("no panic");
                committer.lock().expect("no panic").commit(&mut queue, now_ms);
            }
        })));
        self.keeper.lock().expect("no panic").step(self.now_ms);
        self.disk.set_hook(None);
    }

    /// Reads while the keeper works.
    fn read(&mut self) {
        let place = self.place();
        if place != VALUES {
            let topic = self.topic(place);
            let from =
                if self.rng.bool() { 0 } else { self.model.offset(self.rng.usize(0..10_000)) };
            self.read_topic(place, &topic, from, true);
        }
    }

    fn set_keeper_hook(&mut self) {
        let (keeper, mut rng, now_ms) = (Arc::clone(&self.keeper), self.rng.fork(), self.now_ms);
        self.disk.set_hook(Some(Box::new(move |what| {
            if what.starts_with("read") && rng.u8(0..6) == 0 {
                keeper.lock().expect("no panic").step(now_ms);
            }
        })));
    }

    fn read_topic(&mut self, place: usize, topic: &Topic, from: Offset, with_keeper: bool) {
        let (mut from, until) = (from, self.log.with(|shared| shared.head));
        let epoch = self.model.epoch(place);
        loop {
            if with_keeper {
                self.set_keeper_hook();
            }
            let range = ReadRange { stream: place, topic: topic.clone(), epoch, from, until };
            let page = self.log.read(&range, false);
            self.disk.set_hook(None);
            let Ok(page) = page else {
                assert!(self.disk.has_crashed() || self.trouble.is_small, "unreadable");
                return;
            };
            self.tally.add("gaps in pages", page.holes.len() as u64);
            let start = self.start(place);
            let is_explained = self.trouble.damage || self.has_read_faults();
            let holes =
                self.log.with(|shared| shared.store_at(place).expect("a store").holes.clone());
            self.model.check_page(
                place,
                topic,
                (from, until),
                &page,
                (start, &holes),
                is_explained,
            );
            if page.is_whole {
                return;
            }
            from = page.end().expect("a page that is not whole has a record or a hole");
        }
    }

    /// Returns the start of a store, after a check that retention had a reason for it.
    fn start(&mut self, place: usize) -> Offset {
        let start = self.log.with(|shared| shared.store_at(place).expect("a store").start);
        let Trouble { age_ms, bytes, .. } = self.trouble;
        let has_sizes = bytes.or(self.bounds.total_bytes).or(self.bounds.log_bytes).is_some();
        if place != VALUES && !has_sizes {
            let oldest_ms = age_ms.map_or(0, |age_ms| self.now_ms - age_ms);
            self.model.check_start(place, start, oldest_ms);
        }
        start
    }

    fn has_read_faults(&self) -> bool {
        self.trouble.read_faults
    }

    fn newest(&mut self) {
        let topic = self.topic(VALUES);
        self.newest_of(&topic, true);
    }

    fn newest_of(&mut self, topic: &Topic, with_keeper: bool) {
        let epoch = self.model.epoch(VALUES);
        let range = ReadRange { stream: VALUES, topic: topic.clone(), epoch, from: 0, until: 0 };
        if with_keeper {
            self.set_keeper_hook();
        }
        let page = self.log.read(&range, true);
        self.disk.set_hook(None);
        let start = self.start(VALUES);
        match page {
            Ok(page) => {
                let is_explained = self.trouble.damage || self.has_read_faults();
                self.model.check_newest(VALUES, topic, &page, start, is_explained);
            }
            Err(_) => assert!(self.disk.has_crashed() || self.trouble.is_small, "unreadable"),
        }
    }

    fn follow(&mut self) {
        let recorder = Recorder::default();
        if let Some(cursor) = &mut self.cursor {
            let mut context = Context::from_waker(Waker::noop());
            let polled = pin!(cursor.follow(&recorder)).poll(&mut context);
            assert!(
                matches!(polled, Poll::Pending) || self.log.with(|shared| shared.failed.is_some())
            );
        }
        let called = std::mem::take(&mut *recorder.0.lock().expect("no panic"));
        self.take_answers();
        let is_explained = self.trouble.damage || self.has_read_faults() || self.disk.has_crashed();
        for call in called {
            match call {
                Called::Record(delivery) => self.model.delivered(&delivery),
                Called::Restarted(place, from) => {
                    let start =
                        self.log.with(|shared| shared.store_at(place).expect("a store").start);
                    assert!(is_explained || from <= start, "a gap without a reason");
                    self.tally.add("gaps of followers", 1);
                    self.model.restarted(place, from);
                }
            }
        }
        let next = self.cursor.as_ref().map_or(0, |cursor| cursor.next);
        self.model.check_followed(next);
    }

    /// Appends a record with a key again.
    fn retry(&mut self) {
        let life_ms = KEY_LIFE.as_millis() as u64;
        let nth = self.rng.usize(0..1000);
        let Some(known) = self.model.keyed(nth) else { return };
        // Damage may have taken the key with its event.
        if self.trouble.damage || self.trouble.read_faults {
            return;
        }
        if self.pending.iter().any(|(number, _)| *number == known) {
            return;
        }
        let is_same = self.rng.u8(0..3) > 0;
        let (place, topic, body, key, time_ms) = self.model.request(known);
        let body = if is_same { body } else { Body::Events(vec![self.model.event("other")]) };
        let is_remembered = time_ms + life_ms > self.now_ms + 1000;
        if place == WEAK || !is_remembered {
            return;
        }
        self.submit(place, topic, body, key, None);
        let number = self.pending.last().expect("one was added").0;
        self.model.is_retry_of(number, known, is_same);
    }

    fn take_answers(&mut self) {
        let (model, tally, now_ms) = (&mut self.model, &mut self.tally, self.now_ms);
        self.pending.retain_mut(|(number, answer)| {
            let fate = match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => return true,
                Err(oneshot::error::TryRecvError::Closed) => Fate::Unknown,
                Ok(Outcome::Append(Ok(stored))) => Fate::Stored(stored.first, stored.is_repetition),
                Ok(Outcome::Append(Err(AppendError::Unknown))) => Fate::Unknown,
                Ok(Outcome::Append(Err(AppendError::Outdated(newest)))) => Fate::Outdated(newest),
                Ok(Outcome::Append(Err(AppendError::KeyReused))) => Fate::Reused,
                Ok(_) => Fate::Refused,
            };
            tally.add("unknown answers", u64::from(fate == Fate::Unknown));
            model.settle(*number, fate, now_ms);
            false
        });
    }

    fn note_holes(&mut self) {
        let model = &mut self.model;
        self.log.with(|shared| {
            for store in &shared.state.stores {
                store.place.into_iter().for_each(|place| model.note_holes(place, &store.holes));
            }
        });
    }

    fn change_faults(&mut self) {
        let Trouble { faults, read_faults, .. } = self.trouble;
        let mut level = |is_on: bool| match is_on && self.rng.u8(0..3) == 0 {
            true => self.rng.u32(1..60),
            false => 0,
        };
        let [write, sync, directory, read] = [faults, faults, faults, read_faults].map(&mut level);
        let faults = Faults { write, sync, directory, read };
        self.disk.set_faults(faults);
    }

    /// Damages a file where the loss can be noticed: not in the last group.
    fn damage(&mut self) {
        let names = self.disk.names();
        let is_log = |name: &&String| name.starts_with("run-") || name.starts_with("wal-");
        let mut names: Vec<_> = names.iter().filter(is_log).collect();
        if names.is_empty() {
            return;
        }
        let name = names.swap_remove(self.rng.usize(0..names.len())).clone();
        let bytes = self.disk.bytes(&name);
        let mut end = bytes.len();
        if let Some(generation) =
            name.strip_prefix("wal-").and_then(|number| number.parse::<u64>().ok())
        {
            let is_newest = |name: &String| {
                let other = name.strip_prefix("wal-").and_then(|number| number.parse::<u64>().ok());
                let is_later = other.is_some_and(|other| other > generation);
                let found = scan(&self.disk.bytes(name));
                is_later
                    && found
                        .iter()
                        .any(|(_, head)| Some(head.generation) == other && head.count > 0)
            };
            let is_newest = !self.disk.names().iter().any(is_newest);
            let groups = scan(&bytes);
            let last =
                groups.iter().rfind(|(_, head)| head.generation == generation && head.count > 0);
            if is_newest {
                end = last.map_or(0, |(at, _)| *at);
            }
        }
        if end == 0 {
            return;
        }
        let at = self.rng.usize(0..end);
        if self.rng.bool() {
            // Whole pages, so the last group may share one.
            if (at / 512 + 1) * 512 <= end {
                self.disk.spoil(&name, at);
                self.tally.add("spoiled pages", 1);
            }
        } else {
            let length = self.rng.usize(1..600).min(end - at);
            let fill = if self.rng.bool() { 0 } else { 0x5a };
            self.disk.damage(&name, at, &vec![fill; length]);
            self.tally.add("damaged files", 1);
        }
    }

    fn restart(&mut self) {
        self.take_answers();
        if self.rng.u8(0..4) > 0 && !self.disk.has_crashed() {
            self.follow();
        }
        let is_power_cut = self.rng.bool();
        // Requests that were not answered may be stored or not.
        self.queue.lock().expect("no panic").clear();
        self.take_answers();
        self.cursor = None;
        self.disk.restart(is_power_cut);
        self.lives += 1;
        self.model.crashed(self.now_ms);
        let opened = loop {
            match recovery::open(self.disk.clone(), self.bounds, &stores(self.trouble)) {
                Ok(opened) if !self.disk.has_crashed() => break opened,
                Err(reason) if !self.disk.has_crashed() => {
                    assert!(
                        self.trouble.faults || self.trouble.read_faults || self.trouble.damage,
                        "{reason}"
                    );
                    self.disk.set_faults(Faults::default());
                }
                _ => self.disk.restart(true),
            }
            if self.rng.u8(0..3) == 0 {
                self.disk.crash_after(self.rng.u64(1..30));
            }
        };
        (self.log, self.committer, self.keeper) = (
            opened.log,
            Arc::new(Mutex::new(opened.committer)),
            Arc::new(Mutex::new(opened.keeper)),
        );
        self.begin_life();
    }

    fn check_all(&mut self) {
        for place in [LOG, WEAK].into_iter().take(if self.trouble.has_weak { 2 } else { 1 }) {
            for number in 0..6 {
                let name = ["log", "values", "weak"][place];
                let topic = format!("{name}/{number}").parse().expect("a topic");
                self.read_topic(place, &topic, 0, false);
            }
        }
        for number in 0..6 {
            let topic = format!("values/{number}").parse().expect("a topic");
            self.newest_of(&topic, false);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "seed {} {:?}: replay it with THALWEG_DISK_SEED={}",
                self.seed, self.trouble, self.seed
            );
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn stored_records_survive_any_trouble() {
    // Followers that cannot read now wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    if let Some(seed) = number("THALWEG_DISK_SEED") {
        return World::new(seed).run().print_and_check();
    }
    let first = number("THALWEG_DISK_FIRST").unwrap_or(0);
    let mut tally = Tally::default();
    for seed in first..first + number("THALWEG_DISK_SEEDS").unwrap_or(SEEDS) {
        tally.merge(&World::new(seed).run());
    }
    tally.print_and_check();
}
