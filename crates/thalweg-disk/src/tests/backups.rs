//! Backups of directories that a server uses.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use thalweg_broker::{Append, Content, ReadRange};
use thalweg_core::stream::Payloads;

use super::temporary;
use crate::{
    backup::backup,
    broker::Handle,
    check::check,
    commit::{Job, Outcome},
    disk::Directory,
    log::Bounds,
    settings::{Settings, StoreSettings, SyncMode},
};

/// Publishers that append one event at a time.
const PUBLISHERS: usize = 4;

/// Backups that are made one after the other.
const BACKUPS: usize = 8;

struct TemporaryPath(PathBuf);

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path) -> Handle<Directory> {
    let store = |pattern: &str, has_values| StoreSettings {
        pattern: pattern.parse().expect("a pattern"),
        has_values,
        age: None,
        bytes: None,
        sync: SyncMode::Always,
    };
    let settings = Settings {
        directory: directory.to_owned(),
        stores: vec![store("log/**", false), store("values/**", true)],
        event_bytes: 1 << 20,
        ticket_life: None,
    };
    // Small files are sealed, merged and used again all the time.
    let bounds = Bounds { wal_bytes: 64 << 10, group_bytes: 8 << 10, ..Bounds::default() };
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
    let directory = TemporaryPath(temporary());
    let handle = Arc::new(open(&directory.0));
    let answered: Arc<[AtomicU64; PUBLISHERS]> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|nth| {
            let (handle, answered) = (Arc::clone(&handle), Arc::clone(&answered));
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                let (stream, topic) = topic_of(nth);
                for number in 0.. {
                    if is_over.load(SeqCst) {
                        break;
                    }
                    append(&handle, stream, topic, number);
                    answered[nth].store(number + 1, SeqCst);
                }
            })
        })
        .collect();
    for nth in 0..BACKUPS {
        let before: Vec<u64> = answered.iter().map(|count| count.load(SeqCst)).collect();
        let target = TemporaryPath(temporary());
        let result = backup(&directory.0, &target.0, nth % 2 == 1, &mut |_, _| ());
        let result = result.expect("a backup");
        assert!(nth % 2 == 0 || result.linked == 0, "{result:?}");
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
    is_over.store(true, SeqCst);
    publishers.into_iter().for_each(|publisher| publisher.join().expect("no panic"));
    let runs = handle.log().with(|shared| shared.state.serial);
    assert!(runs > 2, "the log has sealed {runs} files");
}

fn topic_of(nth: usize) -> (usize, &'static str) {
    [(0, "log/a"), (0, "log/b"), (1, "values/a"), (1, "values/b")][nth]
}

#[test]
fn a_backup_needs_a_new_directory_and_a_source_with_topics() {
    let directory = TemporaryPath(temporary());
    let target = TemporaryPath(temporary());
    let result = backup(&directory.0, &target.0, false, &mut |_, _| ());
    assert!(result.unwrap_err().contains("has no topics"));
    assert!(!target.0.exists(), "a directory was created");
    drop(open(&directory.0));
    backup(&directory.0, &target.0, false, &mut |_, _| ()).expect("a backup");
    let result = backup(&directory.0, &target.0, false, &mut |_, _| ());
    assert!(result.unwrap_err().contains("is not empty"));
}
