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

pub(super) struct Listen<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    subscribers: Subscribers,
    /// When the span began; 0 before.
    begun_us: u64,
    progress: ProgressReporter,
    /// Negotiated values of the first connection, before the kernel enlarges its buffers.
    negotiated: Negotiated,
}

impl Workload for Listen<'_> {
    /// Opens connections until each is established or has failed.
    fn connect(&mut self) -> anyhow::Result<u64> {
        let begun_us = now_us();
        self.subscribers.open_more(&self.poller)?;
        while !self.subscribers.is_settled() {
            self.turn(PROGRESS_EVERY_US)?;
            self.subscribers.give_up_late(&self.poller)?;
        }
        self.negotiated = self.subscribers.negotiated();
        self.expect_somebody()?;
        Ok(now_us() - begun_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.run(self.load.warm_up)?;
        self.expect_somebody()?;
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
        let until_us = now_us() + time.as_micros() as u64;
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
        Ok(Listen {
            load: load.clone(),
            observer,
            poller: Poller::new()?,
            subscribers: Subscribers::new(load)?,
            begun_us: 0,
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

    pub(super) fn has_somebody(&self) -> bool {
        self.subscribers.established() > 0
    }

    pub(super) fn expect_somebody(&mut self) -> anyhow::Result<()> {
        match self.subscribers.why_nobody() {
            Some(why) => bail!(why),
            None => Ok(()),
        }
    }

    /// Waits once and handles all ready sockets.
    pub(super) fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let count = match self.subscribers.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.subscribers.continue_connections(&self.poller)?;
        for index in 0..count {
            self.subscribers.on_ready(self.poller.ready(index), &self.poller)?;
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
