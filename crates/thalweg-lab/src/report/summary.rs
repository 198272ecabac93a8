//! What a run found: its rows, and on what they were taken.

use super::choice::{self, Choice};
use super::comparisons::comparisons;
use super::curves::Curves;
use super::equality::Equality;
use super::most::{self, Most};
use super::row::{Row, Valid};
use crate::measure::comparison::Comparison;
use crate::measure::{MachineNote, Sample, Verdict};
use crate::scenario::{Blank, Cell, Drive, Figure, LoadIn, Part, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the plan.
    pub name: String,
    /// On what, with what, when.
    pub manifest: Manifest,
    /// One for each scenario.
    pub parts: Vec<PartSummary>,
}

/// On what, with what, when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The lab's version and commit.
    pub version: String,
    /// Those of the binary that was measured, which is the lab's own unless
    /// `--thalweg` named another. Empty in older archives.
    pub measured: String,
    /// The browser that was the load, if one was: its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    /// What it was started with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub browser_flags: Vec<String>,
    /// What was typed, with names instead of paths of this machine.
    pub command_line: String,
    /// The same, word by word, without the program's name.
    pub arguments: Vec<String>,
    /// What the subjects ran under, if anything.
    pub under: Vec<String>,
    /// The address they listened at, unless 127.0.0.1.
    pub at: Option<String>,
    /// The run whose plan this one took over.
    pub rerun_of: Option<String>,
    /// UTC.
    pub begun: String,
    /// UTC; empty as long as it runs, or if it was killed.
    pub ended: String,
    /// Whether samples are missing because somebody stopped the run.
    pub was_interrupted: bool,
    /// When samples were added, and with what: a run that was interrupted can be continued.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<Addition>,
    /// The machine.
    pub machine: MachineNote,
    /// Versions of the peers that took part, by name.
    pub peers: BTreeMap<String, String>,
    /// How connections are set, and where the subjects differ.
    pub connections: Vec<String>,
}

impl Manifest {
    /// Times are for the caller to fill in; what is said of connections comes
    /// from the plan.
    pub fn new(version: &str, command_line: &str, machine: MachineNote) -> Manifest {
        Manifest {
            version: version.to_owned(),
            command_line: command_line.to_owned(),
            machine,
            ..Manifest::default()
        }
    }
}

/// When samples were added to a run, and with what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Addition {
    /// UTC.
    pub begun: String,
    /// The lab's version and commit.
    pub version: String,
    /// Those of the binary that was measured.
    pub measured: String,
}

/// What one scenario found.
#[derive(Clone, Debug, Serialize)]
pub struct PartSummary {
    /// Of the scenario.
    pub name: String,
    /// Of the scenario.
    pub title: String,
    /// Who made the subjects broadcast.
    pub drive: Drive,
    /// What it is about.
    pub figure: Figure,
    /// Starts of each cell's subjects; with a budget, at most.
    pub repeats: u32,
    /// Time for all cells together, s, where cells were taken until they were decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_s: Option<u64>,
    /// Time measured in each.
    pub measured_ms: u64,
    /// Whether the subjects of a cell were measured at the same time.
    pub concurrent: bool,
    /// Whether a browser was the load.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_browser: bool,
    /// Who could not take part in which cells, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blanks: Vec<BlankCell>,
    /// A row for each subject of each cell.
    pub rows: Vec<Row>,
    /// Every subject beside its baseline in every metric, cell by cell.
    pub comparisons: Vec<Comparison>,
    /// The same over all cells.
    pub pooled: Vec<Comparison>,
    /// Of a browser that was offered the same at several rates, what it took at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub most: Vec<Most>,
    /// What came of a browser that was observed as by DevTools, beside one that was not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Comparison>,
    /// What subjects agreed on and have set, and what they differ in, cell by cell.
    pub equality: Vec<Equality>,
}

impl Summary {
    /// Summarises the samples of a plan, which may not be all.
    pub fn new(plan: &Plan, samples: &[Sample], mut manifest: Manifest) -> Summary {
        // An archived run's are those of its own time.
        if manifest.connections.is_empty() {
            let notes = super::connections::notes(plan);
            manifest.connections = notes;
        }
        let parts = plan.parts.iter().enumerate().map(|(index, part)| {
            let own: Vec<&Sample> = samples.iter().filter(|it| it.part == index).collect();
            summarise_part(part, plan.load, &own)
        });
        Summary { name: plan.name.clone(), manifest, parts: parts.collect() }
    }

    /// Whether anything here counts.
    pub fn has_valid_sample(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.rows).any(|row| row.valid > 0)
    }
}

/// A subject that could not take part in a cell.
#[derive(Clone, Debug, Serialize)]
pub struct BlankCell {
    /// The cell.
    pub cell: String,
    /// The subject.
    pub subject: String,
    /// Why.
    pub why: String,
}

impl PartSummary {
    /// Its rows, cell by cell.
    pub fn cells(&self) -> Vec<&[Row]> {
        self.rows.chunk_by(|one, next| one.cell == next.cell).collect()
    }
}

fn summarise_part(part: &Part, load: LoadIn, samples: &[&Sample]) -> PartSummary {
    let (mut rows, mut equality) = (Vec::new(), Vec::new());
    for (index, cell) in part.cells.iter().enumerate() {
        let of_cell = samples.iter().copied().filter(|it| it.cell == index).collect::<Vec<_>>();
        if !of_cell.is_empty() {
            equality.push(Equality::of(cell, &of_cell));
        }
        rows.extend(summarise_cell(part, cell, &of_cell));
    }
    let (comparisons, pooled) = comparisons(part, samples);
    let is_browsers = load.is_browser() && part.drive == Drive::GeneratedLoad;
    let in_browser = if is_browsers { samples } else { &[] };
    PartSummary {
        name: part.name.clone(),
        title: part.title.clone(),
        drive: part.drive,
        figure: part.figure(),
        repeats: part.repeats,
        budget_s: part.budget_s,
        measured_ms: part.measured_ms,
        concurrent: part.concurrent,
        in_browser: load.is_browser(),
        blanks: part.cells.iter().flat_map(blanks).collect(),
        rows,
        comparisons,
        pooled,
        most: most::of_part(part, in_browser),
        observed: most::observed(part, in_browser),
        equality,
    }
}

fn blanks(cell: &Cell) -> impl Iterator<Item = BlankCell> {
    let label = &cell.label;
    cell.blanks.iter().map(move |Blank { subject, why }| BlankCell {
        cell: label.clone(),
        subject: subject.clone(),
        why: why.clone(),
    })
}

/// A row for each subject that has samples.
fn summarise_cell(part: &Part, cell: &Cell, samples: &[&Sample]) -> Vec<Row> {
    let of_subject = |subject: usize| -> Vec<&Sample> {
        samples.iter().copied().filter(|it| it.subject == subject).collect()
    };
    let base = &cell.subjects[cell.baseline];
    let mut rows = Vec::new();
    for (index, subject) in cell.subjects.iter().enumerate() {
        let own = of_subject(index);
        if own.is_empty() {
            continue;
        }
        let choice = Choice::of(&own);
        let valid = Valid(choice.counted.clone());
        let most = choice.most();
        let ranked = valid.0.iter().filter(|it| it.is_ranked()).count();
        let is_baseline = index == cell.baseline;
        let mut row = Row {
            cell: cell.label.clone(),
            subject: subject.name.clone(),
            settings: subject.settings.clone(),
            is_baseline,
            is_noise: !is_baseline
                && (&base.program, &base.settings) == (&subject.program, &subject.settings),
            samples: own.len(),
            valid: valid.0.len(),
            left_out: choice.left_out.len(),
            takes_all: choice.takes_all,
            invalid: choice::reasons(&own),
            verdict: choice.verdict(&own),
            why: most.or(own.first().copied()).map_or(String::new(), |it| it.why.clone()),
            span_s: own.iter().map(|sample| sample.span_us as f64 / 1e6).sum(),
            is_ranked: part.drive == Drive::Ceiling || ranked * 2 > valid.0.len(),
            is_at_least: part.drive == Drive::Ceiling
                && most.is_some_and(|it| it.verdict == Verdict::Swarm),
            curves: Curves::of(&own, &valid.0, &subject.settings),
            ..Row::default()
        };
        valid.fill(&mut row, part.drive, subject);
        rows.push(row);
    }
    rows
}
