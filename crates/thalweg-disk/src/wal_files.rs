//! The files of the write-ahead log: keeps empty ones ready, and takes those whose records are in runs.

use std::io;

use crate::{
    disk::{self, Disk},
    group::{GROUP_HEAD, GroupHead},
    log::Log,
    wal::WalFile,
};

/// Bytes of one write into a new file of the write-ahead log. The kernel caches a large write in large pages, and looks at all
/// blocks of such a page in each later write and sync: a group would take 25 µs more CPU.
const ZEROS: usize = 64 << 10;

/// The name of a file of the write-ahead log that is being made.
pub(crate) const WAL_NEW: &str = "wal-new";

/// Empty files.
#[derive(Debug)]
pub(crate) struct WalFiles {
    /// Files that hold nothing any more.
    free: Vec<String>,
    /// The largest generation that a file has had.
    generation: u64,
    /// Whether the disk had no room for more than one empty file.
    is_short: bool,
}

impl WalFiles {
    pub(crate) fn new(free: Vec<String>, generation: u64) -> Self {
        Self { free, generation, is_short: false }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes the files that are in runs and that no follower needs.
    pub(crate) fn recycle<D: Disk>(&mut self, log: &Log<D>) -> io::Result<()> {
        let free = &mut self.free;
        let broken = log.with(|shared| {
            let mut broken = Vec::new();
            while let Some(file) = shared.wal.front() {
                let end = file.end().unwrap_or(0);
                if !file.is_sealed || shared.followers.values().any(|next| *next < end) {
                    break;
                }
                let into = if file.is_broken { &mut broken } else { &mut *free };
                into.push(file.name());
                shared.freed = shared.freed.max(end);
                shared.wal.pop_front();
            }
            broken
        });
        broken.iter().try_for_each(|name| log.disk.remove(name))
    }

    /// Keeps an empty file ready, and as many as there may be if the log has filled one: a merge may take long.
    pub(crate) fn prepare<D: Disk>(&mut self, log: &Log<D>) -> io::Result<()> {
        let counts = || log.with(|shared| (shared.wal.len(), shared.ready.len()));
        let (in_use, ready) = counts();
        while in_use + ready + self.free.len() > log.bounds.wal_files
            && let Some(name) = self.free.pop()
        {
            log.disk.remove(&name)?;
        }
        loop {
            let (in_use, ready) = counts();
            let has_room = in_use + ready < log.bounds.wal_files;
            let is_enough = ready > 0 && self.free.is_empty() && (in_use < 2 || self.is_short);
            if !has_room || is_enough {
                return Ok(());
            }
            match self.prepare_one(log) {
                // One is enough on a full disk.
                Err(error) if ready > 0 && disk::is_full(&error) => self.is_short = true,
                prepared => prepared?,
            }
        }
    }

    /// Makes an empty file ready, with a generation of its own.
    fn prepare_one<D: Disk>(&mut self, log: &Log<D>) -> io::Result<()> {
        match self.free.last() {
            // A file with the name of its former generation must not have the head of the next one.
            Some(name) => {
                log.disk.rename(name, WAL_NEW)?;
                self.free.pop();
                log.disk.sync_directory()?;
            }
            None => create_file(&log.disk, log.bounds.wal_bytes)?,
        }
        let generation = self.generation + 1;
        let mut head = vec![0; GROUP_HEAD];
        GroupHead { generation, ..GroupHead::default() }.finish(&mut head);
        log.disk.write_at(WAL_NEW, 0, &head)?;
        log.disk.sync(WAL_NEW)?;
        self.generation = generation;
        log.disk.rename(WAL_NEW, &WalFile::name_of(generation))?;
        if let Err(error) = log.disk.sync_directory() {
            // The file may have either name after a crash.
            self.free.push(WalFile::name_of(generation));
            return Err(error);
        }
        log.with(|shared| shared.ready.push_back(generation));
        Ok(())
    }
}

/// Creates a file that takes all its room on the disk now.
fn create_file(disk: &impl Disk, length: usize) -> io::Result<()> {
    disk.create(WAL_NEW)?;
    let (mut at, mut written) = (0, Ok(()));
    while at < length && written.is_ok() {
        let count = ZEROS.min(length - at);
        written = disk.write_at(WAL_NEW, at as u64, &vec![0; count]);
        at += count;
    }
    if written.is_err() {
        disk.remove(WAL_NEW)?;
    }
    written
}
