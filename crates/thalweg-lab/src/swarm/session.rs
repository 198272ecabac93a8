//! A subject under load, from its first connection to the last figure.

use super::workload::{self, Workload};
use super::{Load, Moment, Observer, Outcome, socket};
use crate::measure::{Counts, WarmUp};
use std::time::Duration;

/// The load flows for so long after a pause before a span begins.
const SETTLE: Duration = Duration::from_millis(50);

/// A subject's connections, which last for several spans. Dropped, they are closed.
pub struct Session<'a> {
    workload: Box<dyn Workload + 'a>,
    open_us: u64,
    warm_up: WarmUp,
    /// Whether the load flows.
    is_loaded: bool,
}

impl<'a> Session<'a> {
    /// Opens all connections and gets the subject warm; its load goes on. The error is
    /// [`super::Interrupted`] or says why there is nothing to measure.
    pub fn open(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Session<'a>> {
        socket::allow_open_files(load.settings.connections)?;
        let mut workload = workload::of(load, observer)?;
        let open_us = workload.connect()?;
        workload.observer().at(Moment::Open);
        let warm_up = workload.warm_up()?;
        Ok(Session { workload, open_us, warm_up, is_loaded: true })
    }

    /// Measures a span, with the load if it was paused.
    pub fn span(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        if !std::mem::replace(&mut self.is_loaded, true) {
            self.workload.resume()?;
            self.workload.run(SETTLE)?;
        }
        let outcome = self.workload.span(time)?;
        Ok(Outcome { open_us: self.open_us, warm_up: self.warm_up, ..outcome })
    }

    /// Stops the load, until the next span.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.is_loaded, false) { self.workload.pause() } else { Ok(()) }
    }

    /// Ends it; says what the ledger has found since the last span.
    pub fn close(mut self) -> anyhow::Result<Counts> {
        self.workload.collect()
    }
}

/// Measures one span on connections of its own; the ledger is that of all of it.
pub fn run(load: &Load<'_>, observer: &mut dyn Observer) -> anyhow::Result<Outcome> {
    let mut session = Session::open(load, observer)?;
    let outcome = session.span(load.measured)?;
    let ledger = outcome.ledger.and(&session.close()?);
    Ok(Outcome { ledger, ..outcome })
}
