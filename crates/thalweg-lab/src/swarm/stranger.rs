//! An endpoint that somebody else runs, measured without its cooperation: any
//! WebSocket, SSE or HTTP streaming.
//!
//! What a stranger sends is not the lab's: nobody knows what should have come,
//! so there is no ledger, and latency only where events say when they were made.
//!
//! - `approach`: addresses, and whom to trust
//! - `handshake`, `head`: how it is asked, and whether its answer will do
//! - `body`: where an HTTP answer ends
//! - `websocket`, `sse`, `lines`: the three framings, all of each
//! - `voice`: what is said on one connection, from head to end
//! - `json`, `timestamp`: when an event was made
//! - `ear`: what was heard, counted
//! - `guest`, `crowd`: one connection, all of them

mod approach;
mod body;
mod crowd;
mod ear;
mod guest;
mod handshake;
mod head;
mod json;
mod lines;
mod sse;
mod timestamp;
mod voice;
mod websocket;

pub use approach::addresses;

use super::carrier::MESSAGE_BYTES_MAX;
use super::progress::Progress;
use super::socket::{Poller, allow_open_files, now_us};
use super::{CALM, Figures, Moment, Observer, PROGRESS_EVERY_US, SPIN_US};
use crate::measure::{Heard, Latency, Traffic};
use crate::scenario::Endpoint;
use anyhow::anyhow;
use crowd::Crowd;
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
    let crowd = Crowd::new(endpoint, visit.connections)?;
    let (poller, progress) = (Poller::new()?, Progress::default());
    let mut stay = Stay { crowd, observer, poller, begun_us: 0, progress };
    let outcome = stay.run(visit)?;
    stay.crowd.leave(&stay.poller);
    Ok(outcome)
}

struct Stay<'a> {
    crowd: Crowd<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    /// When the span began; 0 before.
    begun_us: u64,
    progress: Progress,
}

impl Stay<'_> {
    fn run(&mut self, visit: &Visit) -> anyhow::Result<Outcome> {
        let dialed_us = now_us();
        self.crowd.open_more(&self.poller)?;
        while !self.crowd.is_complete() {
            self.turn(PROGRESS_EVERY_US)?;
            self.crowd.lose_patience(&self.poller)?;
        }
        let open_us = now_us() - dialed_us;
        self.check_somebody()?;
        self.observer.at(Moment::Open);
        self.stay_for(visit.warm_up)?;
        self.check_somebody()?;

        self.observer.at(Moment::Warm);
        // What has come meanwhile.
        self.stay_for(CALM)?;
        self.check_somebody()?;

        self.observer.at(Moment::Begin);
        self.poller.take_away_us_max();
        let busy_ns = self.poller.busy_ns();
        self.begun_us = now_us();
        self.crowd.begin(self.begun_us);
        self.stay_for(visit.measured)?;
        let span_us = now_us() - self.begun_us;
        let swarm_cpu_ns = self.poller.busy_ns() - busy_ns;
        let swarm_away_us = self.poller.take_away_us_max();
        self.observer.at(Moment::End);
        self.observer.at(Moment::Over { stopped_ports: &[] });
        let heard = self.crowd.end(self.begun_us, span_us);
        let ear = std::mem::take(&mut self.crowd.ear);
        Ok(Outcome {
            heard,
            traffic: ear.tally.traffic,
            latency: ear.tally.latency,
            intervals: ear.intervals,
            open_us,
            span_us,
            swarm_cpu_ns,
            swarm_away_us,
        })
    }

    fn check_somebody(&self) -> anyhow::Result<()> {
        if self.crowd.standing() > 0 { Ok(()) } else { Err(anyhow!(self.crowd.why_nobody())) }
    }

    /// Listens for so long, or until nobody speaks any more.
    fn stay_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        loop {
            let now_us = now_us();
            if now_us >= until_us || self.crowd.standing() == 0 {
                return Ok(());
            }
            self.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
        }
    }

    /// Waits once and handles everyone who is ready.
    fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let count = match self.crowd.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.crowd.go_on(&self.poller)?;
        for index in 0..count {
            self.crowd.on_ready(self.poller.ready(index), &self.poller)?;
        }
        let Stay { progress, observer, crowd, begun_us, .. } = self;
        progress.tell(*observer, |now_us| {
            Figures::of_span(crowd.standing(), &crowd.ear.tally, *begun_us, now_us)
        })
    }
}
