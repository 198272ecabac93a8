//! Counts the cost of an evaluation in steps and bytes. Cost is counted in steps, not measured in time, so
//! that every run over the same rows has the same cost.

use std::cell::Cell;

use thalweg_columns::Cell as Value;

use crate::limits::{
    Bounds, CONSTANT_STEPS_MAX, CONSTANTS_BYTES_MAX, COPIED_BYTES_PER_STEP, GROUP_STEPS_MAX,
    SCANNED_BYTES_PER_STEP, VALUE_BYTES_MAX, WRITTEN_BYTES_PER_STEP,
};

/// The limit that a query has exceeded, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The evaluation of one row took too many steps.
    #[error(
        "one row takes more than {0} steps: shorten the expressions, or the texts that they read"
    )]
    RowSteps(u64),
    /// The evaluation of one row made too many bytes of text.
    #[error(
        "one row makes texts of more than {0} bytes: shorten the expressions, or cut texts with substr"
    )]
    RowBytes(usize),
    /// One event took too many steps, in all its windows together and in the windows that it closed.
    #[error(
        "one event takes more than {0} steps: shorten the expressions, or use fewer windows that overlap"
    )]
    EventSteps(u64),
    /// The rows of one event, including those of windows that it closed, are too long.
    #[error(
        "one event makes rows of more than {0} bytes: select less, or use fewer windows that overlap"
    )]
    EventBytes(usize),
}

/// A counter of the steps and bytes of one evaluation. When a limit is exceeded, every expression returns NULL and
/// the row is not emitted.
#[derive(Debug)]
pub(crate) struct Meter {
    steps_max: Cell<u64>,
    steps_left: Cell<u64>,
    bytes_left: Cell<usize>,
    over: Cell<Option<Over>>,
    value_bytes: usize,
    /// Texts longer than `value_bytes`.
    oversized: Cell<u64>,
    /// Operations that had no result, such as `1 / 0`.
    without_result: Cell<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Steps,
    Bytes,
}

impl Meter {
    /// Returns a meter for a row with at most `steps_left` steps.
    #[inline]
    pub(crate) fn new(bounds: &Bounds, steps_left: u64) -> Self {
        let steps_max = bounds.row_steps.min(steps_left);
        Self {
            steps_max: Cell::new(steps_max),
            steps_left: Cell::new(steps_max),
            bytes_left: Cell::new(bounds.row_text_bytes),
            over: Cell::new(None),
            value_bytes: bounds.value_bytes,
            oversized: Cell::new(0),
            without_result: Cell::new(0),
        }
    }

    /// Resets the meter for another row. Counts of missing results and of long texts stay.
    #[inline]
    fn begin(&self, steps_max: u64, bytes_max: usize) {
        self.steps_max.set(steps_max);
        self.steps_left.set(steps_max);
        self.bytes_left.set(bytes_max);
        self.over.set(None);
    }

    pub(crate) fn for_constants() -> Self {
        Self {
            steps_max: Cell::new(CONSTANT_STEPS_MAX),
            steps_left: Cell::new(CONSTANT_STEPS_MAX),
            bytes_left: Cell::new(CONSTANTS_BYTES_MAX),
            over: Cell::new(None),
            value_bytes: VALUE_BYTES_MAX,
            oversized: Cell::new(0),
            without_result: Cell::new(0),
        }
    }

    /// Counts steps. Returns `false` if none are left.
    #[inline]
    pub(crate) fn spend(&self, steps: u64) -> bool {
        match self.steps_left.get().checked_sub(steps) {
            Some(left) => {
                self.steps_left.set(left);
                true
            }
            None => self.stop(Over::Steps),
        }
    }

    /// Counts bytes copied or compared.
    #[inline]
    pub(crate) fn copy(&self, bytes: usize) -> bool {
        self.spend((bytes / COPIED_BYTES_PER_STEP) as u64)
    }

    /// Counts bytes examined one by one.
    #[inline]
    pub(crate) fn scan(&self, bytes: usize) -> bool {
        self.spend((bytes / SCANNED_BYTES_PER_STEP) as u64)
    }

    #[inline]
    pub(crate) fn write(&self, bytes: usize) -> bool {
        self.spend((bytes / WRITTEN_BYTES_PER_STEP) as u64)
    }

    /// Counts the bytes of a new text, and the steps of copying it. Returns `false` if the text is too long;
    /// the caller must use NULL.
    pub(crate) fn make(&self, bytes: usize) -> bool {
        if !self.is_value(bytes) {
            return false;
        }
        match self.bytes_left.get().checked_sub(bytes) {
            Some(left) => {
                self.bytes_left.set(left);
                self.copy(bytes)
            }
            None => self.stop(Over::Bytes),
        }
    }

    /// Returns whether a text of this length may be a value. Counts texts that are too long.
    #[inline]
    pub(crate) fn is_value(&self, bytes: usize) -> bool {
        let fits = bytes <= self.value_bytes;
        if !fits {
            self.oversized.set(self.oversized.get() + 1);
        }
        fits
    }

    #[inline]
    pub(crate) fn holds(&self, value: &Value<'_>) -> bool {
        match value {
            Value::String(text) | Value::Json(text) => text.len() <= self.value_bytes,
            _ => true,
        }
    }

    /// Returns the result of an operation on values that are not NULL. Counts a missing result, which is NULL.
    #[inline]
    pub(crate) fn result<'r>(&self, result: Option<Value<'r>>) -> Value<'r> {
        match result {
            Some(result) => result,
            None => self.no_result(),
        }
    }

    #[cold]
    fn no_result<'r>(&self) -> Value<'r> {
        // After an exceeded limit all further results are NULL.
        if self.over.get().is_none() {
            self.without_result.set(self.without_result.get() + 1);
        }
        Value::Null
    }

    #[inline]
    pub(crate) fn over(&self) -> Option<Over> {
        self.over.get()
    }

    #[inline]
    pub(crate) fn steps(&self) -> u64 {
        self.steps_max.get() - self.steps_left.get()
    }

    #[inline]
    pub(crate) fn oversized(&self) -> u64 {
        self.oversized.get()
    }

    #[inline]
    pub(crate) fn without_result(&self) -> u64 {
        self.without_result.get()
    }

    #[cold]
    fn failure(&self, over: Over, bounds: &Bounds) -> Failure {
        match over {
            Over::Bytes => Failure::RowBytes(bounds.row_text_bytes),
            Over::Steps if self.steps_max.get() == bounds.row_steps => {
                Failure::RowSteps(bounds.row_steps)
            }
            Over::Steps => Failure::EventSteps(bounds.event_steps),
        }
    }

    #[cold]
    fn stop(&self, over: Over) -> bool {
        self.steps_left.set(0);
        self.over.set(Some(self.over.get().unwrap_or(over)));
        false
    }
}

/// The remaining steps and bytes of one event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    steps_left: u64,
    bytes_left: usize,
}

impl Budget {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self { steps_left: bounds.event_steps, bytes_left: bounds.event_bytes }
    }

    pub(crate) fn add_groups(&mut self, groups: usize) {
        self.steps_left = self.steps_left.saturating_add(groups as u64 * GROUP_STEPS_MAX);
    }

    #[inline]
    pub(crate) fn begin_row(&self, meter: &Meter, bounds: &Bounds) {
        meter.begin(bounds.row_steps.min(self.steps_left), bounds.row_text_bytes);
    }

    /// Subtracts the cost of a row. Fails if it exceeds the budget.
    #[inline]
    pub(crate) fn settle(&mut self, meter: &Meter, bounds: &Bounds) -> Result<(), Failure> {
        self.steps_left = self.steps_left.saturating_sub(meter.steps());
        match meter.over() {
            None => Ok(()),
            Some(over) => Err(meter.failure(over, bounds)),
        }
    }

    /// Subtracts the bytes of a row. Fails if the event's rows exceed the budget.
    #[inline]
    pub(crate) fn emit(&mut self, bytes: usize, bounds: &Bounds) -> Result<(), Failure> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or(Failure::EventBytes(bounds.event_bytes))?;
        Ok(())
    }
}
