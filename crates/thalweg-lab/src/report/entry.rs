//! A run in a list of runs.

use super::findings::{Compared, compared};
use super::row::Row;
use super::summary::Summary;
use crate::measure::statistics::median;
use crate::scenario::Plan;
use serde::Serialize;

/// A run in a list of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Of its folder.
    pub name: String,
    /// UTC.
    pub begun: String,
    /// The scenario or suite.
    pub scenario: String,
    /// Everyone who took part, in the plan's order.
    pub subjects: Vec<String>,
    /// Samples taken.
    pub taken: usize,
    /// Samples planned.
    pub planned: usize,
    /// What was found, in one figure.
    pub figure: Option<String>,
}

impl Entry {
    /// A run's; `taken` counts each place in the plan once.
    pub fn new(name: &str, plan: &Plan, taken: usize, summary: &Summary) -> Entry {
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
            planned: plan.slots().count(),
            figure: figure(summary),
        }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let Entry { name, scenario, taken, planned, .. } = self;
        let begun = self.begun.replacen('T', " ", 1);
        let begun = begun.get(..16).unwrap_or("when is not known");
        let remedy = match taken < planned {
            true => "\n  interrupted: `thalweg bench continue` takes the others".to_owned(),
            false => String::new(),
        };
        let figure = self.figure.as_ref().map_or(String::new(), |figure| format!("\n  {figure}"));
        format!(
            "{name}\n  {begun} · {scenario} · {taken} of {planned} samples of {}{figure}{remedy}\n",
            self.subjects.join(", ")
        )
    }
}

/// What a run is remembered by: the subject that is compared in most cells, next
/// to its baseline; where nobody is, what the first row has.
fn figure(summary: &Summary) -> Option<String> {
    let all = compared(summary);
    let like = |one: &Compared<'_>| {
        let is_like = |other: &&Compared<'_>| {
            (&other.row.subject, other.figure) == (&one.row.subject, one.figure)
        };
        all.iter().filter(is_like).map(|other| other.ratio.median).collect::<Vec<f64>>()
    };
    // Of several with as many cells the last: files name their own subject last.
    let Some(most) = all.iter().max_by_key(|one| like(one).len()) else {
        return first_figure(summary.parts.iter().flat_map(|part| &part.rows).next()?);
    };
    let ratios = like(most);
    let cells = match ratios.len() {
        1 => String::new(),
        count => format!(", median of {count} cells"),
    };
    let (subject, what) = (&most.row.subject, most.figure.name());
    Some(format!("{subject}: {what} {:.2} × baseline{cells}", median(&ratios)?))
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

    fn entry(cells: &str, taken: usize) -> Entry {
        let plan = plan(cells);
        let samples: Vec<_> = samples(&plan, |_| {}).into_iter().take(taken).collect();
        let mut manifest = manifest();
        manifest.begun = "2026-11-21T00:43:29Z".to_owned();
        Entry::new("run", &plan, samples.len(), &Summary::new(&plan, &samples, manifest))
    }

    #[test]
    fn runs_in_a_list() {
        let alone = "connections = 5\nsubjects = [\"thalweg\"]";
        let entries = [
            entry("connections = [100, 1000]", 30),
            entry("connections = 5", 7),
            entry("connections = 5", 0),
            entry(alone, 5),
        ];
        insta::assert_snapshot!(entries.map(|entry| entry.text()).join("\n"));
    }
}
