//! A directory that an older build has written.
//!
//! `fixtures/36eed873` was made by that commit: `thalweg data import` wrote the runs, and `thalweg serve`,
//! which was then killed, the write-ahead log. The files have no zeros at their ends, where files of the log
//! have many. `export.ndjson` is what `thalweg data export` of the same build then wrote.

use std::{collections::BTreeMap, fs, time::Duration};

use serde_json::Value;
use thalweg_broker::{Append, Content};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_wire::Offset;
use tokio::sync::oneshot;

use super::{
    moving,
    rules::{Bench, bounds, event, store},
    simulated::SimulatedDisk,
};
use crate::{
    batch::{Job, Outcome, Request},
    disk::Disk as _,
    group::{GROUP_HEAD, scan},
    log::Bounds,
    record::Record,
    settings::{StoreSettings, SyncMode},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/fixtures/36eed873");

const EXPORT: &str = "export.ndjson";

/// Bytes of a file of the write-ahead log. The older build had 32 MiB.
const WAL_BYTES: usize = 64 << 10;

/// The events of each topic that follow its end, or its newest event if it has values.
type Topics = BTreeMap<String, Vec<(Offset, String)>>;

fn files() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(FOLDER).expect("a folder").map(|entry| entry.expect("a file"));
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("text");
        let mut bytes = fs::read(entry.path()).expect("readable");
        if name.starts_with("wal-") {
            bytes.resize(WAL_BYTES, 0);
        }
        (name, bytes)
    };
    entries.map(file).filter(|(name, _)| name != EXPORT).collect()
}

fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(7, usize::MAX);
    for (name, bytes) in files() {
        disk.create(&name).expect("created");
        disk.write_at(&name, 0, &bytes).expect("written");
        disk.sync(&name).expect("synced");
    }
    disk.sync_directory().expect("synced");
    disk
}

fn exported() -> String {
    fs::read_to_string(format!("{FOLDER}/{EXPORT}")).expect("readable")
}

fn lines() -> Vec<Value> {
    exported().lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// Returns the epoch of each store.
fn epochs() -> Vec<String> {
    let lines = lines().into_iter().filter(|line| line["store"].is_string());
    lines.map(|line| line["epoch"].as_str().expect("an epoch").to_owned()).collect()
}

fn topics() -> Topics {
    let mut topics = Topics::new();
    for line in lines() {
        let Some(topic) = line["topic"].as_str() else { continue };
        let events = topics.entry(topic.to_owned()).or_default();
        if line["end"].is_string() {
            events.clear();
        }
        if line["event"].is_null() {
            continue;
        }
        let (_, offset) = line["position"].as_str().and_then(|at| at.split_once('.')).expect("one");
        events.push((offset.parse().expect("an offset"), line["event"].to_string()));
    }
    topics
}

fn stores() -> Vec<StoreSettings> {
    vec![
        store("log/**", FeedKind::Log, SyncMode::Always),
        store("values/**", FeedKind::Value, SyncMode::Always),
    ]
}

/// Returns the idempotency key of a record, the record's topic, its event, and its time and offset.
fn keyed() -> (Vec<u8>, String, String, u64, Offset) {
    let files = files().into_iter().filter(|(name, _)| name.starts_with("wal-"));
    for (_, bytes) in files {
        for (position, head) in scan(&bytes) {
            let mut at = position + GROUP_HEAD;
            for _ in 0..head.count {
                let (record, length) = Record::parse(&bytes[at..]).expect("a record");
                if let Some(key) = record.key {
                    let event = String::from_utf8(record.payload.to_vec()).expect("text");
                    let topic = record.topic.to_owned();
                    return (key.to_vec(), topic, event, record.time_ms, record.first);
                }
                at += length;
            }
        }
    }
    panic!("no record has a key")
}

fn check(bench: &Bench, topics: &Topics, is_first: bool) {
    for (topic, expected) in topics {
        let is_value = topic.starts_with("values/");
        let page = if is_value { bench.newest(topic, 0) } else { bench.read(topic, 0) };
        assert!(page.holes.is_empty(), "{topic}: {page:?}");
        let events = page.records.iter().flat_map(|(first, payloads): &(Offset, Payloads)| {
            let text = |event: &[u8]| String::from_utf8_lossy(event).into_owned();
            (*first..).zip(payloads.iter().map(text).collect::<Vec<_>>())
        });
        let events: Vec<(Offset, String)> = events.collect();
        if is_first || is_value {
            assert_eq!(events, *expected, "{topic}");
        } else {
            assert!(events.starts_with(expected), "{topic}: {events:?}");
        }
    }
}

#[test]
fn an_export_of_an_older_directory_is_the_same() {
    let disk = disk();
    moving::check(&disk, false);
    assert_eq!(moving::export(&disk, "**").1, exported());
}

#[test]
fn an_older_directory_keeps_its_events_epochs_and_keys_and_goes_on() {
    let topics = topics();
    assert!(topics.values().any(Vec::is_empty), "one has ended");
    let bounds = Bounds { wal_bytes: WAL_BYTES, ..bounds() };
    let mut stores = stores();
    let mut bench = Bench::open(disk(), stores.clone(), bounds);
    let epochs = epochs();
    let has_epochs = |bench: &Bench| {
        for (place, epoch) in epochs.iter().enumerate() {
            assert_eq!(bench.epoch(place).to_string(), *epoch, "store {place}");
        }
    };
    has_epochs(&bench);
    check(&bench, &topics, true);

    let (key, topic, text, time_ms, first) = keyed();
    bench.now_ms = time_ms + 1000;
    let (reply, mut answer) = oneshot::channel();
    let topic = topic.parse().expect("a topic");
    let (content, waited) = (event(&text), Duration::ZERO);
    let append = Append { stream: 0, topic, content, key: Some(key), waited };
    let job = Job::Append(append, None);
    bench.queue.push_back(Request { job, reply, until_ms: u64::MAX });
    bench.commit();
    let stored = match answer.try_recv() {
        Ok(Outcome::Append(Ok(stored))) => stored,
        other => panic!("{other:?}"),
    };
    assert_eq!((stored.first, stored.is_repetition), (first, true), "its key is known");

    let newest = topics.values().flatten().map(|(offset, _)| *offset).max().expect("events");
    assert!(bench.put("log/new", "1") > newest, "an offset is given twice");
    bench.seal();
    stores.push(store("keys/**", FeedKind::Keyed, SyncMode::Always));
    bench.stores = stores;
    for is_power_cut in [false, true] {
        bench.reopen(is_power_cut);
        bench.step();
        has_epochs(&bench);
        check(&bench, &topics, false);
    }
    let mut payloads = Payloads::from_lines(b"1".to_vec()).expect("an event");
    payloads.push_key("k");
    bench.append("keys/a", Content::Events(payloads), None).expect("stored");
}
