//! Tracks which windows are complete, and from where on row offsets are known.

use crate::{limits::SETTLING_EVENTS, plan::PlannedWindow};

/// The start of a query in its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The first event.
    First,
    /// Any event. The query does not emit windows that began earlier. Its row offsets belong to this run: a run with
    /// another start gives others.
    Anywhere,
    /// The first event of a block ([`crate::limits::BLOCK_OFFSETS`]). Rows have the offsets of a run from the first
    /// event on. The query therefore also skips windows that end in the same block as windows that began earlier. The
    /// first [`SETTLING_EVENTS`] together tell how far time has come: a single late event must not mislead.
    Block,
}

/// Tells which windows are complete in a run that began in mid-topic or lost events.
#[derive(Debug)]
pub(crate) struct Completeness {
    /// The reason why events before the next one are unknown.
    cut: Option<Cut>,
    /// Windows that begin before these times are incomplete: because of lost events, and because of the query's start.
    lost_until_ms: i64,
    partial_until_ms: i64,
    /// Whether the number of rows of other windows in the same block is known.
    is_numbered: bool,
    /// Number of events that may still tell how far time had come before the first event.
    settling: u32,
    /// The block in which the last incomplete window ended.
    partial_block: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Begun,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowEvents {
    All,
    /// The query began in the middle of the window.
    Partial,
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

    /// Ends the phase in which events tell how far time had come before the first event.
    pub(crate) fn settle(&mut self) {
        self.settling = 0;
    }

    pub(crate) fn lose_before_next(&mut self) {
        self.cut = Some(Cut::Lost);
    }

    /// Records the loss of events of a window and of all earlier windows.
    pub(crate) fn lose_window(&mut self, start_ms: i64) {
        self.lost_until_ms = self.lost_until_ms.max(start_ms + 1);
    }

    /// Takes an event that makes its own rows. Returns whether events before it are lost.
    #[inline]
    pub(crate) fn passes_loss(&mut self) -> bool {
        self.cut.take() == Some(Cut::Lost)
    }

    /// Takes the time of the next event. An unknown earlier event may have a later time, by as much as events may be late:
    /// windows that begin before that time are incomplete. The event itself may be late; further events correct the estimate.
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

    /// Ends windows up to `over_ms` with an event of this block. Returns whether offsets are known from this block on,
    /// and were not before.
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
    /// Returns the end of the last window that begins before an instant.
    fn last_end_before(self, ms: i64) -> i64 {
        let last = ms.saturating_sub(1);
        last.saturating_sub(last.rem_euclid(self.step_ms)).saturating_add(self.size_ms)
    }
}
