//! The folder that a run leaves behind: enough to print its report again.

use super::{Order, date};
use crate::measure::{MachineNote, Sample};
use crate::report::{self, Summary};
use crate::scenario::Plan;
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where runs go unless they are told otherwise.
const RUNS: &str = "thalweg-runs";

#[derive(Debug)]
pub(super) struct Bundle {
    folder: PathBuf,
    begun: SystemTime,
    samples: File,
    histograms: File,
}

impl Bundle {
    pub(super) fn create(
        order: &Order,
        plan: &Plan,
        machine: &MachineNote,
    ) -> anyhow::Result<Bundle> {
        let begun = SystemTime::now();
        let folder = match &order.out {
            Some(folder) => folder.clone(),
            None => unused(&format!(
                "{}-{}-{}-{}",
                date::day(begun),
                machine.cpu_slug(),
                machine.cores,
                plan.name
            )),
        };
        if folder.join("plan.json").exists() {
            bail!("{} holds a run already: name another folder", folder.display());
        }
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        let create = |name: &str| File::create(folder.join(name));
        let bundle = Bundle {
            samples: create("samples.jsonl")?,
            histograms: create("histograms.jsonl")?,
            begun,
            folder,
        };
        bundle.write("plan.json", &serde_json::to_string_pretty(plan)?)?;
        Ok(bundle)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn begun(&self) -> SystemTime {
        self.begun
    }

    /// Where the subjects print to.
    pub(super) fn log(&self) -> anyhow::Result<File> {
        Ok(File::create(self.folder.join("subjects.log"))?)
    }

    /// At once, so that an interrupted run keeps what it has.
    pub(super) fn append(&mut self, sample: &Sample) -> anyhow::Result<()> {
        writeln!(self.samples, "{}", serde_json::to_string(sample)?)?;
        writeln!(self.histograms, "{}", report::histogram_line(sample))?;
        Ok(())
    }

    pub(super) fn finish(&self, summary: &Summary, table: &str) -> anyhow::Result<()> {
        self.write("manifest.json", &serde_json::to_string_pretty(&summary.manifest)?)?;
        self.write("summary.json", &serde_json::to_string_pretty(summary)?)?;
        self.write("summary.csv", &report::csv(summary))?;
        self.write("table.txt", table)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// The first folder of that name that is not there yet.
fn unused(name: &str) -> PathBuf {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let folder = names.find(|name| !Path::new(RUNS).join(name).exists());
    Path::new(RUNS).join(folder.unwrap_or_default())
}
