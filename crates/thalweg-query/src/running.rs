//! A running query: takes events, makes rows.

use std::sync::Arc;

use thalweg_columns::{Cell, CellReader};

use crate::{
    Plan,
    completeness::Beginning,
    counts::Counts,
    event::Event,
    limits::Bounds,
    meter::Failure,
    pace::{Pace, Unbroken},
    remains::Remains,
    run_state::RunState,
    sink::Sink,
    widen::{self, Refused, Widening},
};

/// A running query.
#[derive(Debug)]
pub struct Running {
    plan: Arc<Plan>,
    reader: CellReader,
    refused: Refused,
    state: RunState,
}

/// Cells of a row that need no allocation.
const FEW_CELLS: usize = 4;

/// Returns `count` cells, all NULL, from `few` if they fit.
#[inline]
fn cells_for<'c, 'e>(
    count: usize,
    few: &'c mut [Cell<'e>; FEW_CELLS],
    many: &'c mut Vec<Cell<'e>>,
) -> &'c mut [Cell<'e>] {
    if count <= FEW_CELLS {
        return &mut few[..count];
    }
    many.resize(count, Cell::Null);
    many
}

impl Running {
    /// Returns a query before its first event.
    pub fn new(plan: Arc<Plan>, bounds: Bounds, beginning: Beginning) -> Self {
        let refused = Refused::default();
        let reader = widen::reader(&plan, &refused);
        Self { reader, refused, state: RunState::new(&plan, bounds, beginning), plan }
    }

    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Returns the number of groups of all open windows, and their memory in bytes.
    pub fn held(&self) -> (usize, usize) {
        let held = self.state.held();
        (held.groups, held.bytes)
    }

    /// Returns the memory in bytes, without the plan.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<RunState>() + self.state.memory_bytes()
    }

    /// Returns the offset of the first row that events from `offset` on, in later blocks than earlier events, may make.
    pub fn first_place(&self, offset: u64) -> u64 {
        self.state.first_place(offset)
    }

    /// Returns whether the offsets of rows are known. A query that begins at a block learns them later.
    pub fn is_numbered(&self) -> bool {
        self.state.is_numbered()
    }

    /// Declares that no more events exist at the start: the events seen so far must show which time the topic had reached.
    pub fn settle(&mut self) {
        self.state.settle();
    }

    /// Returns the number of open windows.
    pub fn open_windows(&self) -> usize {
        self.state.open_windows()
    }

    /// Returns whether [`Self::close_all`] or [`Self::emit_changes`] has anything to do.
    pub fn waits(&self) -> bool {
        self.state.waits()
    }

    /// Returns the current plan. A plan over inferred columns may change with any event.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Ends the query. Returns its groups, to be dropped in steps.
    pub fn into_remains(self) -> Remains {
        self.state.into_remains()
    }

    /// Takes an event, and closes windows, without a pause ([`Self::take_in_part`]).
    ///
    /// # Errors
    /// When it exceeds the bounds of cost. The query has then ended.
    pub fn take(
        &mut self,
        offset: u64,
        event: &[u8],
        published_ms: i64,
        now_ms: i64,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        self.take_in_part(offset, event, (published_ms, now_ms), sink, &mut Unbroken)?;
        self.finish(sink, &mut Unbroken).map(drop)
    }

    /// Takes an event: validated JSON, with increasing offsets. `published_ms` is the time of publication in ms since
    /// 1970, equal in every run of the query; `now_ms` is the result of `now()`. Returns whether the event is complete.
    /// If not, the caller passes the same event again when work may continue; the two times of the first call apply. Some
    /// ended windows may not be closed yet ([`Self::finish`]).
    ///
    /// # Errors
    /// When it exceeds the bounds of cost. The query has then ended.
    pub fn take_in_part(
        &mut self,
        offset: u64,
        event: &[u8],
        (published_ms, now_ms): (i64, i64),
        sink: &mut impl Sink,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        if !self.finish(sink, pace)? {
            return Ok(false);
        }
        // Most queries read few columns, whose cells are NULL without a call.
        let (mut few, mut many) = ([const { Cell::Null }; FEW_CELLS], Vec::new());
        let cells = cells_for(self.plan.wanted.len(), &mut few, &mut many);
        let mut unreadable = self.reader.read(event, cells);
        let mut wider = Vec::new();
        let cells: &[Cell<'_>] = if self.reader.fits() {
            cells
        } else {
            unreadable = self.read_wider(event, &mut wider, sink);
            &wider
        };
        let event = Event { offset, text: event, published_ms, now_ms, cells, unreadable };
        self.state.take_in_part(&self.plan, event, sink, pace)
    }

    /// Reads an event that does not fit the columns, with wider ones. Returns the number of values not of their column's type.
    #[cold]
    fn read_wider<'e>(
        &mut self,
        event: &'e [u8],
        cells: &mut Vec<Cell<'e>>,
        sink: &mut impl Sink,
    ) -> u64 {
        loop {
            let has_changed = self.widen(event, sink);
            cells.clear();
            cells.resize(self.plan.wanted.len(), Cell::Null);
            let unreadable = self.reader.read(event, cells);
            if self.reader.fits() {
                return unreadable;
            }
            if !has_changed {
                return unreadable + 1;
            }
        }
    }

    /// Continues to close windows, and to drop those that are not emitted. Returns whether none is left.
    ///
    /// # Errors
    /// When it exceeds the bounds of cost. The query has then ended.
    #[inline]
    pub fn finish(&mut self, sink: &mut impl Sink, pace: &mut impl Pace) -> Result<bool, Failure> {
        self.state.finish(&self.plan, sink, pace)
    }

    /// Widens the columns for an event, or refuses to. Returns whether a column has changed.
    #[cold]
    fn widen(&mut self, event: &[u8], sink: &mut impl Sink) -> bool {
        let refused = self.refused.count();
        let wider = widen::wider(&self.plan, event, &mut self.refused);
        let has_changed = wider.is_some() || self.refused.count() > refused;
        if let Some(wider) = wider {
            self.state.widen(Widening::new(&self.plan, &wider).as_ref());
            self.plan = Arc::new(wider);
            sink.widened(&self.plan);
        }
        self.reader = widen::reader(&self.plan, &self.refused);
        has_changed
    }

    /// Records that events before the next one are lost. Do not call this for a query that began at a block: such a query must
    /// restart, because rows of other runs, which have read the events, have other offsets. The loss is announced
    /// ([`Sink::lost`]) at once or, with windows, for each window that may have had such events, which is not emitted. Groups without
    /// windows begin again ([`Self::take_restart`]).
    /// Close ended windows first ([`Self::finish`]).
    pub fn lose(&mut self) {
        self.state.lose();
    }

    /// Continues after an event that exceeded a bound of cost. The event and all open windows are lost ([`Self::lose`]). Groups
    /// without windows lose the event alone; they begin again if a row of theirs exceeded the bound.
    pub fn skip(&mut self, sink: &mut impl Sink) {
        self.state.skip(&self.plan, sink);
    }

    /// Ends all windows after a long time without events, and announces left-out events. Later events for these windows
    /// are late. [`Self::finish`] closes the windows; close earlier ones first.
    pub fn close_all(&mut self, sink: &mut impl Sink) {
        self.state.close_all(&self.plan, sink);
    }

    /// Emits the groups without windows that have changed, at a time in ms since 1970, which is the result of `now()`.
    /// [`Self::finish`] continues. `has_room`: whether groups without a row may get one; other rows change and are removed
    /// in any case.
    pub fn emit_changes(&mut self, now_ms: i64, has_room: bool) {
        self.state.emit_changes(now_ms, has_room);
    }

    /// Returns whether a group has had no room for its first row since the last call. It gets one with a later change.
    pub fn take_refused(&mut self) -> bool {
        self.state.take_refused()
    }

    /// Emits all groups without windows with the next changes, because the caller has lost their rows.
    pub fn emit_again(&mut self) {
        self.state.emit_again();
    }

    /// Returns whether a query without windows has begun again since the last call, because events of its groups are missing. The
    /// rows of before are wrong.
    pub fn take_restart(&mut self) -> bool {
        self.state.take_restart()
    }

    /// Ends windows after a pause of the source at this offset, if `pause_ms` is at least their timeout.
    /// [`Self::finish`] closes them.
    pub fn pause(&mut self, offset: u64, pause_ms: u64, sink: &mut impl Sink) {
        let waits_ms = self.plan.timeout_ms().unwrap_or(self.plan.default_timeout_ms());
        if pause_ms >= waits_ms {
            self.state.pause(&self.plan, offset, sink);
        }
    }
}
