//! The ledger of a run: its counts, and the budget of the current event.

use crate::{
    counts::Counts,
    limits::{Bounds, GROUPS_MAX},
    meter::{Budget, Failure, Meter},
    pace::Pace,
};

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) bounds: Bounds,
    pub(crate) counts: Counts,
    meter: Meter,
    /// The remaining budget of the current event and of the windows that it closes.
    budget: Budget,
    /// Uncounted steps since the pace was last asked.
    steps: u64,
}

impl Ledger {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let bounds = Bounds { groups: bounds.groups.min(GROUPS_MAX), ..bounds };
        let budget = Budget::new(&bounds);
        let meter = Meter::new(&bounds, u64::MAX);
        Self { bounds, counts: Counts::default(), meter, budget, steps: 0 }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            oversized: self.meter.oversized(),
            without_result: self.counts.without_result + self.meter.without_result(),
            steps: self.counts.steps + self.steps,
            ..self.counts
        }
    }

    /// Begins an event, or the closing of windows without an event, with the whole budget.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.budget = Budget::new(&self.bounds);
    }

    /// Adds the budget of a window's groups, which are about to be emitted.
    pub(crate) fn add_groups(&mut self, groups: usize) {
        self.budget.add_groups(groups);
    }

    #[inline]
    pub(crate) fn add_steps(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// Returns the meter, reset for the next row. All rows of a run share it.
    #[inline]
    pub(crate) fn begin_row(&self) -> &Meter {
        self.budget.begin_row(&self.meter, &self.bounds);
        &self.meter
    }

    /// Counts the cost of a row. Fails if it exceeds the bounds.
    #[inline]
    pub(crate) fn charge(&mut self) -> Result<(), Failure> {
        self.steps += self.meter.steps();
        self.budget.settle(&self.meter, &self.bounds)
    }

    /// Counts the cost of a finished row, and of writing it. Fails if it exceeds the bounds.
    #[inline]
    pub(crate) fn write(&mut self, bytes: usize) -> Result<(), Failure> {
        self.meter.write(bytes);
        self.charge()
    }

    /// Counts an emitted row. Fails if the event's rows exceed the bounds.
    #[inline]
    pub(crate) fn emit(&mut self, bytes: usize) -> Result<(), Failure> {
        self.budget.emit(bytes, &self.bounds)?;
        self.counts.rows += 1;
        Ok(())
    }

    /// Asks whether the run may continue. `held_bytes` is its memory.
    #[inline]
    pub(crate) fn goes_on(&mut self, pace: &mut impl Pace, held_bytes: usize) -> bool {
        let steps = std::mem::take(&mut self.steps);
        self.counts.steps += steps;
        pace.goes_on(steps, held_bytes)
    }
}
