//! Connections that are established in `ramp`, `churn` and `stampede`. Each is due at a time set in advance, and late until its
//! subscriptions are established. Meanwhile the subject sends its own events or those of the lab, and the ledger checks them.

use super::published_load::{Posting, PublishedLoad};
use crate::measure::{Beside, Counts, Delays, Negotiated, Reported};
use crate::scenario::TopicKind;
use crate::swarm::progress::ProgressReporter;
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::span_statistics::SpanStatistics;
use crate::swarm::subscribers::Subscribers;
use crate::swarm::{Figures, Load, Observer, Outcome, PROGRESS_EVERY_US, SPIN_US};
use anyhow::bail;

/// Time limit for establishing the last connection.
const ESTABLISHED_WITHIN_US: u64 = 10_000_000;
/// Time limit for catching up afterwards.
const CATCH_UP_WITHIN_US: u64 = 3_000_000;
/// How late a row may be to a connection that leaves, before it counts as missing.
const ROWS_LATE_US_MAX: u64 = 1_000_000;

pub(super) struct Connecting<'a> {
    pub(super) load: Load<'a>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) poller: Poller,
    pub(super) subscribers: Subscribers,
    pub(super) published: PublishedLoad,
    /// Whether each connection must get published events.
    has_joined: Vec<bool>,
    /// Connections whose subscriptions are established, and which have no version yet.
    without_version: Vec<usize>,
    before: Option<Delays>,
    /// Due time of each connection that is not established yet.
    due_us: Vec<Option<u64>>,
    established_us: Vec<u64>,
    /// Connections that were established in the span, and how late.
    established: SpanStatistics,
    /// When the span began; 0 before.
    pub(super) begun_us: u64,
    progress: ProgressReporter,
    negotiated: Negotiated,
    reported: Reported,
}

impl<'a> Connecting<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        if load.settings.connections == 0 {
            bail!("at least one connection is needed");
        }
        Ok(Connecting {
            load: load.clone(),
            observer,
            poller: Poller::new()?,
            subscribers: Subscribers::new(load)?,
            published: PublishedLoad::new(load)?,
            has_joined: vec![false; load.settings.connections as usize],
            without_version: Vec::new(),
            before: None,
            due_us: vec![None; load.settings.connections as usize],
            established_us: vec![0; load.settings.connections as usize],
            established: SpanStatistics::default(),
            begun_us: 0,
            progress: ProgressReporter::default(),
            negotiated: Negotiated::default(),
            reported: Reported::default(),
        })
    }

    pub(super) fn open_all(&mut self) -> anyhow::Result<u64> {
        let begun_us = now_us();
        self.subscribers.open_more(&self.poller)?;
        self.await_established(begun_us)?;
        Ok(now_us() - begun_us)
    }

    /// Begins to publish, if there is a rate.
    pub(super) fn start_publishing(&mut self) -> anyhow::Result<()> {
        if let Some(rate) = self.load.settings.events_per_s() {
            self.published.open(&self.load, &self.poller)?;
            self.published.offer(rate);
        }
        Ok(())
    }

    /// Waits until every due connection is established or has failed.
    pub(super) fn await_established(&mut self, since_us: u64) -> anyhow::Result<()> {
        while !self.subscribers.is_settled() || !self.without_version.is_empty() {
            self.turn(PROGRESS_EVERY_US)?;
            if now_us() - since_us > ESTABLISHED_WITHIN_US + 1000 * self.due_us.len() as u64 {
                let established = self.subscribers.established();
                bail!("only {established} of {} connections opened in time", self.due_us.len());
            }
        }
        if let Some(why) = self.subscribers.why_nobody() {
            bail!(why);
        }
        Ok(())
    }

    /// Waits until all connections have everything due by now; late events are missing. Fails if no connection has received an event.
    pub(super) fn catch_up(&mut self) -> anyhow::Result<()> {
        let begun_us = now_us();
        loop {
            let receiver = self.subscribers.receiver();
            let is_silent = receiver.is_silent(begun_us);
            let last = receiver.last_due(begun_us);
            let is_over = now_us() - begun_us > CATCH_UP_WITHIN_US;
            if is_silent && is_over {
                bail!("the subject was silent: none of its events arrived");
            }
            if is_over || !is_silent && self.subscribers.have(&last) {
                break;
            }
            self.turn(PROGRESS_EVERY_US)?;
        }
        for index in 0..self.established_us.len() {
            if self.subscribers.is_established(index) {
                self.subscribers.receiver().close(index, self.established_us[index], begun_us);
            }
        }
        Ok(())
    }

    /// Replaces an established connection; the new one was due at `due_us`.
    pub(super) fn replace(&mut self, index: usize, due_us: u64) -> anyhow::Result<()> {
        let by_us = now_us().saturating_sub(ROWS_LATE_US_MAX);
        self.subscribers.receiver().close(index, self.established_us[index], by_us);
        if std::mem::take(&mut self.has_joined[index]) {
            self.subscribers.receiver().leave(index, now_us());
        }
        self.due_us[index] = Some(due_us);
        self.subscribers.replace(index, &self.poller)
    }

    pub(super) fn stood_by(&self, time_us: u64) -> u32 {
        self.established_us.iter().filter(|us| (1..=time_us).contains(*us)).count() as u32
    }

    pub(super) fn is_served(&self, index: usize) -> bool {
        self.subscribers.is_established(index) && !self.without_version.contains(&index)
    }

    /// Counts a connection that was due and not even dialed as late so far.
    pub(super) fn not_begun(&mut self, due_us: u64) {
        self.established.late(due_us, now_us(), 1);
    }

    /// Returns the end of the warm-up, which begins when the subject begins to send.
    pub(super) fn warm_at_us(&mut self) -> u64 {
        let is_sending = self.subscribers.receiver().recorder().is_none();
        let begins_us = if is_sending { self.load.start_us } else { 0 };
        now_us().max(begins_us) + self.load.warm_up.as_micros() as u64
    }

    pub(super) fn is_due(&mut self, index: usize, due_us: u64) {
        self.due_us[index] = Some(due_us);
    }

    pub(super) fn begin(&mut self, now_us: u64) {
        self.begun_us = now_us;
        self.published.begin_span(now_us);
        self.before = self.subscribers.receiver().take_delays();
        self.established.reset();
        self.subscribers.receiver().begin_recording(now_us);
    }

    /// Ends the span: each connection that was established in it counts as an event.
    pub(super) fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        // Refused connections, and those not established yet, are late so far.
        for due_us in self.due_us.iter_mut().filter_map(Option::take) {
            self.established.late(due_us, end_us, 1);
        }
        let receiver = self.subscribers.receiver();
        let received = receiver.recorder().is_some();
        let received =
            received.then(|| receiver.end_recording(self.begun_us, end_us)).transpose()?;
        let mut traffic = receiver.statistics.end(end_us);
        traffic.events = self.established.traffic.events;
        let failure = receiver.broken_schedule();
        let is_published = self.published.posting == Posting::Schedule;
        let beside =
            is_published.then(|| Beside { before: self.before, during: receiver.take_delays() });
        Ok(Outcome {
            received,
            beside,
            traffic,
            latency: std::mem::take(&mut self.established.latency),
            failure,
            redialed: self.subscribers.take_redialed(),
            pacing: self.published.schedule.pacing(end_us),
            round_trips: self.published.probed(end_us - self.begun_us),
            ledger: self.new_counts(),
            negotiated: self.negotiated.clone(),
            ..Outcome::default()
        })
    }

    pub(super) fn collect(&mut self) -> anyhow::Result<Counts> {
        self.published.posting = Posting::Nothing;
        self.catch_up()?;
        self.published.finish(&self.poller)?;
        self.subscribers.leave(&self.poller);
        Ok(self.new_counts())
    }

    fn new_counts(&mut self) -> Counts {
        let counts = self.subscribers.receiver().ledger.counts().clone();
        self.reported.new_in(counts)
    }

    /// Waits once and handles all ready sockets.
    pub(super) fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let Connecting { published, subscribers, poller, .. } = self;
        let timeout_us = published.post_on_schedule(subscribers.receiver(), timeout_us, poller)?;
        if let Some(behind) = published.behind.take() {
            return Err(behind.into());
        }
        let count = match self.subscribers.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.subscribers.continue_connections(&self.poller)?;
        for index in 0..count {
            let ready = self.poller.ready(index);
            if !self.published.take_ready(ready, &self.poller)? {
                self.subscribers.on_ready(ready, &self.poller)?;
            }
        }
        self.subscribers.give_up_late(&self.poller)?;
        let newly_established = self.subscribers.take_newly_established();
        if !newly_established.is_empty() && self.negotiated.facts.is_empty() {
            // Before the kernel enlarges the buffers.
            self.negotiated = self.subscribers.negotiated();
        }
        let now_us = now_us();
        for index in newly_established {
            self.established_us[index] = now_us;
            let receiver = self.subscribers.receiver();
            if !std::mem::replace(&mut self.has_joined[index], true) {
                receiver.join(index);
            }
            self.without_version.push(index);
        }
        self.settle(now_us);
        let Connecting { progress, observer, subscribers, begun_us, established, .. } = self;
        progress.report(*observer, move |now_us| {
            Figures::from_span(subscribers.established(), established, *begun_us, now_us)
        })
    }

    /// Marks connections as served that waited only for subscriptions, or for a first version that has arrived.
    fn settle(&mut self, now_us: u64) {
        let waits = self.load.settings.kind == TopicKind::Value;
        let Connecting { without_version, subscribers, due_us, established, .. } = self;
        without_version.retain(|&index| {
            let is_established = subscribers.is_established(index);
            if is_established && waits && !subscribers.receiver().has_all(index) {
                return true;
            }
            // A connection that is lost again is late until the span ends.
            if let Some(due_us) = due_us[index].take_if(|_| is_established) {
                established.record(due_us, now_us, 1);
            }
            false
        });
    }

    pub(super) fn run_until(&mut self, until_us: u64) -> anyhow::Result<()> {
        loop {
            let now_us = now_us();
            if now_us >= until_us {
                return Ok(());
            }
            self.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
        }
    }
}

macro_rules! as_connecting {
    () => {
        fn begin(&mut self, now_us: u64) {
            self.0.begin(now_us);
        }

        fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
            self.0.end(end_us)
        }

        fn collect(&mut self) -> anyhow::Result<Counts> {
            self.0.collect()
        }

        fn poller(&mut self) -> &mut Poller {
            &mut self.0.poller
        }

        fn observer(&mut self) -> &mut dyn Observer {
            self.0.observer
        }
    };
}
pub(super) use as_connecting;
