use std::{
    fs::File,
    io::{self, BufReader, Read},
    os::fd::OwnedFd,
    path::Path,
};

use flate2::read::MultiGzDecoder;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

/// A folder, by its descriptor. All files read through the descriptor are in the folder, even if one is renamed or linked meanwhile.
pub(super) struct Folder(OwnedFd);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotRead {
    /// The file does not exist, is not a regular file, or is not readable.
    NotThere,
    TooLarge,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Non-blocking, so that opening something that is not a file, for example a named pipe, does not wait for its other end.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder at a path that the user has chosen. Follows links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?))
    }

    pub(super) fn folder(&self, name: &str) -> io::Result<Self> {
        Ok(Self(openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// Returns the names in the folder, at most `count_max`. Names that are not UTF-8 are omitted.
    pub(super) fn names(&self, count_max: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)?.take(count_max) {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns whether the file exists, compressed or not.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_file = |name: &str| {
            statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        };
        is_file(name) || is_file(&compressed(name))
    }

    /// Opens a file of at most `bytes_max` bytes; returns it with its size in bytes.
    pub(super) fn file(&self, name: &str, bytes_max: u64) -> Result<(File, u64), NotRead> {
        let file = openat(&self.0, name, FILE, Mode::empty()).map_err(|_| NotRead::NotThere)?;
        let file = File::from(file);
        let about = file.metadata().map_err(|_| NotRead::NotThere)?;
        match about.is_file() {
            false => Err(NotRead::NotThere),
            true if about.len() > bytes_max => Err(NotRead::TooLarge),
            true => Ok((file, about.len())),
        }
    }

    /// Returns the bytes of a file, compressed or not; at most `bytes_max` of them.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, NotRead> {
        match self.file(name, bytes_max) {
            Err(NotRead::NotThere) => {
                let (file, _) = self.file(&compressed(name), bytes_max)?;
                read_at_most(MultiGzDecoder::new(BufReader::new(file)), bytes_max)
            }
            file => read_at_most(file?.0, bytes_max),
        }
    }
}

/// Returns the name of the file in an archived run, whose files are compressed with gzip.
pub(super) fn compressed(name: &str) -> String {
    format!("{name}.gz")
}

/// Reads all bytes. Their number is known only at the end, because a file may be growing.
fn read_at_most(file: impl Read, bytes_max: u64) -> Result<Vec<u8>, NotRead> {
    let mut read = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut read).map_err(|_| NotRead::NotThere)?;
    if read.len() as u64 > bytes_max {
        return Err(NotRead::TooLarge);
    }
    Ok(read)
}
