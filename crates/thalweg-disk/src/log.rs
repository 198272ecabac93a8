//! The log: what committer, keeper, readers and followers share.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use thalweg_broker::LogThrottle;
use thalweg_wire::{Offset, Topic};
use tokio::sync::watch;

use crate::{
    counts::Counts,
    disk::{self, Disk},
    known_keys::KnownKeys,
    record::{u32_at, u64_at},
    run::{Fences, RunReader, read_fences},
    state::{Run, State, StoreState},
    wal::WalFile,
};

pub(crate) const STATE: &str = "state";

/// Where the next state is written before it gets its name.
pub(crate) const STATE_NEW: &str = "state-new";

/// The end of the newest group that was synced.
pub(crate) const DURABLE: &str = "durable";

/// A file that gives its room to a state when the disk is full.
const RESERVE: &str = "reserve";

/// How far the time of records may be ahead of the clock, in ms.
const AHEAD_MS: u64 = 24 * 3_600_000;

const RESERVE_BYTES: usize = if cfg!(test) { 8 << 10 } else { 1 << 20 };

/// Sizes, which tests make small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of a file of the write-ahead log.
    pub(crate) wal_bytes: usize,
    /// Maximum number of these files.
    pub(crate) wal_files: usize,
    /// Maximum bytes of a group's records, if it has more than one.
    pub(crate) group_bytes: usize,
    /// Runs are merged as long as the result is not larger.
    pub(crate) merge_bytes: u64,
    /// Bytes that a merge reads before the keeper does other work.
    pub(crate) slice_bytes: usize,
    /// Events are deleted above this number of bytes in the directory.
    pub(crate) total_bytes: Option<u64>,
    /// Events are deleted above this number of bytes in the runs of all log stores.
    pub(crate) log_bytes: Option<u64>,
    /// The age in ms at which a store forgets that a value topic has ended.
    pub(crate) ended_ms: u64,
    /// The age in ms at which a store forgets removals of keys, as servers do.
    pub(crate) removed_ms: u64,
    /// Files with records from this offset on are kept for followers that will come.
    #[cfg(test)]
    pub(crate) kept_from: Option<Offset>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            wal_bytes: 32 << 20,
            wal_files: 4,
            group_bytes: 4 << 20,
            merge_bytes: 16 << 20,
            slice_bytes: 4 << 20,
            total_bytes: None,
            log_bytes: None,
            ended_ms: 7 * 24 * 3_600_000,
            removed_ms: 600_000,
            #[cfg(test)]
            kept_from: None,
        }
    }
}

/// A log in a directory.
#[derive(Debug)]
pub(crate) struct Log<D> {
    pub(crate) disk: D,
    pub(crate) bounds: Bounds,
    pub(crate) counts: Counts,
    /// Signals followers that there is more, or that the log has failed.
    pub(crate) changes: watch::Sender<()>,
    shared: Mutex<Shared>,
    fences: Mutex<HashMap<u64, Fences>>,
    warnings: Mutex<LogThrottle>,
    /// When the log was opened.
    opened: Instant,
}

/// The part that threads share. It is never locked while the disk works.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The state as it was saved, but for the starts of stores. Only the keeper changes it.
    pub(crate) state: State,
    /// The next offset. All records before it are readable.
    pub(crate) head: Offset,
    /// All records before this offset are durable.
    pub(crate) durable: Offset,
    /// The time of the newest record, in ms since 1970.
    pub(crate) time_ms: u64,
    /// Files that hold records which are not in runs, or that a follower has not read yet. The last may be open.
    pub(crate) wal: VecDeque<WalFile>,
    /// Generations of empty files.
    pub(crate) ready: VecDeque<u64>,
    pub(crate) keys: KnownKeys,
    /// The holder and the expiry in ms since 1970 of each ticket, by the digest's digits.
    pub(crate) tickets: HashMap<String, (String, u64)>,
    /// Records before this offset are in no file that a follower can read.
    pub(crate) freed: Offset,
    /// The next offset of each follower, by its number.
    pub(crate) followers: HashMap<u64, Offset>,
    /// Whether the keeper found no room on the disk.
    pub(crate) is_full: bool,
    /// Why the log cannot go on, in one sentence.
    pub(crate) failed: Option<String>,
}

impl<D: Disk> Log<D> {
    pub(crate) fn new(disk: D, bounds: Bounds, shared: Shared) -> Self {
        Self {
            disk,
            bounds,
            counts: Counts::default(),
            changes: watch::Sender::new(()),
            shared: Mutex::new(shared),
            fences: Mutex::default(),
            warnings: Mutex::default(),
            opened: Instant::now(),
        }
    }

    /// Runs `work` with the lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Shared) -> R) -> R {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(test)]
        let _held = crate::tests::Held::begin();
        work(&mut shared)
    }

    /// Ends the log.
    pub(crate) fn fail(&self, reason: &str) {
        let is_first = self.with(|shared| {
            let is_first = shared.failed.is_none();
            shared.failed.get_or_insert_with(|| reason.to_owned());
            is_first
        });
        if is_first {
            tracing::error!(reason, "the log on disk has ended");
        }
        self.changes.send_replace(());
    }

    /// Logs a failure or a loss, at most every ten seconds.
    pub(crate) fn warn(&self, what: &str, error: Option<&io::Error>) {
        let now_us = self.opened.elapsed().as_micros() as u64;
        let count = self.warnings.lock().unwrap_or_else(PoisonError::into_inner).take(1, now_us);
        if let Some(count) = count {
            let error = error.map(ToString::to_string);
            tracing::warn!(error, count, "the log on disk: {what}");
        }
    }

    /// Returns a run's reader.
    pub(crate) fn reader(&self, run: &Run) -> io::Result<RunReader<'_, D>> {
        let fences = || self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        let known = fences().get(&run.serial).cloned();
        let known = match known {
            Some(known) => known,
            None => {
                let read = read_fences(&self.disk, run)?;
                fences().insert(run.serial, read.clone());
                read
            }
        };
        Ok(RunReader { disk: &self.disk, run: *run, fences: known })
    }

    /// Forgets runs that are gone.
    pub(crate) fn forget_fences(&self, is_gone: impl Fn(u64) -> bool) {
        let mut fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        fences.retain(|serial, _| !is_gone(*serial));
    }

    /// Saves the state with a change, and applies the change when it is durable. After an error the file may have the
    /// old or the new state. Only the keeper calls it.
    pub(crate) fn save(&self, change: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut next = self.with(|shared| {
            let &mut Shared { head, durable, .. } = shared;
            State { head, durable, ..shared.state.clone() }
        });
        change(&mut next);
        match write_state(&self.disk, &next) {
            Err(error) if disk::is_full(&error) && self.disk.remove(RESERVE).is_ok() => {
                write_state(&self.disk, &next)?;
            }
            saved => saved?,
        }
        self.with(|shared| shared.state = next);
        Ok(())
    }
}

impl<D: Disk> Log<D> {
    /// Keeps some room on the disk, so that a state can be saved that deletes files.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        if self.disk.length(RESERVE).is_ok_and(|length| length == RESERVE_BYTES as u64) {
            return Ok(());
        }
        self.disk.create(RESERVE)?;
        let written = self.disk.write_at(RESERVE, 0, &vec![0; RESERVE_BYTES]);
        if written.is_err() {
            self.disk.remove(RESERVE)?;
        }
        written
    }
}

/// Notes the end of the newest group that was synced. The note is not synced: it survives the process, and says then that all
/// later groups were not answered. After a power cut it may be older, or missing.
pub(crate) fn note_durable(disk: &impl Disk, durable: Offset) {
    let mut note = durable.to_le_bytes().to_vec();
    let checksum = crc32fast::hash(&note);
    note.extend_from_slice(&checksum.to_le_bytes());
    // Without a note, damage to the newest groups is found by less.
    let _ = disk.write_at(DURABLE, 0, &note);
}

/// Makes room for the note of a new log, or of one that has none.
pub(crate) fn open_note(disk: &impl Disk, is_new: bool) {
    if is_new || disk.length(DURABLE).is_err() {
        // Without room there is no note.
        let _ = disk.create(DURABLE);
    }
}

/// Returns the end that was noted, or 0.
pub(crate) fn noted_durable(disk: &impl Disk) -> Offset {
    disk.read_at(DURABLE, 0, 12).map_or(0, |note| parse_note(&note))
}

/// Returns the end in a note, or 0.
pub(crate) fn parse_note(note: &[u8]) -> Offset {
    let durable = u64_at(note, 0).filter(|_| u32_at(note, 8) == Some(crc32fast::hash(&note[..8])));
    durable.unwrap_or(0)
}

/// Writes the state and makes it durable.
pub(crate) fn write_state(disk: &impl Disk, state: &State) -> io::Result<()> {
    disk.create(STATE_NEW)?;
    disk.write_at(STATE_NEW, 0, &state.to_text())?;
    disk.sync(STATE_NEW)?;
    disk.rename(STATE_NEW, STATE)?;
    disk.sync_directory()
}

/// Reads the state; `None` if the directory has none.
///
/// # Errors
/// The reason, as the end of a sentence.
pub(crate) fn read_state(disk: &impl Disk) -> Result<Option<State>, String> {
    let length = match disk.length(STATE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        length => length.map_err(|error| format!("cannot be read ({error})"))?,
    };
    let bytes = disk.read_at(STATE, 0, length as usize);
    let bytes = bytes.map_err(|error| format!("cannot be read ({error})"))?;
    Ok(Some(State::parse(&bytes)?))
}

impl Shared {
    /// Sets the time of the next records. It does not go back with the clock, unless the clock was wrong by more than a
    /// day: then the lives of keys and tickets begin again.
    pub(crate) fn set_time(&mut self, now_ms: u64) {
        let known_ms = self.time_ms.max(self.keys.newest_ms());
        if known_ms <= now_ms.saturating_add(AHEAD_MS) {
            self.time_ms = self.time_ms.max(now_ms);
            return;
        }
        let ahead_ms = known_ms - now_ms;
        tracing::warn!(
            ahead_ms,
            "the log on disk has events from the future: their age begins then"
        );
        self.keys.set_time(now_ms);
        for (_, until_ms) in self.tickets.values_mut() {
            *until_ms = until_ms.saturating_sub(ahead_ms);
        }
        self.time_ms = now_ms;
    }

    pub(crate) fn store(&self, id: u16) -> Option<&StoreState> {
        self.state.stores.iter().find(|store| store.id == id)
    }

    /// Returns the store at a place of the settings.
    pub(crate) fn store_at(&self, place: usize) -> Option<&StoreState> {
        self.state.stores.iter().find(|store| store.place == Some(place))
    }

    /// Returns the bytes that the directory has at rest, without the runs of log stores that retention may delete. More files of the
    /// write-ahead log, and values that a merge is about to remove, pass: events that were deleted for them would be gone for ever.
    pub(crate) fn fixed_bytes(&self, bounds: &Bounds) -> u64 {
        let values = self.state.stores.iter().filter(|store| store.kind.is_state());
        let merged = |store: &StoreState| store.runs.iter().map(Run::bytes).max().unwrap_or(0);
        let values: u64 = values.map(merged).sum();
        let keys: u64 = self.state.keys.iter().map(|keys| keys.bytes).sum();
        (bounds.wal_files * bounds.wal_bytes + RESERVE_BYTES) as u64 + values + keys
    }

    /// Returns the files whose records are not in runs, the oldest first.
    pub(crate) fn unsealed(&self) -> impl DoubleEndedIterator<Item = &WalFile> {
        self.wal.iter().filter(|file| !file.is_sealed)
    }

    /// Returns the first offset of the newest record of a topic that is not in runs.
    pub(crate) fn newest_unsealed(&self, store: u16, topic: &Topic) -> Option<Offset> {
        let topics = self.unsealed().rev().filter_map(|file| file.topics.get(topic));
        let mut newest = topics.filter(|topic| topic.store == store);
        newest.find_map(|topic| topic.records.last()).map(|record| record.first)
    }
}
