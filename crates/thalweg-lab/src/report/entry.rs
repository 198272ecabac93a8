//! A run in a list of runs.

use super::row::{Comparison, Row};
use super::summary::Summary;
use crate::measure::statistics::median;
use crate::scenario::{Drive, Plan};
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
    let rows =
        || summary.parts.iter().flat_map(|part| part.rows.iter().map(move |row| (part, row)));
    let talks = |drive| matches!(drive, Drive::Echo | Drive::RoundTrip);
    let ratio = |row: &Row, drive| -> Option<f64> {
        let compared: Option<Comparison> =
            if talks(drive) { row.round_trip.compared } else { row.cpu.compared };
        compared.filter(|_| !row.is_noise).map(|compared| compared.ratio.median)
    };
    let compared: Vec<(&str, f64, bool)> = rows()
        .filter_map(|(part, row)| Some((&*row.subject, ratio(row, part.drive)?, talks(part.drive))))
        .collect();
    let cells_of = |name: &str| compared.iter().filter(|(subject, ..)| *subject == name).count();
    // Of several with as many cells the last: files name their own subject last.
    let (subject, _, is_talk) = match compared.iter().max_by_key(|(name, ..)| cells_of(name)) {
        Some(most) => *most,
        None => return first_figure(rows().next()?.1),
    };
    let of_it = |(name, _, talk): &&(&str, f64, bool)| *name == subject && *talk == is_talk;
    let ratios: Vec<f64> = compared.iter().filter(of_it).map(|(_, ratio, _)| *ratio).collect();
    let what = if is_talk { "round trip" } else { "CPU per event" };
    let cells = match ratios.len() {
        1 => String::new(),
        count => format!(", median of {count} cells"),
    };
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
