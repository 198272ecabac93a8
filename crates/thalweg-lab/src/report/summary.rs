//! The results of a run, and its circumstances.

use super::part_summary::{self, PartSummary};
use super::standings::{self, Standing};
use crate::measure::{MachineNote, Sample};
use crate::scenario::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the plan.
    pub name: String,
    /// Machine, versions and times.
    pub manifest: Manifest,
    /// One for each scenario.
    pub parts: Vec<PartSummary>,
    /// Where each of many subjects stands in fan-out; empty for a few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub standings: Vec<Standing>,
}

/// Machine, versions and times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The lab's version and commit.
    pub version: String,
    /// Version and commit of the `thalweg` that was measured. Empty without one, and in older archives.
    pub measured: String,
    /// The browser that was the load, if one was: its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    /// The flags of the browser.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub browser_flags: Vec<String>,
    /// The typed command line, with names instead of paths of this machine.
    pub command_line: String,
    /// The same, word by word, without the program's name.
    pub arguments: Vec<String>,
    /// The command that the subjects ran under, if any.
    pub under: Vec<String>,
    /// The address on which they listened, unless 127.0.0.1.
    pub at: Option<String>,
    /// The run whose plan this one took over.
    pub rerun_of: Option<String>,
    /// UTC.
    pub begun: String,
    /// UTC; empty while the run continues, or if it was killed.
    pub ended: String,
    /// Whether samples are missing because somebody stopped the run.
    pub was_interrupted: bool,
    /// When samples were added, and by which version: a run that was interrupted can be continued.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<Addition>,
    /// The machine.
    pub machine: MachineNote,
    /// Versions of the peers that took part, by name.
    pub peers: BTreeMap<String, String>,
    /// How connections are configured, and how the subjects differ.
    pub connections: Vec<String>,
}

impl Manifest {
    /// Creates a manifest. The caller fills in times; the plan determines `connections`.
    pub fn new(version: &str, command_line: &str, machine: MachineNote) -> Manifest {
        Manifest {
            version: version.to_owned(),
            command_line: command_line.to_owned(),
            machine,
            ..Manifest::default()
        }
    }
}

/// When samples were added to a run, and by which version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Addition {
    /// UTC.
    pub begun: String,
    /// The lab's version and commit.
    pub version: String,
    /// Version and commit of the binary that was measured.
    pub measured: String,
}

impl Summary {
    /// Summarises the samples of a plan, which may not be all.
    pub fn new(plan: &Plan, samples: &[Sample], mut manifest: Manifest) -> Summary {
        // An archived run keeps its own notes.
        if manifest.connections.is_empty() {
            let notes = super::connections::notes(plan);
            manifest.connections = notes;
        }
        let parts = plan.parts.iter().enumerate().map(|(index, part)| {
            let own: Vec<&Sample> = samples.iter().filter(|sample| sample.part == index).collect();
            part_summary::summarise(part, plan.load, &own)
        });
        let parts: Vec<PartSummary> = parts.collect();
        let standings = standings::standings(plan, &parts, samples);
        Summary { name: plan.name.clone(), manifest, parts, standings }
    }

    /// Returns whether anything here counts.
    pub fn has_valid_sample(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.rows).any(|row| row.valid > 0)
    }
}
