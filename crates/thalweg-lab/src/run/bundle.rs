//! The folder that a run leaves behind: enough to print its report again and to run it once more.

use super::files::{MANIFEST, PLAN, SAMPLES, SUMMARY, has};
use super::lines::whole_lines;
use super::misuse;
use crate::measure::Sample;
use crate::report::{self, Document, Manifest, Summary};
use crate::scenario::Plan;
use anyhow::Context;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const LOG: &str = "subjects.log";

#[derive(Debug)]
pub(super) struct Bundle {
    folder: PathBuf,
    /// Locked for as long as samples are added; the kernel unlocks it when the process ends, however that ends.
    samples: File,
}

impl Bundle {
    /// Creates the folder of a run; it must hold no run yet. Known facts are written before the first sample, so that a killed run can be
    /// read.
    pub(super) fn create(
        folder: PathBuf,
        plan: &Plan,
        manifest: &Manifest,
    ) -> anyhow::Result<Bundle> {
        let cannot = || format!("{} cannot be created", folder.display());
        fs::create_dir_all(&folder).with_context(cannot)?;
        let samples = locked(&folder)?;
        if has(&folder, PLAN) {
            return Err(misuse(format!(
                "{} holds a run already: name another folder",
                folder.display()
            )));
        }
        // Without a plan, existing samples belong to no run.
        samples.set_len(0)?;
        let bundle = Bundle { folder, samples };
        bundle.write(PLAN, &serde_json::to_string_pretty(plan)?)?;
        bundle.note(manifest)?;
        Ok(bundle)
    }

    /// Opens the folder of an interrupted run, to add samples to it.
    pub(super) fn reopen(folder: PathBuf) -> anyhow::Result<Bundle> {
        let samples = locked(&folder)?;
        // Removes a line that was being written when the run was killed.
        samples.set_len(whole_lines(&fs::read(folder.join(SAMPLES))?) as u64)?;
        Ok(Bundle { folder, samples })
    }

    /// Returns whether some process is adding samples to the run in this folder.
    pub(super) fn is_growing(folder: &Path) -> bool {
        // A file that does not exist, as in archives, or cannot be read counts as unlocked.
        let samples = File::open(folder.join(SAMPLES));
        samples
            .is_ok_and(|sample| matches!(sample.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the files of this run, and its folder if that is empty then.
    pub(super) fn discard(&self) {
        for name in [PLAN, MANIFEST, SAMPLES, LOG] {
            // A file may be missing, and one that cannot be removed stays visible.
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.folder);
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn log(&self) -> anyhow::Result<File> {
        Ok(append_to(&self.folder, LOG)?)
    }

    /// Appends the sample at once, in one piece, so that an interrupted run keeps its samples.
    pub(super) fn append(&mut self, sample: &Sample) -> anyhow::Result<()> {
        let line = serde_json::to_string(sample)? + "\n";
        Ok(self.samples.write_all(line.as_bytes())?)
    }

    /// Writes machine, versions and times.
    pub(super) fn note(&self, manifest: &Manifest) -> anyhow::Result<()> {
        self.write(MANIFEST, &serde_json::to_string_pretty(manifest)?)
    }

    /// Writes the other files. The manifest is last, because it marks the run as complete.
    pub(super) fn finish(
        &self,
        summary: &Summary,
        table: &str,
        page: Option<&str>,
    ) -> anyhow::Result<()> {
        self.write(SUMMARY, &serde_json::to_string_pretty(&Document::new(summary))?)?;
        self.write("summary.csv", &report::csv(summary))?;
        if let Some(page) = page {
            self.write("report.html", &report::html(summary, page)?)?;
        }
        self.write("table.txt", table)?;
        self.note(&summary.manifest)
    }

    /// Writes all or nothing, even if the process is killed.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let (path, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Opens and locks the file of samples.
fn locked(folder: &Path) -> anyhow::Result<File> {
    let cannot = || format!("{} cannot be created", folder.display());
    let samples = append_to(folder, SAMPLES).with_context(cannot)?;
    match samples.try_lock() {
        Ok(()) => Ok(samples),
        Err(TryLockError::WouldBlock) => Err(misuse(format!(
            "{} is still running: wait for its end, or end it with Ctrl-C",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

fn append_to(folder: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(folder.join(name))
}
