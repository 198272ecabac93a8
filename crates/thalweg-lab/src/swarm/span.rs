//! The measured span, and what was due in it and comes later.
//!
//! The observer's long looks take tens of milliseconds on the swarm's thread. They lie
//! before the span, and what has become ready meanwhile is read first; and behind it,
//! when what was due in it has come.

use super::offer::{Posting, Wait};
use super::socket::now_us;
use super::{Moment, Outcome, Swarm};
use crate::measure::Latency;
use std::time::Duration;

/// How long it may take to read what has come during a long look.
const CATCH_UP_US_MAX: u64 = 500_000;
/// How long rows may still come that were due in the span. Longer than a silence, so
/// that a subject which has stopped is told from one that is behind.
const ROWS_WITHIN_US: u64 = 3_000_000;

impl Swarm<'_> {
    /// After a long look: until everything that was due by now has come.
    pub(super) fn catch_up(&mut self) -> anyhow::Result<()> {
        if self.posting == Posting::Schedule {
            self.post_on_schedule(0)?;
        }
        let last = self.subscribers.inbox().last_due(now_us());
        self.turn(0)?;
        // A subject that is far behind will be no nearer.
        self.wait_for(&last, CATCH_UP_US_MAX)?;
        Ok(())
    }

    /// Measures for a while: everything that is known when the span ends. Its latencies
    /// are to be had when what was due in it has come.
    pub(super) fn span(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        self.observer.at(Moment::Begin);
        self.poller.take_away_us_max();
        let busy_ns = self.poller.busy_ns();
        self.begun_us = now_us();
        // In a closed loop what was published before has waited for this span, too.
        let is_closed = self.posting == Posting::Window;
        self.subscribers.inbox().begin_span(if is_closed { 0 } else { self.begun_us });
        self.schedule.begin_span();
        self.run_for(time)?;
        let end_us = now_us();
        let swarm_cpu_ns = self.poller.busy_ns() - busy_ns;
        let swarm_away_us = self.poller.take_away_us_max();
        let span_us = end_us - self.begun_us;
        let littles_ratio = self.littles_ratio(span_us);
        let pacing = self.schedule.pacing(end_us);
        if self.posting == Posting::Schedule {
            // What was due just before the end is the span's.
            self.post_on_schedule(0)?;
        }
        self.observer.at(Moment::End);
        let traffic = self.subscribers.inbox().tally.end(if is_closed { 0 } else { end_us });
        Ok(Outcome {
            traffic,
            pacing,
            littles_ratio,
            span_us,
            swarm_away_us,
            swarm_cpu_ns,
            ..Outcome::default()
        })
    }

    /// Latencies of the span that has ended at `end_us`, when everything that was due
    /// in it has come. Rows that a subject is too far behind with are as late as they
    /// are by then; those of one that has stopped are missing.
    pub(super) fn latency_of_span(&mut self, end_us: u64) -> anyhow::Result<Latency> {
        match self.posting {
            Posting::Window => {}
            Posting::Schedule => {
                self.drain()?;
            }
            Posting::Nothing => {
                let last = self.subscribers.inbox().last_due(end_us);
                match self.wait_for(&last, ROWS_WITHIN_US)? {
                    Wait::Come => {}
                    Wait::Silent => self.subscribers.count_missing(&last),
                    Wait::StillComing => self.subscribers.count_late(&last),
                }
            }
        }
        Ok(std::mem::take(&mut self.subscribers.inbox().tally.latency))
    }
}
