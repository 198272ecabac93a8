//! The files of the repository, read once.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    process::Command,
};

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;

/// The files that git tracks or would track, by their paths from the root.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    root: String,
    files: BTreeMap<String, File>,
}

#[derive(Debug)]
struct File {
    bytes: u64,
    /// `None` for a file that is not text.
    text: Option<String>,
}

impl Tree {
    /// Reads the working tree around the current directory.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let listing = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--full-name",
                "--cached",
                "--others",
                "--exclude-standard",
                ":/",
            ])
            .output()
            .context("cannot run git, which lists the files: install git")?;
        ensure!(listing.status.success(), "git ls-files failed; run tidy inside the repository");
        let root = Command::new("git").args(["rev-parse", "--show-toplevel"]).output()?;
        let root = String::from_utf8(root.stdout)?.trim_end().to_owned();

        let mut files = BTreeMap::new();
        for path in String::from_utf8(listing.stdout)?.split_terminator('\0') {
            // A deleted file is listed until the deletion is committed.
            if let Ok(bytes) = fs::read(format!("{root}/{path}")) {
                let (bytes, text) = (bytes.len() as u64, String::from_utf8(bytes).ok());
                files.insert(path.to_owned(), File { bytes, text });
            }
        }
        Ok(Self { root, files })
    }

    #[cfg(test)]
    pub(crate) fn from_files(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| {
            let (bytes, text) = (text.len() as u64, Some((*text).to_owned()));
            ((*path).to_owned(), File { bytes, text })
        };
        Self { root: String::new(), files: files.iter().map(owned).collect() }
    }

    /// Writes a file of the working tree. The content that was read does not change.
    pub(crate) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        fs::write(format!("{}/{path}", self.root), text)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_str(), file.text.as_deref()?)))
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// Returns every file whose path begins with this text, and its size in bytes.
    pub(crate) fn sizes(&self, begin: &str) -> impl Iterator<Item = (&str, u64)> {
        let files = self.files.iter().filter(move |(path, _)| path.starts_with(begin));
        files.map(|(path, file)| (path.as_str(), file.bytes))
    }

    /// Returns the text in a file that gzip has compressed.
    pub(crate) fn unpacked(&self, path: &str) -> Option<String> {
        // The trees of tests have texts only.
        if let Some(text) = &self.files.get(path)?.text {
            return Some(text.clone());
        }
        let file = fs::File::open(format!("{}/{path}", self.root)).ok()?;
        let mut text = String::new();
        GzDecoder::new(io::BufReader::new(file)).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Returns whether this is a file, or a directory with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(below.clone()..).next().is_some_and(|(p, _)| p.starts_with(&below))
    }
}
