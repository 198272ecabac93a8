//! Copies a directory, even while a server uses it.
//!
//! The state names the runs, which never change: they are linked, or copied. A file of the write-ahead log keeps its name
//! until a later state is durable, and gets another name before it is used again. A copy of it is valid if the file still
//! has its name afterwards; otherwise the backup begins again with the newer state.
//!
//! The newest file grows meanwhile. A first read finds the end of its last whole group. All bytes before that are final,
//! and a second read copies them. The newest file is copied first, so that no copied group is newer than a missing one.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
};

use thalweg_wire::Epoch;

use crate::{
    check::{Progress, in_directory, unreadable},
    disk::{Directory, Disk as _, private},
    group::{group_bytes, scan},
    log::{DURABLE, STATE, parse_note, write_state},
    recovery::numbered,
    state::{Keys, Run, State},
    wal::WalFile,
};

/// How often a backup begins again because the server has used a file for something else.
const ATTEMPTS_MAX: usize = 100;

/// Bytes of one read.
const READ_BYTES: usize = if cfg!(test) { 2 << 10 } else { 1 << 20 };

/// The result of a backup.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BackedUp {
    /// Files that are in both directories.
    pub linked: u64,
    /// Their bytes.
    pub linked_bytes: u64,
    /// Files that were copied.
    pub copied: u64,
    /// Their bytes.
    pub copied_bytes: u64,
}

/// Copies a directory into a new one, with all events that were confirmed before. The stores of the copy have new epochs,
/// because it lacks the events that the server stores afterwards. `copies`: copy runs even if they can be linked.
///
/// # Errors
/// One sentence with the remedy.
pub fn backup(
    directory: &Path,
    target: &Path,
    copies: bool,
    progress: Progress<'_>,
) -> Result<BackedUp, String> {
    backup_between(directory, target, copies, (progress, &mut || ()))
}

/// Copies a directory. Calls `between` between operations: in tests the server works there.
pub(crate) fn backup_between(
    directory: &Path,
    target: &Path,
    copies: bool,
    (progress, between): (Progress<'_>, &mut dyn FnMut()),
) -> Result<BackedUp, String> {
    let cannot = |error: io::Error| {
        let target = target.display();
        format!(
            "cannot write the backup {target} ({error}): free the disk, or name another directory"
        )
    };
    if read_state(directory)?.is_none() {
        return Err(in_directory(directory, "has no topics: name the directory of --data"));
    }
    let copy = Directory::open(target)?;
    if copy.list().map_err(cannot)?.iter().any(|name| name != "lock") {
        return Err(format!("{} is not empty: name a new directory", target.display()));
    }
    let mut backup = Backup {
        paths: [directory, target],
        copy,
        copies,
        between,
        done: HashSet::new(),
        result: BackedUp::default(),
    };
    for _ in 0..ATTEMPTS_MAX {
        let Some(mut state) = read_state(directory)? else { break };
        // The copy may lack records before the note. They are lost, and their readers get a gap.
        let note = fs::read(directory.join(DURABLE)).map_or(0, |note| parse_note(&note));
        state.durable = state.durable.max(note);
        let wal = match backup.files(&state, progress) {
            Ok(wal) => wal,
            // A newer state does not name a file that is gone.
            Err(BackupFailure::Gone) => continue,
            Err(BackupFailure::Read(error)) => {
                return Err(in_directory(directory, &unreadable(&error)));
            }
            Err(BackupFailure::Write(error)) => return Err(cannot(error)),
        };
        backup.finish(state, &wal).map_err(cannot)?;
        return Ok(backup.result);
    }
    Err("the server writes faster than its files are copied: try again when it has less to do"
        .into())
}

/// Reads the state in one call, because the server replaces it.
fn read_state(directory: &Path) -> Result<Option<State>, String> {
    let bytes = match fs::read(directory.join(STATE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(|error| in_directory(directory, &unreadable(&error)))?,
    };
    let state = State::parse(&bytes);
    state.map(Some).map_err(|reason| in_directory(directory, &format!("has a state that {reason}")))
}

/// The reason why an attempt ends.
enum BackupFailure {
    /// The server has removed a file, or uses it for something else.
    Gone,
    Read(io::Error),
    Write(io::Error),
}

fn read_failure(error: io::Error) -> BackupFailure {
    match error.kind() {
        ErrorKind::NotFound => BackupFailure::Gone,
        _ => BackupFailure::Read(error),
    }
}

struct Backup<'a> {
    /// The directory and its copy.
    paths: [&'a Path; 2],
    copy: Directory,
    copies: bool,
    between: &'a mut dyn FnMut(),
    /// Files that never change and that the copy has.
    done: HashSet<String>,
    result: BackedUp,
}

impl Backup<'_> {
    /// Copies the files of a state. Returns the names of those of the write-ahead log.
    fn files(
        &mut self,
        state: &State,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<String>, BackupFailure> {
        // A listing may lack new names. The second one has all files up to the newest file of the first.
        let newest = self.list_wal()?.last().copied().unwrap_or(0);
        let mut wal = self.list_wal()?;
        wal.retain(|generation| (state.sealed_generation + 1..=newest).contains(generation));
        // A file that is not listed any more is in runs that this state does not name.
        let now = read_state(self.paths[0]).ok().flatten();
        if now.is_none_or(|now| now.sealed_generation != state.sealed_generation) {
            return Err(BackupFailure::Gone);
        }
        let mut copied = Vec::new();
        for generation in wal.into_iter().rev() {
            copied.extend(self.copy_wal(generation)?);
        }
        let runs = state.stores.iter().flat_map(|store| &store.runs);
        let runs = runs.map(|run| (Run::name(run.serial), run.bytes()));
        let keys = state.keys.iter().map(|keys| (Keys::name_of(keys.serial), keys.bytes));
        let files: Vec<(String, u64)> = runs.chain(keys).collect();
        let total = files.iter().map(|(_, bytes)| bytes).sum();
        let mut sum = 0;
        for (name, bytes) in files {
            sum += bytes;
            if !self.done.contains(&name) {
                self.copy_run(&name, bytes)?;
                self.done.insert(name);
            }
            progress(sum, total);
        }
        Ok(copied)
    }

    /// Returns the generations of the files of the write-ahead log, the oldest first.
    fn list_wal(&mut self) -> Result<Vec<u64>, BackupFailure> {
        (self.between)();
        let mut names = Vec::new();
        let listed = fs::read_dir(self.paths[0]).map_err(BackupFailure::Read)?;
        (self.between)();
        for entry in listed {
            names.extend(entry.map_err(BackupFailure::Read)?.file_name().into_string().ok());
        }
        Ok(numbered(&names, "wal-"))
    }

    /// Links or copies a file that never changes.
    fn copy_run(&mut self, name: &str, bytes: u64) -> Result<(), BackupFailure> {
        (self.between)();
        let [from, to] = self.paths.map(|path| path.join(name));
        if !self.copies {
            match fs::hard_link(&from, &to) {
                Ok(()) => {
                    self.result.linked += 1;
                    self.result.linked_bytes += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(BackupFailure::Gone);
                }
                // The directories are on two file systems, for instance.
                Err(_) => {}
            }
        }
        let mut source = File::open(&from).map_err(read_failure)?;
        let mut copy = private()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&to)
            .map_err(BackupFailure::Write)?;
        io::copy(&mut source, &mut copy).map_err(BackupFailure::Write)?;
        copy.sync_all().map_err(BackupFailure::Write)?;
        self.result.copied += 1;
        self.result.copied_bytes += bytes;
        Ok(())
    }

    /// Copies a file of the write-ahead log. Returns its name; `None` if it has no records yet.
    fn copy_wal(&mut self, generation: u64) -> Result<Option<String>, BackupFailure> {
        let name = WalFile::name_of(generation);
        let path = self.paths[0].join(&name);
        let file = File::open(&path).map_err(read_failure)?;
        let metadata = file.metadata().map_err(read_failure)?;
        let mut bytes = vec![0; metadata.len() as usize];
        self.read(&file, &mut bytes)?;
        let groups = scan(&bytes);
        let mut groups = groups.iter().filter(|(_, head)| head.generation == generation);
        let is_empty = groups.clone().all(|(_, head)| head.count == 0);
        if let Some((at, head)) = groups.next_back() {
            let (whole, rest) = {
                let end = (at + group_bytes(head.length)).min(bytes.len());
                bytes.split_at_mut(end)
            };
            self.read(&file, whole)?;
            rest.fill(0);
            if is_empty {
                return Ok(None);
            }
        }
        let now = fs::metadata(&path).map_err(read_failure)?;
        if (now.dev(), now.ino()) != (metadata.dev(), metadata.ino()) {
            return Err(BackupFailure::Gone);
        }
        self.copy.create(&name).map_err(BackupFailure::Write)?;
        self.copy.write_at(&name, 0, &bytes).map_err(BackupFailure::Write)?;
        self.copy.sync(&name).map_err(BackupFailure::Write)?;
        self.result.copied += 1;
        self.result.copied_bytes += bytes.len() as u64;
        Ok(Some(name))
    }

    /// Reads the beginning of a file.
    fn read(&mut self, file: &File, bytes: &mut [u8]) -> Result<(), BackupFailure> {
        for (nth, piece) in bytes.chunks_mut(READ_BYTES).enumerate() {
            (self.between)();
            file.read_exact_at(piece, (nth * READ_BYTES) as u64).map_err(read_failure)?;
        }
        (self.between)();
        Ok(())
    }

    /// Gives the copy its state.
    fn finish(&self, mut state: State, wal: &[String]) -> io::Result<()> {
        let runs = state.stores.iter().flat_map(|store| &store.runs);
        let mut named: HashSet<String> = runs.map(|run| Run::name(run.serial)).collect();
        named.extend(state.keys.iter().map(Keys::name));
        named.extend(wal.iter().cloned());
        for name in self.copy.list()? {
            if name != "lock" && !named.contains(&name) {
                self.copy.remove(&name)?;
            }
        }
        for store in &mut state.stores {
            store.epoch = Epoch::new(fastrand::u64(1..)).expect("not 0");
        }
        state.is_clean = true;
        self.copy.sync_directory()?;
        write_state(&self.copy, &state)
    }
}
