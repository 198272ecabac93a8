//! One process at a time adds to a run's folder: a locked file in it, with the
//! process's number. The kernel lets go of the lock when its process ends, however
//! that ends.

use super::misuse;
use anyhow::Context;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(super) const LOCK: &str = "lock";

/// Whoever has it, and nobody else, adds to the folder. Dropped, the file goes.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes it, unless somebody has it.
    pub(super) fn take(folder: &Path) -> anyhow::Result<Lock> {
        let path = folder.join(LOCK);
        let cannot = || format!("{} cannot be locked", folder.display());
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = options.open(&path).with_context(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(misuse(format!(
                        "{} is {}: wait for its end, or end it with Ctrl-C",
                        folder.display(),
                        said(&mut file)
                    )));
                }
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
            }
            // Who had it may have removed the file since it was opened: that one
            // locks nobody out.
            let is_there = fs::metadata(&path)
                .is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()));
            if is_there {
                file.set_len(0).with_context(cannot)?;
                write!(file, "{}", std::process::id()).with_context(cannot)?;
                return Ok(Lock { file, path });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is still locked. A file that stays locks nobody out.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// That somebody is adding to the folder, and who, if anybody is.
pub(super) fn holder(folder: &Path) -> Option<String> {
    // Without the file, or where it cannot be read, nobody is known to have it.
    let mut file = File::open(folder.join(LOCK)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(said(&mut file)),
        _ => None,
    }
}

/// `still running (process 4711)`
fn said(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(process) => format!("still running (process {process})"),
        None => "still running".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::scratch;
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = scratch("lock");
        assert_eq!(holder(&folder), None);
        let lock = Lock::take(&folder).unwrap();
        let own = format!("still running (process {})", std::process::id());
        assert_eq!(holder(&folder).as_deref(), Some(&*own));
        let refusal = Lock::take(&folder).unwrap_err().to_string();
        assert!(refusal.contains(&own), "{refusal}");
        drop(lock);
        assert_eq!(holder(&folder), None);
        assert!(!folder.join(LOCK).exists());
        // What a killed process leaves is a file that nobody has locked.
        fs::write(folder.join(LOCK), "1").unwrap();
        assert_eq!(holder(&folder), None);
        drop(Lock::take(&folder).unwrap());
    }
}
