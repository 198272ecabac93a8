//! The lines that experiment C's published program prints, for each subject: the worst of its runs.

use super::number::brief_us;
use crate::measure::Sample;
use crate::scenario::{Drive, Plan, Program, Slot, Subject};

/// Returns whether experiment C is measured beside a server of another project, so that the lines can be compared.
pub fn has_published_program(plan: &Plan) -> bool {
    let is_peer = |subject: &Subject| matches!(subject.program, Program::Peer(_));
    let mut echoes = plan.parts.iter().filter(|part| part.drive == Drive::Echo);
    echoes.any(|part| part.cells.iter().flat_map(|cell| &cell.subjects).any(is_peer))
}

/// Returns a line for each subject with a valid sample of experiment C: requests, mean round trip, bytes of the messages that the
/// server pushed meanwhile. Repeats of the baseline (A/A controls) have none. Several cells are named.
pub fn as_published(plan: &Plan, samples: &[Sample]) -> String {
    let mut text = String::new();
    let is_listed = |slot: &Slot| {
        let is_control = plan.cell(*slot).is_control(slot.subject);
        slot.repeat == 0 && plan.part(*slot).drive == Drive::Echo && !is_control
    };
    let has_one_cell = matches!(&*plan.parts, [part] if part.cells.len() == 1);
    for slot in plan.slots().filter(is_listed) {
        let subject = plan.subject(slot);
        let is_of = |sample: &&Sample| {
            (sample.part, sample.cell, sample.subject) == (slot.part, slot.cell, slot.subject)
                && sample.verdict.is_valid()
        };
        let runs: Vec<_> = samples
            .iter()
            .filter(is_of)
            .filter_map(|sample| Some((sample.round_trips.as_ref()?, sample.pushed)))
            .collect();
        let Some((trips, pushed)) = runs.iter().max_by(|a, b| a.0.mean_us.total_cmp(&b.0.mean_us))
        else {
            continue;
        };
        let bytes =
            pushed.map_or(0, |counts| counts.came) * u64::from(subject.settings.dummy_bytes);
        let place = match has_one_cell {
            true => String::new(),
            false => format!("{} · {} · ", plan.part(slot).name, plan.cell(slot).label),
        };
        text += &format!(
            "{place}{}: total {}, average {}, received {} KB (the worst of {})\n",
            subject.name,
            trips.count,
            brief_us(trips.mean_us),
            bytes / 1000,
            runs.len()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;
    use super::*;
    use crate::measure::{Pushed, RoundTrips, Verdict};
    use crate::scenario::{Changes, read};

    fn plan(cells: &str) -> Plan {
        let text = format!(
            "name = 'c'\ndrive = 'echo'\nrepeats = 4\ncontrol = 'none'\n[defaults]\nconnections = 1\n\
             dummy_bytes = 10000\n{cells}[[subjects]]\nprogram = 'limit'\n[[subjects]]\nprogram = 'thalweg'\n"
        );
        read(&text, &Changes::default(), &[]).unwrap()
    }

    /// Start n of a subject has a mean round trip of n ms, and 100 n pushes. The last start, which is the worst, is invalid.
    fn measured(plan: &Plan) -> Vec<Sample> {
        samples(plan, |sample| {
            let number = u64::from(sample.repeat) + 1;
            let trips = RoundTrips::new(vec![1000 * number; 20], 1);
            sample.round_trips = trips;
            sample.pushed = Some(Pushed { came: 100 * number, wanted: 1000 });
            sample.verdict = match sample.repeat {
                3 => Verdict::Invalid("lost".to_owned()),
                _ => Verdict::Subject,
            };
        })
    }

    #[test]
    fn the_worst_valid_run_of_each_subject_is_printed() {
        let plan = plan("");
        assert_eq!(
            as_published(&plan, &measured(&plan)),
            "limit: total 20, average 3 ms, received 3000 KB (the worst of 3)\n\
             thalweg: total 20, average 3 ms, received 3000 KB (the worst of 3)\n"
        );
    }

    #[test]
    fn several_cells_are_named() {
        let plan = plan("[[cells]]\nrequest_us = [1000, 10000]\n");
        let printed = as_published(&plan, &measured(&plan));
        assert_eq!(printed.lines().count(), 4, "{printed}");
        let place = format!("c · {} · limit: total 20", plan.parts[0].cells[1].label);
        assert!(printed.contains(&place), "{printed}");
    }

    #[test]
    fn a_subject_without_a_valid_run_has_no_line() {
        let plan = plan("");
        let mut all = measured(&plan);
        all.retain(|sample| sample.subject == 0 || sample.repeat == 3);
        assert!(!as_published(&plan, &all).contains("thalweg"));
    }
}
