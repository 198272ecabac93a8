//! The lines that experiment C's published program prints, for each subject: the worst of its runs.

use super::number::brief_us;
use crate::measure::Sample;
use crate::scenario::{Plan, Slot};

/// Returns a line for each subject with a valid sample: requests, mean round trip, bytes of the messages that the server pushed
/// meanwhile. Repeats of the baseline (A/A controls) have none.
pub fn as_published(plan: &Plan, samples: &[Sample]) -> String {
    let mut text = String::new();
    let is_listed = |slot: &Slot| slot.repeat == 0 && !plan.cell(*slot).is_control(slot.subject);
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
        text += &format!(
            "{}: total {}, average {}, received {} KB (the worst of {})\n",
            subject.name,
            trips.count,
            brief_us(trips.mean_us),
            bytes / 1000,
            runs.len()
        );
    }
    text
}
