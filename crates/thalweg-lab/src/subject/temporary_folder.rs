//! A folder that is removed when its value is dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

/// Attempts to remove a folder, and the time between them: a second in all.
const REMOVALS_MAX: u32 = 50;
const REMOVE_EVERY: Duration = Duration::from_millis(20);

/// Folders in use, which must be removed with this process, whatever ends it.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn in_use() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn remove_all() {
    for folder in in_use().drain(..) {
        // If this fails, the folder remains among the system's temporary files.
        let _ = fs::remove_dir_all(&folder);
    }
}

/// A new folder among the system's temporary files, removed with its content when dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates a folder with `purpose` in its name.
    pub fn new(purpose: &str) -> io::Result<TemporaryFolder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("thalweg-{purpose}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        in_use().push(folder.clone());
        Ok(TemporaryFolder(folder))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A process that was just killed may still write to the folder. If all attempts fail, the folder remains
        // among the system's temporary files.
        for _ in 0..REMOVALS_MAX {
            if fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                break;
            }
            std::thread::sleep(REMOVE_EVERY);
        }
        in_use().retain(|folder| *folder != self.0);
    }
}
