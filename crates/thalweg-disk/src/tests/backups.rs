//! Backups of directories that a server uses.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use thalweg_core::stream::FeedKind;

use thalweg_broker::{Append, Content, ReadRange};
use thalweg_core::stream::Payloads;

use super::temporary;
use crate::{
    backup::{backup, backup_between},
    batch::{Job, Outcome},
    broker::Handle,
    check::check,
    disk::Directory,
    log::Bounds,
    settings::{Settings, StoreSettings, SyncMode},
};

const TOPICS: usize = 4;

/// Backups that are made one after the other.
const BACKUPS: usize = 24;

struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Returns a new path, in memory if possible: the test is about names and bytes, and syncs take long.
    fn new() -> Self {
        let (path, memory) = (temporary(), Path::new("/dev/shm"));
        Self(match (path.file_name(), memory.is_dir()) {
            (Some(name), true) => memory.join(name),
            _ => path,
        })
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path) -> Handle<Directory> {
    let store = |pattern: &str, kind: FeedKind| StoreSettings {
        pattern: pattern.parse().expect("a pattern"),
        kind,
        age: None,
        bytes: None,
        // Answered events are in the file, which is all that a backup needs.
        sync: SyncMode::Never,
    };
    let settings = Settings {
        directory: directory.to_owned(),
        stores: vec![store("log/**", FeedKind::Log), store("values/**", FeedKind::Value)],
        bytes: None,
        log_bytes: None,
        event_bytes: 1 << 20,
        ticket_life: None,
    };
    // Small files are sealed, merged and used again all the time.
    let bounds =
        Bounds { wal_bytes: 16 << 10, group_bytes: 4 << 10, merge_bytes: 0, ..Bounds::default() };
    let disk = Directory::open(directory).expect("a directory");
    Handle::open(disk, bounds, &settings).expect("a log")
}

fn append(handle: &Handle<Directory>, stream: usize, topic: &str, number: u64) {
    let event = format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(900));
    let content = Content::Events(Payloads::from_lines(event.into()).expect("an event"));
    let (topic, waited) = (topic.parse().expect("a topic"), Duration::ZERO);
    let append = Append { stream, topic, content, key: None, waited };
    match handle.threads.request(Job::Append(append, None), waited).blocking_recv() {
        Ok(Outcome::Append(Ok(_))) => {}
        other => panic!("{other:?}"),
    }
}

/// Returns the number of the newest event of a topic that has all before it.
fn newest(handle: &Handle<Directory>, stream: usize, topic: &str) -> u64 {
    let log = handle.log();
    let (epoch, until) =
        log.with(|shared| (shared.store_at(stream).expect("a store").epoch, shared.head));
    let topic: thalweg_wire::Topic = topic.parse().expect("a topic");
    let mut range = ReadRange { stream, topic, epoch, from: 0, until };
    let (mut count, is_newest) = (0, stream == 1);
    loop {
        let page = log.read(&range, is_newest).expect("a page");
        for event in page.records.iter().flat_map(|(_, events)| events.iter()) {
            let text = String::from_utf8_lossy(event);
            let number = text.split([':', ',']).nth(1).and_then(|number| number.parse().ok());
            let number: u64 = number.expect("a number");
            assert!(is_newest || number == count, "{number} follows {count} events");
            count = number + 1;
        }
        match page.records.last() {
            Some((first, events)) if !is_newest => range.from = first + events.count() as u64,
            _ => return count,
        }
    }
}

#[test]
fn a_backup_under_load_has_all_events_that_were_answered_before() {
    let directory = TemporaryPath::new();
    let handle = open(&directory.0);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut answered = [0; TOPICS];
    let mut publish = |answered: &mut [u64; TOPICS], count: usize, topics: usize| {
        for _ in 0..count {
            let nth = rng.usize(..topics);
            let (stream, topic) = topic_of(nth);
            append(&handle, stream, topic, answered[nth]);
            answered[nth] += 1;
        }
    };
    for nth in 0..BACKUPS {
        publish(&mut answered, 20, TOPICS);
        let before = answered;
        let target = TemporaryPath::new();
        // Some bursts fill all files of the write-ahead log, which are sealed and used again.
        let mut left = 400 * (nth % 3);
        let between = &mut || {
            let burst = match fastrand::usize(..60) {
                0 => 60,
                1..6 => 6,
                6..20 => 1,
                _ => 0,
            };
            let burst = burst.min(left);
            // Runs of values are merged, and a backup begins again without them.
            publish(&mut answered, burst, if nth < BACKUPS / 4 { TOPICS } else { 2 });
            left -= burst;
        };
        let copies = nth % 2 == 1;
        let result = backup_between(&directory.0, &target.0, copies, (&mut |_, _| (), between));
        let result = result.expect("a backup");
        assert!(!copies || result.linked == 0, "{result:?}");
        let report = check(&target.0, &mut |_, _| ()).expect("a directory");
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        let copy = open(&target.0);
        for (nth, before) in before.into_iter().enumerate() {
            let (stream, topic) = topic_of(nth);
            let there = newest(&copy, stream, topic);
            assert!(there >= before, "{topic} has {there} of {before} events");
            let epoch = |handle: &Handle<Directory>| handle.streams[stream].epoch;
            assert_ne!(epoch(&copy), epoch(&handle), "positions are used twice");
        }
    }
    let generation = handle.log().with(|shared| shared.state.generation);
    assert!(generation > 20, "the log has used {generation} files");
}

fn topic_of(nth: usize) -> (usize, &'static str) {
    [(0, "log/a"), (0, "log/b"), (1, "values/a"), (1, "values/b")][nth]
}

#[test]
fn a_backup_needs_a_new_directory_and_a_source_with_topics() {
    let directory = TemporaryPath::new();
    let target = TemporaryPath::new();
    let result = backup(&directory.0, &target.0, false, &mut |_, _| ());
    assert!(result.unwrap_err().contains("has no topics"));
    assert!(!target.0.exists(), "a directory was created");
    drop(open(&directory.0));
    backup(&directory.0, &target.0, false, &mut |_, _| ()).expect("a backup");
    let result = backup(&directory.0, &target.0, false, &mut |_, _| ());
    assert!(result.unwrap_err().contains("is not empty"));
}
