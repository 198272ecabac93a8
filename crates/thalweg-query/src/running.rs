//! A query that runs: events go in, rows come out.

use std::{collections::BTreeMap, sync::Arc};

use smallvec::SmallVec;
use thalweg_columns::{Cell, CellReader};

use crate::{
    Plan,
    expr::{Expr, Row},
    groups::{Groups, Held, write_key},
    json::write_row,
    limits::{BLOCK_OFFSETS, Bounds, GROUPS_MAX, SETTLING_EVENTS, VALUE_BYTES_MAX},
    places::Places,
    plan::{PlannedWindow, Shape},
    watermark::Watermark,
    widen::{self, Refused, Widening},
};

/// Takes what a query makes. Offsets increase.
pub trait Sink {
    /// All rows from this offset on are made; of those before it some are not, because the query began too late for
    /// them ([`Beginning::Block`]). Comes once at most, before any row.
    fn begins(&mut self, offset: u64);

    /// A row, as JSON.
    fn row(&mut self, offset: u64, row: &[u8]);

    /// A window is not emitted, because events that were in it are lost. It has this offset all the same.
    fn lost(&mut self, offset: u64);

    /// Columns that were inferred are wider now: rows from here on are those of this plan.
    fn widened(&mut self, _plan: &Plan) {}
}

/// Where in its topic a query begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// At its first event.
    First,
    /// At any event. Windows that began before it are left out. Offsets of rows are those of this run: another
    /// one that begins elsewhere gives others.
    Anywhere,
    /// At the first event of a block ([`crate::limits::BLOCK_OFFSETS`]). Rows have the offsets that they have in a run
    /// from the first event on. So also windows are left out that are over in the same block as those that began before.
    /// How far time has come the first [`SETTLING_EVENTS`] say together, so that one that is late does not mislead.
    Block,
}

/// What happened to events and windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were taken in.
    pub events: u64,
    /// Values that could not be read as their columns' types. They are NULL.
    pub unreadable: u64,
    /// Events without a time, which are in no window.
    pub without_time: u64,
    /// Events whose windows were over, each once for each such window.
    pub late: u64,
    /// Events too far ahead of all before them ([`Bounds::lead_ms`]).
    pub ahead: u64,
    /// Events whose group, window or texts would have been more than there may be; and rows that are too large.
    pub refused: u64,
    /// Windows that were emitted.
    pub windows: u64,
    /// Windows that were not, because events that were in them are lost.
    pub windows_lost: u64,
    /// Windows that were not, because the query began in the middle of them.
    pub windows_partial: u64,
    /// Rows.
    pub rows: u64,
    /// How often columns that were inferred became wider, because an event did not fit them.
    pub changes: u64,
}

/// A running query.
#[derive(Debug)]
pub struct Running {
    plan: Arc<Plan>,
    bounds: Bounds,
    reader: CellReader,
    refused: Refused,
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
    counts: Counts,
    key: Vec<u8>,
    row: Vec<u8>,
}

/// Why events before one are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Begun,
    Lost,
}

impl Running {
    /// A query that has seen nothing.
    pub fn new(plan: Arc<Plan>, bounds: Bounds, beginning: Beginning) -> Self {
        let bounds = Bounds { groups: bounds.groups.min(GROUPS_MAX), ..bounds };
        let is_one_each = match plan.shape {
            Shape::Whole => true,
            Shape::Rows(_) => plan.window.is_none_or(|window| window.size_ms == window.step_ms),
            Shape::Groups { .. } => false,
        };
        Self {
            reader: widen::reader(&plan, &Refused::default()),
            refused: Refused::default(),
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
            counts: Counts::default(),
            key: Vec::new(),
            row: Vec::new(),
            plan,
        }
    }

    /// What has happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Groups of all open windows, and their memory in bytes.
    pub fn held(&self) -> (usize, usize) {
        (self.held.groups, self.held.bytes)
    }

    /// The offset of the first row that events from `offset` on may make, if all of them are in later blocks than those before.
    pub fn first_place(&self, offset: u64) -> u64 {
        self.places.first_after(offset)
    }

    /// Whether the offsets of rows are known: sooner or later, if it began at a block.
    pub fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// There were no more events when it was begun: what they have said of the time before them must do.
    pub fn settle(&mut self) {
        self.settling = 0;
    }

    /// How many windows are open.
    pub fn open_windows(&self) -> usize {
        self.open.len()
    }

    /// Takes an event in: JSON that was checked. Offsets increase. `now_ms` is what `now()` is.
    pub fn take(&mut self, offset: u64, event: &[u8], now_ms: i64, sink: &mut impl Sink) {
        self.offset = offset;
        self.counts.events += 1;
        let mut plan = Arc::clone(&self.plan);
        let mut cells: SmallVec<[Cell<'_>; 8]> = SmallVec::new();
        cells.resize(plan.wanted.len(), Cell::Null);
        let mut unreadable = self.reader.read(event, &mut cells);
        while !self.reader.fits() {
            if !self.widen(event, sink) {
                unreadable += 1;
                break;
            }
            plan = Arc::clone(&self.plan);
            cells.clear();
            cells.resize(plan.wanted.len(), Cell::Null);
            unreadable = self.reader.read(event, &mut cells);
        }
        self.counts.unreadable += unreadable;
        let row = Row { cells: &cells, window: (0, 0), now_ms };
        if !plan.has_windows() && self.cut.take() == Some(Cut::Lost) {
            sink.lost(self.places.next(offset));
        }
        let passes = || plan.filter.as_ref().is_none_or(|filter| filter.is_true(row) == Some(true));
        match (&plan.shape, plan.window) {
            (Shape::Groups { .. }, Some(window)) => {
                let Some(time_ms) = self.time_of(&plan, row) else { return };
                if !self.watermark.admits(time_ms, self.bounds.lead_ms) {
                    self.counts.ahead += 1;
                    return;
                }
                self.begin_after_cut(time_ms, window);
                if passes() {
                    self.group(&plan, window, time_ms, row);
                }
                self.watermark.advance(time_ms);
                self.close(self.watermark.ms(window.delay_ms), sink);
            }
            (Shape::Whole, _) => {
                if passes() {
                    self.emit(sink, |out| {
                        out.extend_from_slice(event);
                        true
                    });
                }
            }
            (Shape::Rows(items), window) => {
                if !passes() {
                    return;
                }
                let Some(window) = window else { return self.emit_row(items, row, sink) };
                let Some(time_ms) = self.time_of(&plan, row) else { return };
                for start_ms in window.starts(time_ms) {
                    let of_window = Row { window: (start_ms, start_ms + window.size_ms), ..row };
                    self.emit_row(items, of_window, sink);
                }
            }
            (Shape::Groups { .. }, None) => {}
        }
    }

    /// The plan by which it runs. One over columns that were inferred may become another one with any event.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Widens the columns so that an event fits them, or refuses to. Returns whether anything has changed.
    #[cold]
    fn widen(&mut self, event: &[u8], sink: &mut impl Sink) -> bool {
        let refused = self.refused.count();
        let wider = widen::wider(&self.plan, event, &mut self.refused);
        let has_changed = wider.is_some() || self.refused.count() > refused;
        if let Some(wider) = wider {
            self.counts.changes += 1;
            let widening = Widening::of(&self.plan, &wider);
            let is_kept = widening.is_some_and(|widening| {
                let change = |groups: &mut Groups| {
                    groups.change(|keys, values| widening.group(keys, values))
                };
                self.open.values_mut().all(|groups| change(groups).is_some())
            });
            if !is_kept {
                self.lose_groups();
            }
            self.plan = Arc::new(wider);
            sink.widened(&self.plan);
        }
        self.reader = widen::reader(&self.plan, &self.refused);
        has_changed
    }

    /// The groups of open windows are of no use any more: these windows are lost, and the query goes on with the next ones.
    fn lose_groups(&mut self) {
        let Some((newest, _)) = self.open.last_key_value() else { return };
        self.lost_until_ms = self.lost_until_ms.max(newest + 1);
        self.open.values_mut().for_each(|groups| *groups = Groups::default());
        self.held = Held::default();
    }

    /// Events are lost before the next one. Not for one that began at a block: it begins anew, for rows have other offsets
    /// where others have read those events. That is announced ([`Sink::lost`]): at once, or, where there are windows, for
    /// each that may have had some, which is not emitted.
    pub fn lose(&mut self) {
        self.cut = Some(Cut::Lost);
        if let Some((newest, _)) = self.open.last_key_value() {
            self.lost_until_ms = self.lost_until_ms.max(newest + 1);
        }
    }

    /// No more events have come for long: closes all windows. What comes later for them is late.
    pub fn close_all(&mut self, sink: &mut impl Sink) {
        let Some(window) = self.plan.window else { return };
        if let Some((newest, _)) = self.open.last_key_value() {
            self.close(newest + window.size_ms, sink);
        }
    }

    /// The source has paused for so long, at this offset: windows are closed, if that is as long as they wait.
    pub fn pause(&mut self, offset: u64, pause_ms: u64, sink: &mut impl Sink) {
        let waits_ms = self.plan.timeout_ms().unwrap_or(self.plan.default_timeout_ms());
        if pause_ms >= waits_ms {
            self.offset = offset;
            self.close_all(sink);
        }
    }

    fn time_of(&mut self, plan: &Plan, row: Row<'_>) -> Option<i64> {
        let time_ms = plan.time_of(row);
        self.counts.without_time += u64::from(time_ms.is_none());
        time_ms
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

    fn group(&mut self, plan: &Plan, window: PlannedWindow, time_ms: i64, row: Row<'_>) {
        let Shape::Groups { keys, aggregates, .. } = &plan.shape else { return };
        for start_ms in window.starts(time_ms) {
            let end_ms = start_ms + window.size_ms;
            if end_ms <= self.over_ms {
                self.counts.late += 1;
                continue;
            }
            let windows = self.open.len();
            let row = Row { window: (start_ms, end_ms), ..row };
            let bounds = self.bounds;
            let groups = match self.open.get_mut(&start_ms) {
                Some(groups) => groups,
                None if windows < bounds.windows => self.open.entry(start_ms).or_default(),
                None => {
                    self.counts.refused += 1;
                    continue;
                }
            };
            let values: SmallVec<[Cell<'_>; 4]> = keys.iter().map(|key| key.eval(row)).collect();
            self.key.clear();
            values.iter().for_each(|value| write_key(value, &mut self.key));
            let most = Held { groups: bounds.groups, bytes: bounds.state_bytes };
            let held = &mut self.held;
            let is_taken = groups.take(&self.key, &values, row, aggregates, held, most);
            self.counts.refused += u64::from(!is_taken);
        }
    }

    /// Closes the windows that end at `until_ms` at the latest, in their order.
    fn close(&mut self, until_ms: i64, sink: &mut impl Sink) {
        let plan = Arc::clone(&self.plan);
        let (Shape::Groups { items, having, .. }, Some(window)) = (&plan.shape, plan.window) else {
            return;
        };
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
        while let Some(first) = self.open.first_entry()
            && *first.key() + window.size_ms <= until_ms
        {
            let (start_ms, groups) = first.remove_entry();
            let groups = groups.finish(&mut self.held);
            if start_ms < self.lost_until_ms {
                self.counts.windows_lost += 1;
                sink.lost(self.places.next(self.offset));
                continue;
            }
            if start_ms < self.partial_until_ms || !self.is_numbered {
                self.counts.windows_partial += 1;
                continue;
            }
            self.counts.windows += 1;
            for cells in groups {
                let window = (start_ms, start_ms + window.size_ms);
                // The time of a window's rows must not depend on when it was closed.
                let row = Row { cells: &cells, window, now_ms: window.1 };
                if having.as_ref().is_none_or(|having| having.is_true(row) == Some(true)) {
                    self.emit_row(items, row, sink);
                }
            }
        }
    }

    fn emit_row(&mut self, items: &[Expr], row: Row<'_>, sink: &mut impl Sink) {
        self.emit(sink, |out| {
            write_row(items.iter().map(|item| item.eval(row)), VALUE_BYTES_MAX, out)
        });
    }

    /// `write` appends the row; it is refused if that says that it is too large.
    fn emit(&mut self, sink: &mut impl Sink, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        self.row.clear();
        if !write(&mut self.row) {
            self.counts.refused += 1;
            return;
        }
        self.counts.rows += 1;
        sink.row(self.places.next(self.offset), &self.row);
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
        let count = self.size_ms / self.step_ms;
        (0..count).rev().map(move |before| last - before * self.step_ms)
    }
}
