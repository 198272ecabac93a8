//! The programs of this project that subjects are started from.

use crate::scenario::{LAB, THALWEG};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the measured program.
const NAME: &str = "thalweg";

/// The programs of this project.
#[derive(Clone, Debug)]
pub struct Programs {
    thalweg: Option<PathBuf>,
    /// The lab's own program. Its command `limit` is the subject `limit`.
    pub lab: PathBuf,
}

/// There is no `thalweg` to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no program `thalweg` beside this one or on the PATH: build it with `cargo build --release \
     --package thalweg`, or name one with --thalweg or THALWEG_BIN"
)]
pub struct NoThalweg;

impl Programs {
    /// Measures the program that is `named`, or the one beside `lab`, or the one on the `PATH`.
    pub fn find(named: Option<PathBuf>, lab: PathBuf) -> Programs {
        let beside = || Some(lab.with_file_name(NAME)).filter(|path| path.is_file());
        let thalweg = named.or_else(beside).or_else(|| find_program(NAME));
        Programs { thalweg, lab }
    }

    /// Returns the binary that is measured.
    pub fn thalweg(&self) -> Result<&Path, NoThalweg> {
        self.thalweg.as_deref().ok_or(NoThalweg)
    }

    /// Replaces the placeholders of both programs in a word of a command.
    pub(super) fn fill(&self, word: &str) -> anyhow::Result<String> {
        let mut filled = word.replace(LAB, &self.lab.to_string_lossy());
        if filled.contains(THALWEG) {
            filled = filled.replace(THALWEG, &self.thalweg()?.to_string_lossy());
        }
        Ok(filled)
    }
}

/// Returns version and commit of a Thalweg binary, as it prints them.
pub fn version_of(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{} cannot be started", program.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(printed.trim().trim_start_matches("thalweg ").to_owned())
}

/// Finds a program on the `PATH`.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
