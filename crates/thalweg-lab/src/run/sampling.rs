//! The samples of a plan.

use super::bundle::Bundle;
use super::endpoints;
use super::progress::Progress;
use super::sample::Bench;
use crate::measure::Sample;
use crate::measure::comparison::Next;
use crate::report;
use crate::scenario::{Part, Plan, Slot};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Takes the samples of a plan into a run's folder, and whether that was interrupted.
pub(super) fn take(bench: &Bench<'_>, bundle: &mut Bundle) -> anyhow::Result<(Vec<Sample>, bool)> {
    let plan = bench.plan;
    let slots: Vec<Slot> = plan.slots().collect();
    let progress = RefCell::new(Progress::new(plan, &slots, bench.context.output.is_quiet));
    let (mut samples, mut budget) = (Vec::new(), Budget::default());
    let mut was_interrupted = false;
    for start in slots.chunk_by(is_of_one_start) {
        let own = of_cell(start[0], &samples);
        if !budget.has_left(plan, start[0]) || is_decided(plan.part(start[0]), start[0], &own) {
            continue;
        }
        progress.borrow_mut().begin(plan, start[0]);
        let Some(taken) = bench.start(start, &progress) else {
            was_interrupted = true;
            break;
        };
        for sample in taken {
            bundle.append(&sample)?;
            samples.push(sample);
        }
        progress.borrow_mut().end(plan, start[0], &of_cell(start[0], &samples));
        // Whoever does not answer once is not asked again and again.
        let has_answered = || samples.iter().any(|it| it.verdict.is_valid());
        if endpoints::is_only_endpoints(plan) && !has_answered() {
            break;
        }
    }
    progress.into_inner().finish();
    Ok((samples, was_interrupted))
}

fn of_cell(slot: Slot, samples: &[Sample]) -> Vec<&Sample> {
    samples.iter().filter(|it| (it.part, it.cell) == (slot.part, slot.cell)).collect()
}

/// What is left of the time that cells may take.
#[derive(Debug, Default)]
struct Budget {
    /// The cell that is measured, since when, and until when it may be.
    cell: Option<((usize, usize), Instant)>,
    /// When its part's time is over.
    part: Option<(usize, Instant)>,
}

impl Budget {
    /// Whether another start of the slot's cell may begin. What a cell leaves over is
    /// shared out among those that follow.
    fn has_left(&mut self, plan: &Plan, slot: Slot) -> bool {
        let part = plan.part(slot);
        let Some(budget_s) = part.budget_s else { return true };
        let now = Instant::now();
        let ends = match self.part {
            Some((index, ends)) if index == slot.part => ends,
            _ => now + Duration::from_secs(budget_s),
        };
        self.part = Some((slot.part, ends));
        let place = (slot.part, slot.cell);
        match self.cell {
            Some((other, until)) if other == place => now < until,
            _ => {
                let left = ends.saturating_duration_since(now);
                let cells = (part.cells.len() - slot.cell) as u32;
                self.cell = Some((place, now + left / cells.max(1)));
                // One start at least: a budget of nothing would find nothing.
                true
            }
        }
    }
}

/// Whether more of a cell that has a budget would change nothing.
fn is_decided(part: &Part, slot: Slot, samples: &[&Sample]) -> bool {
    part.budget_s.is_some() && report::next(part, slot.cell, samples) == Next::Decided
}

fn is_of_one_start(one: &Slot, other: &Slot) -> bool {
    (one.part, one.cell, one.repeat) == (other.part, other.cell, other.repeat)
}
