//! A subject under the swarm's load.

use super::workload::{self, Workload};
use super::{Load, Moment, Observer, Outcome, socket};
use crate::load_generator::{LoadGenerator, Session};
use crate::measure::{Counts, WarmUp};
use std::time::Duration;

/// After a pause, the load runs for this long before a span begins.
const SETTLE: Duration = Duration::from_millis(50);

/// The lab's own subscribers and publishers, on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Swarm;

impl LoadGenerator for Swarm {
    fn open<'a>(
        &'a self,
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
    ) -> anyhow::Result<Box<dyn Session + 'a>> {
        socket::allow_open_files(load.settings.connections)?;
        let shares_core = observer.shares_core();
        let mut workload = workload::new(load, observer)?;
        if shares_core {
            workload.poller().share_core();
        }
        let open_us = workload.connect()?;
        workload.observer().at(Moment::Open);
        let warm_up = workload.warm_up()?;
        Ok(Box::new(SwarmSession { workload, open_us, warm_up, is_loaded: true }))
    }
}

struct SwarmSession<'a> {
    workload: Box<dyn Workload + 'a>,
    open_us: u64,
    warm_up: WarmUp,
    is_loaded: bool,
}

impl Session for SwarmSession<'_> {
    fn span(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        if !std::mem::replace(&mut self.is_loaded, true) {
            self.workload.resume()?;
            self.workload.run(SETTLE)?;
        }
        let outcome = self.workload.span(time)?;
        Ok(Outcome { open_us: self.open_us, warm_up: self.warm_up, ..outcome })
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.is_loaded, false) { self.workload.pause() } else { Ok(()) }
    }

    fn attend(&mut self) -> anyhow::Result<()> {
        self.workload.attend()
    }

    fn close(mut self: Box<Self>) -> anyhow::Result<Counts> {
        self.workload.collect()
    }
}
