//! The directory. Only this module and `backup` touch files. Tests put a simulated disk in its place.

use std::{
    collections::HashMap,
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// `EIO`: the device cannot read or write.
const EIO: i32 = 5;

const LOCK: &str = "lock";

/// Files of one directory, by name. Calls may come from several threads.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Returns the bytes in a range. Fails with `UnexpectedEof` if the file is shorter.
    fn read_at(&self, name: &str, position: u64, length: usize) -> io::Result<Vec<u8>>;

    /// Returns the length of a file.
    fn length(&self, name: &str) -> io::Result<u64>;

    /// Creates an empty file, or empties an existing one.
    fn create(&self, name: &str) -> io::Result<()>;

    /// Writes bytes, which are durable after [`Self::sync`].
    fn write_at(&self, name: &str, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content of a file durable. After an error, bytes written since the last success may be lost, even if
    /// a later call succeeds.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Renames a file, and replaces an existing one. Durable after [`Self::sync_directory`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after [`Self::sync_directory`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// Returns whether a read error means that stored bytes are lost. Other errors, such as a lack of file descriptors,
/// are temporary.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
        || error.raw_os_error() == Some(EIO)
}

/// Returns whether there is no room on the disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Returns the error of bytes with a wrong checksum or content.
pub(crate) fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the stored bytes are damaged")
}

/// A directory of the file system, locked by this process.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Files that were written. They stay open, so that an error of a sync is not reported to another descriptor.
    written: Mutex<HashMap<String, Arc<File>>>,
    _lock: Option<File>,
}

impl Directory {
    /// Opens a directory, and creates it if it is missing.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        create_directory(path).map_err(|error| unusable(path, &error))?;
        let lock = private().create(true).truncate(false).write(true).open(path.join(LOCK));
        Self::lock(path, lock.map_err(|error| unusable(path, &error))?)
    }

    /// Opens a directory to read it. It is not created, and nothing in it is changed.
    ///
    /// # Errors
    /// One sentence with the remedy, also if another process uses the directory.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self, String> {
        if !path.is_dir() {
            return Err(format!("{} is not a directory: name the data directory", path.display()));
        }
        match File::open(path.join(LOCK)) {
            Ok(lock) => Self::lock(path, lock),
            // No server has used it, as with a backup.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self { path: path.to_owned(), written: Mutex::default(), _lock: None })
            }
            Err(error) => Err(unusable(path, &error)),
        }
    }

    fn lock(path: &Path, lock: File) -> Result<Self, String> {
        match lock.try_lock() {
            Ok(()) => {
                Ok(Self { path: path.to_owned(), written: Mutex::default(), _lock: Some(lock) })
            }
            Err(TryLockError::WouldBlock) => Err(format!(
                "another process uses the data directory {}: stop it, or name another directory",
                path.display()
            )),
            Err(TryLockError::Error(error)) => Err(unusable(path, &error)),
        }
    }

    fn written(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<File>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, name: &str) -> Option<Arc<File>> {
        self.written().get(name).cloned()
    }

    /// Returns the file, open for writing.
    fn writable(&self, name: &str) -> io::Result<Arc<File>> {
        if let Some(file) = self.known(name) {
            return Ok(file);
        }
        let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        let file = Arc::new(file);
        self.written().insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

fn unusable(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    format!(
        "cannot use the data directory {path} ({error}): name a directory that this user may write"
    )
}

/// Returns options for a file of this user alone: it may have events and tickets.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates a directory and its parents, each of which is durable with its name.
fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create_directory(parent)?;
    // Events and tickets are for this user alone.
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(path)?.sync_all()?;
    File::open(parent)?.sync_all()
}

impl Disk for Directory {
    fn read_at(&self, name: &str, position: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = match self.known(name) {
            Some(file) => file,
            None => Arc::new(File::open(self.path.join(name))?),
        };
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, position)?;
        Ok(bytes)
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        Ok(std::fs::metadata(self.path.join(name))?.len())
    }

    fn create(&self, name: &str) -> io::Result<()> {
        let file = private()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(self.path.join(name))?;
        self.written().insert(name.to_owned(), Arc::new(file));
        Ok(())
    }

    fn write_at(&self, name: &str, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable(name)?.write_all_at(bytes, position)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let synced = self.writable(name)?.sync_data();
        // Only files of the write-ahead log are written again. Thousands of runs would take all descriptors.
        if synced.is_err() || !name.starts_with("wal-") {
            self.written().remove(name);
        }
        synced
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))?;
        let mut written = self.written();
        written.remove(to);
        // Only files that are written again stay open.
        if let Some(file) = written.remove(from)
            && to.starts_with("wal-")
        {
            written.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.written().remove(name);
        std::fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::tests::temporary;

    #[test]
    fn a_directory_is_created_with_its_parents_and_keeps_no_run_open() {
        let parent = temporary();
        let path = parent.join("a/b");
        let directory = Directory::open(&path).expect("a directory");
        let mode = std::fs::metadata(&path).expect("a directory").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "others can read it");
        assert!(Directory::open(&path).unwrap_err().contains("another process uses"));
        for name in ["run-1", "wal-1", "state-new"] {
            directory.create(name).expect("created");
            directory.write_at(name, 0, b"text").expect("written");
            directory.sync(name).expect("synced");
        }
        let open: Vec<String> = directory.written().keys().cloned().collect();
        assert_eq!(open, ["wal-1"]);
        assert_eq!(directory.read_at("run-1", 1, 2).expect("read"), b"ex");
        assert!(is_damage(&directory.read_at("run-1", 1, 9).unwrap_err()));
        drop(directory);
        Directory::open(&path).expect("the lock is free");
        std::fs::remove_dir_all(parent).expect("removed");
    }
}
