//! Which windows have all of their events, and from where on offsets of rows are known.

use crate::{limits::SETTLING_EVENTS, plan::PlannedWindow};

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

/// What is known of the events before those that a run has taken in.
#[derive(Debug)]
pub(crate) struct Completeness {
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
}

/// Why events before one are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Begun,
    Lost,
}

/// Which of its events a window has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowEvents {
    All,
    /// The query began in the middle of it.
    Partial,
    /// Some are lost.
    Lost,
}

impl Completeness {
    pub(crate) fn new(beginning: Beginning, has_windows: bool) -> Self {
        Self {
            cut: (beginning != Beginning::First).then_some(Cut::Begun),
            lost_until_ms: i64::MIN,
            partial_until_ms: i64::MIN,
            is_numbered: beginning != Beginning::Block || !has_windows,
            settling: if beginning == Beginning::Block { SETTLING_EVENTS } else { 0 },
            partial_block: None,
        }
    }

    pub(crate) fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// No more events say how far those before the first one had come.
    pub(crate) fn settle(&mut self) {
        self.settling = 0;
    }

    /// Events before the next one are lost.
    pub(crate) fn lose_before_next(&mut self) {
        self.cut = Some(Cut::Lost);
    }

    /// Events are lost of a window, and of all that begin before it.
    pub(crate) fn lose_window(&mut self, start_ms: i64) {
        self.lost_until_ms = self.lost_until_ms.max(start_ms + 1);
    }

    /// The next event makes rows of its own. Returns whether events before it are lost.
    #[inline]
    pub(crate) fn passes_loss(&mut self) -> bool {
        self.cut.take() == Some(Cut::Lost)
    }

    /// The next event is of this time. Behind unknown ones, an unknown one may be later by as much as events may be late, so
    /// windows that begin before that are not complete. It may itself be later than that: with others it is known better.
    #[inline]
    pub(crate) fn pass(&mut self, time_ms: i64, window: PlannedWindow) {
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

    /// Windows are over that end at `over_ms` or before, with an event of this block. Returns whether offsets are known from this block
    /// on, and were not before.
    #[inline]
    pub(crate) fn number(&mut self, block: u64, over_ms: i64, window: PlannedWindow) -> bool {
        if self.is_numbered
            || self.settling > 0
            || window.last_end_before(self.partial_until_ms) > over_ms
        {
            return false;
        }
        self.is_numbered = *self.partial_block.get_or_insert(block) != block;
        self.is_numbered
    }

    /// Which of its events a window has.
    pub(crate) fn events_of(&self, start_ms: i64) -> WindowEvents {
        if start_ms < self.partial_until_ms || !self.is_numbered {
            WindowEvents::Partial
        } else if start_ms < self.lost_until_ms {
            WindowEvents::Lost
        } else {
            WindowEvents::All
        }
    }
}

impl PlannedWindow {
    /// Where the last window ends that begins before an instant.
    fn last_end_before(self, ms: i64) -> i64 {
        let last = ms.saturating_sub(1);
        last.saturating_sub(last.rem_euclid(self.step_ms)).saturating_add(self.size_ms)
    }
}
