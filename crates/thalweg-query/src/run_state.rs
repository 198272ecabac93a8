//! The state of a running query, and how an event goes through it: its condition and time, its windows, its rows.

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
    places::Places,
    plan::{PlannedWindow, Shape, instant},
    remains::Remains,
    row_writer::RowWriter,
    sink::Sink,
    widen::Widening,
    windows::Windows,
};

/// The state of a running query. Its plan is given with each event: there may be a wider one with the next.
#[derive(Debug)]
pub(crate) struct RunState {
    completeness: Completeness,
    windows: Windows,
    rows: RowWriter,
    ledger: Ledger,
    /// The event that is taken in, in which a pause was made.
    taking: Option<Taking>,
}

/// How far the last event is taken in.
#[derive(Debug, Clone, Copy)]
struct Taking {
    /// When it was published.
    published_ms: i64,
    /// The time when it began.
    now_ms: i64,
    /// Its own time.
    time_ms: i64,
    /// It is left out, because that is too far ahead.
    is_ahead: bool,
    /// How many of its windows have it.
    windows: usize,
}

impl RunState {
    /// That of a query that has seen nothing.
    pub(crate) fn new(plan: &Plan, bounds: Bounds, beginning: Beginning) -> Self {
        let is_one_each = match plan.shape {
            Shape::Whole => true,
            Shape::Rows(_) => plan.window.is_none_or(|window| window.overlap == 1),
            Shape::Groups { .. } => false,
        };
        Self {
            completeness: Completeness::new(beginning, plan.has_windows()),
            windows: Windows::new(),
            rows: RowWriter::new(Places::new(is_one_each)),
            ledger: Ledger::new(bounds),
            taking: None,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.ledger.counts()
    }

    pub(crate) fn held(&self) -> Held {
        self.windows.held
    }

    /// Its memory, in bytes.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        let own = size_of::<Self>() - size_of::<Windows>() - size_of::<RowWriter>();
        own + self.windows.memory_bytes() + self.rows.memory_bytes()
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
        !self.windows.open.is_empty() || self.windows.left_out_ms.is_some()
    }

    /// The plan is a wider one ([`Windows::widen`]).
    pub(crate) fn widen(&mut self, widening: Option<&Widening>) {
        self.ledger.counts.changes += 1;
        self.windows.widen(widening, &mut self.completeness);
    }

    /// Events before the next one are lost ([`crate::Running::lose`]).
    pub(crate) fn lose(&mut self) {
        self.taking = None;
        self.completeness.lose_before_next();
        if let Some(newest_ms) = self.windows.newest_ms() {
            self.completeness.lose_window(newest_ms);
        }
    }

    /// The last event is lost, and so are the windows that are open ([`crate::Running::skip`]).
    pub(crate) fn skip(&mut self, plan: &Plan, sink: &mut impl Sink) {
        let (windows, mut exit) = self.exit(plan, sink);
        windows.skip(&mut exit);
        self.lose();
    }

    /// It is over: all its groups, to be dropped.
    pub(crate) fn into_remains(self) -> Remains {
        self.windows.into_remains()
    }

    /// All windows are over ([`crate::Running::close_all`]).
    pub(crate) fn close_all(&mut self, plan: &Plan, sink: &mut impl Sink) {
        let Some(window) = plan.window.filter(|_| plan.has_windows()) else { return };
        let newest_ms = self.windows.newest_ms().map(|newest_ms| newest_ms + window.size_ms);
        self.ledger.begin();
        let (windows, mut exit) = self.exit(plan, sink);
        windows.end(window, (newest_ms.unwrap_or(i64::MIN), true), &mut exit);
    }

    /// The source has paused at this offset, for longer than windows wait.
    pub(crate) fn pause(&mut self, plan: &Plan, offset: u64, sink: &mut impl Sink) {
        self.rows.offset = offset;
        self.close_all(plan, sink);
    }

    /// Goes on closing windows, and dropping those that are not emitted. Returns whether there are none left.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        plan: &Plan,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        let (windows, mut exit) = self.exit(plan, sink);
        windows.finish(&mut exit, pace)
    }

    /// Takes an event in, or goes on with it ([`crate::Running::take_in_part`]). No windows are left to close.
    #[inline]
    pub(crate) fn take_in_part(
        &mut self,
        plan: &Plan,
        event: Event<'_>,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        self.ledger.add_steps((event.text.len() / COPIED_BYTES_PER_STEP) as u64);
        let before = self.taking.take().filter(|_| self.rows.offset == event.offset);
        let taking = match before {
            Some(taking) => taking,
            None => match self.begin_event(plan, &event, sink)? {
                Some(taking) => taking,
                None => {
                    self.goes_on(pace);
                    return Ok(true);
                }
            },
        };
        let Taking { published_ms, now_ms, .. } = taking;
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
                self.in_each_window(window, taking, pace, |state, window| {
                    state.rows.make(items, &event.row(window, state.ledger.begin_row()));
                    state.rows.emit(&mut state.ledger, sink)
                })?
            }
            (Shape::Groups { .. }, Some(window)) => {
                let is_taken = self.in_each_window(window, taking, pace, |state, window| {
                    let Self { windows, ledger, completeness, .. } = state;
                    windows.take(plan, &event, window, ledger, completeness)
                })?;
                if is_taken {
                    self.advance(plan, window, taking, sink);
                }
                is_taken
            }
            (Shape::Groups { .. }, None) => true,
        };
        // Whatever the answer is, the event is taken; but before windows are closed, and before the next event, it counts.
        if self.goes_on(pace) && is_taken {
            self.finish(plan, sink, pace)?;
        }
        Ok(is_taken)
    }

    /// Does something for each window of an event, from where it has paused on. Returns whether that is done for all of them.
    #[inline]
    fn in_each_window(
        &mut self,
        window: PlannedWindow,
        taking: Taking,
        pace: &mut impl Pace,
        mut work: impl FnMut(&mut Self, (i64, i64)) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        for (index, start_ms) in window.starts(taking.time_ms).enumerate().skip(taking.windows) {
            if index > taking.windows && !self.goes_on(pace) {
                self.taking = Some(Taking { windows: index, ..taking });
                return Ok(false);
            }
            work(self, (start_ms, start_ms + window.size_ms))?;
        }
        Ok(true)
    }

    /// An event is in its windows: time may have come further.
    #[inline]
    fn advance(
        &mut self,
        plan: &Plan,
        window: PlannedWindow,
        taking: Taking,
        sink: &mut impl Sink,
    ) {
        let time_ms = (!taking.is_ahead).then_some(taking.time_ms);
        let until = self.windows.advance(window, time_ms, taking.published_ms);
        let (windows, mut exit) = self.exit(plan, sink);
        windows.end(window, until, &mut exit);
    }

    /// Begins with an event. `None`: it makes nothing.
    #[inline]
    fn begin_event(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<Taking>, Failure> {
        self.rows.offset = event.offset;
        self.ledger.counts.events += 1;
        self.ledger.counts.unreadable += event.unreadable;
        self.ledger.begin();
        let Event { published_ms, now_ms, .. } = *event;
        let taking = Taking { published_ms, now_ms, time_ms: 0, is_ahead: false, windows: 0 };
        let Some(window) = plan.window.filter(|_| plan.has_windows()) else {
            return self.begin_rows(plan, event, taking, sink);
        };
        let Some(time_ms) = self.time_of(plan, event)? else { return Ok(None) };
        let taking = Taking { time_ms, ..taking };
        if time_ms.saturating_sub(published_ms) > self.ledger.bounds.lead_ms {
            self.ledger.counts.ahead += 1;
            self.windows.leave_out(published_ms);
            return Ok(Some(Taking { is_ahead: true, windows: usize::MAX, ..taking }));
        }
        self.completeness.pass(time_ms, window);
        // Also an event that counts for nothing says how far time has come.
        let windows = if self.passes(plan, event)? { 0 } else { usize::MAX };
        Ok(Some(Taking { windows, ..taking }))
    }

    /// The same where each event makes rows of its own.
    #[inline]
    fn begin_rows(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        taking: Taking,
        sink: &mut impl Sink,
    ) -> Result<Option<Taking>, Failure> {
        if self.completeness.passes_loss() {
            self.rows.lose(sink);
        }
        if !self.passes(plan, event)? {
            return Ok(None);
        }
        if plan.window.is_none() {
            return Ok(Some(taking));
        }
        let time_ms = self.time_of(plan, event)?;
        Ok(time_ms.map(|time_ms| Taking { time_ms, ..taking }))
    }

    /// Whether an event passes the condition of a query.
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

    /// Asks whether it may go on.
    #[inline]
    fn goes_on(&mut self, pace: &mut impl Pace) -> bool {
        let bytes = self.memory_bytes();
        self.ledger.goes_on(pace, bytes)
    }

    /// Its windows, and their way out.
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
