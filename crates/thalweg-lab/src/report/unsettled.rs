//! Rows of a suite that are missing, worse or undecided: all that a reader would have to look for in its tables.

use super::blanks::blanks;
use super::part_summary::{BlankCell, PartSummary};
use super::row::Row;
use super::summary::Summary;
use crate::measure::comparison::{Comparison, Word};

/// Returns a heading and a line for each; nothing for a single scenario, whose table is short.
pub(super) fn unsettled(summary: &Summary) -> Vec<String> {
    if summary.parts.len() < 2 {
        return Vec::new();
    }
    let of_parts = |lines: fn(&PartSummary) -> Vec<String>| summary.parts.iter().flat_map(lines);
    let missing: Vec<String> = of_parts(missing).collect();
    let worse: Vec<String> = of_parts(|part| compared(part, Word::Worse)).collect();
    let undecided: Vec<String> = of_parts(|part| compared(part, Word::Undecided)).collect();
    let head = match missing.len() + worse.len() + undecided.len() {
        0 => "No row is missing, and Thalweg is worse or undecided in none.".to_owned(),
        _ => format!(
            "Rows of any subject that are missing ({}), and rows of Thalweg that are worse ({}) or undecided ({}):",
            missing.len(),
            worse.len(),
            undecided.len()
        ),
    };
    [vec![head], missing, worse, undecided].concat()
}

/// Returns a line for each reason.
fn missing(part: &PartSummary) -> Vec<String> {
    let no_figure = |row: &&Row| {
        row.valid > 0
            && row.is_thalweg
            && !row.is_baseline
            && !row.is_noise
            && !part.comparisons.iter().any(|found| is_of(found, row))
            && part.rows.iter().any(|other| other.place.cell == row.place.cell && other.is_baseline)
    };
    let blank = |row: &Row, why: String| BlankCell {
        cell: row.cell.clone(),
        subject: row.subject.clone(),
        why,
    };
    let invalid = part
        .rows
        .iter()
        .filter(|row| row.valid == 0)
        .map(|row| blank(row, format!("no sample counts ({})", row.verdict)));
    let not_compared = part
        .rows
        .iter()
        .filter(no_figure)
        .map(|row| blank(row, "no figure of it can be compared".to_owned()));
    let all: Vec<BlankCell> = part
        .missing
        .iter()
        .chain(&part.blanks)
        .cloned()
        .chain(invalid)
        .chain(not_compared)
        .collect();
    blanks(&all).lines().map(|line| format!("missing: {} · {line}", part.name)).collect()
}

/// Returns the rows in which Thalweg is worse in any metric, or undecided in the scenario's own.
fn compared(part: &PartSummary, word: Word) -> Vec<String> {
    let is_reported = |found: &&Comparison| {
        found.word == word
            && !found.is_control
            && (word == Word::Worse || found.metric == part.metric())
            && part.rows.iter().any(|row| row.is_thalweg && is_of(found, row))
    };
    let line = |found: &Comparison| {
        let Comparison { metric, cell, subject, baseline, ratio, .. } = found;
        format!(
            "{}: {} · {} · {subject}: {ratio:.2}\u{a0}× the {} of {baseline}{}",
            word.name(),
            part.name,
            cell.as_deref().unwrap_or_default(),
            part.name_of(*metric),
            found.interval()
        )
    };
    part.comparisons.iter().filter(is_reported).map(line).collect()
}

fn is_of(found: &Comparison, row: &Row) -> bool {
    found.is_in(row.place.cell, row.place.subject)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SCENARIO, manifest, plan, samples, summary};
    use super::*;
    use crate::measure::Verdict;

    /// Two scenarios: the first lacks a sample that counts and a sample at all, the second is whole.
    #[test]
    fn a_suite_ends_with_the_rows_that_leave_something_to_do() {
        let mut plan = plan("connections = [100, 1000]");
        let mut second = plan.parts[0].clone();
        second.name = "second".to_owned();
        plan.parts.push(second);
        let mut all = samples(&plan, |sample| {
            let is_lost = sample.part == 0 && sample.cell == 0 && sample.subject == 2;
            if is_lost {
                sample.verdict = Verdict::Invalid("3 missing".to_owned());
            }
            // The second scenario's Thalweg is sometimes cheaper, sometimes more expensive.
            if sample.part == 1 && sample.cell == 1 && sample.subject == 2 {
                sample.subject_cpu_ns = sample.subject_cpu_ns * (1 + u64::from(sample.repeat)) / 3;
            }
        });
        all.retain(|sample| (sample.part, sample.cell, sample.subject) != (0, 1, 2));
        insta::assert_snapshot!(unsettled(&Summary::new(&plan, &all, manifest())).join("\n"));
    }

    #[test]
    fn one_scenario_has_no_list() {
        assert!(unsettled(&summary(SCENARIO, |_| {})).is_empty());
    }
}
