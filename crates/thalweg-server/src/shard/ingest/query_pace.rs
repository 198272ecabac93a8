//! The time and memory that a query may use before it pauses or ends.

use std::cell::Cell;

use thalweg_query::{Failure, Pace};
use thalweg_wire::EndCode;

use crate::{
    clock,
    config::{QUERY_BYTES, QUERY_EVENT_STEPS, QUERY_GRAIN_BYTES, QUERY_STEPS_PER_LOOK},
    derived::{AdHocQueries, MemoryShare},
};

/// The budget of a query in a turn. The query pauses when its time is over, or after many rows, which the end of the turn seals.
pub(super) struct QueryPace<'a> {
    until_us: u64,
    /// Bytes of its unsealed rows.
    unsealed_bytes: &'a Cell<usize>,
    memory: &'a mut MemoryShare,
    /// The queries that may have to make room for its memory.
    ad_hoc: &'a AdHocQueries,
    /// Steps since the clock was last read.
    steps: u64,
    is_over: bool,
    /// Whether its address may use no more memory.
    is_full: bool,
}

/// A limit that a query has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Overrun {
    /// A limit on one row or event.
    #[error("{0}")]
    Cost(#[from] Failure),
    /// A limit on all queries of an address, or on the rows of all ad hoc queries.
    #[error(
        "the queries of its address use too much memory, or the rows of groups of all ad hoc queries do: group by fewer keys, or end one of them"
    )]
    Memory,
}

impl<'a> QueryPace<'a> {
    pub(super) fn new(
        until_us: u64,
        unsealed_bytes: &'a Cell<usize>,
        memory: &'a mut MemoryShare,
        ad_hoc: &'a AdHocQueries,
    ) -> Self {
        let is_over = unsealed_bytes.get() >= QUERY_BYTES;
        Self { until_us, unsealed_bytes, memory, ad_hoc, steps: 0, is_over, is_full: false }
    }

    /// Returns whether the query pauses.
    pub(super) fn is_over(&self) -> bool {
        self.is_over || self.is_full
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }
}

impl Pace for QueryPace<'_> {
    #[inline]
    fn goes_on(&mut self, steps: u64, held_bytes: usize) -> bool {
        let unsealed_bytes = self.unsealed_bytes.get();
        self.is_over |= unsealed_bytes >= QUERY_BYTES;
        // Sealed rows do not count towards the memory of the query.
        let bytes = held_bytes + unsealed_bytes;
        if bytes >= self.memory.bytes() + QUERY_GRAIN_BYTES {
            self.is_full |= !self.ad_hoc.hold(self.memory, bytes, clock::now_us());
        }
        self.steps += steps + QUERY_EVENT_STEPS;
        if self.steps >= QUERY_STEPS_PER_LOOK {
            self.steps = 0;
            self.is_over |= clock::now_us() >= self.until_us;
        }
        !self.is_over()
    }
}

impl Overrun {
    pub(super) fn code(self) -> EndCode {
        match self {
            Self::Cost(Failure::RowSteps(_)) => EndCode::QueryRowSteps,
            Self::Cost(Failure::RowBytes(_)) => EndCode::QueryRowBytes,
            Self::Cost(Failure::EventSteps(_)) => EndCode::QueryEventSteps,
            Self::Cost(Failure::EventBytes(_)) => EndCode::QueryEventBytes,
            Self::Memory => EndCode::QueryMemory,
        }
    }
}
