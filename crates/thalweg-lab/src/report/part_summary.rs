//! The results of one scenario: a row for each subject of each cell, and comparisons.

use super::choice::{self, Choice};
use super::comparisons::comparisons;
use super::curves::Curves;
use super::equality::Equality;
use super::faults::Faults;
use super::most::{self, Most};
use super::row::{Row, RowPlace, Valid};
use crate::measure::comparison::Comparison;
use crate::measure::{Sample, Verdict};
use crate::scenario::{Blank, Cell, Drive, Figure, LoadIn, Part};
use serde::Serialize;

/// The results of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct PartSummary {
    /// Name of the scenario.
    pub name: String,
    /// Title of the scenario.
    pub title: String,
    /// The drive, which made the subjects broadcast.
    pub drive: Drive,
    /// The figure of the scenario.
    pub figure: Figure,
    /// Starts of each cell's subjects; with a budget, the maximum.
    pub repeats: u32,
    /// Time for all cells together, s, if each cell is measured until it is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_s: Option<u64>,
    /// Time measured in each sample.
    pub measured_ms: u64,
    /// Whether the subjects of a cell were measured at the same time.
    pub concurrent: bool,
    /// Whether a browser was the load.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_browser: bool,
    /// Subjects that could not take part in a cell, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blanks: Vec<BlankCell>,
    /// Subjects of which no sample was taken in a cell.
    #[serde(skip)]
    pub missing: Vec<BlankCell>,
    /// A row for each subject of each cell.
    pub rows: Vec<Row>,
    /// Every subject beside its baseline in every metric, cell by cell.
    pub comparisons: Vec<Comparison>,
    /// The same over all cells.
    pub pooled: Vec<Comparison>,
    /// The most that a browser took of the same load at several rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub most: Vec<Most>,
    /// Figures of tabs that were observed as by DevTools, compared with tabs that were not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Comparison>,
    /// Settings that subjects negotiated and configured, and their differences, cell by cell.
    pub equality: Vec<Equality>,
}

/// A subject that could not take part in a cell.
#[derive(Clone, Debug, Serialize)]
pub struct BlankCell {
    /// The cell.
    pub cell: String,
    /// The subject.
    pub subject: String,
    /// The reason.
    pub why: String,
}

impl PartSummary {
    /// Returns the rows, cell by cell.
    pub fn cells(&self) -> Vec<&[Row]> {
        self.rows.chunk_by(|one, next| one.place.cell == next.place.cell).collect()
    }
}

/// Summarises the samples of a part, which may not be all.
pub(super) fn summarise(part: &Part, load: LoadIn, samples: &[&Sample]) -> PartSummary {
    let (mut rows, mut equality, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (index, cell) in part.cells.iter().enumerate() {
        let of_cell =
            samples.iter().copied().filter(|sample| sample.cell == index).collect::<Vec<_>>();
        if !of_cell.is_empty() {
            equality.push(Equality::new(cell, &of_cell));
        }
        rows.extend(summarise_cell(part, index, &of_cell));
        missing.extend(not_taken(cell, &of_cell));
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
        missing,
        rows,
        comparisons,
        pooled,
        most: most::highest_rates(part, in_browser),
        observed: most::observed(part, in_browser),
        equality,
    }
}

/// Returns whether an event did not come, or came damaged.
fn is_incomplete(sample: &Sample) -> bool {
    !sample.verdict.is_valid() || !sample.ledger.is_whole()
}

fn blanks(cell: &Cell) -> impl Iterator<Item = BlankCell> {
    let label = &cell.label;
    cell.blanks.iter().map(move |Blank { subject, why }| BlankCell {
        cell: label.clone(),
        subject: subject.clone(),
        why: why.clone(),
    })
}

fn not_taken(cell: &Cell, samples: &[&Sample]) -> Vec<BlankCell> {
    let is_taken = |index: usize| samples.iter().any(|sample| sample.subject == index);
    let all = cell.subjects.iter().enumerate();
    let missing = all.filter(|(index, _)| !is_taken(*index) && !cell.is_control(*index));
    missing
        .map(|(_, subject)| BlankCell {
            cell: cell.label.clone(),
            subject: subject.name.clone(),
            why: "no sample was taken".to_owned(),
        })
        .collect()
}

fn summarise_cell(part: &Part, number: usize, samples: &[&Sample]) -> Vec<Row> {
    let cell = &part.cells[number];
    let of_subject = |subject: usize| -> Vec<&Sample> {
        samples.iter().copied().filter(|sample| sample.subject == subject).collect()
    };
    let mut rows = Vec::new();
    for (index, subject) in cell.subjects.iter().enumerate() {
        let own = of_subject(index);
        if own.is_empty() {
            continue;
        }
        let choice = Choice::new(&own);
        let valid = Valid(choice.counted.clone());
        let most = choice.most();
        let ranked = valid.0.iter().filter(|sample| sample.is_ranked()).count();
        let mut row = Row {
            place: RowPlace { cell: number, subject: index },
            cell: cell.label.clone(),
            subject: subject.name.clone(),
            settings: subject.settings.clone(),
            is_baseline: index == cell.baseline,
            is_noise: cell.is_control(index),
            is_thalweg: subject.program.is_thalweg(),
            samples: own.len(),
            incomplete: own.iter().filter(|sample| is_incomplete(sample)).count(),
            valid: valid.0.len(),
            left_out: choice.left_out.len(),
            takes_all: choice.takes_all,
            invalid: choice::reasons(&own),
            verdict: choice.verdict(&own),
            why: most.or(own.first().copied()).map_or(String::new(), |sample| sample.why.clone()),
            span_s: own.iter().map(|sample| sample.span_us as f64 / 1e6).sum(),
            is_ranked: part.drive == Drive::Ceiling || ranked * 2 > valid.0.len(),
            is_at_least: part.drive == Drive::Ceiling
                && most.is_some_and(|highest| highest.verdict == Verdict::Swarm),
            redialed: own.iter().map(|sample| u64::from(sample.redialed)).sum(),
            faults: Faults::new(&own),
            curves: Curves::new(&own, &valid.0, &subject.settings),
            ..Row::default()
        };
        if part.drive.is_connecting() {
            // They are of connections, and a reader expects those of events.
            row.curves.leave_out_latencies();
        }
        valid.fill(&mut row, part.drive, subject);
        rows.push(row);
    }
    rows
}
