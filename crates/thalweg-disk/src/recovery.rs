//! Opens a log: reads the state and the write-ahead log, and finds what is missing.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
};

use thalweg_broker::OFFSET_FIRST;
use thalweg_core::stream::FeedKind;
use thalweg_wire::{Epoch, Offset};

use crate::{
    batch::apply_ticket,
    commit::Committer,
    counts::Counts,
    disk::{self, Disk},
    group::{GROUP_HEAD, GroupHead, group_bytes, scan},
    keeper::Keeper,
    known_keys::KnownKeys,
    log::{Bounds, Log, STATE_NEW, Shared, noted_durable, open_note, read_state, write_state},
    record::Record,
    run::each_record,
    settings::{StoreSettings, SyncMode},
    state::{DAMAGED, Hole, Keys, Run, State, StoreState},
    wal::{WalFile, place_of},
    wal_files::WAL_NEW,
};

/// The unit in which a file is read if a part of it cannot be read.
const SECTOR: usize = if cfg!(test) { 512 } else { 4096 };

/// The offsets that a start skips after an unclean stop: more than a file of the write-ahead log has.
const SKIPPED: u64 = 1 << 25;

/// An open log.
#[derive(Debug)]
pub(crate) struct Opened<D> {
    pub(crate) log: Arc<Log<D>>,
    pub(crate) committer: Committer<D>,
    pub(crate) keeper: Keeper<D>,
}

/// The groups of the write-ahead log that follow the runs.
#[derive(Default)]
struct Recovered {
    files: Vec<RecoveredFile>,
    /// The end of the newest group.
    end: Offset,
    /// The largest offset that any group has given.
    head: Offset,
    time_ms: u64,
    /// Offsets that are lost.
    holes: Vec<Hole>,
    /// Whether records of weak stores are lost.
    has_lost_weak: bool,
    /// Whether an unknown number of groups is lost.
    is_lost: bool,
}

struct RecoveredFile {
    generation: u64,
    bytes: Vec<u8>,
    groups: Vec<(usize, GroupHead)>,
}

/// Opens the log of a directory.
///
/// # Errors
/// The end of a sentence that begins with the directory.
pub(crate) fn open<D: Disk>(
    disk: D,
    bounds: Bounds,
    stores: &[StoreSettings],
) -> Result<Opened<D>, String> {
    let failed =
        |what: &str, error: io::Error| format!("{what} ({error}): free the disk, or replace it");
    let names = disk.list().map_err(|error| failed("cannot be read", error))?;
    let [wal, runs, keys] = ["wal-", "run-", "keys-"].map(|prefix| numbered(&names, prefix));
    let saved = read_state(&disk).map_err(|reason| {
        format!(
            "has a state that {reason}: restore the directory from a backup, or name another one"
        )
    })?;
    if saved.is_none() && !(wal.is_empty() && runs.is_empty()) {
        return Err("has a log without its file \"state\": restore the directory from a backup, or name another one".into());
    }
    let first = |offset: Offset| offset.max(OFFSET_FIRST);
    let mut state = saved.clone().unwrap_or_default();
    state.sealed = first(state.sealed);
    remove_unnamed(&disk, &state, &names);
    open_note(&disk, saved.is_none());
    let recovered =
        recover(&disk, &state, &wal).map_err(|error| failed("cannot be read", error))?;
    // Records that were answered may be lost behind the newest group that is left, and nothing says so: their offsets
    // are not given again.
    let skipped = if saved.is_some() && !state.is_clean { SKIPPED } else { 0 };
    let head = recovered.head + skipped;
    settle(&mut state, &recovered, stores);
    state.generation = state.generation.max(wal.last().copied().unwrap_or(0));
    let serials = [runs.last(), keys.last()].into_iter().flatten();
    state.serial = serials.fold(state.serial, |most, serial| most.max(*serial));
    (state.head, state.durable) = (head, recovered.end);
    keep_last_groups(&disk, &recovered.files)
        .map_err(|error| failed("cannot be written", error))?;
    let is_changed = saved.as_ref() != Some(&state);
    let mut must_save = is_changed;
    if is_changed {
        match write_state(&disk, &state) {
            Ok(()) => must_save = false,
            // The server starts and refuses publishes.
            Err(error) if saved.is_some() && disk::is_full(&error) => {}
            Err(error) => return Err(failed("cannot be written", error)),
        }
    }
    let (generation, serial) = (state.generation, state.serial);
    let runs = state.stores.iter().flat_map(|store| store.runs.clone());
    let runs_ms = runs.map(|run| run.newest_ms).collect::<Vec<_>>().into_iter();
    let mut shared = Shared {
        head: state.head,
        durable: state.durable,
        freed: state.sealed,
        time_ms: runs_ms.fold(recovered.time_ms, u64::max),
        state,
        wal: VecDeque::new(),
        ready: VecDeque::new(),
        keys: KnownKeys::default(),
        tickets: HashMap::new(),
        followers: HashMap::new(),
        is_full: false,
        failed: None,
    };
    #[cfg(test)]
    shared.followers.extend(bounds.kept_from.map(|from| (0, from)));
    let are_lost =
        !load_keys(&disk, &mut shared).map_err(|error| failed("cannot be read", error))?;
    let (mut free, mut unknown) = (Vec::new(), 0);
    for generation in wal {
        let file = recovered.files.iter().find(|file| file.generation == generation);
        match file.filter(|file| !file.groups.is_empty()) {
            Some(file) => {
                let (file, holes) = index(file, &mut shared.keys, &mut shared.tickets);
                shared.wal.push_back(file);
                for store in shared.state.stores.iter_mut().filter(|store| !store.kind.is_state()) {
                    holes.iter().for_each(|hole| store.add_hole(*hole));
                }
                unknown += holes.len() as u64;
            }
            None => free.push(WalFile::name_of(generation)),
        }
    }
    if !recovered.holes.is_empty() || recovered.is_lost || are_lost || unknown > 0 {
        let holes: Vec<_> = recovered.holes.iter().map(|hole| (hole.from, hole.until)).collect();
        tracing::error!(
            ?holes,
            recovered.is_lost,
            keys = are_lost,
            unknown,
            "the log on disk is damaged: subscribers of all topics that may have lost events get a gap"
        );
    }
    let log = Arc::new(Log::new(disk, bounds, shared));
    let damaged = recovered.holes.len() as u64 + u64::from(recovered.is_lost) + unknown;
    Counts::add(&log.counts.damaged, damaged);
    Ok(Opened {
        committer: Committer::new(Arc::clone(&log), recovered.end),
        keeper: Keeper::new(Arc::clone(&log), free, (generation, serial), must_save),
        log,
    })
}

/// Returns the numbers of the files with a prefix, in order.
pub(crate) fn numbered(names: &[String], prefix: &str) -> Vec<u64> {
    let number = |name: &String| name.strip_prefix(prefix)?.parse::<u64>().ok();
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// A log as a start finds it. Its directory is not changed.
#[derive(Debug)]
pub(crate) struct Found {
    /// The state that a start with the same stores saves.
    pub(crate) state: State,
    /// Files with records that are not in runs.
    pub(crate) wal: Vec<WalFile>,
    /// Holes of all topics in the write-ahead log.
    pub(crate) holes: Vec<Hole>,
    /// Whether an unknown number of the newest groups is lost.
    pub(crate) is_lost: bool,
}

/// The reason why no log is found.
#[derive(Debug)]
pub(crate) enum NoLog {
    /// The directory has none.
    Empty,
    /// The file `state` is damaged or missing.
    Damaged,
    /// The directory cannot be read: the end of a sentence that begins with it.
    Unreadable(String),
}

impl From<NoLog> for String {
    fn from(reason: NoLog) -> Self {
        match reason {
            NoLog::Empty => "has no topics: name the directory of --data".into(),
            NoLog::Damaged => {
                "has a damaged file \"state\", or none: restore the directory from a backup".into()
            }
            NoLog::Unreadable(reason) => reason,
        }
    }
}

/// Finds the log of a directory.
pub(crate) fn find(disk: &impl Disk) -> Result<Found, NoLog> {
    let failed = |error: io::Error| {
        NoLog::Unreadable(format!("cannot be read ({error}): free the disk, or replace it"))
    };
    let names = disk.list().map_err(failed)?;
    let wal = numbered(&names, "wal-");
    let saved = read_state(disk).map_err(|reason| match reason == DAMAGED {
        true => NoLog::Damaged,
        false => NoLog::Unreadable(format!("has a state that {reason}")),
    })?;
    let Some(mut state) = saved else {
        let is_new = wal.is_empty() && numbered(&names, "run-").is_empty();
        return Err(if is_new { NoLog::Empty } else { NoLog::Damaged });
    };
    state.sealed = state.sealed.max(OFFSET_FIRST);
    let recovered = recover(disk, &state, &wal).map_err(failed)?;
    let given = state.configured();
    let skipped = if state.is_clean { 0 } else { SKIPPED };
    settle(&mut state, &recovered, &given);
    (state.head, state.durable) = (recovered.head + skipped, recovered.end);
    let (mut keys, mut tickets) = (KnownKeys::default(), HashMap::new());
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for file in recovered.files.iter().filter(|file| !file.groups.is_empty()) {
        let (file, holes) = index(file, &mut keys, &mut tickets);
        found.push(file);
        unknown.extend(holes);
    }
    for store in state.stores.iter_mut().filter(|store| !store.kind.is_state()) {
        unknown.iter().for_each(|hole| store.add_hole(*hole));
    }
    let holes = recovered.holes.into_iter().chain(unknown).collect();
    Ok(Found { state, wal: found, holes, is_lost: recovered.is_lost })
}

/// Removes files of steps that were cut short, which makes room on a full disk.
fn remove_unnamed(disk: &impl Disk, state: &State, names: &[String]) {
    let runs = state.stores.iter().flat_map(|store| &store.runs);
    let mut named: Vec<String> = runs.map(|run| Run::name(run.serial)).collect();
    named.extend(state.keys.iter().map(Keys::name));
    for name in names {
        let is_numbered = name.starts_with("run-") || name.starts_with("keys-");
        let is_new = [STATE_NEW, WAL_NEW].contains(&name.as_str());
        if is_new || (is_numbered && !named.contains(name)) {
            // It takes room, and does no other harm.
            let _ = disk.remove(name);
        }
    }
}

/// Reads a file; bytes that cannot be read are zeros. Returns also the position of the last of them.
fn read_file(disk: &impl Disk, name: &str) -> io::Result<(Vec<u8>, Option<usize>)> {
    let length = disk.length(name)? as usize;
    match disk.read_at(name, 0, length) {
        Err(error) if disk::is_damage(&error) => {}
        read => return Ok((read?, None)),
    }
    let (mut bytes, mut lost) = (vec![0; length], None);
    for (nth, sector) in bytes.chunks_mut(SECTOR).enumerate() {
        match disk.read_at(name, (nth * SECTOR) as u64, sector.len()) {
            Ok(read) => sector.copy_from_slice(&read),
            Err(error) if disk::is_damage(&error) => lost = Some(nth * SECTOR),
            Err(error) => return Err(error),
        }
    }
    Ok((bytes, lost))
}

/// Finds the groups that follow the runs, and the holes between them.
fn recover(disk: &impl Disk, state: &State, wal: &[u64]) -> io::Result<Recovered> {
    // Records that were durable, as the state or the last process has noted. The files may still be in use.
    let durable = noted_durable(disk).max(state.durable);
    let mut found =
        Recovered { end: state.sealed, head: state.head.max(state.sealed), ..Recovered::default() };
    for generation in wal.iter().filter(|generation| **generation > state.sealed_generation) {
        let (bytes, lost) = read_file(disk, &WalFile::name_of(*generation))?;
        let groups: Vec<_> =
            scan(&bytes).into_iter().filter(|(_, head)| head.generation == *generation).collect();
        let end = groups.last().map_or(0, |(at, head)| at + group_bytes(head.length));
        // Even a file that was never used has a group.
        let is_lost = groups.is_empty() || lost.is_some_and(|lost| lost + SECTOR > end);
        found.files.push(RecoveredFile { generation: *generation, bytes, groups: Vec::new() });
        for (position, head) in groups.into_iter().filter(|(_, head)| head.count > 0) {
            found.push(position, head);
        }
        // Groups of later files, if there are any, say what is missing.
        found.is_lost |= is_lost;
    }
    if found.end < durable {
        found.holes.push(Hole::of_all(found.end, durable));
        found.end = durable;
    }
    found.head = found.head.max(found.end);
    Ok(found)
}

impl Recovered {
    /// Takes the next group, if it follows the ones before.
    fn push(&mut self, position: usize, head: GroupHead) {
        self.is_lost = false;
        self.head = self.head.max(head.end);
        self.time_ms = self.time_ms.max(head.time_ms);
        // A group declares those before it void that were not answered.
        // Groups ascend, so those are the last ones.
        for file in self.files.iter_mut().rev() {
            while file.groups.pop_if(|(_, before)| before.first >= head.previous).is_some() {}
            if !file.groups.is_empty() {
                break;
            }
        }
        let last = self.files.iter().rev().find_map(|file| file.groups.last());
        let end = last.map(|(_, last)| last.end);
        self.end = self.end.min(head.previous).max(end.unwrap_or(0));
        if self.end < head.durable {
            self.holes.push(Hole::of_all(self.end, head.durable));
            self.end = head.durable;
        }
        // A group without a sync of its own has records of weak stores alone.
        self.has_lost_weak |= self.end < head.previous;
        if let Some(file) = self.files.last_mut() {
            file.groups.push((position, head));
            self.end = head.end;
        }
    }
}

/// Writes the last group of each file again and syncs it. After a failed sync and a crash of the process alone, it may be in
/// memory and not on the disk.
fn keep_last_groups(disk: &impl Disk, files: &[RecoveredFile]) -> io::Result<()> {
    for file in files {
        let Some((position, head)) = file.groups.last() else { continue };
        let name = WalFile::name_of(file.generation);
        let bytes = &file.bytes[*position..position + GROUP_HEAD + head.length];
        disk.write_at(&name, *position as u64, bytes)?;
        disk.sync(&name)?;
    }
    Ok(())
}

/// Applies the settings and what was lost to the stores.
fn settle(state: &mut State, recovered: &Recovered, settings: &[StoreSettings]) {
    let epoch = || Epoch::new(fastrand::u64(1..)).expect("not 0");
    let before: Vec<(usize, String, FeedKind)> = state
        .stores
        .iter()
        .filter_map(|store| Some((store.place?, store.pattern.to_string(), store.kind)))
        .collect();
    // A hole is found at each start until its file is in runs.
    let holes: Vec<_> = recovered.holes.iter().map(|hole| (hole.from, hole.until)).collect();
    let has_new_hole = holes.iter().any(|hole| !state.settled.contains(hole));
    state.settled = holes;
    let mut now: Vec<(usize, String, FeedKind)> = Vec::new();
    for (place, store) in settings.iter().enumerate() {
        now.push((place, store.pattern.to_string(), store.kind));
    }
    for store in &mut state.stores {
        let was_weak = store.is_weak
            && ((!state.is_clean && store.place.is_some()) || recovered.has_lost_weak);
        let has_hole = store.kind.is_state() && has_new_hole;
        // Positions of these stores may have been given to records that are lost.
        if was_weak || has_hole || recovered.is_lost {
            store.epoch = epoch();
        }
        if !store.kind.is_state() {
            recovered.holes.iter().for_each(|hole| store.add_hole(*hole));
        }
        store.place = None;
    }
    for (place, given) in settings.iter().enumerate() {
        let pattern = given.pattern.to_string();
        let is_same = |store: &&mut StoreState| {
            store.pattern.to_string() == pattern && store.kind == given.kind
        };
        let id = state.stores.iter().map(|store| store.id + 1).max().unwrap_or(0);
        let known = state.stores.iter_mut().find(is_same);
        let is_known = known.is_some();
        let new = StoreState {
            id,
            epoch: epoch(),
            pattern: given.pattern.clone(),
            kind: given.kind,
            compacted: 0,
            place: None,
            start: recovered.head,
            age_ms: None,
            bytes: None,
            is_weak: false,
            runs: Vec::new(),
            holes: Vec::new(),
        };
        let store = match known {
            Some(known) => known,
            None => {
                state.stores.push(new);
                state.stores.last_mut().expect("one was added")
            }
        };
        // Its topics may have been in other stores meanwhile.
        let overlapping = |stores: &[(usize, String, FeedKind)]| {
            let mut stores = stores.to_vec();
            stores.sort_unstable();
            let overlaps = |(_, other, _): &(usize, String, FeedKind)| {
                other.parse().is_ok_and(|other| given.pattern.overlaps(&other))
            };
            let stores = stores.into_iter().filter(overlaps);
            stores.map(|(_, pattern, kind)| (pattern, kind)).collect::<Vec<_>>()
        };
        if is_known && overlapping(&before) != overlapping(&now) {
            store.epoch = epoch();
        }
        store.place = Some(place);
        store.is_weak = given.sync != SyncMode::Always;
        store.age_ms = given.age.map(|age| age.as_millis() as u64);
        store.bytes = given.bytes;
    }
    state.is_clean = false;
}

/// Reads the records whose keys outlive their runs. Returns `false` if some are lost.
fn load_keys(disk: &impl Disk, shared: &mut Shared) -> io::Result<bool> {
    let Shared { state, keys, tickets, .. } = shared;
    let mut are_whole = true;
    for file in &state.keys {
        let read = disk.read_at(&file.name(), 0, file.bytes as usize).and_then(|bytes| {
            each_record(&bytes, |record, _| {
                remember(&record, keys, tickets);
                Ok::<_, io::Error>(())
            })
        });
        match read {
            Ok(()) => {}
            Err(error) if disk::is_damage(&error) || error.kind() == io::ErrorKind::NotFound => {
                are_whole = false;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(are_whole)
}

fn remember(
    record: &Record<'_>,
    keys: &mut KnownKeys,
    tickets: &mut HashMap<String, (String, u64)>,
) {
    let Some(key) = record.key else { return };
    apply_ticket(tickets, record.kind, key, record.payload);
    if let (Some(topic), Some(digest)) = (record.topic(), record.digest()) {
        keys.insert(topic, key.to_vec(), digest, record.first, record.time_ms);
    }
}

/// Returns the index of a file, and holes of records that this version does not know, which hide those behind them in
/// their groups.
fn index(
    file: &RecoveredFile,
    keys: &mut KnownKeys,
    tickets: &mut HashMap<String, (String, u64)>,
) -> (WalFile, Vec<Hole>) {
    let mut holes = Vec::new();
    let mut indexed = WalFile { is_open: false, ..WalFile::new(file.generation) };
    for (position, head) in &file.groups {
        let mut at = position + GROUP_HEAD;
        let records = &file.bytes[at..at + head.length];
        let mut end = head.first;
        let read = each_record(records, |record, bytes| {
            remember(&record, keys, tickets);
            if let Some(topic) = record.topic() {
                let place = place_of(&record, at, bytes.len());
                indexed.push_record(topic, record.store, place, record.key.is_some());
            }
            at += bytes.len();
            end = record.end();
            Ok::<_, io::Error>(())
        });
        // The group has a checksum, so it is not damaged.
        if read.is_err() {
            holes.push(Hole::of_all(end, head.end));
        }
        indexed.push_group(*position, head);
    }
    debug_assert!(file.groups.iter().all(|(at, head)| at + group_bytes(head.length) > *at));
    (indexed, holes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_groups_are_taken_and_those_declared_void_are_not() {
        let file = || RecoveredFile { generation: 1, bytes: Vec::new(), groups: Vec::new() };
        let mut found = Recovered { files: vec![file(), file()], ..Recovered::default() };
        let group =
            |previous, first| GroupHead { previous, first, end: first + 1, ..GroupHead::default() };
        for nth in 0..400_000 {
            found.push(0, group(nth, nth));
        }
        found.files.push(file());
        found.push(0, group(399_990, 400_000));
        let counts: Vec<_> = found.files.iter().map(|file| file.groups.len()).collect();
        assert_eq!(counts, [0, 399_990, 1]);
    }
}
