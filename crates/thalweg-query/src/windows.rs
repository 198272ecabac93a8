//! Open windows and their groups.

use std::collections::BTreeMap;

use crate::{
    Plan,
    completeness::Completeness,
    event::Event,
    groups::{Full, Groups, Held, OrderedGroups, WINDOW_BYTES, with_keys},
    ledger::Ledger,
    limits::{ANNOUNCE_MS, GROUP_STEPS, KEPT_BYTES},
    meter::Failure,
    plan::{PlannedWindow, Shape},
    remains::Remains,
    watermark::Watermark,
    widen::Widening,
};

/// The windows of a run that are not emitted yet.
#[derive(Debug)]
pub(crate) struct Windows {
    watermark: Watermark,
    /// The time up to which windows have ended.
    pub(crate) over_ms: i64,
    /// Open windows by their start.
    pub(crate) open: BTreeMap<i64, Groups>,
    pub(crate) held: Held,
    pub(crate) closing: Option<Closing>,
    /// The publication time of the first left-out event that is not announced, in ms since 1970.
    pub(crate) left_out_ms: Option<i64>,
    key: Vec<u8>,
}

/// The progress of closing windows and of dropping those that are not emitted.
#[derive(Debug)]
pub(crate) struct Closing {
    /// Windows that end by this time are being closed.
    pub(crate) until_ms: i64,
    /// The window whose rows are being emitted: its start, and the remaining groups.
    pub(crate) window: Option<(i64, OrderedGroups)>,
    /// Groups of windows that are not emitted. They are dropped first.
    pub(crate) remains: Remains,
}

impl Closing {
    pub(crate) fn until(until_ms: i64) -> Self {
        Self { until_ms, window: None, remains: Remains::default() }
    }

    pub(crate) fn nothing() -> Self {
        Self::until(i64::MIN)
    }

    pub(crate) fn into_remains(self) -> Remains {
        let mut remains = self.remains;
        self.window.into_iter().for_each(|(_, groups)| groups.leave(&mut remains));
        remains
    }

    /// Discards the window whose rows are being emitted. Returns whether there was one.
    pub(crate) fn discard_window(&mut self, held: &mut Held) -> bool {
        let window = self.window.take();
        let is_lost = window.is_some();
        window.into_iter().for_each(|(_, groups)| groups.release(held, &mut self.remains));
        is_lost
    }
}

impl Windows {
    pub(crate) fn new() -> Self {
        Self {
            watermark: Watermark::default(),
            over_ms: i64::MIN,
            open: BTreeMap::new(),
            held: Held::default(),
            closing: None,
            left_out_ms: None,
            key: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.held.bytes + self.open.len() * WINDOW_BYTES + self.key.capacity()
    }

    pub(crate) fn newest_ms(&self) -> Option<i64> {
        self.open.last_key_value().map(|(newest, _)| *newest)
    }

    #[cold]
    pub(crate) fn leave_out(&mut self, published_ms: i64) {
        self.left_out_ms.get_or_insert(published_ms);
    }

    /// Adds an event to one window, if that has not ended.
    #[inline]
    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        window: (i64, i64),
        ledger: &mut Ledger,
        completeness: &mut Completeness,
    ) -> Result<(), Failure> {
        if window.1 <= self.over_ms {
            ledger.counts.late += 1;
            return Ok(());
        }
        self.group(plan, event, window, ledger, completeness)?;
        if self.key.capacity() > KEPT_BYTES {
            self.key = Vec::new();
        }
        Ok(())
    }

    /// Adds an event to one window; the window is lost if it would exceed a bound.
    #[inline]
    fn group(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        window: (i64, i64),
        ledger: &mut Ledger,
        completeness: &mut Completeness,
    ) -> Result<(), Failure> {
        let Shape::Groups { keys, aggregates, .. } = &plan.shape else { return Ok(()) };
        let (start_ms, windows) = (window.0, self.open.len());
        let groups = match self.open.get_mut(&start_ms) {
            Some(groups) => groups,
            None if windows < ledger.bounds.windows => self.open.entry(start_ms).or_default(),
            None => {
                ledger.counts.full_windows += 1;
                // The window may be opened later, but this event would be missing. Mark it as incomplete.
                completeness.lose_window(start_ms);
                self.leave_out(event.published_ms);
                return Ok(());
            }
        };
        if groups.is_lost() {
            return Ok(());
        }
        ledger.add_steps(GROUP_STEPS * (1 + keys.len() as u64));
        let most = Held { groups: ledger.bounds.groups, bytes: ledger.bounds.state_bytes };
        let row = event.row(window, ledger.begin_row());
        let held = &mut self.held;
        let taken = with_keys(keys, &row, &mut self.key, |key, values| {
            groups.take(key, values, &row, aggregates, held, most)
        });
        if let Some(Err(full)) = taken {
            let closing = self.closing.get_or_insert_with(Closing::nothing);
            groups.discard(held, &mut closing.remains);
            match full {
                Full::Groups => ledger.counts.full_groups += 1,
                Full::State => ledger.counts.full_state += 1,
            }
        }
        ledger.charge()
    }

    /// Advances time after an event was added to all its windows. `time_ms` is `None` if the event's time is
    /// too far ahead. Returns the time up to which windows have ended, and whether to report left-out events
    /// first.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        window: PlannedWindow,
        time_ms: Option<i64>,
        published_ms: i64,
    ) -> (i64, bool) {
        // This depends only on times of events, and not on the open windows of this run, so that all runs
        // announce at the same place.
        let before_ms = self.watermark.ms(window.delay_ms);
        if let Some(time_ms) = time_ms {
            self.watermark.advance(time_ms);
        }
        let until_ms = self.watermark.ms(window.delay_ms);
        let announces = self.left_out_ms.is_some_and(|left_out_ms| {
            published_ms.saturating_sub(left_out_ms) >= ANNOUNCE_MS
                || before_ms.div_euclid(window.step_ms) < until_ms.div_euclid(window.step_ms)
        });
        (until_ms, announces)
    }

    /// Continues with a wider plan. Groups of open windows are converted if possible; otherwise these windows are lost,
    /// and the query continues with the next ones.
    pub(crate) fn widen(&mut self, widening: Option<&Widening>, completeness: &mut Completeness) {
        let is_kept = widening.is_some_and(|widening| {
            let change =
                |groups: &mut Groups| groups.change(|keys, values| widening.group(keys, values));
            self.open.values_mut().all(|groups| change(groups).is_some())
        });
        if !is_kept && let Some(newest_ms) = self.newest_ms() {
            completeness.lose_window(newest_ms);
            let remains = &mut self.closing.get_or_insert_with(Closing::nothing).remains;
            for groups in self.open.values_mut() {
                std::mem::take(groups).release(&mut self.held, remains);
            }
        }
    }

    pub(crate) fn into_remains(self) -> Remains {
        let mut remains = self.closing.map(Closing::into_remains).unwrap_or_default();
        self.open.into_values().for_each(|groups| groups.leave(&mut remains));
        remains
    }
}

impl PlannedWindow {
    /// Returns the start times of all windows that contain a time, in order.
    pub(crate) fn starts(self, time_ms: i64) -> impl Iterator<Item = i64> {
        let last = time_ms - time_ms.rem_euclid(self.step_ms);
        (0..self.overlap).rev().map(move |before| last - before * self.step_ms)
    }
}
