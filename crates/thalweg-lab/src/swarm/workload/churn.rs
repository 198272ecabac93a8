//! Connections come and go at a constant number: on a schedule set in advance, a connection drawn at random leaves, and
//! another takes its place at once.

use super::Workload;
use super::connecting::{Connecting, as_connecting};
use crate::measure::{Counts, WarmUp};
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::{Load, Observer, Outcome, PROGRESS_EVERY_US};
use std::time::Duration;

pub(super) struct Churn<'a>(Connecting<'a>);

impl<'a> Churn<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        Ok(Churn(Connecting::new(load, observer)?))
    }

    /// Lets connections come and go until this time. A departure takes the next connection that is established. Departures that were due
    /// and never began count as late so far.
    fn continue_until(&mut self, until_us: u64) -> anyhow::Result<()> {
        let connections = self.0.load.settings.connections as usize;
        let stay_us = u128::from(self.0.load.settings.stay_ms) * 1000;
        let begun_us = now_us();
        let mut turns: Vec<usize> = (0..connections).collect();
        fastrand::shuffle(&mut turns);
        let mut turns = turns.into_iter().cycle();
        // Each connection leaves once during the time that one stays.
        let mut due = (0u128..)
            .map(|number| begun_us + (number * stay_us / connections as u128) as u64)
            .take_while(|due_us| *due_us < until_us)
            .peekable();
        while let Some(&due_us) = due.peek() {
            let now_us = now_us();
            if now_us >= until_us {
                break;
            }
            let waits_us = if self.0.subscribers.established() > 0 { 0 } else { PROGRESS_EVERY_US };
            let until_due_us = due_us.saturating_sub(now_us);
            self.0.turn(until_due_us.max(waits_us).min(PROGRESS_EVERY_US))?;
            if until_due_us > 0 {
                continue;
            }
            let leaver =
                turns.by_ref().take(connections).find(|&subscriber| self.0.is_served(subscriber));
            if let Some(index) = leaver {
                self.0.replace(index, due_us)?;
                due.next();
            }
        }
        due.for_each(|due_us| self.0.not_begun(due_us));
        self.0.run_until(until_us)
    }
}

impl Workload for Churn<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        self.0.open_all()
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.0.start_publishing()?;
        let until_us = self.0.warm_at_us();
        self.continue_until(until_us)?;
        Ok(WarmUp::default())
    }

    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        self.continue_until(until_us)?;
        self.0.await_established(now_us())
    }

    as_connecting!();
}
