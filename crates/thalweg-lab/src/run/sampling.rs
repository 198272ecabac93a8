//! The samples of a plan.

use super::bundle::Bundle;
use super::ending::{self, Taken};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::sample::Bench;
use super::{Ended, RunContext, endpoints};
use crate::measure::Sample;
use crate::measure::comparison::Next;
use crate::report::{self, Manifest};
use crate::scenario::{Part, Plan, Slot};
use crate::subject::{Cores, Place};
use std::cell::RefCell;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Everything that is settled before the first sample.
pub(super) struct Session<'a> {
    pub(super) plan: &'a Plan,
    pub(super) place: &'a Place,
    pub(super) cores: &'a Cores,
    pub(super) context: &'a RunContext,
    pub(super) bundle: Bundle,
}

impl Session<'_> {
    /// Takes the samples of the plan, fewer if interrupted, and ends the run.
    pub(super) fn take(mut self, mut manifest: Manifest) -> anyhow::Result<Ended> {
        let interrupt = Interrupt::listen()?;
        self.cores.pin_swarm(1)?;
        let bench = Bench {
            plan: self.plan,
            program: &self.context.program,
            place: self.place,
            cores: self.cores,
            log: self.bundle.log()?,
            interrupted: interrupt.flag(),
            system_calls: self.context.system_calls,
            remark: Mutex::default(),
        };
        let output = &self.context.output;
        let slots: Vec<_> = self.plan.slots().collect();
        let progress = RefCell::new(Progress::new(self.plan, &slots, output.is_quiet));
        let (mut samples, mut was_interrupted) = (Vec::new(), false);
        let mut budget = Budget::default();
        for start in slots.chunk_by(is_of_one_start) {
            let (part, cell) = (self.plan.part(start[0]), start[0].cell);
            if !budget.has_left(self.plan, start[0]) || is_decided(part, start[0], &samples) {
                continue;
            }
            progress.borrow_mut().begin(self.plan, start[0]);
            let Some(found) = bench.start(start, &progress) else {
                was_interrupted = true;
                break;
            };
            for sample in found {
                self.bundle.append(&sample)?;
                samples.push(sample);
            }
            let own: Vec<_> =
                samples.iter().filter(|it| (it.part, it.cell) == (start[0].part, cell)).collect();
            progress.borrow_mut().end(self.plan, start[0], &own);
            // Whoever does not answer once is not asked again and again.
            if endpoints::is_only_endpoints(self.plan)
                && !samples.iter().any(|it| it.verdict.is_valid())
            {
                break;
            }
        }
        let mut progress = progress.into_inner();
        progress.finish();
        manifest.machine.remarks.extend(bench.remark.into_inner().ok().flatten());
        let taken = Taken { plan: self.plan, samples, was_interrupted };
        ending::end(&self.bundle, &taken, manifest, output)
    }
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
fn is_decided(part: &Part, slot: Slot, samples: &[Sample]) -> bool {
    let own = samples.iter().filter(|it| (it.part, it.cell) == (slot.part, slot.cell));
    part.budget_s.is_some()
        && report::next(part, slot.cell, &own.collect::<Vec<_>>()) == Next::Decided
}

fn is_of_one_start(one: &Slot, other: &Slot) -> bool {
    (one.part, one.cell, one.repeat) == (other.part, other.cell, other.repeat)
}
