//! The state of a running query: its open windows, what of an event is taken in, and what has happened.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use thalweg_columns::Cell;

use crate::{
    Plan,
    counts::Counts,
    expr::{Expr, Row},
    groups::{Full, Groups, Held, OrderedGroups, WINDOW_BYTES, write_key},
    json::write_row,
    limits::{
        ANNOUNCE_MS, BLOCK_OFFSETS, Bounds, COPIED_BYTES_PER_STEP, DROP_STEPS, GROUPS_MAX,
        ROW_BYTES_MAX, SETTLING_EVENTS,
    },
    meter::{Budget, Failure, Meter},
    pace::Pace,
    places::Places,
    plan::{PlannedWindow, Shape, instant},
    remains::Remains,
    sink::Sink,
    watermark::Watermark,
    widen::Widening,
};

/// Where in its topic a query begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// At its first event.
    First,
    /// At any event. Windows that began before it are left out. Offsets of rows are those of this run: another
    /// one that begins elsewhere gives others.
    Anywhere,
    /// At the first event of a block ([`crate::limits::BLOCK_OFFSETS`]). Rows have the offsets that they have in a run
    /// from the first event on. Windows that end in the same block as windows that began before it are left out for that reason.
    /// How far time has come the first [`SETTLING_EVENTS`] say together, so that one that is late does not mislead.
    Block,
}

/// The state of a running query. Its plan is given with each event: there may be a wider one with the next.
#[derive(Debug)]
pub(crate) struct RunState {
    bounds: Bounds,
    watermark: Watermark,
    /// Windows that end here or before are over.
    over_ms: i64,
    /// Open windows by their start.
    open: BTreeMap<i64, Groups>,
    held: Held,
    places: Places,
    /// The offset of the last event.
    offset: u64,
    /// Events before the next one are unknown, and why.
    cut: Option<Cut>,
    /// Windows that begin before these times are not complete: events are lost; the query began then.
    lost_until_ms: i64,
    partial_until_ms: i64,
    /// Whether it is known how many rows other windows have made in the same block.
    is_numbered: bool,
    /// Events that may still show how far those before the first one had come.
    settling: u32,
    /// The block in which the last window was over that is not complete.
    partial_block: Option<u64>,
    /// When the first event was published that was left out and is not announced, in ms since 1970.
    left_out_ms: Option<i64>,
    counts: Counts,
    /// The remaining budget of the current event and of the windows that it closes.
    budget: Budget,
    /// The event that is taken in, in which a pause was made.
    taking: Option<Taking>,
    /// Windows that are being closed, or dropped.
    closing: Option<Closing>,
    /// Steps since its pace was last asked. They are not counted yet.
    steps: u64,
    key: Vec<u8>,
    row: Vec<u8>,
}

/// An event that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'e> {
    pub(crate) offset: u64,
    /// The event as it is.
    pub(crate) text: &'e [u8],
    /// When it was published, in ms since 1970.
    pub(crate) published_ms: i64,
    /// The time, in ms since 1970.
    pub(crate) now_ms: i64,
    /// Its values, as far as the query reads them.
    pub(crate) cells: &'e [Cell<'e>],
    /// How many of them could not be read.
    pub(crate) unreadable: u64,
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

/// How far windows are closed, and those dropped that are not emitted.
#[derive(Debug)]
struct Closing {
    /// Those that end here at the latest.
    until_ms: i64,
    /// The one whose rows are being made: its start, and the groups that are left.
    window: Option<(i64, OrderedGroups)>,
    /// Groups of windows that are not emitted. They are dropped before all else.
    remains: Remains,
}

impl Closing {
    fn until(until_ms: i64) -> Self {
        Self { until_ms, window: None, remains: Remains::default() }
    }

    /// No window is over.
    fn nothing() -> Self {
        Self::until(i64::MIN)
    }
}

/// Memory that the last row and key keep for the next ones, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// Why events before one are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Begun,
    Lost,
}

impl RunState {
    /// That of a query that has seen nothing.
    pub(crate) fn new(plan: &Plan, bounds: Bounds, beginning: Beginning) -> Self {
        let bounds = Bounds { groups: bounds.groups.min(GROUPS_MAX), ..bounds };
        let is_one_each = match plan.shape {
            Shape::Whole => true,
            Shape::Rows(_) => plan.window.is_none_or(|window| window.overlap == 1),
            Shape::Groups { .. } => false,
        };
        Self {
            places: Places::new(is_one_each),
            bounds,
            watermark: Watermark::default(),
            over_ms: i64::MIN,
            open: BTreeMap::new(),
            held: Held::default(),
            offset: 0,
            cut: (beginning != Beginning::First).then_some(Cut::Begun),
            lost_until_ms: i64::MIN,
            partial_until_ms: i64::MIN,
            is_numbered: beginning != Beginning::Block || !plan.has_windows(),
            settling: if beginning == Beginning::Block { SETTLING_EVENTS } else { 0 },
            partial_block: None,
            left_out_ms: None,
            counts: Counts::default(),
            budget: Budget::new(&bounds),
            taking: None,
            closing: None,
            steps: 0,
            key: Vec::new(),
            row: Vec::new(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { steps: self.counts.steps + self.steps, ..self.counts }
    }

    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// Its memory, in bytes.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        let buffers = self.key.capacity() + self.row.capacity();
        size_of::<Self>() + self.held.bytes + self.open.len() * WINDOW_BYTES + buffers
    }

    pub(crate) fn first_place(&self, offset: u64) -> u64 {
        self.places.first_after(offset)
    }

    pub(crate) fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    pub(crate) fn settle(&mut self) {
        self.settling = 0;
    }

    pub(crate) fn open_windows(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn waits(&self) -> bool {
        !self.open.is_empty() || self.left_out_ms.is_some()
    }

    /// The plan is a wider one. Groups of open windows follow it if they can; otherwise these windows are lost, and the query
    /// goes on with the next ones.
    pub(crate) fn widen(&mut self, widening: Option<&Widening>) {
        self.counts.changes += 1;
        let is_kept = widening.is_some_and(|widening| {
            let change =
                |groups: &mut Groups| groups.change(|keys, values| widening.group(keys, values));
            self.open.values_mut().all(|groups| change(groups).is_some())
        });
        if !is_kept && let Some((newest, _)) = self.open.last_key_value() {
            self.lost_until_ms = self.lost_until_ms.max(newest + 1);
            let remains = &mut self.closing.get_or_insert_with(Closing::nothing).remains;
            for groups in self.open.values_mut() {
                std::mem::take(groups).release(&mut self.held, remains);
            }
        }
    }

    /// Events before the next one are lost ([`crate::Running::lose`]).
    pub(crate) fn lose(&mut self) {
        self.taking = None;
        self.cut = Some(Cut::Lost);
        if let Some((newest, _)) = self.open.last_key_value() {
            self.lost_until_ms = self.lost_until_ms.max(newest + 1);
        }
    }

    /// The last event is lost, and so are the windows that are open ([`crate::Running::skip`]).
    pub(crate) fn skip(&mut self, sink: &mut impl Sink) {
        if let Some(Closing { window, mut remains, .. }) = self.closing.take() {
            if let Some((_, groups)) = window {
                groups.release(&mut self.held, &mut remains);
                self.counts.windows_lost += 1;
                sink.lost(self.places.next(self.offset));
            }
            self.closing = Some(Closing { remains, ..Closing::nothing() });
        }
        self.lose();
    }

    /// It is over: all its groups, to be dropped.
    pub(crate) fn into_remains(self) -> Remains {
        let Closing { window, mut remains, .. } = self.closing.unwrap_or_else(Closing::nothing);
        window.into_iter().for_each(|(_, groups)| groups.leave(&mut remains));
        self.open.into_values().for_each(|groups| groups.leave(&mut remains));
        remains
    }

    /// All windows are over ([`crate::Running::close_all`]).
    pub(crate) fn close_all(&mut self, plan: &Plan, sink: &mut impl Sink) {
        let Some(window) = plan.window.filter(|_| plan.has_windows()) else { return };
        let newest = self.open.last_key_value().map(|(newest, _)| newest + window.size_ms);
        self.budget = Budget::new(&self.bounds);
        self.begin_closing(window, newest.unwrap_or(i64::MIN), true, sink);
    }

    /// The source has paused at this offset, for longer than windows wait.
    pub(crate) fn pause(&mut self, plan: &Plan, offset: u64, sink: &mut impl Sink) {
        self.offset = offset;
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
        if self.closing.is_some() { self.close(plan, sink, pace) } else { Ok(true) }
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
        self.steps += (event.text.len() / COPIED_BYTES_PER_STEP) as u64;
        let before = self.taking.take().filter(|_| self.offset == event.offset);
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
        let event = Event { now_ms: taking.now_ms, ..event };
        let is_taken = match (&plan.shape, plan.window) {
            (Shape::Groups { .. }, Some(window)) => {
                let is_taken = self.group_all(plan, window, taking, &event, pace)?;
                if is_taken {
                    self.advance(window, taking, sink);
                }
                is_taken
            }
            (Shape::Groups { .. }, None) => true,
            (Shape::Whole, _) => {
                self.row.clear();
                self.row.extend_from_slice(event.text);
                let meter = self.budget.meter(&self.bounds);
                self.emit(true, &meter, sink)?;
                true
            }
            (Shape::Rows(items), None) => {
                let meter = self.budget.meter(&self.bounds);
                self.emit_row(items, &event.row(&meter), sink)?;
                true
            }
            (Shape::Rows(items), Some(window)) => {
                self.emit_all(items, window, taking, &event, sink, pace)?
            }
        };
        // Whatever the answer is, the event is taken; but before windows are closed, and before the next event, it counts.
        if self.goes_on(pace) && is_taken {
            self.finish(plan, sink, pace)?;
        }
        Ok(is_taken)
    }

    /// An event is in its windows: time may have come further.
    #[inline]
    fn advance(&mut self, window: PlannedWindow, taking: Taking, sink: &mut impl Sink) {
        // As time alone says, and not the windows that this run has: so all who run it announce it at the same place.
        let before_ms = self.watermark.ms(window.delay_ms);
        if !taking.is_ahead {
            self.watermark.advance(taking.time_ms);
        }
        let until_ms = self.watermark.ms(window.delay_ms);
        let announces = self.left_out_ms.is_some_and(|left_out_ms| {
            taking.published_ms.saturating_sub(left_out_ms) >= ANNOUNCE_MS
                || before_ms.div_euclid(window.step_ms) < until_ms.div_euclid(window.step_ms)
        });
        self.begin_closing(window, until_ms, announces, sink);
    }

    /// Begins with an event. `None`: it makes nothing.
    #[inline]
    fn begin_event(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<Taking>, Failure> {
        self.offset = event.offset;
        self.counts.events += 1;
        self.counts.unreadable += event.unreadable;
        self.budget = Budget::new(&self.bounds);
        let Event { published_ms, now_ms, .. } = *event;
        let taking = Taking { published_ms, now_ms, time_ms: 0, is_ahead: false, windows: 0 };
        let Some(window) = plan.window.filter(|_| plan.has_windows()) else {
            return self.begin_rows(plan, event, taking, sink);
        };
        let Some(time_ms) = self.time_of(plan, event)? else { return Ok(None) };
        let taking = Taking { time_ms, ..taking };
        if time_ms.saturating_sub(published_ms) > self.bounds.lead_ms {
            self.counts.ahead += 1;
            self.left_out_ms.get_or_insert(published_ms);
            return Ok(Some(Taking { is_ahead: true, windows: usize::MAX, ..taking }));
        }
        self.begin_after_cut(time_ms, window);
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
        if self.cut.take() == Some(Cut::Lost) {
            sink.lost(self.places.next(event.offset));
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
    #[inline]
    fn passes(&mut self, plan: &Plan, event: &Event<'_>) -> Result<bool, Failure> {
        let Some(filter) = &plan.filter else { return Ok(true) };
        let meter = self.budget.meter(&self.bounds);
        let passes = filter.is_true(&event.row(&meter)) == Some(true);
        self.charge(&meter)?;
        Ok(passes)
    }

    /// Counts what a row took.
    #[inline]
    fn charge(&mut self, meter: &Meter) -> Result<(), Failure> {
        self.counts.oversized += meter.oversized();
        self.counts.without_result += meter.without_result();
        self.steps += meter.steps();
        self.budget.settle(meter, &self.bounds)
    }

    /// Asks whether it may go on.
    #[inline]
    fn goes_on(&mut self, pace: &mut impl Pace) -> bool {
        let steps = std::mem::take(&mut self.steps);
        self.counts.steps += steps;
        pace.goes_on(steps, self.memory_bytes())
    }

    #[inline]
    fn time_of(&mut self, plan: &Plan, event: &Event<'_>) -> Result<Option<i64>, Failure> {
        let time_ms = match &plan.time {
            // A column takes no steps.
            Some(Expr::Cell(column)) => event.cells.get(*column).and_then(instant),
            _ => {
                let meter = self.budget.meter(&self.bounds);
                let time_ms = plan.time_of(&event.row(&meter));
                self.charge(&meter)?;
                time_ms
            }
        };
        self.counts.without_time += u64::from(time_ms.is_none());
        Ok(time_ms)
    }

    /// The first event behind unknown ones: an unknown one may be later by as much as events may be late, so windows
    /// that begin before that are not complete. It may itself be later than that: with others it is known better.
    fn begin_after_cut(&mut self, time_ms: i64, window: PlannedWindow) {
        let is_settling = self.settling > 0;
        self.settling = self.settling.saturating_sub(1);
        let cut = self.cut.take().or(is_settling.then_some(Cut::Begun));
        let Some(cut) = cut else { return };
        let until_ms = match cut {
            Cut::Begun => &mut self.partial_until_ms,
            Cut::Lost => &mut self.lost_until_ms,
        };
        *until_ms = (*until_ms).max(time_ms + window.delay_ms + 1);
    }

    /// Takes an event into its windows. Returns whether it is in all of them.
    #[inline]
    fn group_all(
        &mut self,
        plan: &Plan,
        window: PlannedWindow,
        taking: Taking,
        event: &Event<'_>,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        for (index, start_ms) in window.starts(taking.time_ms).enumerate().skip(taking.windows) {
            if index > taking.windows && !self.goes_on(pace) {
                self.taking = Some(Taking { windows: index, ..taking });
                return Ok(false);
            }
            let end_ms = start_ms + window.size_ms;
            if end_ms <= self.over_ms {
                self.counts.late += 1;
                continue;
            }
            let meter = self.budget.meter(&self.bounds);
            let row = Row { window: (start_ms, end_ms), ..event.row(&meter) };
            self.group(plan, taking.published_ms, &row);
            if self.key.capacity() > KEPT_BYTES {
                self.key = Vec::new();
            }
            self.charge(&meter)?;
        }
        Ok(true)
    }

    /// Takes an event into one window, which is lost if it would be more than there may be.
    #[inline]
    fn group(&mut self, plan: &Plan, published_ms: i64, row: &Row<'_>) {
        let Shape::Groups { keys, aggregates, .. } = &plan.shape else { return };
        let (start_ms, windows, bounds) = (row.window.0, self.open.len(), &self.bounds);
        let groups = match self.open.get_mut(&start_ms) {
            Some(groups) => groups,
            None if windows < bounds.windows => self.open.entry(start_ms).or_default(),
            None => {
                self.counts.full_windows += 1;
                self.left_out_ms.get_or_insert(published_ms);
                // It may get room later, and lacks this event.
                self.lost_until_ms = self.lost_until_ms.max(start_ms + 1);
                return;
            }
        };
        if groups.is_lost() {
            return;
        }
        let values: SmallVec<[Cell<'_>; 4]> = keys.iter().map(|key| key.eval(row)).collect();
        self.key.clear();
        for value in &values {
            let before = self.key.len();
            write_key(value, &mut self.key);
            // Before the next one is added: there may be hundreds.
            if !row.meter.scan(self.key.len() - before) {
                return;
            }
        }
        let most = Held { groups: bounds.groups, bytes: bounds.state_bytes };
        let held = &mut self.held;
        if let Err(full) = groups.take(&self.key, &values, row, aggregates, held, most) {
            let closing = self.closing.get_or_insert_with(Closing::nothing);
            groups.lose(held, &mut closing.remains);
            match full {
                Full::Groups => self.counts.full_groups += 1,
                Full::State => self.counts.full_state += 1,
            }
        }
    }

    /// Windows that end at `until_ms` at the latest are over. Before they are closed what was left out is announced, if it
    /// `announces`.
    fn begin_closing(
        &mut self,
        window: PlannedWindow,
        until_ms: i64,
        announces: bool,
        sink: &mut impl Sink,
    ) {
        self.over_ms = self.over_ms.max(until_ms);
        let block = self.offset / BLOCK_OFFSETS;
        if !self.is_numbered
            && self.settling == 0
            && window.last_end_before(self.partial_until_ms) <= self.over_ms
        {
            self.is_numbered = *self.partial_block.get_or_insert(block) != block;
            if self.is_numbered {
                sink.begins(self.places.first_of(block));
            }
        }
        if announces {
            self.announce_left_out(sink);
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

    /// Says that events were left out, if there are some of which that was not said.
    fn announce_left_out(&mut self, sink: &mut impl Sink) {
        if self.left_out_ms.take().is_some() && self.is_numbered {
            sink.lost(self.places.next(self.offset));
        }
    }

    /// Closes the windows that are over, in their order. Returns whether all of them are.
    fn close(
        &mut self,
        plan: &Plan,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        let (Shape::Groups { items, having, .. }, Some(window)) = (&plan.shape, plan.window) else {
            return Ok(true);
        };
        while let Some(mut closing) = self.closing.take() {
            if !closing.remains.is_empty() {
                let is_done = self.drop_remains(&mut closing.remains, pace);
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
                Some((start_ms, Some((cells, without_result)))) => {
                    self.closing = Some(closing);
                    self.counts.without_result += without_result;
                    let window = (start_ms, start_ms + window.size_ms);
                    self.emit_group(items, having.as_ref(), &cells, window, sink)?;
                }
                Some((_, None)) => self.closing = Some(Closing { window: None, ..closing }),
                None => {
                    let first = self.open.first_entry();
                    let first = first.filter(|it| *it.key() + window.size_ms <= closing.until_ms);
                    let Some(first) = first else { break };
                    let (start_ms, groups) = first.remove_entry();
                    self.begin_window(start_ms, groups, &mut closing, sink);
                    self.closing = Some(closing);
                }
            }
            if !self.goes_on(pace) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Drops groups of windows that are not emitted. Returns whether it may go on.
    fn drop_remains(&self, remains: &mut Remains, pace: &mut impl Pace) -> bool {
        let (bytes, mut goes_on) = (self.memory_bytes(), true);
        remains.drop_while(|groups| {
            goes_on = pace.goes_on(groups as u64 * DROP_STEPS, bytes);
            goes_on
        });
        goes_on
    }

    /// Begins to close a window: its rows are to be made, or it is to be dropped.
    fn begin_window(
        &mut self,
        start_ms: i64,
        groups: Groups,
        closing: &mut Closing,
        sink: &mut impl Sink,
    ) {
        self.steps += groups.len() as u64;
        if start_ms < self.partial_until_ms || !self.is_numbered {
            self.counts.windows_partial += 1;
            return groups.release(&mut self.held, &mut closing.remains);
        }
        if groups.is_lost() || start_ms < self.lost_until_ms {
            self.counts.windows_lost += 1;
            sink.lost(self.places.next(self.offset));
            return groups.release(&mut self.held, &mut closing.remains);
        }
        self.counts.windows += 1;
        self.budget.add_groups(groups.len());
        closing.window = Some((start_ms, groups.into_ordered()));
    }

    fn emit_group(
        &mut self,
        items: &[Expr],
        having: Option<&Expr>,
        cells: &[Cell<'_>],
        window: (i64, i64),
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        let meter = self.budget.meter(&self.bounds);
        // The time of a window's rows must not depend on when it was closed.
        let row = Row { cells, window, now_ms: window.1, meter: &meter };
        if having.is_none_or(|having| having.is_true(&row) == Some(true)) {
            return self.emit_row(items, &row, sink);
        }
        self.charge(&meter)
    }

    /// Makes the rows of an event in its windows. Returns whether all of them are made.
    fn emit_all(
        &mut self,
        items: &[Expr],
        window: PlannedWindow,
        taking: Taking,
        event: &Event<'_>,
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        for (index, start_ms) in window.starts(taking.time_ms).enumerate().skip(taking.windows) {
            if index > taking.windows && !self.goes_on(pace) {
                self.taking = Some(Taking { windows: index, ..taking });
                return Ok(false);
            }
            let meter = self.budget.meter(&self.bounds);
            let window = (start_ms, start_ms + window.size_ms);
            self.emit_row(items, &Row { window, ..event.row(&meter) }, sink)?;
        }
        Ok(true)
    }

    #[inline]
    fn emit_row(
        &mut self,
        items: &[Expr],
        row: &Row<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.row.clear();
        let values = items.iter().map(|item| item.eval_whole(row));
        let fits = write_row(values, ROW_BYTES_MAX, &mut self.row);
        self.emit(fits, row.meter, sink)
    }

    /// The row is made: it is lost if it does not fit.
    #[inline]
    fn emit(&mut self, fits: bool, meter: &Meter, sink: &mut impl Sink) -> Result<(), Failure> {
        let is_written = meter.write(self.row.len());
        self.charge(meter)?;
        if !fits || !is_written {
            self.counts.large_rows += 1;
            sink.lost(self.places.next(self.offset));
        } else {
            self.budget.emit(self.row.len(), &self.bounds)?;
            self.counts.rows += 1;
            sink.row(self.places.next(self.offset), &self.row);
        }
        if self.row.capacity() > KEPT_BYTES {
            self.row = Vec::new();
        }
        Ok(())
    }
}

impl<'e> Event<'e> {
    /// The event as a row, in no window.
    #[inline]
    fn row<'r>(&self, meter: &'r Meter) -> Row<'r>
    where
        'e: 'r,
    {
        Row { cells: self.cells, window: (0, 0), now_ms: self.now_ms, meter }
    }
}

impl PlannedWindow {
    /// Where the last window ends that begins before an instant.
    fn last_end_before(self, ms: i64) -> i64 {
        let last = ms.saturating_sub(1);
        last.saturating_sub(last.rem_euclid(self.step_ms)).saturating_add(self.size_ms)
    }

    /// Where the windows begin that an instant is in, in order.
    fn starts(self, time_ms: i64) -> impl Iterator<Item = i64> {
        let last = time_ms - time_ms.rem_euclid(self.step_ms);
        (0..self.overlap).rev().map(move |before| last - before * self.step_ms)
    }
}
