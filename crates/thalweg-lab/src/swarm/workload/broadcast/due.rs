//! Events that arrived in a span, and events that were due in it and arrive later.

use super::super::published_load::Posting;
use super::Broadcast;
use super::offer::Wait;
use crate::measure::Latency;
use crate::swarm::Outcome;
use crate::swarm::socket::now_us;

/// Limit of the time to read bytes that came during a long look.
const CATCH_UP_US_MAX: u64 = 500_000;
/// Limit of the time for rows due in the span: longer than a silence, to tell a stopped subject from one that is behind.
const ROWS_WITHIN_US: u64 = 3_000_000;

impl Broadcast<'_> {
    /// Reads after a long look, until everything due by now has arrived.
    pub(super) fn read_due(&mut self) -> anyhow::Result<()> {
        if self.published.posting == Posting::Schedule {
            self.post_on_schedule(0)?;
        }
        let last = self.subscribers.receiver().last_due(now_us());
        self.turn(0)?;
        // The result does not matter: a subject that is far behind would not catch up.
        self.wait_for(&last, CATCH_UP_US_MAX)?;
        Ok(())
    }

    /// Returns the outcome of the span that ends now. Its latencies are known once everything due in the span has arrived.
    pub(super) fn outcome(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let littles_ratio = self.littles_ratio(end_us - self.begun_us);
        let pacing = self.published.schedule.pacing(end_us);
        if self.published.posting == Posting::Schedule {
            // Events due just before the end are the span's.
            self.post_on_schedule(0)?;
        }
        let is_closed = self.published.posting == Posting::Window;
        let traffic =
            self.subscribers.receiver().statistics.end(if is_closed { 0 } else { end_us });
        Ok(Outcome { traffic, pacing, littles_ratio, ..Outcome::default() })
    }

    /// Returns the latencies of the span that ended at `end_us`, once everything due in it has arrived. If a subject is too far behind,
    /// its rows count as late as they are by then; if a subject has stopped, its rows are missing.
    pub(super) fn latency_of_span(&mut self, end_us: u64) -> anyhow::Result<Latency> {
        match self.published.posting {
            Posting::Window => {}
            Posting::Schedule => {
                self.drain()?;
            }
            Posting::Nothing => {
                let last = self.subscribers.receiver().last_due(end_us);
                match self.wait_for(&last, ROWS_WITHIN_US)? {
                    Wait::Come => {}
                    Wait::Silent => self.subscribers.count_missing(&last),
                    Wait::StillComing => self.subscribers.count_late(&last),
                }
            }
        }
        Ok(std::mem::take(&mut self.subscribers.receiver().statistics.latency))
    }
}
