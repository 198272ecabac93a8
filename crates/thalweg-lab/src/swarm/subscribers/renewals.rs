//! Connections to an endpoint that make one request after the other: when a response is complete, another connection takes the
//! place of its own, at once or after a random time.

use crate::scenario::Program;
use crate::swarm::Load;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pause after a failure, so that an endpoint that refuses everything is not requested in a tight loop.
const AFTER_FAILURE_US: u64 = 100_000;

#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// The shortest and the longest time between a response and the next request; `None` without renewals.
    think_us: Option<(u64, u64)>,
    /// Whether all connections have been tried once.
    is_on: bool,
    /// When connections are renewed, and their numbers.
    due: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Renewals {
    pub(super) fn new(load: &Load<'_>) -> Renewals {
        let think_us = match load.program {
            Program::Url(endpoint) if endpoint.renews() => {
                Some(endpoint.think_us.unwrap_or((0, 0)))
            }
            _ => None,
        };
        Renewals { think_us, ..Renewals::default() }
    }

    /// Notes that a connection is over; its response `is_complete`, or it failed.
    pub(super) fn add(&mut self, index: usize, is_complete: bool, now_us: u64) {
        if let Some((from_us, to_us)) = self.think_us {
            let pause_us = if is_complete { 0 } else { AFTER_FAILURE_US };
            let think_us = fastrand::u64(from_us..=to_us.max(from_us));
            self.due.push(Reverse((now_us + think_us.max(pause_us), index)));
        }
    }

    /// Renews connections from now on.
    pub(super) fn begin(&mut self) {
        self.is_on = self.think_us.is_some();
    }

    pub(super) fn are_on(&self) -> bool {
        self.is_on
    }

    /// Returns when the next connection is renewed.
    pub(super) fn next_us(&self) -> Option<u64> {
        let next = self.due.peek().filter(|_| self.is_on);
        next.map(|Reverse((due_us, _))| *due_us)
    }

    /// Takes a connection whose time has come.
    pub(super) fn take(&mut self, now_us: u64) -> Option<usize> {
        self.next_us().filter(|due_us| *due_us <= now_us)?;
        self.due.pop().map(|Reverse((_, index))| index)
    }
}
