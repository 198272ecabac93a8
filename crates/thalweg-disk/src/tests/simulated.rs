//! A disk in memory that loses, tears and reorders writes, and fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    sync::{Arc, Mutex},
};

use fastrand::Rng;

use super::{Held, simulation::Tally};
use crate::disk::Disk;

/// Bytes of a page, which is written as a whole or torn.
const PAGE: usize = 512;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A disk. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct SimulatedDisk(Arc<Mutex<Platter>>);

/// Something that happens during an operation.
type Hook = Box<dyn FnMut(&str) + Send>;

/// Something that may hold up operations. It sees each operation, also those of several threads at a time.
type Gate = Arc<dyn Fn(&str) + Send + Sync>;

struct Platter {
    rng: Rng,
    files: BTreeMap<u64, Content>,
    /// The names that processes see, and those that survive a power cut.
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync of the directory.
    changes: Vec<Change>,
    next_file: u64,
    /// Bytes of all files together.
    capacity: usize,
    operations: u64,
    /// The number of the operation that the process does not survive.
    crash_at: u64,
    faults: Faults,
    /// Whether a write into a group's place panics.
    panics: bool,
    /// The error of all reads.
    read_error: Option<i32>,
    tally: Tally,
    hook: Option<Hook>,
    gate: Option<Gate>,
}

/// The probability of faults, in a thousand operations.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) write: u32,
    pub(super) sync: u32,
    pub(super) directory: u32,
    pub(super) read: u32,
}

#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// Pages that cannot be read.
    bad: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
enum Change {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
}

impl std::fmt::Debug for Platter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Platter({:?})", self.names)
    }
}

fn error<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

fn apply(names: &mut BTreeMap<String, u64>, change: &Change) {
    match change {
        Change::Link(name, file) => _ = names.insert(name.clone(), *file),
        Change::Unlink(name) => _ = names.remove(name),
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

impl Content {
    fn sync(&mut self) {
        self.durable.resize(self.bytes.len(), 0);
        // Pages that an earlier sync has lost count as clean, and stay lost.
        for page in std::mem::take(&mut self.dirty) {
            let start = (page * PAGE).min(self.bytes.len());
            let end = (start + PAGE).min(self.bytes.len());
            self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
        }
    }

    /// Keeps what a power cut leaves.
    fn cut(&mut self, rng: &mut Rng) {
        let mut left = self.durable.clone();
        // The length may be durable without the bytes.
        if rng.bool() {
            left.resize(self.bytes.len().max(left.len().min(self.bytes.len())), 0);
            left.truncate(self.bytes.len());
        }
        for page in &self.dirty {
            let (start, end) =
                (page * PAGE, ((page + 1) * PAGE).min(self.bytes.len()).min(left.len()));
            if start >= end {
                continue;
            }
            let middle = rng.usize(start..=end);
            match rng.u8(0..4) {
                0 => left[start..end].copy_from_slice(&self.bytes[start..end]),
                1 => left[start..middle].copy_from_slice(&self.bytes[start..middle]),
                2 => left[middle..end].copy_from_slice(&self.bytes[middle..end]),
                _ => {}
            }
        }
        self.bytes.clone_from(&left);
        self.durable = left;
        self.dirty.clear();
    }
}

impl SimulatedDisk {
    pub(super) fn new(seed: u64, capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(Platter {
            rng: Rng::with_seed(seed),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            next_file: 0,
            capacity,
            operations: 0,
            crash_at: u64::MAX,
            faults: Faults::default(),
            panics: false,
            read_error: None,
            tally: Tally::default(),
            hook: None,
            gate: None,
        })))
    }

    fn platter(&self) -> std::sync::MutexGuard<'_, Platter> {
        self.0.lock().expect("no panic")
    }

    /// Begins an operation: other threads may act before it, and it may be the last of the process.
    fn begin(&self, what: &str) -> io::Result<std::sync::MutexGuard<'_, Platter>> {
        assert!(!Held::is_held(), "the lock of the log is held during {what}");
        let is_group = what.starts_with("write wal-") && what != "write wal-new";
        let panics = self.platter().panics && is_group;
        assert!(!panics, "on purpose");
        let hook = self.platter().hook.take();
        if let Some(mut hook) = hook {
            hook(what);
            let mut platter = self.platter();
            platter.hook.get_or_insert(hook);
        }
        let gate = self.platter().gate.clone();
        if let Some(gate) = gate {
            gate(what);
        }
        let mut platter = self.platter();
        platter.operations += 1;
        if platter.operations >= platter.crash_at {
            if platter.operations == platter.crash_at {
                platter.tally.add("crashes within an operation", 1);
            }
            return Err(io::Error::new(ErrorKind::Interrupted, "the process has crashed"));
        }
        Ok(platter)
    }

    /// Sets a hook that runs before operations, but not within itself.
    pub(super) fn set_hook(&self, hook: Option<Hook>) {
        self.platter().hook = hook;
    }

    /// Sets a gate that each operation passes.
    pub(super) fn set_gate(&self, gate: Option<Gate>) {
        self.platter().gate = gate;
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        self.platter().faults = faults;
    }

    /// Lets the thread panic that writes a group.
    pub(super) fn panic_at_group(&self) {
        self.platter().panics = true;
    }

    pub(super) fn set_read_error(&self, number: Option<i32>) {
        self.platter().read_error = number;
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        self.platter().capacity = capacity;
    }

    /// Lets the process crash after so many more operations.
    pub(super) fn crash_after(&self, operations: u64) {
        let mut platter = self.platter();
        platter.crash_at = platter.operations.saturating_add(operations);
    }

    pub(super) fn has_crashed(&self) -> bool {
        let platter = self.platter();
        platter.operations >= platter.crash_at
    }

    /// Returns how often each fault occurred.
    pub(super) fn tally(&self) -> Tally {
        self.platter().tally.clone()
    }

    /// Starts the machine again after a power cut, or only the process.
    pub(super) fn restart(&self, is_power_cut: bool) {
        let mut platter = self.platter();
        (platter.crash_at, platter.hook) = (u64::MAX, None);
        platter.tally.add(if is_power_cut { "power cuts" } else { "ends of the process" }, 1);
        if !is_power_cut {
            return;
        }
        let Platter { rng, files, names, durable_names, changes, .. } = &mut *platter;
        let kept = rng.usize(0..=changes.len());
        changes.drain(..).take(kept).for_each(|change| apply(durable_names, &change));
        names.clone_from(durable_names);
        files.values_mut().for_each(|content| content.cut(rng));
    }

    /// Returns the bytes of all files.
    pub(super) fn used(&self) -> usize {
        self.platter().used()
    }

    /// Returns the names of the files.
    pub(super) fn names(&self) -> Vec<String> {
        self.platter().names.keys().cloned().collect()
    }

    /// Returns the length of a file.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let platter = self.platter();
        platter.files[&platter.names[name]].bytes.clone()
    }

    /// Overwrites bytes of a file, as a broken device does.
    pub(super) fn damage(&self, name: &str, at: usize, bytes: &[u8]) {
        let mut platter = self.platter();
        let file = platter.names[name];
        let content = platter.files.get_mut(&file).expect("a file");
        for place in [&mut content.bytes, &mut content.durable] {
            let end = (at + bytes.len()).min(place.len());
            if at < end {
                place[at..end].copy_from_slice(&bytes[..end - at]);
            }
        }
    }

    /// Makes a page of a file unreadable.
    pub(super) fn spoil(&self, name: &str, at: usize) {
        let mut platter = self.platter();
        let file = platter.names[name];
        platter.files.get_mut(&file).expect("a file").bad.insert(at / PAGE);
    }
}

impl Platter {
    fn used(&self) -> usize {
        let files: BTreeSet<u64> = self.names.values().copied().collect();
        files.iter().map(|file| self.files[file].bytes.len()).sum()
    }

    /// Returns whether a fault occurs now, and counts it.
    fn happens(&mut self, in_thousand: u32, fault: &'static str) -> bool {
        let happens = in_thousand > 0 && self.rng.u32(0..1000) < in_thousand;
        self.tally.add(fault, u64::from(happens));
        happens
    }

    fn file(&mut self, name: &str) -> io::Result<&mut Content> {
        let file = *self.names.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(self.files.get_mut(&file).expect("a file"))
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }
}

impl Disk for SimulatedDisk {
    fn read_at(&self, name: &str, position: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut platter = self.begin(&format!("read {name}"))?;
        if let Some(number) = platter.read_error {
            return error(number);
        }
        let in_thousand = platter.faults.read;
        if platter.happens(in_thousand, "failed reads") {
            return error(EIO);
        }
        let content = platter.file(name)?;
        let (start, end) = (position as usize, position as usize + length);
        let bytes = content.bytes.get(start..end).ok_or(ErrorKind::UnexpectedEof)?;
        if content.bad.range(start / PAGE..end.div_ceil(PAGE)).next().is_some() {
            platter.tally.add("reads of bad pages", 1);
            return error(EIO);
        }
        Ok(bytes.to_vec())
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        Ok(self.begin(&format!("length {name}"))?.file(name)?.bytes.len() as u64)
    }

    fn create(&self, name: &str) -> io::Result<()> {
        let mut platter = self.begin(&format!("create {name}"))?;
        if let Ok(content) = platter.file(name) {
            content.dirty.extend(0..content.bytes.len().div_ceil(PAGE));
            content.bytes.clear();
            return Ok(());
        }
        let file = platter.next_file;
        platter.next_file += 1;
        platter.files.insert(file, Content::default());
        platter.change(Change::Link(name.to_owned(), file));
        Ok(())
    }

    fn write_at(&self, name: &str, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut platter = self.begin(&format!("write {name}"))?;
        let (used, capacity, in_thousand) =
            (platter.used(), platter.capacity, platter.faults.write);
        let has_fault = platter.happens(in_thousand, "failed writes");
        let part = if has_fault { platter.rng.usize(0..=bytes.len()) } else { bytes.len() };
        let content = platter.file(name)?;
        let (start, end) = (position as usize, position as usize + part);
        let more = end.saturating_sub(content.bytes.len());
        if more > 0 && used + more > capacity {
            platter.tally.add("full disks", 1);
            return error(ENOSPC);
        }
        if more > 0 {
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(&bytes[..part]);
        content.dirty.extend(start / PAGE..end.div_ceil(PAGE));
        (start / PAGE..end.div_ceil(PAGE)).for_each(|page| _ = content.bad.remove(&page));
        if has_fault { error(EIO) } else { Ok(()) }
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let mut platter = self.begin(&format!("sync {name}"))?;
        let in_thousand = platter.faults.sync;
        if platter.happens(in_thousand, "failed syncs") {
            // The pages count as clean, and some are not on the disk.
            let mut rng = platter.rng.fork();
            let content = platter.file(name)?;
            let mut durable = content.clone();
            durable.cut(&mut rng);
            (content.durable, content.dirty) = (durable.durable, BTreeSet::new());
            return error(EIO);
        }
        platter.file(name)?.sync();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut platter = self.begin(&format!("rename {from} {to}"))?;
        let in_thousand = platter.faults.directory;
        if platter.happens(in_thousand, "failed operations on names") {
            return error(EIO);
        }
        platter.file(from)?;
        platter.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut platter = self.begin(&format!("remove {name}"))?;
        platter.file(name)?;
        platter.change(Change::Unlink(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.begin("list")?.names.keys().cloned().collect())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut platter = self.begin("sync directory")?;
        let in_thousand = platter.faults.directory;
        if platter.happens(in_thousand, "failed operations on names") {
            return error(EIO);
        }
        platter.durable_names = platter.names.clone();
        platter.changes.clear();
        Ok(())
    }
}
