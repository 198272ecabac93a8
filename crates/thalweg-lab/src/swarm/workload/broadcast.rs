//! Subjects that send to many: all events that are published, or that they make by themselves, must reach every subscriber.
//!
//! - `opening`: until all connections stand; `warm_up`: until figures have stopped drifting
//! - `offer`: publishing, and waiting for what was published; `due`: what was due in the span and comes later
//! - `ceiling`: the highest rate within an objective; `search` says which to try

pub(super) mod ceiling;
mod due;
mod offer;
mod opening;
mod search;
mod warm_up;

use super::Workload;
use super::published_load::{Posting, PublishedLoad};
use crate::measure::{Counts, Negotiated, Pacing, Reported, WarmUp};
use crate::scenario::Drive;
use crate::swarm::progress::Progress;
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::subscribers::Subscribers;
use crate::swarm::{
    Figures, Load, MOMENT, Observer, Outcome, PROGRESS_EVERY_US, SILENCE_US_MAX, SPIN_US,
};
use anyhow::bail;
use std::time::Duration;

/// The observer's look at a subject's CPU and memory takes less, on the swarm's thread.
const PROGRESS_TAKES_US: u64 = 400;

pub(super) struct Broadcast<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    subscribers: Subscribers,
    published: PublishedLoad,
    /// When the span began; 0 before.
    begun_us: u64,
    progress: Progress,
    /// Agreed values of the first connection, before the kernel makes its buffers larger.
    negotiated: Negotiated,
    stopped_ports: Vec<u16>,
    /// Counts of the ledger that earlier spans have reported.
    reported: Reported,
}

impl Workload for Broadcast<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        let open_us = self.open()?;
        self.subscribers.receiver().stand(now_us());
        self.negotiated = self.subscribers.negotiated();
        Ok(open_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.start_posting(self.load.settings.events_per_s())?;
        if self.load.drive == Drive::GeneratedLoad {
            let silent_us = self.load.start_us.saturating_sub(now_us());
            self.run(Duration::from_micros(silent_us))?;
        }
        let warm_up = self.get_warm()?;
        while !self.observer.may_begin() {
            self.run(MOMENT)?;
        }
        self.stopped_ports = self.subscribers.stop_readers(&self.poller)?;
        Ok(warm_up)
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        match self.load.drive.is_published_load() {
            true => self.post_at(self.load.settings.events_per_s()),
            false => Ok(()),
        }
    }

    fn catch_up(&mut self) -> anyhow::Result<()> {
        self.read_what_is_due()
    }

    fn begin(&mut self, now_us: u64) {
        self.begun_us = now_us;
        // In a closed loop, events published before the span have waited for it, too.
        let due_us = if self.published.posting == Posting::Window { 0 } else { now_us };
        self.subscribers.receiver().begin_span(due_us);
        self.published.begin_span(now_us);
    }

    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let begun_us = now_us();
        let until_us = begun_us + time.as_micros() as u64;
        loop {
            let now_us = now_us();
            if now_us >= until_us {
                return Ok(());
            }
            self.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
            if let Some(behind) = self.published.behind.take() {
                return Err(behind.into());
            }
            let received_us = self.subscribers.receiver().received_us.max(begun_us);
            if now_us.saturating_sub(received_us) > SILENCE_US_MAX && self.is_silent(now_us) {
                let counts = self.subscribers.close_ledger();
                bail!("the subject has been silent for 2 s: {counts}");
            }
        }
    }

    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let outcome = self.came_by(end_us)?;
        let latency = self.latency_of_span(end_us)?;
        let swarm_fell_short = outcome.pacing.as_ref().is_some_and(Pacing::is_short);
        let failure = self.subscribers.receiver().broken_schedule();
        let ledger = self.new_counts();
        let mut negotiated = self.negotiated.clone();
        negotiated.facts.extend(self.subscribers.slow_fact());
        let round_trips = self.published.probed(end_us - self.begun_us);
        Ok(Outcome {
            latency,
            round_trips,
            swarm_fell_short,
            redialed: self.subscribers.take_redialed(),
            failure,
            ledger,
            negotiated,
            ..outcome
        })
    }

    fn stopped_ports(&self) -> &[u16] {
        &self.stopped_ports
    }

    fn go_on(&mut self) -> anyhow::Result<()> {
        self.go_on_while_wanted()
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        self.stop_posting()
    }

    fn attend(&mut self) -> anyhow::Result<()> {
        self.published.keep_alive(now_us(), &self.poller)?;
        self.turn(0)
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        self.stop_posting()?;
        self.published.finish(&self.poller)?;
        self.subscribers.close_ledger();
        Ok(self.new_counts())
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.observer
    }
}

impl<'a> Broadcast<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        Ok(Broadcast {
            load: load.clone(),
            observer,
            poller: Poller::new()?,
            subscribers: Subscribers::new(load)?,
            published: PublishedLoad::new(load)?,
            begun_us: 0,
            progress: Progress::default(),
            negotiated: Negotiated::default(),
            stopped_ports: Vec::new(),
            reported: Reported::default(),
        })
    }

    fn new_counts(&mut self) -> Counts {
        let counts = self.subscribers.receiver().ledger.counts().clone();
        self.reported.new_in(counts)
    }

    /// Waits once and handles all ready sockets.
    fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let timeout_us = self.post_on_schedule(timeout_us)?;
        let count = match self.subscribers.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.subscribers.go_on(&self.poller)?;
        for index in 0..count {
            let ready = self.poller.ready(index);
            if self.published.take_ready(ready, &self.poller)? {
                continue;
            }
            self.subscribers.on_ready(ready, &self.poller)?;
            let Broadcast { published, subscribers, poller, .. } = self;
            let receiver = subscribers.receiver();
            match published.posting {
                // At once: the window's latency begins with this read.
                Posting::Window => published.post_what_is_due(receiver, poller)?,
                Posting::Schedule if published.schedule.is_due(receiver.received_us) => {
                    published.post_on_schedule(receiver, 0, poller)?;
                }
                _ => {}
            }
        }
        self.subscribers.trickle(now_us(), &self.poller)?;
        let Broadcast { progress, observer, subscribers, published, begun_us, .. } = self;
        if published.posting == Posting::Schedule {
            let now_us = now_us();
            if published.schedule.is_due(now_us + PROGRESS_TAKES_US) && progress.can_wait(now_us) {
                return Ok(());
            }
        }
        progress.tell(*observer, |now_us| {
            let connections = subscribers.standing();
            Figures::from_span(connections, &subscribers.receiver().statistics, *begun_us, now_us)
        })
    }
}
