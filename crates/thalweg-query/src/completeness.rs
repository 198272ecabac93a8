//! Tracks which windows are complete, and from where on row offsets are known.

use crate::{limits::SETTLING_EVENTS, plan::PlannedWindow};

/// The start of a query in its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The first event.
    First,
    /// Any event. The query does not emit windows that began earlier. Its row offsets belong to this run: a run with
    /// another start has other offsets.
    Anywhere,
    /// The first event of a block ([`crate::limits::BLOCK_OFFSETS`]). Rows get the same offsets as in a run
    /// that starts at the first event of the topic. For this, the query also skips every window that ends in
    /// the same block as an incomplete window. The first [`SETTLING_EVENTS`] events determine the current
    /// time together, because a single event may be late.
    Block,
}

/// The state that decides which windows are complete in a run that began in the middle of a topic or lost events.
#[derive(Debug)]
pub(crate) struct Completeness {
    /// Why events before the next one are missing: the query began here, or events were lost.
    cut: Option<Cut>,
    /// Windows that begin before these times are incomplete: before the first because events were lost,
    /// before the second because the query began later.
    lost_until_ms: i64,
    partial_until_ms: i64,
    /// Whether row offsets are known.
    is_numbered: bool,
    /// Number of events that still help to find the time that the topic had reached before the first event.
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

    /// Ends the phase in which events show the time that the topic had reached before the first event.
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

    /// Takes an event of a query without groups, in which each event makes its own rows. Returns whether
    /// events before it are lost.
    #[inline]
    pub(crate) fn passes_loss(&mut self) -> bool {
        self.cut.take() == Some(Cut::Lost)
    }

    /// Records the time of the next event. Events that the run did not see may have later times, by as much
    /// as events may be late, so windows that begin before that time are incomplete. The event itself may be
    /// late; the next events correct the estimate.
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

    /// Updates the numbering after windows up to `over_ms` have ended in this block. Returns `true` if row
    /// offsets become known with this block.
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
    /// Returns the end of the last window that begins before a time.
    fn last_end_before(self, ms: i64) -> i64 {
        let last = ms.saturating_sub(1);
        last.saturating_sub(last.rem_euclid(self.step_ms)).saturating_add(self.size_ms)
    }
}
