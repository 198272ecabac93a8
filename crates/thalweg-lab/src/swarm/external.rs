//! An endpoint that somebody else runs, measured without its cooperation: any
//! WebSocket, SSE or HTTP streaming.
//!
//! What it sends is not the lab's: nobody knows what should have come,
//! so there is no ledger, and latency only where events say when they were made.
//!
//! - `resolver`: addresses, and whom to trust
//! - `handshake`: how it is asked, and whether its answer will do
//! - `session`: what is said on one connection, from head to end
//! - `json`, `timestamp`: when an event was made
//! - `recorder`: what was heard, counted
//! - `connection`, `pool`: one connection, all of them

mod connection;
mod connection_pool;
mod handshake;
mod json;
mod protocol_session;
mod recorder;
mod resolver;
mod timestamp;

pub use resolver::addresses;

use super::progress::Progress;
use super::socket::{Poller, allow_open_files, now_us};
use super::{CALM, Figures, Moment, Observer, PROGRESS_EVERY_US, SPIN_US};
use crate::measure::{Heard, Latency, Traffic};
use crate::scenario::Endpoint;
use anyhow::anyhow;
use connection_pool::ConnectionPool;
use std::time::Duration;

/// How an endpoint is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Connections that shall stand.
    pub connections: u32,
    /// Time between the last connection and the span.
    pub warm_up: Duration,
    /// The measured span.
    pub measured: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Everything that can be told in numbers.
    pub heard: Heard,
    /// The span's traffic, as of any sample.
    pub traffic: Traffic,
    /// From timestamps to when their events were read.
    pub latency: Latency,
    /// Between the events of a connection.
    pub intervals: Latency,
    /// Until all connections stood or were known not to.
    pub open_us: u64,
    /// Length of the span: shorter if all connections were ended in it.
    pub span_us: u64,
    /// CPU time of the swarm in the span, but for looking for work in vain.
    pub swarm_cpu_ns: u64,
    /// The longest time between two looks of the swarm at its sockets.
    pub swarm_away_us: u64,
}

/// Visits the endpoint. The error is `Interrupted` or says in one sentence why
/// there is nothing to tell: it cannot be reached, let no connection stand, or
/// does not keep to what it speaks.
pub fn run(
    endpoint: &Endpoint,
    visit: &Visit,
    observer: &mut dyn Observer,
) -> anyhow::Result<Outcome> {
    allow_open_files(visit.connections)?;
    let pool = ConnectionPool::new(endpoint, visit.connections)?;
    let (poller, progress) = (Poller::new()?, Progress::default());
    let mut run = ExternalRun { pool, observer, poller, begun_us: 0, progress };
    let outcome = run.run(visit)?;
    run.pool.leave(&run.poller);
    Ok(outcome)
}

struct ExternalRun<'a> {
    pool: ConnectionPool<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    /// When the span began; 0 before.
    begun_us: u64,
    progress: Progress,
}

impl ExternalRun<'_> {
    fn run(&mut self, visit: &Visit) -> anyhow::Result<Outcome> {
        let dialed_us = now_us();
        self.pool.open_more(&self.poller)?;
        while !self.pool.is_complete() {
            self.turn(PROGRESS_EVERY_US)?;
            self.pool.give_up_late(&self.poller)?;
        }
        let open_us = now_us() - dialed_us;
        self.check_somebody()?;
        self.observer.at(Moment::Open);
        self.run_for(visit.warm_up)?;
        self.check_somebody()?;

        self.observer.at(Moment::Warm);
        // What has come meanwhile.
        self.run_for(CALM)?;
        self.check_somebody()?;

        self.observer.at(Moment::Begin);
        self.poller.take_away_us_max();
        let busy_ns = self.poller.busy_ns();
        self.begun_us = now_us();
        self.pool.begin(self.begun_us);
        self.run_for(visit.measured)?;
        let span_us = now_us() - self.begun_us;
        let swarm_cpu_ns = self.poller.busy_ns() - busy_ns;
        let swarm_away_us = self.poller.take_away_us_max();
        self.observer.at(Moment::End);
        self.observer.at(Moment::Over { stopped_ports: &[] });
        let heard = self.pool.end(self.begun_us, span_us);
        let recorder = std::mem::take(&mut self.pool.recorder);
        recorder.expect_timestamps()?;
        Ok(Outcome {
            heard,
            traffic: recorder.tally.traffic,
            latency: recorder.tally.latency,
            intervals: recorder.intervals,
            open_us,
            span_us,
            swarm_cpu_ns,
            swarm_away_us,
        })
    }

    fn check_somebody(&self) -> anyhow::Result<()> {
        if self.pool.standing() > 0 { Ok(()) } else { Err(anyhow!(self.pool.why_nobody())) }
    }

    /// Listens for so long, or until nobody speaks any more.
    fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        loop {
            let now_us = now_us();
            if now_us >= until_us || self.pool.standing() == 0 {
                return Ok(());
            }
            self.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
        }
    }

    /// Waits once and handles everyone who is ready.
    fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let count = match self.pool.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.pool.go_on(&self.poller)?;
        for index in 0..count {
            self.pool.on_ready(self.poller.ready(index), &self.poller)?;
        }
        let ExternalRun { progress, observer, pool, begun_us, .. } = self;
        progress.tell(*observer, |now_us| {
            Figures::of_span(pool.standing(), &pool.recorder.tally, *begun_us, now_us)
        })
    }
}
