//! Connections arrive at a stated rate, in stages, whatever becomes of those before. The span
//! is the whole ramp: from the first that is due to the last that stands.

use super::Workload;
use super::connecting::{Connecting, as_connecting};
use crate::measure::{Counts, WarmUp};
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::{Load, Observer, Outcome};
use std::time::Duration;

/// A ramp.
pub(super) struct Ramp<'a>(Connecting<'a>);

impl<'a> Ramp<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        let mut connecting = Connecting::new(load, observer)?;
        connecting.subscribers.come_when_due();
        Ok(Ramp(connecting))
    }
}

impl Workload for Ramp<'_> {
    /// Nobody is there before the ramp.
    fn connect(&mut self) -> anyhow::Result<u64> {
        Ok(0)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        let until_us = self.0.warm_at_us();
        self.0.run_until(until_us)?;
        Ok(WarmUp::default())
    }

    fn run(&mut self, _: Duration) -> anyhow::Result<()> {
        let settings = self.0.load.settings;
        let (due_us, end_us) = settings.arrivals.schedule(settings.connections as usize);
        let begun_us = self.0.begun_us;
        for (index, due_us) in due_us.iter().enumerate() {
            let due_us = begun_us + due_us;
            self.0.run_until(due_us)?;
            self.0.is_due(index, due_us);
            self.0.subscribers.allow(index + 1, &self.0.poller)?;
        }
        self.0.run_until(begun_us + end_us)?;
        self.0.stand(now_us())
    }

    as_connecting!();
}
