//! Closes ended windows: emits their rows, group by group, with pauses, and drops the groups of lost windows.

use thalweg_columns::Cell;

use crate::{
    Plan,
    completeness::{Completeness, WindowEvents},
    expr::{Expr, Row},
    groups::Groups,
    ledger::Ledger,
    limits::{BLOCK_OFFSETS, CLOSED_GROUP_STEPS, DIGEST_RESULT_STEPS, DROP_STEPS},
    meter::Failure,
    pace::Pace,
    plan::{PlannedWindow, Shape},
    remains::Remains,
    row_writer::RowWriter,
    sink::Sink,
    windows::{Closing, Windows},
};

/// The context for closing windows: the state of the run, and the sink of their rows.
pub(crate) struct Exit<'a, S> {
    pub(crate) plan: &'a Plan,
    pub(crate) completeness: &'a mut Completeness,
    pub(crate) rows: &'a mut RowWriter,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) sink: &'a mut S,
}

impl Windows {
    /// Marks all windows up to `until_ms` as ended. With `announces`, first reports the events that were left
    /// out.
    #[inline]
    pub(crate) fn end<S: Sink>(
        &mut self,
        window: PlannedWindow,
        (until_ms, announces): (i64, bool),
        exit: &mut Exit<'_, S>,
    ) {
        self.over_ms = self.over_ms.max(until_ms);
        let block = exit.rows.offset / BLOCK_OFFSETS;
        if exit.completeness.number(block, self.over_ms, window) {
            exit.sink.begins(exit.rows.first_of(block));
        }
        if announces && self.left_out_ms.take().is_some() && exit.completeness.is_numbered() {
            exit.rows.lose(exit.sink);
        }
        let is_over = |(start_ms, _): (&i64, _)| *start_ms + window.size_ms <= until_ms;
        match &mut self.closing {
            Some(closing) => closing.until_ms = closing.until_ms.max(until_ms),
            None if self.open.first_key_value().is_some_and(is_over) => {
                self.closing = Some(Closing::until(until_ms));
            }
            None => {}
        }
    }

    /// Discards the window whose rows are being emitted. Other ended windows close with the next event.
    pub(crate) fn skip<S: Sink>(&mut self, exit: &mut Exit<'_, S>) {
        let Some(mut closing) = self.closing.take() else { return };
        if closing.discard_window(&mut self.held) {
            exit.ledger.counts.windows_lost += 1;
            exit.rows.lose(exit.sink);
        }
        self.closing = Some(Closing { remains: closing.remains, ..Closing::nothing() });
    }

    /// Continues to close windows in order, and to drop those that are not emitted. Returns whether none is left.
    #[inline]
    pub(crate) fn finish<S: Sink>(
        &mut self,
        exit: &mut Exit<'_, S>,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        if self.closing.is_some() { self.close(exit, pace) } else { Ok(true) }
    }

    fn close<S: Sink>(
        &mut self,
        exit: &mut Exit<'_, S>,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        let plan = exit.plan;
        let (Shape::Groups { items, having, aggregates, .. }, Some(window)) =
            (&plan.shape, plan.window)
        else {
            return Ok(true);
        };
        let quantiles = aggregates.iter().filter(|one| one.function.is_quantile()).count() as u64;
        while let Some(mut closing) = self.closing.take() {
            if !closing.remains.is_empty() {
                let is_done = drop_remains(&mut closing.remains, exit.held_bytes(self), pace);
                self.closing = Some(closing);
                if !is_done {
                    return Ok(false);
                }
                continue;
            }
            let next = match &mut closing.window {
                Some((start_ms, groups)) => Some((*start_ms, groups.next(&mut self.held))),
                None => None,
            };
            match next {
                Some((start_ms, Some(group))) => {
                    self.closing = Some(closing);
                    let (cells, without_result) = group.cells();
                    exit.ledger.counts.without_result += without_result;
                    exit.ledger.add_steps(DIGEST_RESULT_STEPS * quantiles);
                    let window = (start_ms, start_ms + window.size_ms);
                    exit.emit_group(items, having.as_ref(), &cells, window)?;
                }
                Some((_, None)) => self.closing = Some(Closing { window: None, ..closing }),
                None => {
                    let first = self.open.first_entry();
                    let first =
                        first.filter(|entry| *entry.key() + window.size_ms <= closing.until_ms);
                    let Some(first) = first else { break };
                    let (start_ms, groups) = first.remove_entry();
                    self.begin_window(start_ms, groups, &mut closing, exit);
                    self.closing = Some(closing);
                }
            }
            if !exit.ledger.goes_on(pace, exit.held_bytes(self)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins to close a window: to emit or to drop it.
    fn begin_window<S: Sink>(
        &mut self,
        start_ms: i64,
        groups: Groups,
        closing: &mut Closing,
        exit: &mut Exit<'_, S>,
    ) {
        exit.ledger.add_steps(CLOSED_GROUP_STEPS * groups.len() as u64);
        let counts = &mut exit.ledger.counts;
        match exit.completeness.events_of(start_ms) {
            WindowEvents::Partial => counts.windows_partial += 1,
            WindowEvents::All if !groups.is_lost() => {
                counts.windows += 1;
                exit.ledger.add_groups(groups.len());
                closing.window = Some((start_ms, groups.into_ordered()));
                return;
            }
            WindowEvents::All | WindowEvents::Lost => {
                counts.windows_lost += 1;
                exit.rows.lose(exit.sink);
            }
        }
        groups.release(&mut self.held, &mut closing.remains);
    }
}

/// Drops groups of windows that are not emitted. `held_bytes` is the run's memory. Stops when it is time for
/// a pause, and then returns `false`.
pub(crate) fn drop_remains(remains: &mut Remains, held_bytes: usize, pace: &mut impl Pace) -> bool {
    let mut goes_on = true;
    remains.drop_while(|groups| {
        goes_on = pace.goes_on(groups as u64 * DROP_STEPS, held_bytes);
        goes_on
    });
    goes_on
}

impl<S: Sink> Exit<'_, S> {
    fn held_bytes(&self, windows: &Windows) -> usize {
        windows.memory_bytes() + self.rows.memory_bytes()
    }

    fn emit_group(
        &mut self,
        items: &[Expr],
        having: Option<&Expr>,
        cells: &[Cell<'_>],
        window: (i64, i64),
    ) -> Result<(), Failure> {
        // Use the end of the window as the current time, so that rows do not depend on when the window
        // closes.
        let row = Row { cells, window, now_ms: window.1, meter: self.ledger.begin_row() };
        if having.is_none_or(|having| having.is_true(&row) == Some(true)) {
            self.rows.make(items, &row);
            return self.rows.emit(self.ledger, self.sink);
        }
        self.ledger.charge()
    }
}
