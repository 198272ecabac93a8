//! What a run found: its rows, and on what they were taken.

use super::compare;
use super::curves::Curves;
use super::row::{Row, Valid};
use crate::measure::{MachineNote, Sample, Verdict};
use crate::scenario::{Cell, Drive, Part, Plan};
use serde::Serialize;
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
#[derive(Clone, Debug, Serialize)]
pub struct Manifest {
    /// The lab's version and commit; the subjects are the same binary unless
    /// `--thalweg` named another.
    pub version: String,
    /// What was typed.
    pub command_line: String,
    /// UTC.
    pub begun: String,
    /// UTC.
    pub ended: String,
    /// Whether samples are missing because somebody stopped the run.
    pub was_interrupted: bool,
    /// The machine.
    pub machine: MachineNote,
    /// Versions of the peers that took part, by name.
    pub peers: BTreeMap<String, String>,
    /// How connections are set, and where the subjects differ.
    pub connections: Vec<&'static str>,
}

impl Manifest {
    /// Times are for the caller to fill in; what is said of connections comes
    /// from the plan.
    pub fn new(version: &str, command_line: &str, machine: MachineNote) -> Manifest {
        Manifest {
            version: version.to_owned(),
            command_line: command_line.to_owned(),
            begun: String::new(),
            ended: String::new(),
            was_interrupted: false,
            machine,
            peers: BTreeMap::new(),
            connections: Vec::new(),
        }
    }
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
    /// Samples of each subject in each cell.
    pub repeats: u32,
    /// Time measured in each.
    pub measured_ms: u64,
    /// A row for each subject of each cell.
    pub rows: Vec<Row>,
}

impl Summary {
    /// Summarises the samples of a plan, which may not be all.
    pub fn new(plan: &Plan, samples: &[Sample], mut manifest: Manifest) -> Summary {
        manifest.connections = super::connections::notes(plan);
        let parts = plan.parts.iter().enumerate().map(|(index, part)| {
            let own: Vec<&Sample> = samples.iter().filter(|it| it.part == index).collect();
            summarise_part(part, &own)
        });
        Summary { name: plan.name.clone(), manifest, parts: parts.collect() }
    }

    /// Whether anything here counts.
    pub fn has_valid_sample(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.rows).any(|row| row.valid > 0)
    }
}

impl PartSummary {
    /// Its rows, cell by cell.
    pub fn cells(&self) -> Vec<&[Row]> {
        self.rows.chunk_by(|one, next| one.cell == next.cell).collect()
    }
}

fn summarise_part(part: &Part, samples: &[&Sample]) -> PartSummary {
    let mut rows = Vec::new();
    for (index, cell) in part.cells.iter().enumerate() {
        let of_cell = samples.iter().copied().filter(|it| it.cell == index).collect::<Vec<_>>();
        rows.extend(summarise_cell(part.drive, cell, &of_cell));
    }
    compare::call_ties(&mut rows);
    PartSummary {
        name: part.name.clone(),
        title: part.title.clone(),
        drive: part.drive,
        repeats: part.repeats,
        measured_ms: part.measured_ms,
        rows,
    }
}

/// A row for each subject that has samples.
fn summarise_cell(drive: Drive, cell: &Cell, samples: &[&Sample]) -> Vec<Row> {
    let of_subject = |subject: usize| -> Vec<&Sample> {
        samples.iter().copied().filter(|it| it.subject == subject).collect()
    };
    let base = &cell.subjects[cell.baseline];
    let baseline = of_subject(cell.baseline);
    let mut rows = Vec::new();
    for (index, subject) in cell.subjects.iter().enumerate() {
        let own = of_subject(index);
        if own.is_empty() {
            continue;
        }
        let valid = Valid(own.iter().copied().filter(|it| it.verdict.is_valid()).collect());
        let ranked = valid.0.iter().filter(|it| it.verdict == Verdict::Subject).count();
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
            verdict: verdict_of(&own),
            is_ranked: drive == Drive::Ceiling || ranked * 2 > valid.0.len(),
            curves: Curves::of(&own, &valid.0, &subject.settings),
            ..Row::default()
        };
        valid.fill(&mut row, drive, subject);
        if !is_baseline {
            compare::with_baseline(&mut row, &valid.0, &baseline);
        }
        rows.push(row);
    }
    rows
}

/// The verdict of most, and how many do not count.
fn verdict_of(samples: &[&Sample]) -> String {
    let valid: Vec<String> = samples
        .iter()
        .filter(|sample| sample.verdict.is_valid())
        .map(|sample| sample.verdict.to_string())
        .collect();
    let count = |verdict: &String| valid.iter().filter(|other| *other == verdict).count();
    let invalid = samples.iter().find(|sample| !sample.verdict.is_valid());
    match (valid.iter().max_by_key(|verdict| count(verdict)), invalid) {
        (Some(most), None) => most.clone(),
        (Some(most), Some(first)) => {
            format!(
                "{most}; {} of {} {}",
                samples.len() - valid.len(),
                samples.len(),
                first.verdict
            )
        }
        (None, Some(first)) => first.verdict.to_string(),
        (None, None) => String::new(),
    }
}
