//! A disk whose syncs take long, as those of a busy device do.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Waker},
    time::Duration,
};

use thalweg_broker::{Append, AppendError, Delivery, Follower, ReadRange};
use thalweg_core::stream::FeedKind;
use thalweg_wire::{Epoch, Offset};
use tokio::sync::oneshot;

use super::{
    rules::{bounds, event, store},
    simulated::{Faults, SimulatedDisk},
};
use crate::{
    batch::{Job, Outcome},
    follow::FollowCursor,
    log::Bounds,
    recovery,
    settings::SyncMode,
    threads::Threads,
};

const APPENDS: u64 = 100;

/// A log whose committer waits in each sync until it may go on.
struct SlowLog {
    disk: SimulatedDisk,
    threads: Threads<SimulatedDisk>,
    /// A message for each sync that has begun.
    begun: Receiver<()>,
    /// Ends a sync, and lets it fail or not.
    end: Sender<bool>,
}

/// A server that takes all records.
#[derive(Clone)]
struct Reader;

impl Follower for Reader {
    async fn deliver(&self, _: Delivery) {}
    async fn restarted(&self, _: usize, _: Epoch, _: Offset) {}
    fn set_ready(&self, _: bool) {}
}

impl SlowLog {
    fn new(sync: SyncMode) -> Self {
        let disk = SimulatedDisk::new(7, usize::MAX);
        let bounds = Bounds { wal_bytes: 1 << 20, group_bytes: 64 << 10, ..bounds() };
        let stores = [store("log/**", FeedKind::Log, sync)];
        let opened = recovery::open(disk.clone(), bounds, &stores).expect("a log");
        // An interval that ends after the test.
        let interval = (sync != SyncMode::Always).then_some(Duration::from_secs(3600));
        let threads = Threads::start(opened, interval).expect("threads");
        let (begin, begun) = channel();
        let (end, may_end) = channel();
        let (failing, may_end) = (disk.clone(), Mutex::new(may_end));
        disk.set_gate(Some(Arc::new(move |what: &str| {
            let is_committer = std::thread::current().name() == Some("disk-committer");
            if is_committer && what.starts_with("sync wal-") {
                // The test may have ended.
                let _ = begin.send(());
                if !may_end.lock().expect("no panic").recv().unwrap_or(true) {
                    failing.set_faults(Faults { sync: 1000, ..Faults::default() });
                }
            }
        })));
        Self { disk, threads, begun, end }
    }

    fn append(&self, text: &str) -> oneshot::Receiver<Outcome> {
        let topic = "log/a".parse().expect("a topic");
        let (content, waited) = (event(text), Duration::ZERO);
        let append = Append { stream: 0, topic, content, key: None, waited };
        self.threads.request(Job::Append(append, None), waited)
    }

    /// Waits until a sync has begun.
    fn begun(&self) {
        thalweg_testing::receive(&self.begun, "a sync").expect("the committer is there");
    }

    fn end_sync(&self, succeeds: bool) {
        self.end.send(succeeds).expect("the committer is there");
    }

    /// Returns the offset of an append, or its error, when it is answered.
    fn answer(answer: oneshot::Receiver<Outcome>) -> Result<Offset, AppendError> {
        match answer.blocking_recv() {
            Ok(Outcome::Append(answer)) => answer.map(|stored| stored.first),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the offsets that a reader gets now.
    fn read(&self) -> Vec<Offset> {
        let log = self.threads.log();
        let (epoch, until) =
            log.with(|shared| (shared.store_at(0).expect("a store").epoch, shared.head));
        let topic = "log/a".parse().expect("a topic");
        let page = log.read(&ReadRange { stream: 0, topic, epoch, from: 0, until }, false);
        page.expect("a page").records.iter().map(|(first, _)| *first).collect()
    }

    fn commits(&self) -> u64 {
        self.threads.log().counts.commits.load(Relaxed)
    }

    /// Returns the generation of the file that is written now.
    fn generation(&self) -> u64 {
        self.threads.log().with(|shared| shared.wal.back().expect("a file").generation)
    }
}

impl Drop for SlowLog {
    fn drop(&mut self) {
        // A sync that still waits ends, and so do the threads.
        self.end = channel().0;
        self.disk.set_gate(None);
    }
}

#[test]
fn appends_of_one_slow_sync_share_the_next_one_and_readers_go_on() {
    let slow = SlowLog::new(SyncMode::Always);
    let log = Arc::clone(slow.threads.log());
    let known = log.with(|shared| {
        let store = shared.store_at(0).expect("a store");
        (shared.head, vec![(store.epoch, store.start)])
    });
    let mut cursor = FollowCursor::new(&log, known.0, known.1);
    let mut follow = || {
        let mut context = Context::from_waker(Waker::noop());
        let _ = pin!(cursor.follow(&Reader)).poll(&mut context);
        cursor.next
    };
    let first = slow.append("1");
    slow.begun();
    slow.end_sync(true);
    let first = SlowLog::answer(first).expect("stored");
    let (commits, head) = (slow.commits(), log.with(|shared| shared.head));

    let mut second = slow.append("2");
    slow.begun();
    let waiting: Vec<_> = (0..APPENDS).map(|number| slow.append(&number.to_string())).collect();
    assert!(second.try_recv().is_err(), "it is answered before it is on the disk");
    assert_eq!(slow.read(), [first], "a reader gets all that is on the disk, and no more");
    assert_eq!(follow(), head, "a follower gets all that is on the disk, and no more");
    slow.end_sync(true);
    let second = SlowLog::answer(second).expect("stored");
    slow.begun();
    assert_eq!(follow(), second + 1);
    slow.end_sync(true);
    let mut expected = vec![first, second];
    expected.extend(waiting.into_iter().map(|answer| SlowLog::answer(answer).expect("stored")));
    assert_eq!(slow.read(), expected);
    assert_eq!(slow.commits() - commits, 2, "appends that wait for one sync are one group");
}

#[test]
fn a_slow_sync_that_fails_leaves_its_appends_unknown_and_the_next_file_is_used() {
    let slow = SlowLog::new(SyncMode::Always);
    let unknown = slow.append("1");
    slow.begun();
    let generation = slow.generation();
    let next = slow.append("2");
    slow.end_sync(false);
    assert_eq!(SlowLog::answer(unknown), Err(AppendError::Unknown));
    slow.disk.set_faults(Faults::default());
    slow.begun();
    slow.end_sync(true);
    let next = SlowLog::answer(next).expect("stored");
    assert!(slow.generation() > generation, "a file whose sync has failed is written again");
    assert_eq!(slow.read(), [next], "the offsets of the failed group are void");
}

#[test]
fn a_store_with_an_interval_answers_before_its_sync() {
    let slow = SlowLog::new(SyncMode::Every(Duration::from_millis(100)));
    for text in ["1", "2", "3"] {
        SlowLog::answer(slow.append(text)).expect("stored");
    }
    assert_eq!(slow.read().len(), 3);
    assert!(slow.begun.try_recv().is_err(), "a sync has begun before the interval was over");
}
