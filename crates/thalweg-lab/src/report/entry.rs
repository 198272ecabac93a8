//! A run in a list of runs.

use super::findings::{own_subject_first, pooled};
use super::row::Row;
use super::summary::Summary;
use crate::scenario::Plan;
use serde::Serialize;

/// A run in a list of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Name of its folder.
    pub name: String,
    /// UTC.
    pub begun: String,
    /// The scenario or suite.
    pub scenario: String,
    /// Subjects in the plan's order.
    pub subjects: Vec<String>,
    /// Samples taken.
    pub taken: usize,
    /// Samples planned; `None` if a budget ends the run.
    pub planned: Option<usize>,
    /// State of the run.
    pub state: State,
    /// The main result, in one figure.
    pub figure: Option<String>,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The run has all its samples.
    Over,
    /// The run was killed or interrupted.
    EndedEarly,
    /// Samples are being added.
    Running,
}

impl Entry {
    /// Returns the entry of a run; `taken` counts each place in the plan once.
    pub fn new(name: &str, plan: &Plan, taken: usize, summary: &Summary, state: State) -> Entry {
        let mut subjects: Vec<String> = Vec::new();
        for subject in plan.subjects() {
            if !subjects.contains(&subject.name) {
                subjects.push(subject.name.clone());
            }
        }
        Entry {
            name: name.to_owned(),
            begun: summary.manifest.begun.clone(),
            scenario: plan.name.clone(),
            subjects,
            taken,
            planned: plan.samples_planned(),
            state,
            figure: figure(summary),
        }
    }

    /// Returns a text for a terminal.
    pub fn text(&self) -> String {
        let Entry { name, scenario, taken, .. } = self;
        let planned = self.planned.map(|planned| format!(" of {planned}")).unwrap_or_default();
        let begun = self.begun.replacen('T', " ", 1);
        let begun = begun.get(..16).unwrap_or("unknown time");
        let state = match self.state {
            State::Over => "",
            State::EndedEarly => "\n  ended early",
            State::Running => "\n  still running",
        };
        let figure = self.figure.as_ref().map_or(String::new(), |figure| format!("\n  {figure}"));
        format!(
            "{name}\n  {begun} · {scenario} · {taken}{planned} samples of {}{figure}{state}\n",
            self.subjects.join(", ")
        )
    }
}

/// Returns the main result: the run's own subject compared with its baseline in the first scenario; without comparison, the first row's.
fn figure(summary: &Summary) -> Option<String> {
    let all = pooled(summary);
    match own_subject_first(&all).first() {
        Some((part, one)) => Some(part.sentence(one)),
        None => first_figure(summary.parts.iter().flat_map(|part| &part.rows).next()?),
    }
}

fn first_figure(row: &Row) -> Option<String> {
    let Row { cell, subject, .. } = row;
    let figure = match (row.cpu.us_per_event, row.memory.rss_bytes) {
        (Some(cpu), _) => format!("{} CPU µs per event", super::number::digits(cpu.median)),
        (None, Some(bytes)) => format!("{} MB", super::number::digits(bytes / 1e6)),
        (None, None) => return None,
    };
    Some(format!("{subject}: {figure} in {cell}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{manifest, plan, samples};
    use super::*;

    fn entry(cells: &str, taken: usize, state: State) -> Entry {
        let plan = plan(cells);
        let samples: Vec<_> = samples(&plan, |_| {}).into_iter().take(taken).collect();
        let mut manifest = manifest();
        manifest.begun = "2026-11-21T00:43:29Z".to_owned();
        let summary = Summary::new(&plan, &samples, manifest);
        Entry::new("run", &plan, samples.len(), &summary, state)
    }

    #[test]
    fn runs_in_a_list() {
        let alone = "connections = 5\nsubjects = [\"thalweg\"]";
        let entries = [
            entry("connections = [100, 1000]", 30, State::Over),
            entry("connections = 5\nrate = 10", 15, State::Over),
            entry("connections = 5", 7, State::Running),
            entry("connections = 5", 0, State::EndedEarly),
            entry(alone, 5, State::Over),
        ];
        insta::assert_snapshot!(entries.map(|entry| entry.text()).join("\n"));
    }

    /// The list and the report speak of the same figure.
    #[test]
    fn a_list_names_the_figure_of_the_findings() {
        let plan = plan("connections = 5\nrate = 10");
        let summary = Summary::new(&plan, &samples(&plan, |_| {}), manifest());
        let entry = Entry::new("run", &plan, 15, &summary, State::Over);
        let name = summary.parts[0].name_of(summary.parts[0].metric());
        assert_eq!(name, "p99 latency");
        assert!(entry.figure.is_some_and(|figure| figure.contains(name)));
    }
}
