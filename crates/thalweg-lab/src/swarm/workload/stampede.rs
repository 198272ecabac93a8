//! All connections, or those of some keys, are lost at once, reconnect and resume, as after a restart or a failure of a proxy or network.
//! The span lasts until all are established again and have everything due; nothing may be missing.

use super::Workload;
use super::connecting::{Connecting, as_connecting};
use crate::measure::{Counts, WarmUp};
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::{Load, Observer, Outcome};
use std::time::Duration;

pub(super) struct Stampede<'a>(Connecting<'a>);

impl<'a> Stampede<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        Ok(Stampede(Connecting::new(load, observer)?))
    }
}

impl Workload for Stampede<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        let open_us = self.0.open_all()?;
        self.0.subscribers.come_all_at_once();
        Ok(open_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.0.start_publishing()?;
        let until_us = self.0.warm_at_us();
        self.0.run_until(until_us)?;
        Ok(WarmUp::default())
    }

    fn run(&mut self, _: Duration) -> anyhow::Result<()> {
        let begun_us = now_us();
        let settings = self.0.load.settings;
        let is_lost = |index: usize| settings.is_lost(settings.topics_of(index).start);
        let lost: Vec<usize> = (0..settings.connections as usize)
            .filter(|&index| is_lost(index) && self.0.subscribers.is_established(index))
            .collect();
        lost.iter().for_each(|&index| self.0.is_due(index, begun_us));
        self.0.subscribers.stampede(&lost, &self.0.poller)?;
        self.0.await_established(begun_us)?;
        self.0.catch_up()
    }

    as_connecting!();
}
