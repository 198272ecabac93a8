//! Remaining time of a run: at most the budget if there is one, else the plan's estimate, corrected by the time of past cells. Pure.

use crate::scenario::{Plan, Slot};
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Eta {
    /// Cells in order, the current one first.
    left: VecDeque<CellTime>,
    /// Expected and taken time of all cells without a budget so far.
    expected: Duration,
    taken: Duration,
}

#[derive(Debug)]
struct CellTime {
    expected: Duration,
    has_budget: bool,
}

impl Eta {
    /// Creates the estimate for these slots of a plan.
    pub(super) fn new(plan: &Plan, slots: &[Slot]) -> Eta {
        let cells = slots.chunk_by(|one, next| (one.part, one.cell) == (next.part, next.cell));
        let cells = cells.map(|slots| {
            let part = plan.part(slots[0]);
            let budget = part.budget_s.map(|s| Duration::from_secs(s) / part.cells.len() as u32);
            let planned = || slots.iter().map(|slot| plan.expected_time(*slot)).sum();
            CellTime { expected: budget.unwrap_or_else(planned), has_budget: budget.is_some() }
        });
        Eta { left: cells.collect(), expected: Duration::ZERO, taken: Duration::ZERO }
    }

    pub(super) fn cells(&self) -> usize {
        self.left.len()
    }

    /// Ends the current cell, which took this long.
    pub(super) fn end_cell(&mut self, took: Duration) {
        if let Some(done) = self.left.pop_front().filter(|first| !first.has_budget) {
            self.expected += done.expected;
            self.taken += took;
        }
    }

    /// Returns the remaining time, when the current cell has taken this long so far.
    pub(super) fn left(&self, current: Duration) -> Duration {
        let Some(first) = self.left.front() else { return Duration::ZERO };
        let rest: Duration = self.left.iter().skip(1).map(|time| self.corrected(time)).sum();
        self.corrected(first).saturating_sub(current) + rest
    }

    fn corrected(&self, cell: &CellTime) -> Duration {
        if cell.has_budget || self.expected.is_zero() {
            return cell.expected;
        }
        cell.expected.mul_f64(self.taken.as_secs_f64() / self.expected.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Changes, read};

    const SCENARIO: &str = r#"
name = "mine"
drive = "published-load"
control = "none"
repeats = 3
rounds = 1
warm_up_ms = 0
measured_ms = 925

[defaults]
connections = [100, 100, 101]
"#;

    /// Returns the seconds left at the beginning of each cell, if each takes this long.
    fn left(changes: &Changes, took_s: u64) -> Vec<f64> {
        let plan = read(SCENARIO, changes, &[]).unwrap();
        let mut eta = Eta::new(&plan, &plan.slots().collect::<Vec<_>>());
        let left = (0..eta.cells()).map(|_| {
            let left = eta.left(Duration::ZERO).as_secs_f64().round();
            eta.end_cell(Duration::from_secs(took_s));
            left
        });
        left.collect()
    }

    #[test]
    fn the_next_cell_is_expected_to_take_as_long_as_the_last() {
        // 60 ms to start, 15 ms to open, and the span: a second for each of six.
        assert_eq!(left(&Changes::default(), 6), [12.0, 6.0]);
        assert_eq!(left(&Changes::default(), 12), [12.0, 12.0]);
    }

    #[test]
    fn a_budget_lasts_for_its_time() {
        let changes = Changes { budget_s: Some(100), ..Changes::default() };
        assert_eq!(left(&changes, 20), [100.0, 50.0]);
    }
}
