//! A query that runs: events go in, rows come out.

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

/// So many cells, all NULL.
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
    /// A query that has seen nothing.
    pub fn new(plan: Arc<Plan>, bounds: Bounds, beginning: Beginning) -> Self {
        let refused = Refused::default();
        let reader = widen::reader(&plan, &refused);
        Self { reader, refused, state: RunState::new(&plan, bounds, beginning), plan }
    }

    /// What has happened.
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Groups of all open windows, and their memory in bytes.
    pub fn held(&self) -> (usize, usize) {
        let held = self.state.held();
        (held.groups, held.bytes)
    }

    /// Memory of all that it holds, in bytes, but for its plan.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<RunState>() + self.state.memory_bytes()
    }

    /// The offset of the first row that events from `offset` on may make, if all of them are in later blocks than those before.
    pub fn first_place(&self, offset: u64) -> u64 {
        self.state.first_place(offset)
    }

    /// Whether the offsets of rows are known: sooner or later, if it began at a block.
    pub fn is_numbered(&self) -> bool {
        self.state.is_numbered()
    }

    /// There were no more events when it was begun: what they have said of the time before them must do.
    pub fn settle(&mut self) {
        self.state.settle();
    }

    /// How many windows are open.
    pub fn open_windows(&self) -> usize {
        self.state.open_windows()
    }

    /// Whether [`Self::close_all`] has something to say.
    pub fn waits(&self) -> bool {
        self.state.waits()
    }

    /// The plan by which it runs. One over columns that were inferred may become another one with any event.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// It is over. Returns the groups that it holds, which take too long to be dropped at once.
    pub fn into_remains(self) -> Remains {
        self.state.into_remains()
    }

    /// Takes an event in, and closes windows, without a pause ([`Self::take_in_part`]).
    ///
    /// # Errors
    /// When it costs more than it may. The query is over then.
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

    /// Takes an event in: JSON that was checked. Offsets increase. `published_ms`: when it was published, in ms since 1970, by
    /// the same clock for whoever runs the query. `now_ms` is what `now()` is. Returns whether the event is taken; otherwise the
    /// same one is given again next, when work may go on, and both times are those with which it began. Windows that it closes
    /// may be left ([`Self::finish`]).
    ///
    /// # Errors
    /// When it costs more than it may. The query is over then.
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
        // Most queries read few columns: their cells are NULL without a call.
        let (mut few, mut many) = ([const { Cell::Null }; FEW_CELLS], Vec::new());
        let cells = cells_for(self.plan.wanted.len(), &mut few, &mut many);
        let mut unreadable = self.reader.read(event, cells);
        if !self.reader.fits() {
            unreadable = self.read_wider(event, &mut many, sink);
            let event =
                Event { offset, text: event, published_ms, now_ms, cells: &many, unreadable };
            return self.state.take_in_part(&self.plan, event, sink, pace);
        }
        let event = Event { offset, text: event, published_ms, now_ms, cells, unreadable };
        self.state.take_in_part(&self.plan, event, sink, pace)
    }

    /// Reads an event that does not fit the columns, over wider ones. Returns how many values could not be read.
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

    /// Goes on closing windows, and dropping those that are not emitted. Returns whether there are none left.
    ///
    /// # Errors
    /// When it costs more than it may. The query is over then.
    #[inline]
    pub fn finish(&mut self, sink: &mut impl Sink, pace: &mut impl Pace) -> Result<bool, Failure> {
        self.state.finish(&self.plan, sink, pace)
    }

    /// Widens the columns so that an event fits them, or refuses to. Returns whether anything has changed.
    #[cold]
    fn widen(&mut self, event: &[u8], sink: &mut impl Sink) -> bool {
        let refused = self.refused.count();
        let wider = widen::wider(&self.plan, event, &mut self.refused);
        let has_changed = wider.is_some() || self.refused.count() > refused;
        if let Some(wider) = wider {
            self.state.widen(Widening::of(&self.plan, &wider).as_ref());
            self.plan = Arc::new(wider);
            sink.widened(&self.plan);
        }
        self.reader = widen::reader(&self.plan, &self.refused);
        has_changed
    }

    /// Events are lost before the next one. Not for one that began at a block: it begins anew, for rows have other offsets
    /// where others have read those events. That is announced ([`Sink::lost`]): at once, or, where there are windows, for
    /// each that may have had some, which is not emitted. Windows that are over have to be closed before ([`Self::finish`]).
    pub fn lose(&mut self) {
        self.state.lose();
    }

    /// Goes on behind an event that cost too much, which is lost with all windows that are open ([`Self::lose`]).
    pub fn skip(&mut self, sink: &mut impl Sink) {
        self.state.skip(&self.plan, sink);
    }

    /// No more events have come for long: all windows are over, and what was left out is announced. What comes later for them is
    /// late. [`Self::finish`] closes them; those that were over before have to be closed before.
    pub fn close_all(&mut self, sink: &mut impl Sink) {
        self.state.close_all(&self.plan, sink);
    }

    /// The source has paused for so long, at this offset: windows are over, if that is as long as they wait.
    /// [`Self::finish`] closes them.
    pub fn pause(&mut self, offset: u64, pause_ms: u64, sink: &mut impl Sink) {
        let waits_ms = self.plan.timeout_ms().unwrap_or(self.plan.default_timeout_ms());
        if pause_ms >= waits_ms {
            self.state.pause(&self.plan, offset, sink);
        }
    }
}
