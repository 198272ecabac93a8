//! A workload: one way to load a subject.
//!
//! Every span is measured in the same steps ([`span`]); a workload implements each step.
//!
//! - `broadcast`: subjects that send to many, and the highest rate that meets an objective
//! - `published_load`: events that the lab publishes to subscribers; `probe`: echo requests beside them
//! - `posting`: publishers without subscribers; `stored`: the same to NATS, where the subject reads a stream
//! - `round_trip`: experiment B
//! - `echo`: experiment C, and its `firehose`
//! - `listen`: receives from an external endpoint; `send`: also sends to it
//! - `connecting`: connections that are established, in a `ramp`, in `churn` or in a `stampede`

mod broadcast;
mod churn;
mod connecting;
mod echo;
mod firehose;
mod listen;
mod posting;
mod probe;
mod published_load;
mod ramp;
mod round_trip;
mod send;
mod stampede;
mod stored;

use super::socket::{self, Poller, now_us};
use super::{Load, Moment, Observer, Outcome};
use crate::measure::{Counts, WarmUp};
use crate::scenario::{Drive, PeerDialect};
use std::time::Duration;

/// One way to load a subject, on connections of its own.
///
/// `connect` and `warm_up` come first, `collect` last. Between them any number of spans are measured; between two spans the load pauses.
/// An error ends the workload, and says in one sentence why no figure counts.
pub(super) trait Workload {
    /// Opens all connections; returns how long that took, µs.
    fn connect(&mut self) -> anyhow::Result<u64>;

    /// Loads the subject until its figures have stopped drifting. The load continues.
    fn warm_up(&mut self) -> anyhow::Result<WarmUp>;

    fn resume(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Reads what has become ready while the observer looked.
    fn catch_up(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Begins a span: earlier arrivals do not count.
    fn begin(&mut self, now_us: u64);

    /// Loads the subject for this time, or until all requests of the workload are done.
    fn run(&mut self, time: Duration) -> anyhow::Result<()>;

    /// Ends the span; returns its outcome once everything due in the span has arrived.
    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome>;

    fn stopped_ports(&self) -> &[u16] {
        &[]
    }

    /// Continues the same load after the span, for as long as the observer wants it.
    fn continue_load(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Stops the load until `resume`; finishes what is in flight first.
    fn pause(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Answers what a subject asks during a pause, such as pings.
    fn attend(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Ends everything; returns what the ledger has found since the last span.
    fn collect(&mut self) -> anyhow::Result<Counts>;

    fn span(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        span(self, time)
    }

    fn poller(&mut self) -> &mut Poller;

    fn observer(&mut self) -> &mut dyn Observer;
}

pub(super) fn new<'a>(
    load: &Load<'a>,
    observer: &'a mut dyn Observer,
) -> anyhow::Result<Box<dyn Workload + 'a>> {
    Ok(match load.drive {
        Drive::Stored => Box::new(stored::Stored::new(load, observer)?),
        // A consumer has no subscribers; it reports what it received, and when.
        Drive::PublishedLoad if load.program.dialect() == PeerDialect::Consumer => {
            Box::new(stored::Stored::new(load, observer)?)
        }
        Drive::Publish => Box::new(posting::PublishWorkload::new(load, observer)?),
        Drive::Echo => Box::new(echo::Echo::new(load, observer)?),
        Drive::RoundTrip => Box::new(round_trip::RoundTrip::new(load, observer)?),
        Drive::Ceiling => Box::new(broadcast::ceiling::Ceiling::new(load, observer)?),
        Drive::Listen => Box::new(listen::Listen::new(load, observer)?),
        Drive::Send => Box::new(send::Send::new(load, observer)?),
        Drive::Ramp => Box::new(ramp::Ramp::new(load, observer)?),
        Drive::Churn => Box::new(churn::Churn::new(load, observer)?),
        Drive::Stampede => Box::new(stampede::Stampede::new(load, observer)?),
        Drive::PublishedLoad | Drive::GeneratedLoad | Drive::Idle => {
            Box::new(broadcast::Broadcast::new(load, observer)?)
        }
    })
}

/// Runs the steps of a span between two long looks of the observer. A long look takes tens of milliseconds on the swarm's thread, so
/// sockets that become ready during the first are read before the span begins, and the second follows once everything due has arrived.
fn span<W: Workload + ?Sized>(workload: &mut W, time: Duration) -> anyhow::Result<Outcome> {
    workload.observer().at(Moment::Warm);
    workload.catch_up()?;
    let outcome = measure(workload, time)?;
    let stopped_ports = workload.stopped_ports().to_vec();
    workload.observer().at(Moment::Over { stopped_ports: &stopped_ports });
    workload.continue_load()?;
    Ok(outcome)
}

pub(super) fn measure<W: Workload + ?Sized>(
    workload: &mut W,
    time: Duration,
) -> anyhow::Result<Outcome> {
    workload.observer().at(Moment::Begin);
    let poller = workload.poller();
    poller.take_away_us_max();
    let (busy_ns, cpu_ns) = (poller.busy_ns(), socket::thread_cpu_ns());
    let begun_us = now_us();
    workload.begin(begun_us);
    workload.run(time)?;
    let end_us = now_us();
    let poller = workload.poller();
    let swarm_cpu_ns = poller.busy_ns() - busy_ns;
    let swarm_cpu_all_ns = socket::thread_cpu_ns() - cpu_ns;
    let swarm_away_us = poller.take_away_us_max();
    workload.observer().at(Moment::End);
    let outcome = workload.end(end_us)?;
    let span_us = end_us - begun_us;
    Ok(Outcome { span_us, swarm_cpu_ns, swarm_cpu_all_ns, swarm_away_us, ..outcome })
}
