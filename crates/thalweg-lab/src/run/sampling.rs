//! The samples of a plan: cell by cell, start by start.

use super::bundle::Bundle;
use super::endpoints;
use super::progress::Progress;
use super::sample::Bench;
use crate::measure::Sample;
use crate::measure::comparison::Next;
use crate::report;
use crate::scenario::{Plan, Slot};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Adds the samples of a plan to a run's folder, and returns whether it was interrupted. A start has all of its samples or none.
pub(super) fn take(
    bench: &Bench<'_>,
    bundle: &mut Bundle,
    mut samples: Vec<Sample>,
) -> anyhow::Result<(Vec<Sample>, bool)> {
    let plan = bench.plan;
    // Cells come in order: those before the last that has samples are done.
    let place = |sample: &Sample| (sample.part, sample.cell);
    let reached = samples.iter().map(place).max();
    let slots: Vec<Slot> =
        plan.slots().filter(|slot| Some((slot.part, slot.cell)) >= reached).collect();
    let progress = RefCell::new(Progress::new(plan, &slots, bench.context.output.is_quiet));
    let mut was_interrupted = false;
    let mut budget = Budget::default();
    'cells: for cell in slots.chunk_by(|one, next| (one.part, one.cell) == (next.part, next.cell)) {
        let until = budget.share_of(plan, cell[0], Instant::now());
        progress.borrow_mut().begin_cell(plan, cell[0]);
        let first = samples
            .iter()
            .position(|sample| Some(place(sample)) == Some((cell[0].part, cell[0].cell)));
        let first = first.unwrap_or(samples.len());
        let taken = samples[first..].iter().map(|sample| sample.start() + 1).max().unwrap_or(0);
        let starts = cell.chunk_by(|one, next| one.repeat == next.repeat);
        for start in starts.skip(taken as usize) {
            // At least one start, even with a budget of 0.
            if start[0].repeat > 0 && is_over(plan, start[0], until, &samples[first..]) {
                break;
            }
            progress.borrow_mut().begin_start(plan, start[0]);
            let start = &in_question(plan, start, until, &samples[first..]);
            let Some(taken) = bench.start(start, &progress) else {
                was_interrupted = true;
                break 'cells;
            };
            for sample in taken {
                bundle.append(&sample)?;
                samples.push(sample);
            }
            progress.borrow_mut().end_start(plan, start[0], &samples[first..]);
            // An endpoint that does not answer at first is not tried again.
            if endpoints::is_only_endpoints(plan)
                && !samples.iter().any(|sample| sample.verdict.is_valid())
            {
                break 'cells;
            }
        }
        progress.borrow_mut().end_cell();
    }
    progress.into_inner().finish();
    Ok((samples, was_interrupted))
}

/// Rest of the time that the cells of a part may take.
#[derive(Debug, Default)]
struct Budget {
    /// The measured part, and the end of its time.
    part: Option<(usize, Instant)>,
}

impl Budget {
    /// Returns the end of the slot's cell, if its part has a budget. The cells that follow share the time that a cell leaves.
    fn share_of(&mut self, plan: &Plan, slot: Slot, now: Instant) -> Option<Instant> {
        let part = plan.part(slot);
        let budget = Duration::from_secs(part.budget_s?);
        let until = match self.part {
            Some((index, until)) if index == slot.part => until,
            _ => now + budget,
        };
        self.part = Some((slot.part, until));
        let cells = (part.cells.len() - slot.cell) as u32;
        Some(now + until.saturating_duration_since(now) / cells)
    }
}

/// Returns whether the slot's cell has no time left, or more of it would change nothing.
fn is_over(plan: &Plan, slot: Slot, until: Option<Instant>, samples: &[Sample]) -> bool {
    until.is_some_and(|until| {
        Instant::now() >= until
            || report::next(plan.part(slot), slot.cell, &samples.iter().collect::<Vec<_>>())
                == Next::Decided
    })
}

/// Returns the subjects for which another start is useful; all, if the number of starts is given.
fn in_question(
    plan: &Plan,
    start: &[Slot],
    until: Option<Instant>,
    samples: &[Sample],
) -> Vec<Slot> {
    let far = match until {
        Some(_) => {
            let samples: Vec<&Sample> = samples.iter().collect();
            report::far_off(plan.part(start[0]), start[0].cell, &samples)
        }
        None => Vec::new(),
    };
    start.iter().filter(|slot| !far.contains(&slot.subject)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Changes, read};

    #[test]
    fn the_budget_that_a_cell_leaves_goes_to_the_next() {
        let text = "name = \"x\"\ndrive = \"published-load\"\nbudget_s = 90\n[[cells]]\nconnections = [1, 2, 3]\n";
        let plan = read(text, &Changes::default(), &[]).unwrap();
        let cell = |cell| Slot { part: 0, cell, subject: 0, repeat: 0 };
        let (mut budget, begun) = (Budget::default(), Instant::now());
        let mut share = |index, after_s| {
            let now = begun + Duration::from_secs(after_s);
            budget.share_of(&plan, cell(index), now).unwrap().duration_since(now).as_secs()
        };
        assert_eq!(share(0, 0), 30);
        assert_eq!(share(1, 10), 40);
        // The cell took longer than its share: a start is not cut short.
        assert_eq!(share(2, 80), 10);
        let without = Changes { repeats: Some(3), ..Changes::default() };
        let plan = read(text, &without, &[]).unwrap();
        assert_eq!(Budget::default().share_of(&plan, cell(0), begun), None);
    }
}
