//! Connections come and go: as many as stand stay, but one after the other leaves, on a
//! schedule set in advance, and another takes its place at once. Whose turn it is to leave is
//! drawn.

use super::Workload;
use super::connecting::{Connecting, as_connecting};
use crate::measure::{Counts, WarmUp};
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::{Load, Observer, Outcome};
use std::time::Duration;

/// Comings and goings.
pub(super) struct Churn<'a>(Connecting<'a>);

impl<'a> Churn<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        Ok(Churn(Connecting::new(load, observer)?))
    }

    /// Lets connections come and go until then.
    fn go_on_until(&mut self, until_us: u64) -> anyhow::Result<()> {
        let connections = self.0.load.settings.connections as usize;
        let begun_us = now_us();
        let mut turns: Vec<usize> = (0..connections).collect();
        fastrand::shuffle(&mut turns);
        // Each leaves once in the time that one stays.
        for (number, index) in turns.into_iter().cycle().enumerate() {
            let stay_us = u128::from(self.0.load.settings.stay_ms) * 1000;
            let due_us = begun_us + (number as u128 * stay_us / connections as u128) as u64;
            if due_us >= until_us {
                break;
            }
            self.0.run_until(due_us)?;
            // One that does not stand yet has its turn when it does: it is late for both.
            while !self.0.subscribers.stands(index) && self.0.subscribers.standing() > 0 {
                if now_us() >= until_us {
                    return Ok(());
                }
                self.0.turn(crate::swarm::PROGRESS_EVERY_US)?;
                if self.0.subscribers.is_over(index) {
                    break;
                }
            }
            if self.0.subscribers.stands(index) {
                self.0.is_due(index, due_us);
                self.0.subscribers.replace(index, &self.0.poller)?;
            }
        }
        self.0.run_until(until_us)
    }
}

impl Workload for Churn<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        self.0.open_all()
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        let until_us = self.0.warm_at_us();
        self.go_on_until(until_us)?;
        Ok(WarmUp::default())
    }

    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        self.go_on_until(until_us)?;
        self.0.stand(now_us())
    }

    as_connecting!();
}
