//! What a run costs and what has happened in it, counted.

use crate::{
    counts::Counts,
    limits::{Bounds, GROUPS_MAX},
    meter::{Budget, Failure, Meter},
    pace::Pace,
};

/// The counts of a run, and what is left of an event's budget.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) bounds: Bounds,
    pub(crate) counts: Counts,
    /// Counts what the current row takes.
    meter: Meter,
    /// The remaining budget of the current event and of the windows that it closes.
    budget: Budget,
    /// Steps since its pace was last asked. They are not counted yet.
    steps: u64,
}

impl Ledger {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let bounds = Bounds { groups: bounds.groups.min(GROUPS_MAX), ..bounds };
        let budget = Budget::new(&bounds);
        let meter = Meter::new(&bounds, u64::MAX);
        Self { bounds, counts: Counts::default(), meter, budget, steps: 0 }
    }

    /// All counts so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            oversized: self.meter.oversized(),
            without_result: self.counts.without_result + self.meter.without_result(),
            steps: self.counts.steps + self.steps,
            ..self.counts
        }
    }

    /// An event begins, or windows are closed without one: it has the whole budget.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.budget = Budget::new(&self.bounds);
    }

    /// Groups of a window are about to be emitted.
    pub(crate) fn add_groups(&mut self, groups: usize) {
        self.budget.add_groups(groups);
    }

    /// Counts steps that are no part of a row.
    #[inline]
    pub(crate) fn add_steps(&mut self, steps: u64) {
        self.steps += steps;
    }

    /// The meter, which counts for the next row from now on. There is one for all rows of a run.
    #[inline]
    pub(crate) fn begin_row(&self) -> &Meter {
        self.budget.begin_row(&self.meter, &self.bounds);
        &self.meter
    }

    /// Counts what a row took.
    ///
    /// # Errors
    /// When it was more than it may.
    #[inline]
    pub(crate) fn charge(&mut self) -> Result<(), Failure> {
        self.steps += self.meter.steps();
        self.budget.settle(&self.meter, &self.bounds)
    }

    /// Counts what a row took that was made, and writing it.
    ///
    /// # Errors
    /// When it was more than it may.
    #[inline]
    pub(crate) fn write(&mut self, bytes: usize) -> Result<(), Failure> {
        self.meter.write(bytes);
        self.charge()
    }

    /// Counts a row that is emitted.
    ///
    /// # Errors
    /// When it is more than the event may make.
    #[inline]
    pub(crate) fn emit(&mut self, bytes: usize) -> Result<(), Failure> {
        self.budget.emit(bytes, &self.bounds)?;
        self.counts.rows += 1;
        Ok(())
    }

    /// Asks whether the run may go on, which holds so many bytes.
    #[inline]
    pub(crate) fn goes_on(&mut self, pace: &mut impl Pace, held_bytes: usize) -> bool {
        let steps = std::mem::take(&mut self.steps);
        self.counts.steps += steps;
        pace.goes_on(steps, held_bytes)
    }
}
