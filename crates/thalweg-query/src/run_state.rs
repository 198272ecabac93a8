//! The state of a running query, and how it handles an event: condition, time, windows, rows.

use crate::{
    Plan,
    closing::Exit,
    completeness::{Beginning, Completeness},
    counts::Counts,
    event::Event,
    expr::Expr,
    groups::Held,
    ledger::Ledger,
    limits::{Bounds, COPIED_BYTES_PER_STEP},
    meter::Failure,
    pace::Pace,
    plan::{PlannedWindow, Shape, instant},
    remains::Remains,
    row_offsets::RowOffsets,
    row_writer::RowWriter,
    running_groups::RunningGroups,
    sink::Sink,
    widen::Widening,
    windows::Windows,
};

/// The state of a running query. The caller passes the plan with each event, because it may have been widened.
#[derive(Debug)]
pub(crate) struct RunState {
    completeness: Completeness,
    windows: Windows,
    /// The groups of a query without windows.
    groups: Option<Box<RunningGroups>>,
    rows: RowWriter,
    ledger: Ledger,
    /// The event that was interrupted by a pause.
    progress: Option<EventProgress>,
}

#[derive(Debug, Clone, Copy)]
struct EventProgress {
    published_ms: i64,
    /// The current time when the event began.
    now_ms: i64,
    time_ms: i64,
    /// Whether the event is left out, because its time is too far ahead.
    is_ahead: bool,
    /// Number of windows that have taken the event.
    windows: usize,
}

impl RunState {
    pub(crate) fn new(plan: &Plan, bounds: Bounds, beginning: Beginning) -> Self {
        let is_one_each = match plan.shape {
            Shape::Whole => true,
            Shape::Rows(_) => plan.window.is_none_or(|window| window.overlap == 1),
            Shape::Groups { .. } => false,
        };
        let row_offsets = match plan.has_state() {
            true => RowOffsets::consecutive(),
            false => RowOffsets::new(is_one_each),
        };
        Self {
            completeness: Completeness::new(beginning, plan.has_windows()),
            windows: Windows::new(),
            groups: plan.has_state().then(Box::default),
            rows: RowWriter::new(row_offsets),
            ledger: Ledger::new(bounds),
            progress: None,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.ledger.counts()
    }

    pub(crate) fn held(&self) -> Held {
        self.groups.as_ref().map_or(self.windows.held, |groups| groups.held())
    }

    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        let own = size_of::<Self>() - size_of::<Windows>() - size_of::<RowWriter>();
        let groups = self.groups.as_ref().map_or(0, |groups| groups.memory_bytes());
        own + self.windows.memory_bytes() + groups + self.rows.memory_bytes()
    }

    pub(crate) fn first_place(&self, offset: u64) -> u64 {
        self.rows.first_after(offset)
    }

    pub(crate) fn is_numbered(&self) -> bool {
        self.completeness.is_numbered()
    }

    pub(crate) fn settle(&mut self) {
        self.completeness.settle();
    }

    pub(crate) fn open_windows(&self) -> usize {
        self.windows.open.len()
    }

    pub(crate) fn waits(&self) -> bool {
        !self.windows.open.is_empty()
            || self.windows.left_out_ms.is_some()
            || self.groups.as_ref().is_some_and(|groups| groups.has_changed())
    }

    /// Begins to emit the groups without windows that have changed ([`crate::Running::emit_changes`]).
    pub(crate) fn emit_changes(&mut self, now_ms: i64, has_room: bool) {
        if let Some(groups) = &mut self.groups {
            self.ledger.begin();
            self.ledger.add_groups(groups.emit_changed(now_ms, has_room));
        }
    }

    pub(crate) fn emit_again(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.emit_again();
        }
    }

    pub(crate) fn take_restart(&mut self) -> bool {
        self.groups.as_mut().is_some_and(|groups| groups.take_restart())
    }

    pub(crate) fn take_refused(&mut self) -> bool {
        self.groups.as_mut().is_some_and(|groups| groups.take_refused())
    }

    /// Continues with a wider plan ([`Windows::widen`]).
    pub(crate) fn widen(&mut self, widening: Option<&Widening>) {
        self.ledger.counts.changes += 1;
        match &mut self.groups {
            Some(groups) => {
                let is_kept = groups.widen(widening);
                self.ledger.counts.windows_lost += u64::from(!is_kept);
            }
            None => self.windows.widen(widening, &mut self.completeness),
        }
    }

    pub(crate) fn lose(&mut self) {
        self.progress = None;
        if let Some(groups) = &mut self.groups {
            self.ledger.counts.windows_lost += u64::from(groups.restart());
            return;
        }
        self.completeness.lose_before_next();
        if let Some(newest_ms) = self.windows.newest_ms() {
            self.completeness.lose_window(newest_ms);
        }
    }

    /// Skips the last event and discards all open windows ([`crate::Running::skip`]).
    pub(crate) fn skip(&mut self, plan: &Plan, sink: &mut impl Sink) {
        let (windows, mut exit) = self.exit(plan, sink);
        windows.skip(&mut exit);
        // The groups lack one event. If it began them again, one publisher could do so with each event.
        match self.groups.as_mut().is_none_or(|groups| groups.take_failed()) {
            true => self.lose(),
            false => self.progress = None,
        }
    }

    /// Ends the run; returns all its groups, to be dropped.
    pub(crate) fn into_remains(self) -> Remains {
        let mut remains = self.windows.into_remains();
        if let Some(groups) = self.groups {
            remains.append(groups.into_remains());
        }
        remains
    }

    pub(crate) fn close_all(&mut self, plan: &Plan, sink: &mut impl Sink) {
        let Some(window) = plan.window.filter(|_| plan.has_windows()) else { return };
        let newest_ms = self.windows.newest_ms().map(|newest_ms| newest_ms + window.size_ms);
        self.ledger.begin();
        let (windows, mut exit) = self.exit(plan, sink);
        windows.end(window, (newest_ms.unwrap_or(i64::MIN), true), &mut exit);
    }

    /// Ends windows after a pause of the source at this offset that is longer than their timeout.
    pub(crate) fn pause(&mut self, plan: &Plan, offset: u64, sink: &mut impl Sink) {
        self.rows.offset = offset;
        self.close_all(plan, sink);
    }

    /// Continues to close windows, and to drop those that are not emitted. Returns whether none is left.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        plan: &Plan,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        if self.groups.is_some() {
            return self.finish_groups(plan, sink, pace);
        }
        let (windows, mut exit) = self.exit(plan, sink);
        windows.finish(&mut exit, pace)
    }

    fn finish_groups(
        &mut self,
        plan: &Plan,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        let Self { completeness, groups, rows, ledger, .. } = self;
        let Some(groups) = groups else { return Ok(true) };
        groups.finish(&mut Exit { plan, completeness, rows, ledger, sink }, pace)
    }

    /// Takes an event, or continues with it ([`crate::Running::take_in_part`]). The caller has closed all ended windows.
    #[inline]
    pub(crate) fn take_in_part(
        &mut self,
        plan: &Plan,
        event: Event<'_>,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        self.ledger.add_steps((event.text.len() / COPIED_BYTES_PER_STEP) as u64);
        let before = self.progress.take().filter(|_| self.rows.offset == event.offset);
        let progress = match before {
            Some(progress) => progress,
            None => match self.begin_event(plan, &event, sink)? {
                Some(progress) => progress,
                None => {
                    self.goes_on(pace);
                    return Ok(true);
                }
            },
        };
        let EventProgress { published_ms, now_ms, .. } = progress;
        let event = Event { published_ms, now_ms, ..event };
        let is_taken = match (&plan.shape, plan.window) {
            (Shape::Whole, _) => {
                self.ledger.begin_row();
                self.rows.pass_on(event.text);
                self.rows.emit(&mut self.ledger, sink)?;
                true
            }
            (Shape::Rows(items), None) => {
                self.rows.make(items, &event.row((0, 0), self.ledger.begin_row()));
                self.rows.emit(&mut self.ledger, sink)?;
                true
            }
            (Shape::Rows(items), Some(window)) => {
                self.in_each_window(window, progress, pace, |state, window| {
                    state.rows.make(items, &event.row(window, state.ledger.begin_row()));
                    state.rows.emit(&mut state.ledger, sink)
                })?
            }
            (Shape::Groups { .. }, Some(window)) => {
                let is_taken = self.in_each_window(window, progress, pace, |state, window| {
                    let Self { windows, ledger, completeness, .. } = state;
                    windows.take(plan, &event, window, ledger, completeness)
                })?;
                if is_taken {
                    self.advance(plan, window, progress, sink);
                }
                is_taken
            }
            (Shape::Groups { .. }, None) => {
                if let Some(groups) = &mut self.groups {
                    groups.take(plan, &event, &mut self.ledger)?;
                }
                true
            }
        };
        // The event is taken in any case; a pause comes before windows close, and before the next event.
        if self.goes_on(pace) && is_taken {
            self.finish(plan, sink, pace)?;
        }
        Ok(is_taken)
    }

    /// Applies `work` to each window of an event, starting after the last pause. Returns whether all are done.
    #[inline]
    fn in_each_window(
        &mut self,
        window: PlannedWindow,
        progress: EventProgress,
        pace: &mut impl Pace,
        mut work: impl FnMut(&mut Self, (i64, i64)) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        for (index, start_ms) in window.starts(progress.time_ms).enumerate().skip(progress.windows)
        {
            if index > progress.windows && !self.goes_on(pace) {
                self.progress = Some(EventProgress { windows: index, ..progress });
                return Ok(false);
            }
            work(self, (start_ms, start_ms + window.size_ms))?;
        }
        Ok(true)
    }

    /// Advances time after an event is in its windows.
    #[inline]
    fn advance(
        &mut self,
        plan: &Plan,
        window: PlannedWindow,
        progress: EventProgress,
        sink: &mut impl Sink,
    ) {
        let time_ms = (!progress.is_ahead).then_some(progress.time_ms);
        let until = self.windows.advance(window, time_ms, progress.published_ms);
        let (windows, mut exit) = self.exit(plan, sink);
        windows.end(window, until, &mut exit);
    }

    /// Begins an event. Returns `None` if the event makes no rows.
    #[inline]
    fn begin_event(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<EventProgress>, Failure> {
        self.rows.offset = event.offset;
        self.ledger.counts.events += 1;
        self.ledger.counts.unreadable += event.unreadable;
        self.ledger.begin();
        let Event { published_ms, now_ms, .. } = *event;
        let progress =
            EventProgress { published_ms, now_ms, time_ms: 0, is_ahead: false, windows: 0 };
        let Some(window) = plan.window.filter(|_| plan.has_windows()) else {
            return self.begin_rows(plan, event, progress, sink);
        };
        let Some(time_ms) = self.time_of(plan, event)? else { return Ok(None) };
        let progress = EventProgress { time_ms, ..progress };
        if time_ms.saturating_sub(published_ms) > self.ledger.bounds.lead_ms {
            self.ledger.counts.ahead += 1;
            self.windows.leave_out(published_ms);
            return Ok(Some(EventProgress { is_ahead: true, windows: usize::MAX, ..progress }));
        }
        self.completeness.pass(time_ms, window);
        // An event that does not pass the condition still advances time.
        let windows = if self.passes(plan, event)? { 0 } else { usize::MAX };
        Ok(Some(EventProgress { windows, ..progress }))
    }

    /// Begins an event that makes its own rows.
    #[inline]
    fn begin_rows(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        progress: EventProgress,
        sink: &mut impl Sink,
    ) -> Result<Option<EventProgress>, Failure> {
        if self.completeness.passes_loss() {
            self.rows.lose(sink);
        }
        if !self.passes(plan, event)? {
            return Ok(None);
        }
        if plan.window.is_none() {
            return Ok(Some(progress));
        }
        let time_ms = self.time_of(plan, event)?;
        Ok(time_ms.map(|time_ms| EventProgress { time_ms, ..progress }))
    }

    #[inline(always)]
    fn passes(&mut self, plan: &Plan, event: &Event<'_>) -> Result<bool, Failure> {
        let Some(filter) = &plan.filter else { return Ok(true) };
        let passes = filter.is_true(&event.row((0, 0), self.ledger.begin_row())) == Some(true);
        self.ledger.charge()?;
        Ok(passes)
    }

    #[inline]
    fn time_of(&mut self, plan: &Plan, event: &Event<'_>) -> Result<Option<i64>, Failure> {
        let time_ms = match &plan.time {
            // A column takes no steps.
            Some(Expr::Cell(column)) => event.cells.get(*column).and_then(instant),
            _ => {
                let time_ms = plan.time_of(&event.row((0, 0), self.ledger.begin_row()));
                self.ledger.charge()?;
                time_ms
            }
        };
        self.ledger.counts.without_time += u64::from(time_ms.is_none());
        Ok(time_ms)
    }

    #[inline]
    fn goes_on(&mut self, pace: &mut impl Pace) -> bool {
        let bytes = self.memory_bytes();
        self.ledger.goes_on(pace, bytes)
    }

    #[inline]
    fn exit<'a, S: Sink>(
        &'a mut self,
        plan: &'a Plan,
        sink: &'a mut S,
    ) -> (&'a mut Windows, Exit<'a, S>) {
        let Self { completeness, windows, rows, ledger, .. } = self;
        (windows, Exit { plan, completeness, rows, ledger, sink })
    }
}
