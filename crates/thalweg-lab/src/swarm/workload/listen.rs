//! An external endpoint: connections that are opened and read. The endpoint may refuse some and end others, which is recorded; measuring
//! continues as long as one is established.

use super::Workload;
use crate::measure::{Counts, Negotiated, WarmUp};
use crate::swarm::carrier::Kind;
use crate::swarm::exchange::Exchange;
use crate::swarm::progress::ProgressReporter;
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::subscribers::Subscribers;
use crate::swarm::{CALM, Figures, Load, Observer, Outcome, PROGRESS_EVERY_US, SPIN_US};
use anyhow::bail;
use std::time::Duration;

/// Time for the last connection that arrives to be established and to be sent to.
const LAST_ARRIVAL_US: u64 = 100_000;

pub(super) struct Listen<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    subscribers: Subscribers,
    /// When the span began; 0 before.
    begun_us: u64,
    /// Due times of connections that arrive during the span, from its beginning on; empty if all connect before.
    arrivals_us: Vec<u64>,
    /// How many of them have become due.
    arrived: usize,
    progress: ProgressReporter,
    /// Negotiated values of the first connection.
    negotiated: Negotiated,
}

impl Workload for Listen<'_> {
    /// Opens connections until each is established or has failed.
    fn connect(&mut self) -> anyhow::Result<u64> {
        let begun_us = now_us();
        self.subscribers.open_more(&self.poller)?;
        while !self.subscribers.is_settled() {
            self.turn(PROGRESS_EVERY_US)?;
        }
        self.expect_somebody()?;
        self.subscribers.begin_renewals();
        Ok(now_us() - begun_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.run(self.load.warm_up)?;
        self.expect_somebody()?;
        self.slow_down()?;
        Ok(WarmUp::default())
    }

    fn catch_up(&mut self) -> anyhow::Result<()> {
        self.run(CALM)?;
        self.expect_somebody()
    }

    fn begin(&mut self, now_us: u64) {
        self.begun_us = now_us;
        self.subscribers.receiver().begin_recording(now_us);
    }

    /// Listens for this time, or until no connection is left.
    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = self.end_us(time);
        loop {
            let now_us = now_us();
            if now_us >= until_us || !self.has_somebody() {
                return Ok(());
            }
            self.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
        }
    }

    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let receiver = self.subscribers.receiver();
        let received = receiver.end_recording(self.begun_us, end_us)?;
        Ok(Outcome {
            received: Some(received),
            traffic: receiver.statistics.end(end_us),
            latency: std::mem::take(&mut receiver.statistics.latency),
            negotiated: self.negotiated.clone(),
            ..Outcome::default()
        })
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        self.subscribers.leave(&self.poller);
        Ok(Counts::default())
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.observer
    }
}

impl<'a> Listen<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        if load.settings.connections == 0 {
            bail!("an endpoint is measured over at least one connection");
        }
        let mut subscribers = Subscribers::new(load)?;
        let arrivals = &load.settings.arrivals;
        let arrivals_us = match arrivals.are_at_once() {
            true => Vec::new(),
            false => {
                subscribers.come_when_due();
                arrivals.schedule(load.settings.connections as usize).0
            }
        };
        Ok(Listen {
            load: load.clone(),
            observer,
            poller: Poller::new()?,
            subscribers,
            begun_us: 0,
            arrivals_us,
            arrived: 0,
            progress: ProgressReporter::default(),
            negotiated: Negotiated::default(),
        })
    }

    /// Expects answers to messages from now on.
    pub(super) fn expect_answers(&mut self, exchange: Exchange) {
        if let Some(recorder) = self.subscribers.receiver().recorder() {
            recorder.exchange = Some(Box::new(exchange));
        }
    }

    pub(super) fn exchange(&mut self) -> Option<&mut Exchange> {
        self.subscribers.receiver().recorder()?.exchange.as_deref_mut()
    }

    /// Sends a message on a connection; returns `false` if the connection is not established.
    pub(super) fn send(
        &mut self,
        connection: usize,
        kind: Kind,
        message: &[u8],
    ) -> anyhow::Result<bool> {
        self.subscribers.send(connection, kind, message, &self.poller)
    }

    /// Returns whether a connection is established, or may still be.
    pub(super) fn has_somebody(&self) -> bool {
        let is_coming = self.arrived < self.arrivals_us.len() || !self.subscribers.is_settled();
        self.subscribers.established() > 0 || self.subscribers.renews() || is_coming
    }

    /// Fails if the endpoint has refused or ended all connections so far.
    pub(super) fn expect_somebody(&mut self) -> anyhow::Result<()> {
        match self.subscribers.why_nobody() {
            Some(why) if self.arrived == self.arrivals_us.len() => bail!(why),
            _ => Ok(()),
        }
    }

    /// Lets some connections read slowly from now on, if they should.
    pub(super) fn slow_down(&mut self) -> anyhow::Result<()> {
        self.subscribers.stop_readers(&self.poller).map(drop)
    }

    /// Returns the end of the span, which lasts for this time and at least until all connections have arrived.
    pub(super) fn end_us(&self, time: Duration) -> u64 {
        let last_us = self.arrivals_us.last().filter(|_| self.begun_us > 0);
        let end_us = now_us() + time.as_micros() as u64;
        end_us.max(last_us.map_or(0, |due_us| self.begun_us + due_us + LAST_ARRIVAL_US))
    }

    /// Dials the connections that are due; returns how long to wait for the next one, at most `timeout_us`.
    fn arrive(&mut self, timeout_us: u64) -> anyhow::Result<u64> {
        if self.begun_us == 0 || self.arrived == self.arrivals_us.len() {
            return Ok(timeout_us);
        }
        let since_us = now_us().saturating_sub(self.begun_us);
        let waiting = &self.arrivals_us[self.arrived..];
        let due = waiting.partition_point(|due_us| *due_us <= since_us);
        if due > 0 {
            self.arrived += due;
            self.subscribers.allow(self.arrived, &self.poller)?;
        }
        let next_us = self.arrivals_us.get(self.arrived);
        Ok(next_us.map_or(timeout_us, |due_us| due_us.saturating_sub(since_us).min(timeout_us)))
    }

    /// Waits once and handles all ready sockets.
    pub(super) fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let timeout_us = self.arrive(self.subscribers.wait_us(timeout_us))?;
        let count = match self.subscribers.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.subscribers.continue_connections(&self.poller)?;
        for index in 0..count {
            self.subscribers.on_ready(self.poller.ready(index), &self.poller)?;
        }
        self.subscribers.give_up_late(&self.poller)?;
        self.subscribers.trickle(now_us(), &self.poller)?;
        if self.negotiated.facts.is_empty() && self.subscribers.established() > 0 {
            // Before the kernel enlarges the buffers.
            self.negotiated = self.subscribers.negotiated();
        }
        let Listen { progress, observer, subscribers, begun_us, .. } = self;
        progress.report(*observer, move |now_us| {
            let connections = subscribers.established();
            let receiver = subscribers.receiver();
            let recorder = receiver.recorder();
            let (silence_us, round_trip_us) = recorder.map_or((0, None), |recorder| {
                let silence_us = recorder.take_silence_us(now_us);
                (silence_us, recorder.exchange.as_deref().and_then(Exchange::mean_us))
            });
            let figures = Figures::from_span(connections, &receiver.statistics, *begun_us, now_us);
            let latency = figures.latency.and(Some(receiver.latency()));
            Figures { silence_us, round_trip_us, latency, ..figures }
        })
    }
}
