//! Subjects without a figure, and the reasons.

use super::part_summary::BlankCell;

/// Returns the subjects that could not take part, and their cells: a line for each reason.
pub(super) fn blanks(blanks: &[BlankCell]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>, Vec<&str>)> = Vec::new();
    for BlankCell { cell, subject, why } in blanks {
        let at = reasons.iter().position(|(known, ..)| known == why).unwrap_or_else(|| {
            reasons.push((why, Vec::new(), Vec::new()));
            reasons.len() - 1
        });
        let (_, subjects, cells) = &mut reasons[at];
        for (list, name) in [(subjects, subject), (cells, cell)] {
            if !list.contains(&name.as_str()) {
                list.push(name);
            }
        }
    }
    let line = |(why, subjects, cells): &(&str, Vec<&str>, Vec<&str>)| {
        let cells = match cells.as_slice() {
            [] => String::new(),
            [only] => format!("{only} · "),
            [first, ..] => format!("{} cells, e.g. {first} · ", cells.len()),
        };
        format!("{cells}{}: blank, because {why}.\n", subjects.join(", "))
    };
    reasons.iter().map(line).collect()
}
