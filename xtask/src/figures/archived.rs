//! The parts of an archived run that figures need.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::tree::Tree;

pub(super) const RUNS: &str = "lab/runs";

pub(super) struct Run {
    /// Its folder in `lab/runs`.
    pub(super) name: String,
    /// The hash of the sources that it was built from.
    pub(super) tree: String,
    pub(super) summary: Summary,
}

#[derive(Deserialize)]
pub(super) struct Summary {
    pub(super) manifest: Manifest,
    pub(super) parts: Vec<Part>,
    /// Runs of a few subjects have none.
    #[serde(default)]
    pub(super) standings: Vec<Standing>,
}

/// The rank of a subject among many, over one transport.
#[derive(Deserialize)]
pub(super) struct Standing {
    pub(super) transport: String,
    pub(super) subject: String,
    pub(super) is_baseline: bool,
    /// The share if several events can be sent together.
    pub(super) together: Share,
    /// The share if one event is outstanding at a time.
    pub(super) alone: Option<Share>,
    /// The p99 at a fixed rate, relative to the baseline's.
    pub(super) p99: Option<f64>,
    /// The ends of the interval of `p99`. Older runs have none, here and for the memory below.
    #[serde(default)]
    pub(super) p99_low: Option<f64>,
    #[serde(default)]
    pub(super) p99_high: Option<f64>,
    pub(super) idle_bytes: Option<f64>,
    #[serde(default)]
    pub(super) idle_bytes_low: Option<f64>,
    #[serde(default)]
    pub(super) idle_bytes_high: Option<f64>,
}

/// The share of the baseline's events that a subject delivers for the same CPU.
#[derive(Deserialize)]
pub(super) struct Share {
    pub(super) said: String,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Manifest {
    version: String,
    measured: String,
    pub(super) command_line: String,
    pub(super) begun: String,
    was_interrupted: bool,
    pub(super) machine: Machine,
}

#[derive(Default, Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
}

#[derive(Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    rows: Vec<Row>,
    /// Older runs have none.
    #[serde(default)]
    pub(super) comparisons: Vec<Comparison>,
    /// Comparisons over all cells.
    #[serde(default)]
    pub(super) pooled: Vec<Comparison>,
}

#[derive(Deserialize)]
pub(super) struct Row {
    pub(super) cell: String,
    pub(super) subject: String,
    pub(super) verdict: String,
    pub(super) cpu: Cpu,
    pub(super) latency: Latency,
    pub(super) round_trip: RoundTrip,
    pub(super) throughput: Throughput,
    pub(super) memory: Memory,
    /// The result of a ramp within an objective.
    pub(super) held: Option<Held>,
}

#[derive(Deserialize)]
pub(super) struct Held {
    pub(super) connections: Estimate,
    pub(super) is_all: bool,
}

#[derive(Deserialize)]
pub(super) struct Cpu {
    pub(super) us_per_event: Option<Estimate>,
}

#[derive(Deserialize)]
pub(super) struct Latency {
    pub(super) p99_us: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct RoundTrip {
    pub(super) mean_us: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Throughput {
    pub(super) events_per_s: Option<Estimate>,
}

#[derive(Deserialize)]
pub(super) struct Memory {
    pub(super) rss_bytes_per_connection: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Estimate {
    pub(super) median: f64,
}

#[derive(Deserialize)]
pub(super) struct Comparison {
    pub(super) metric: Metric,
    /// `None` for all cells together.
    pub(super) cell: Option<String>,
    pub(super) subject: String,
    pub(super) baseline: String,
    /// Whether the subject is the baseline itself (the A/A control).
    pub(super) is_control: bool,
    pub(super) ratio: f64,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) word: Word,
    pub(super) not_excluded: Option<f64>,
    /// Starts of the subjects: the number of independent values.
    pub(super) starts: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    Cpu,
    P99,
    RoundTrip,
    Throughput,
    Memory,
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Better,
    Worse,
    Equivalent,
    Undecided,
}

impl Run {
    /// Reads the run in this folder of `lab/runs`. Returns an error if its figures cannot be used.
    pub(super) fn read(tree: &Tree, name: &str) -> Result<Run, String> {
        let path = format!("{RUNS}/{name}/summary.json.gz");
        let text =
            tree.unpacked(&path).ok_or_else(|| format!("{path} is not in the repository"))?;
        let summary: Summary =
            serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        if summary.manifest.was_interrupted {
            return Err(format!("{name} was interrupted: measure it again"));
        }
        let trees = summary.manifest.trees();
        let tree = match trees.iter().collect::<Vec<_>>()[..] {
            [tree] => committed(tree, name)?,
            [] => committed("", name)?,
            ref several => return Err(format!("{name} was built from {}", list(several))),
        };
        Ok(Run { name: name.to_owned(), tree, summary })
    }

    pub(super) fn tree_of_all(runs: &[Run]) -> Result<String, String> {
        only_tree(&runs.iter().map(|run| run.tree.clone()).collect::<Vec<_>>())
    }

    pub(super) fn folder(&self) -> String {
        format!("{RUNS}/{}/", self.name)
    }
}

/// Returns the tree that a version names. Fails if the version names none, or one that no commit has.
pub(super) fn tree_of(version: &str, name: &str) -> Result<String, String> {
    committed(&named(version), name)
}

/// Returns the only tree of a block's runs.
pub(super) fn only_tree(trees: &[String]) -> Result<String, String> {
    let trees: BTreeSet<&String> = trees.iter().collect();
    match trees.iter().copied().collect::<Vec<_>>()[..] {
        [tree] => Ok(tree.clone()),
        ref several => Err(format!("its runs are of {}", list(several))),
    }
}

fn named(version: &str) -> String {
    version.split(", ").find_map(|part| part.strip_prefix("tree ")).unwrap_or_default().to_owned()
}

fn committed(tree: &str, name: &str) -> Result<String, String> {
    if tree.ends_with(" modified") {
        return Err(format!("{name} was built from files that no commit has: measure it again"));
    }
    if tree.is_empty() {
        return Err(format!("{name} does not say from which tree it was built: measure it again"));
    }
    Ok(tree.to_owned())
}

fn list(trees: &[&String]) -> String {
    let trees: Vec<&str> = trees.iter().map(|tree| tree.as_str()).collect();
    format!("several trees: {}", trees.join(", "))
}

impl Manifest {
    /// Returns the trees of the lab and of the measured program.
    fn trees(&self) -> BTreeSet<String> {
        // A missing version is that of the lab.
        let told =
            [&self.version, &self.measured].into_iter().filter(|version| !version.is_empty());
        told.map(|version| named(version)).collect()
    }
}

impl Part {
    pub(super) fn row(&self, cell: &str, subject: &str) -> Option<&Row> {
        self.rows.iter().find(|row| (row.cell.as_str(), row.subject.as_str()) == (cell, subject))
    }
}
