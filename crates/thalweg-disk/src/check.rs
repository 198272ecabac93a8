//! Checks each record and index of a directory, without changing it.

use std::{
    collections::{HashMap, HashSet},
    io,
    ops::Range,
    path::Path,
};

use thalweg_broker::Content;
use thalweg_core::stream::FeedKind;
use thalweg_wire::{Offset, Pattern};

use crate::{
    disk::{Directory, Disk, is_damage},
    known_keys::event_digest,
    record::{Record, RecordKind, topic_hash},
    recovery::{Found, NoLog, find},
    run::each_record,
    scan::{Ends, RunPart, RunScan, names_of, read_place},
    state::{Run, StoreState},
};

/// Is called with the bytes that are read and those that there are.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// The content of a directory, and its damage.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Its stores, in the order of the settings.
    pub stores: Vec<StoreReport>,
    /// Parts that are lost.
    pub damage: Vec<Damage>,
}

/// The content of a store.
#[derive(Debug)]
pub struct StoreReport {
    /// Its topics.
    pub pattern: Pattern,
    /// Their kind.
    pub kind: FeedKind,
    /// Whether the settings of the last server had it.
    pub is_configured: bool,
    /// Topics with events.
    pub topics: u64,
    /// Events that are readable; of keyed topics the newest of each key, removals included.
    pub events: u64,
    /// Bytes of its runs, and of its records in the write-ahead log.
    pub bytes: u64,
    /// When its oldest and its newest event were stored, in ms since 1970.
    pub times_ms: Option<(u64, u64)>,
}

/// A part of a directory that is lost.
#[derive(Debug)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The store whose records it has; `None` if it has those of all.
    pub store: Option<Pattern>,
    /// The offsets that are lost, if they are known.
    pub offsets: Option<Range<Offset>>,
    /// Names of topics that have lost events, if they are known.
    pub topics: Vec<String>,
    /// The consequence, as a sentence without its end.
    pub effect: &'static str,
}

/// Checks a directory that no process uses.
///
/// # Errors
/// One sentence with the remedy, if the directory cannot be read.
pub fn check(directory: &Path, progress: Progress<'_>) -> Result<CheckReport, String> {
    let disk = Directory::open_to_read(directory)?;
    check_log(&disk, progress).map_err(|reason| in_directory(directory, &reason))
}

/// Completes the end of a sentence that begins with the directory.
pub(crate) fn in_directory(directory: &Path, reason: &str) -> String {
    format!("the data directory {} {reason}", directory.display())
}

/// Completes an error of a read.
pub(crate) fn unreadable(error: &io::Error) -> String {
    format!("cannot be read ({error}): free the disk, or replace it")
}

pub(crate) fn check_log(disk: &impl Disk, progress: Progress<'_>) -> Result<CheckReport, String> {
    let found = match find(disk) {
        Ok(found) => found,
        Err(NoLog::Damaged) => {
            let state = Damage {
                file: "state".into(),
                store: None,
                offsets: None,
                topics: Vec::new(),
                effect: "no server starts on the directory: restore it from a backup",
            };
            return Ok(CheckReport { damage: vec![state], ..CheckReport::default() });
        }
        Err(reason) => return Err(reason.into()),
    };
    let mut checking = Checking::new(disk, &found, progress);
    let mut stores: Vec<&StoreState> = found.state.stores.iter().collect();
    stores.sort_by_key(|store| (store.place.is_none(), store.place));
    for store in stores {
        checking.store(store).map_err(|error| unreadable(&error))?;
    }
    checking.log();
    checking.keys().map_err(|error| unreadable(&error))?;
    Ok(checking.report)
}

/// Returns the bytes that a check or an export reads.
pub(crate) fn total_bytes(found: &Found) -> u64 {
    let runs: u64 = found.state.stores.iter().map(StoreState::run_bytes).sum();
    let groups = found.wal.iter().flat_map(|file| &file.groups);
    runs + groups.map(|group| u64::from(group.length)).sum::<u64>()
}

struct Checking<'a, D> {
    disk: &'a D,
    found: &'a Found,
    report: CheckReport,
    progress: Progress<'a>,
    done: u64,
    total: u64,
}

/// The events of a store that are readable.
#[derive(Default)]
struct Readable {
    /// The hashes of log topics.
    topics: HashSet<u64>,
    events: u64,
    times_ms: Option<(u64, u64)>,
    /// The newest records of each value topic, by its hash.
    values: HashMap<u64, NewestRecords>,
    /// The last end of each keyed topic, and the newest event of each key, by hashes.
    keyed: HashMap<u64, (Offset, HashMap<u64, NewestOfKey>)>,
}

/// The newest event of a key, which may be its removal.
#[derive(Clone, Copy)]
struct NewestOfKey {
    offset: Offset,
    time_ms: u64,
    is_removal: bool,
}

/// The newest records of a value topic.
#[derive(Default)]
struct NewestRecords {
    /// The offset of the newest record of events, the number of these, and its time in ms since 1970.
    event: Offset,
    count: u32,
    time_ms: u64,
    /// The offset of the last end.
    end: Offset,
}

impl<'a, D: Disk> Checking<'a, D> {
    fn new(disk: &'a D, found: &'a Found, progress: Progress<'a>) -> Self {
        let total = total_bytes(found);
        Self { disk, found, report: CheckReport::default(), progress, done: 0, total }
    }

    fn read(&mut self, bytes: usize) {
        self.done += bytes as u64;
        (self.progress)(self.done, self.total);
    }

    fn store(&mut self, store: &StoreState) -> io::Result<()> {
        let mut readable = Readable::default();
        let ends = match store.kind.is_state() {
            true => Ends::default(),
            false => Ends::read(self.disk, self.found, store)?,
        };
        let mut bytes = store.run_bytes();
        for run in &store.runs {
            let mut scan = RunScan::open(self.disk, *run, store.id)?;
            while let Some(part) = scan.next()? {
                match part {
                    RunPart::Chunk(_, chunk) => {
                        each_record(&chunk, |record, _| {
                            readable.push(store, &ends, &record);
                            Ok::<_, io::Error>(())
                        })?;
                        self.read(chunk.len());
                    }
                    RunPart::Lost(lost) => self.report.damage.push(Damage {
                        file: Run::name(run.serial),
                        store: Some(store.pattern.clone()),
                        offsets: Some(lost.hole.from..lost.hole.until),
                        topics: names_of(self.disk, self.found, (store, run), &lost),
                        effect: "subscribers that read over these events get a gap",
                    }),
                }
            }
        }
        for file in &self.found.wal {
            for (topic, of_topic) in file.topics.iter().filter(|(_, topic)| topic.store == store.id)
            {
                for place in &of_topic.records {
                    bytes += u64::from(place.length);
                    let read = read_place(self.disk, file, place)?;
                    match read.as_deref().and_then(Record::parse) {
                        Some((record, _)) => readable.push(store, &ends, &record),
                        None => self.report.damage.push(Damage {
                            file: file.name(),
                            store: Some(store.pattern.clone()),
                            offsets: Some(place.first..place.first + 1),
                            topics: vec![topic.as_str().to_owned()],
                            effect: "subscribers that read over these events get a gap",
                        }),
                    }
                    self.read(place.length as usize);
                }
            }
        }
        for hole in store.holes.iter().filter(|hole| !self.found.holes.contains(hole)) {
            self.report.damage.push(Damage {
                file: "state".into(),
                store: Some(store.pattern.clone()),
                offsets: Some(hole.from..hole.until),
                topics: Vec::new(),
                effect: "an earlier start has found that these events are lost",
            });
        }
        self.report.stores.push(readable.finish(store, bytes));
        Ok(())
    }

    /// Reports the holes of the write-ahead log.
    fn log(&mut self) {
        for hole in &self.found.holes {
            self.report.damage.push(Damage {
                file: "wal".into(),
                store: None,
                offsets: Some(hole.from..hole.until),
                topics: Vec::new(),
                effect: "subscribers of all topics that read over these events get a gap, \
                         and value topics begin a new epoch",
            });
        }
        if self.found.is_lost {
            self.report.damage.push(Damage {
                file: "wal".into(),
                store: None,
                offsets: None,
                topics: Vec::new(),
                effect: "the newest events may be lost, and all topics begin a new epoch",
            });
        }
    }

    fn keys(&mut self) -> io::Result<()> {
        for keys in &self.found.state.keys {
            let read = self.disk.read_at(&keys.name(), 0, keys.bytes as usize);
            let read = read.and_then(|bytes| each_record(&bytes, |_, _| Ok::<_, io::Error>(())));
            match read {
                Err(error) if is_damage(&error) || error.kind() == io::ErrorKind::NotFound => {
                    self.report.damage.push(Damage {
                        file: keys.name(),
                        store: None,
                        offsets: None,
                        topics: Vec::new(),
                        effect: "publishes of the last minutes that are repeated are stored twice, \
                                 and tickets of that time are invalid",
                    });
                }
                read => read?,
            }
        }
        Ok(())
    }
}

impl Readable {
    fn push(&mut self, store: &StoreState, ends: &Ends, record: &Record<'_>) {
        let hash = topic_hash(record.topic);
        if store.kind.has_keys() {
            return self.push_keyed(hash, record);
        }
        if store.kind.is_state() {
            let newest = self.values.entry(hash).or_default();
            match record.kind {
                RecordKind::Events if record.first > newest.event => {
                    (newest.event, newest.count) = (record.first, record.offsets);
                    newest.time_ms = record.time_ms;
                }
                RecordKind::End => newest.end = record.first.max(newest.end),
                _ => {}
            }
            return;
        }
        let is_deleted = record.end() <= store.start || record.first < ends.last(record.topic);
        if record.kind == RecordKind::Events && !is_deleted {
            self.topics.insert(hash);
            self.events += u64::from(record.offsets).min(record.end() - store.start);
            self.add_time(record.time_ms);
        }
    }

    fn push_keyed(&mut self, hash: u64, record: &Record<'_>) {
        let (end, keys) = self.keyed.entry(hash).or_default();
        if record.kind == RecordKind::End {
            *end = record.first.max(*end);
            keys.retain(|_, newest| newest.offset > *end);
        }
        let Some(Content::Events(payloads)) = record.content() else { return };
        for (offset, (key, event)) in (record.first..).zip(payloads.keyed_events()) {
            let newest =
                NewestOfKey { offset, time_ms: record.time_ms, is_removal: event == b"null" };
            let known = keys.entry(event_digest(key)).or_insert(newest);
            if offset >= known.offset {
                *known = newest;
            }
        }
    }

    fn add_time(&mut self, time_ms: u64) {
        let (oldest, newest) = self.times_ms.unwrap_or((time_ms, time_ms));
        self.times_ms = Some((oldest.min(time_ms), newest.max(time_ms)));
    }

    fn finish(mut self, store: &StoreState, bytes: u64) -> StoreReport {
        let mut topics = self.topics.len() as u64;
        for newest in std::mem::take(&mut self.values).into_values() {
            if newest.event > newest.end {
                (topics, self.events) = (topics + 1, self.events + u64::from(newest.count));
                self.add_time(newest.time_ms);
            }
        }
        for (end, keys) in std::mem::take(&mut self.keyed).into_values() {
            let kept = keys.into_values().filter(|newest| newest.offset > end);
            let kept: Vec<NewestOfKey> = kept.collect();
            topics += u64::from(kept.iter().any(|newest| !newest.is_removal));
            self.events += kept.len() as u64;
            kept.into_iter().for_each(|newest| self.add_time(newest.time_ms));
        }
        StoreReport {
            pattern: store.pattern.clone(),
            kind: store.kind,
            is_configured: store.place.is_some(),
            topics,
            events: self.events,
            bytes,
            times_ms: self.times_ms,
        }
    }
}
