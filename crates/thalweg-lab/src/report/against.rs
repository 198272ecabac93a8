//! Two runs next to each other: what differs in how they were made, then the
//! figures that both have.
//!
//! They are not paired, as subjects of one run are: what drifted with the machine
//! between them is in every ratio.
//!
//! - `text`: for a terminal

mod text;

use super::choice::Choice;
use super::outcome::Outcome;
use super::summary::Manifest;
use crate::measure::statistics::{Estimate, median};
use crate::measure::{Sample, Verdict, can_differ, unpaired_ratio};
use crate::scenario::{Cell, Drive, Plan, Subject};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One of two runs.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Of its folder.
    pub name: &'a str,
    /// What was to be measured.
    pub plan: &'a Plan,
    /// What was.
    pub samples: &'a [Sample],
    /// On what, with what, when.
    pub manifest: &'a Manifest,
}

/// Two runs next to each other.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// Of the first run's folder.
    pub first: String,
    /// Of the second's.
    pub second: String,
    /// What differs in machine, version and settings, a sentence each.
    pub differences: Vec<String>,
    /// What both have.
    pub pairs: Vec<Pair>,
    /// What one of them has, and which.
    pub only: Vec<String>,
}

/// A figure of one subject in one cell, in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Of the scenario.
    pub part: String,
    /// The cell.
    pub cell: String,
    /// The subject.
    pub subject: String,
    /// What is compared.
    pub figure: &'static str,
    /// Median of the first run's samples that count.
    pub first: f64,
    /// Median of the second's.
    pub second: f64,
    /// The second to the first.
    pub ratio: Estimate,
    /// What it comes to.
    pub outcome: Outcome,
}

impl Pair {
    fn is_different(&self) -> bool {
        matches!(self.outcome, Outcome::Less | Outcome::More)
    }
}

/// A figure: its name, and where a sample has it.
type Figure = (&'static str, fn(Drive, &Sample) -> Option<f64>);

/// What is compared.
const FIGURES: [Figure; 9] = [
    ("CPU µs per event", |_, it| it.cpu_us_per_event()),
    ("events per s", |drive, it| {
        let counts = drive == Drive::Ceiling || it.verdict == Verdict::Subject;
        (counts && !talks(drive)).then(|| it.events_per_s())
    }),
    ("latency p50 µs", |_, it| it.latency_us(0.5)),
    ("latency p99 µs", |_, it| it.p99_us()),
    ("round trip mean µs", |_, it| Some(it.round_trips?.mean_us)),
    ("round trip p99 µs", |_, it| Some(it.round_trips?.p99_us as f64)),
    ("opened in ms", |drive, it| (drive == Drive::Idle).then(|| it.open_us as f64 / 1000.0)),
    ("RSS MB", |_, it| Some(it.memory.rss_end_bytes as f64 / 1e6)),
    ("stopped KiB max", |_, it| Some(it.kernel?.send_queue_bytes_max as f64 / 1024.0)),
];

fn talks(drive: Drive) -> bool {
    matches!(drive, Drive::Echo | Drive::RoundTrip)
}

/// What of the machine differs from run to run and tells nothing.
const PASSING: [&str; 1] = ["load_average"];

/// Puts two runs next to each other; cells are matched by scenario, label and
/// subject.
pub fn against(first: Side<'_>, second: Side<'_>) -> Against {
    let (ours, theirs) = (places(first.plan), places(second.plan));
    let mut pairs = Vec::new();
    let mut only = Vec::new();
    let mut settings = Differences::default();
    for (key, place) in &ours {
        let Some((_, other)) = theirs.iter().find(|(other, _)| other == key) else {
            only.push(place.told(first.name, key, &theirs));
            continue;
        };
        settings.add(&place.subject.settings, &other.subject.settings, &[]);
        pairs.extend(figures(place, first.samples, other, second.samples));
    }
    let is_new = |(key, _): &&(String, Place<'_>)| ours.iter().all(|(other, _)| other != key);
    only.extend(theirs.iter().filter(is_new).map(|(key, it)| it.told(second.name, key, &ours)));
    only.dedup();
    let mut differences = made_differently(first, second);
    differences.extend(settings.sentences());
    Against {
        first: first.name.to_owned(),
        second: second.name.to_owned(),
        differences,
        pairs,
        only,
    }
}

/// A subject of a cell, and where its samples say they are from.
struct Place<'a> {
    part: usize,
    cell: usize,
    index: usize,
    part_name: &'a str,
    drive: Drive,
    of: &'a Cell,
    subject: &'a Subject,
}

/// Every subject of every cell by its name. Of cells with one label the second
/// has a number.
fn places(plan: &Plan) -> Vec<(String, Place<'_>)> {
    let mut places: Vec<(String, Place<'_>)> = Vec::new();
    for (part_index, part) in plan.parts.iter().enumerate() {
        for (cell_index, cell) in part.cells.iter().enumerate() {
            for (index, subject) in cell.subjects.iter().enumerate() {
                let plain = format!("{} · {} · {}", part.name, cell.label, subject.name);
                let numbered = (2..).map(|number| format!("{plain} ({number})"));
                let mut keys = std::iter::once(plain.clone()).chain(numbered);
                let key = keys.find(|key| places.iter().all(|(known, _)| known != key));
                places.push((
                    key.unwrap_or_default(),
                    Place {
                        part: part_index,
                        cell: cell_index,
                        index,
                        part_name: &part.name,
                        drive: part.drive,
                        of: cell,
                        subject,
                    },
                ));
            }
        }
    }
    places
}

fn figures(
    place: &Place<'_>,
    samples: &[Sample],
    other: &Place<'_>,
    others: &[Sample],
) -> Vec<Pair> {
    let (ours, theirs) = (place.choice(samples), other.choice(others));
    let takes_all = ours.takes_all || theirs.takes_all;
    let mut pairs = Vec::new();
    for (figure, of) in FIGURES {
        let values = |samples: &[&Sample]| -> Vec<f64> {
            samples.iter().filter_map(|sample| of(place.drive, sample)).collect()
        };
        let (first, second) = (values(&ours.counted), values(&theirs.counted));
        let (Some(first_median), Some(second_median)) = (median(&first), median(&second)) else {
            continue;
        };
        let Some(ratio) = unpaired_ratio(&second, &first) else { continue };
        let can_tell = !takes_all && can_differ(first.len(), second.len());
        pairs.push(Pair {
            part: place.part_name.to_owned(),
            cell: place.of.label.clone(),
            subject: place.subject.name.clone(),
            figure,
            first: first_median,
            second: second_median,
            ratio,
            outcome: Outcome::of(ratio, can_tell),
        });
    }
    pairs
}

impl Place<'_> {
    /// That only this run has it; where the other has nobody of the cell, the cell.
    fn told(&self, run: &str, key: &str, others: &[(String, Place<'_>)]) -> String {
        let cell = (self.part_name, &self.of.label);
        match others.iter().any(|(_, other)| (other.part_name, &other.of.label) == cell) {
            true => format!("only in {run}: {key}"),
            false => format!("only in {run}: {} · {}", cell.0, cell.1),
        }
    }

    /// Its samples, and which of them count.
    fn choice<'a>(&self, samples: &'a [Sample]) -> Choice<'a> {
        let is_own =
            |it: &&Sample| (it.part, it.cell, it.subject) == (self.part, self.cell, self.index);
        Choice::of(&samples.iter().filter(is_own).collect::<Vec<_>>())
    }
}

/// Differences of values with names, and how often each is there.
#[derive(Default)]
struct Differences(BTreeMap<String, usize>);

impl Differences {
    fn add(&mut self, first: &impl Serialize, second: &impl Serialize, without: &[&str]) {
        let fields = |side: Value| match side {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
        let first = fields(serde_json::to_value(first).unwrap_or_default());
        let second = fields(serde_json::to_value(second).unwrap_or_default());
        for (key, value) in first.iter().filter(|(key, _)| !without.contains(&key.as_str())) {
            let other = second.get(key).unwrap_or(&Value::Null);
            if value != other {
                let said = format!("{}: {}, then {}", spelled(key), told(value), told(other));
                *self.0.entry(said).or_default() += 1;
            }
        }
    }

    fn sentences(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(said, count)| match count {
            1 => said,
            _ => format!("{said} ({count} times)"),
        })
    }
}

fn spelled(key: &str) -> String {
    key.replace('_', " ")
}

/// A value as one writes it.
fn told(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(told).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

fn made_differently(first: Side<'_>, second: Side<'_>) -> Vec<String> {
    let (a, b) = (first.manifest, second.manifest);
    let mut found = Differences::default();
    found.add(&a.machine, &b.machine, &PASSING);
    let mut sentences: Vec<String> = found.sentences().map(|it| format!("machine: {it}")).collect();
    if a.version != b.version {
        sentences.push(format!("version of the lab: {}, then {}", a.version, b.version));
    }
    let (measured, later) = (measured(a), measured(b));
    if measured != later && (measured != a.version || later != b.version) {
        sentences.push(format!("version measured: {measured}, then {later}"));
    }
    let mut found = Differences::default();
    found.add(&a.peers, &b.peers, &[]);
    sentences.extend(found.sentences().map(|it| format!("version of {it}")));
    if (&a.under, &a.at) != (&b.under, &b.at) {
        sentences.push("the subjects ran in other places".to_owned());
    }
    for part in &first.plan.parts {
        let same = second.plan.parts.iter().find(|other| other.name == part.name);
        if let Some(other) = same {
            let mut found = Differences::default();
            found.add(part, other, &["name", "title", "cells"]);
            sentences.extend(found.sentences().map(|it| format!("{}: {it}", part.name)));
        }
    }
    sentences
}

/// Older archives say it only where they say the lab's own version.
fn measured(manifest: &Manifest) -> &str {
    if manifest.measured.is_empty() { &manifest.version } else { &manifest.measured }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{manifest, plan, samples};
    use super::*;

    #[test]
    fn two_runs_next_to_each_other() {
        let first_plan = plan("connections = [100, 1000]");
        let second_plan = plan("connections = [1000, 10000]\nunsent_bytes = 4096");
        let first = samples(&first_plan, |_| {});
        let second = samples(&second_plan, |sample| {
            if sample.subject == 2 {
                sample.subject_cpu_ns += sample.subject_cpu_ns / 5;
            }
            if sample.repeat == 4 {
                sample.verdict = Verdict::Invalid("3 missing".to_owned());
                sample.subject_cpu_ns = 1;
            }
        });
        let mut later = manifest();
        later.version = "0.2.0".to_owned();
        later.machine.cores = 4;
        later.machine.load_average = 9.0;
        let found = against(
            Side { name: "a", plan: &first_plan, samples: &first, manifest: &manifest() },
            Side { name: "b", plan: &second_plan, samples: &second, manifest: &later },
        );
        insta::assert_snapshot!(found.text());
        let cpu = found.pairs.iter().filter(|it| it.figure == FIGURES[0].0).collect::<Vec<_>>();
        let found: Vec<_> = cpu.iter().map(|it| (&*it.subject, it.outcome)).collect();
        let expected = [Outcome::Tie, Outcome::Tie, Outcome::More];
        assert_eq!(
            found,
            ["limit", "limit again", "thalweg"].into_iter().zip(expected).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_run_against_itself_is_a_tie_throughout() {
        let plan = plan("connections = [100, 1000]");
        let (samples, manifest) = (samples(&plan, |_| {}), manifest());
        let side = Side { name: "a", plan: &plan, samples: &samples, manifest: &manifest };
        let found = against(side, side);
        assert_eq!((found.differences.len(), found.only.len()), (0, 0));
        assert!(
            !found.pairs.is_empty() && found.pairs.iter().all(|pair| pair.outcome == Outcome::Tie)
        );
    }
}
