//! The plan of a run, in order: parts, cells, subjects, samples.

use super::{Drive, Figure, Process, Program, ScenarioError, Settings, THALWEG, unknown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Estimates: a subject's start and stop, and a connection's opening and closing.
const STARTING_MS: u64 = 60;
const OPENING_US: u64 = 150;

/// A subject that waits for another one's turn must answer pings within a few seconds.
const TURN_MAX: Duration = Duration::from_millis(2500);

/// Parts to measure, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the scenario or suite.
    pub name: String,
    /// The purpose of the scenario or suite.
    pub title: String,
    /// The load generator.
    #[serde(default, skip_serializing_if = "LoadIn::is_swarm")]
    pub load: LoadIn,
    /// The scenarios, one after the other.
    pub parts: Vec<Part>,
}

/// The load generator of a plan: one for all of it, because figures of different ones are never compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadIn {
    /// The lab's own subscribers and publishers.
    #[default]
    Swarm,
    /// Tabs of the system's Chromium.
    Chromium,
}

impl LoadIn {
    fn is_swarm(&self) -> bool {
        *self == LoadIn::Swarm
    }

    /// Returns whether it is a browser.
    pub fn is_browser(self) -> bool {
        self == LoadIn::Chromium
    }
}

/// One scenario of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Name of the scenario.
    pub name: String,
    /// The purpose of the scenario.
    pub title: String,
    /// The drive, which makes the subjects broadcast.
    pub drive: Drive,
    /// The figure of the scenario, if the file names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// Starts of a cell's subjects; with a budget, the maximum.
    pub repeats: u32,
    /// Spans of each subject from one start to the next, where the load can pause.
    #[serde(default = "one")]
    pub rounds: u32,
    /// Time for all cells, s: each is measured until it is decided or its share is over; `None` takes `repeats` starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_s: Option<u64>,
    /// Time at full load before measuring.
    pub warm_up_ms: u64,
    /// Time measured.
    pub measured_ms: u64,
    /// Whether the subjects of a cell are measured at the same time.
    #[serde(alias = "together", default, skip_serializing_if = "std::ops::Not::not")]
    pub concurrent: bool,
    /// Cells in which the subjects are compared.
    pub cells: Vec<Cell>,
}

/// Older plans have one span for each start.
fn one() -> u32 {
    1
}

/// One combination of settings and the subjects to compare in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Label with its settings.
    pub label: String,
    /// The subjects' common settings.
    pub settings: Settings,
    /// The subjects, at least one.
    pub subjects: Vec<Subject>,
    /// Index of the subject the others are compared with.
    pub baseline: usize,
    /// Subjects that cannot take part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blanks: Vec<Blank>,
}

/// A subject that cannot be measured in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blank {
    /// Name in the report.
    pub subject: String,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for Blank {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "`{}` is not measured here: {}", self.subject, self.why)
    }
}

/// One server in one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Name in the report.
    pub name: String,
    /// Program that is started.
    pub program: Program,
    /// The cell's settings with this subject's own on top.
    pub settings: Settings,
    /// Arguments that are added to Thalweg's command; a peer has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Processes that are started before it and ended with it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
}

/// One sample to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the part.
    pub part: usize,
    /// Index of the part's cell.
    pub cell: usize,
    /// Index of the cell's subject.
    pub subject: usize,
    /// The start, from 0.
    pub repeat: u32,
}

impl Plan {
    /// Returns every possible start of every subject: cell by cell, start by start.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.parts.iter().enumerate().flat_map(|(part_index, part)| {
            part.cells.iter().enumerate().flat_map(move |(cell_index, cell)| {
                let count = cell.subjects.len();
                (0..part.repeats).flat_map(move |repeat| {
                    (0..count).map(move |subject| Slot {
                        part: part_index,
                        cell: cell_index,
                        subject,
                        repeat,
                    })
                })
            })
        })
    }

    /// Returns the number of samples; `None` if a budget ends the run.
    pub fn samples_planned(&self) -> Option<usize> {
        if self.parts.iter().any(|part| part.budget_s.is_some()) {
            return None;
        }
        Some(self.slots().map(|slot| self.rounds(slot) as usize).sum())
    }

    /// Returns the approximate time of the run; with a budget, the maximum.
    pub fn time(&self) -> Duration {
        let of_slot = |slot: Slot| match self.part(slot).budget_s {
            Some(_) => Duration::ZERO,
            None => self.expected_time(slot),
        };
        let budgets = self.parts.iter().filter_map(|part| part.budget_s);
        Duration::from_secs(budgets.sum()) + self.slots().map(of_slot).sum::<Duration>()
    }

    /// Returns whether a subject, or a process beside one, is the build that is measured.
    pub fn runs_thalweg(&self) -> bool {
        let names_thalweg = |word: &String| word.contains(THALWEG);
        self.subjects().any(|subject| {
            let mut beside = subject.processes.iter().flat_map(|process| &process.command);
            subject.program.is_thalweg() || beside.any(names_thalweg)
        })
    }

    fn rounds(&self, slot: Slot) -> u32 {
        let part = self.part(slot);
        if part.can_take_turns(&self.subject(slot).settings) { part.rounds } else { 1 }
    }

    /// Returns the part of a sample.
    pub fn part(&self, slot: Slot) -> &Part {
        &self.parts[slot.part]
    }

    /// Returns the cell of a sample.
    pub fn cell(&self, slot: Slot) -> &Cell {
        &self.part(slot).cells[slot.cell]
    }

    /// Returns the subject of a sample.
    pub fn subject(&self, slot: Slot) -> &Subject {
        &self.cell(slot).subjects[slot.subject]
    }

    /// Returns all subjects of all cells.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.parts.iter().flat_map(|part| &part.cells).flat_map(|cell| &cell.subjects)
    }

    /// Removes a peer from all cells, for this reason. Cells without a subject are removed, too.
    pub fn leave_out(&mut self, peer: &str, why: &str) {
        for part in &mut self.parts {
            part.cells.iter_mut().for_each(|cell| cell.leave_out(peer, why));
            part.cells.retain(|cell| !cell.subjects.is_empty());
        }
        self.parts.retain(|part| !part.cells.is_empty());
    }

    /// Makes this subject the one that the others are compared with, in every cell that has it.
    ///
    /// # Errors
    /// No cell has it.
    pub fn compare_with(&mut self, baseline: &str) -> Result<(), ScenarioError> {
        let names: BTreeSet<&str> = self.subjects().map(|subject| &*subject.name).collect();
        if !names.contains(baseline) {
            let names = Vec::from_iter(names);
            return Err(ScenarioError::new(unknown("subject", baseline, &names)));
        }
        for cell in self.parts.iter_mut().flat_map(|part| &mut part.cells) {
            let found = cell.subjects.iter().position(|subject| subject.name == baseline);
            cell.baseline = found.unwrap_or(cell.baseline);
        }
        Ok(())
    }

    /// Returns the approximate time of a start of a subject, from its start to its stop.
    pub fn expected_time(&self, slot: Slot) -> Duration {
        let (part, settings) = (self.part(slot), &self.subject(slot).settings);
        let opening_us = u64::from(settings.connections) * OPENING_US;
        let measured_us = part.drive.span_us(settings, part.measured_ms);
        let spans = u64::from(self.rounds(slot));
        Duration::from_millis(STARTING_MS + part.warm_up_ms)
            + Duration::from_micros(opening_us + spans * measured_us)
    }
}

impl Part {
    /// Returns whether subjects with these settings can be loaded in turns: a waiting one is answered only between two spans.
    pub fn can_take_turns(&self, settings: &Settings) -> bool {
        let span = Duration::from_millis(self.measured_ms).max(settings.slow_span());
        settings.can_pause(self.drive) && !self.concurrent && span <= TURN_MAX
    }

    /// Returns the figure of the scenario.
    pub fn figure(&self) -> Figure {
        let subjects = self.cells.iter().flat_map(|cell| &cell.subjects);
        let mut figures = subjects.map(|subject| self.drive.figure(&subject.settings));
        let first = figures.next().unwrap_or(Figure::Cpu);
        // All scenarios have a cost, even if their figures differ.
        let common = if figures.all(|figure| figure == first) { first } else { Figure::Cpu };
        self.figure.unwrap_or(common)
    }

    /// Makes the labels of cells unique: equal labels get the settings that differ, or else the subjects, or else a number.
    pub(super) fn tell_cells_apart(&mut self) {
        let fields: Vec<_> = self.cells.iter().map(|cell| fields(&cell.settings)).collect();
        let labels: Vec<String> = self.cells.iter().map(|cell| cell.label.clone()).collect();
        for (index, cell) in self.cells.iter_mut().enumerate() {
            let same = |other: &usize| labels[*other] == labels[index];
            let equals: Vec<usize> = (0..labels.len()).filter(same).collect();
            for (key, value) in &fields[index] {
                if equals.iter().any(|other| fields[*other].get(key) != Some(value)) {
                    let key = key.replace('_', " ");
                    let value = value.as_str().map_or(value.to_string(), str::to_owned);
                    cell.label += &format!(", {key} {value}");
                }
            }
        }
        let names = |cell: &Cell| -> Vec<String> {
            cell.subjects.iter().map(|subject| subject.name.clone()).collect()
        };
        let subjects: Vec<Vec<String>> = self.cells.iter().map(names).collect();
        for equals in self.equal_labels() {
            if equals.iter().any(|index| subjects[*index] != subjects[equals[0]]) {
                for index in equals {
                    self.cells[index].label += &format!(", {}", subjects[index].join(" and "));
                }
            }
        }
        for equals in self.equal_labels() {
            for (number, index) in equals.into_iter().enumerate().skip(1) {
                self.cells[index].label += &format!(" ({})", number + 1);
            }
        }
    }

    /// Returns the indices of the cells of each label that several cells have.
    fn equal_labels(&self) -> Vec<Vec<usize>> {
        let mut by_label: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, cell) in self.cells.iter().enumerate() {
            by_label.entry(&cell.label).or_default().push(index);
        }
        by_label.into_values().filter(|indices| indices.len() > 1).collect()
    }
}

fn fields(settings: &Settings) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    }
}

impl Cell {
    /// Returns whether this subject is the baseline once more (A/A), which shows the noise and is not a finding.
    pub fn is_control(&self, subject: usize) -> bool {
        let what = |index: usize| {
            let Subject { program, settings, arguments, .. } = &self.subjects[index];
            (program, settings, arguments)
        };
        subject != self.baseline && what(subject) == what(self.baseline)
    }

    fn leave_out(&mut self, peer: &str, why: &str) {
        let is_out =
            |subject: &Subject| matches!(&subject.program, Program::Peer(it) if it.name == peer);
        let baseline = self.subjects[self.baseline].name.clone();
        let (out, left) = std::mem::take(&mut self.subjects).into_iter().partition(is_out);
        let out: Vec<Subject> = out;
        self.subjects = left;
        let blank = |own_subject: Subject| Blank { subject: own_subject.name, why: why.to_owned() };
        self.blanks.extend(out.into_iter().map(blank));
        let kept = self.subjects.iter().position(|subject| subject.name == baseline);
        self.baseline = kept.unwrap_or(0);
    }

    /// Adds the baseline once more, next to itself, unless it is there already: two samples of the same thing show the noise.
    pub(super) fn repeat_baseline(&mut self) {
        let baseline = &self.subjects[self.baseline];
        let is_same = |other: &&Subject| {
            Subject { name: String::new(), ..(*other).clone() }
                == Subject { name: String::new(), ..baseline.clone() }
        };
        if self.subjects.iter().filter(is_same).count() < 2 {
            let again = Subject { name: format!("{} again", baseline.name), ..baseline.clone() };
            self.subjects.insert(self.baseline + 1, again);
        }
    }
}
