//! `--against`: another build of Thalweg beside the one that is measured.

use super::plan::{Cell, Subject};
use super::{Drive, Program};
use std::path::Path;

/// Returns the cells, each with the same Thalweg subject of the other build, which is the baseline. A cell with several Thalweg
/// subjects becomes one cell for each; a cell with none is left out.
pub(super) fn against(cells: Vec<Cell>, drive: Drive, binary: &Path) -> Vec<Cell> {
    cells.into_iter().flat_map(|cell| with_twins(cell, drive, binary)).collect()
}

fn with_twins(cell: Cell, drive: Drive, binary: &Path) -> Vec<Cell> {
    let (ours, others): (Vec<Subject>, Vec<Subject>) =
        cell.subjects.into_iter().partition(|subject| subject.program == Program::Thalweg);
    let is_alone = ours.len() == 1;
    let cells = ours.into_iter().map(|subject| {
        let before = Subject {
            name: format!("{} before", subject.name),
            program: Program::Build(binary.to_owned()),
            ..subject.clone()
        };
        let settings = if is_alone { &cell.settings } else { &subject.settings };
        Cell {
            label: settings.label(drive),
            settings: settings.clone(),
            baseline: others.len(),
            subjects: others.iter().cloned().chain([before, subject]).collect(),
            blanks: cell.blanks.clone(),
        }
    });
    cells.collect()
}
