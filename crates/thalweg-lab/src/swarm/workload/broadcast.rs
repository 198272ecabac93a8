//! Subjects that send to many: what is published to them, or what they make by
//! themselves, must reach every subscriber.
//!
//! - `opening`: until all connections stand
//! - `warm_up`: until figures have stopped drifting
//! - `offer`: publishing, as the window moves or on the schedule of `pace`
//! - `due`: what was due in the span and comes later
//! - `ceiling`: the highest rate within an objective; `search` says which to try

pub(super) mod ceiling;
mod due;
mod offer;
mod opening;
mod search;
mod warm_up;

use super::Workload;
use crate::measure::{Counts, Negotiated, Pacing, Reported, WarmUp};
use crate::scenario::Drive;
use crate::subject::tls;
use crate::swarm::dialect::{self, Dialect};
use crate::swarm::dialer::Dialer;
use crate::swarm::pace::Schedule;
use crate::swarm::progress::Progress;
use crate::swarm::publisher::Publisher;
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::subscribers::Subscribers;
use crate::swarm::{
    Figures, Load, MOMENT, Observer, Outcome, PROGRESS_EVERY_US, SILENCE_US_MAX, SPIN_US,
};
use anyhow::bail;
use offer::{Behind, Posting};
use std::time::Duration;

/// The observer's look at a subject's CPU and memory takes less, on the swarm's thread.
const PROGRESS_TAKES_US: u64 = 400;

/// Publishers' keys for the poller begin here; connections' are their numbers.
const PUBLISHER_KEYS: u64 = 1 << 32;

/// Subscribers of a subject, and where the lab publishes, its publishers.
pub(super) struct Broadcast<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    subscribers: Subscribers,
    /// Of publishers.
    dialer: Dialer,
    dialect: Box<dyn Dialect>,
    /// One per topic.
    publishers: Vec<Publisher>,
    posting: Posting,
    /// Of an open loop.
    schedule: Schedule,
    /// Why the schedule was given up.
    behind: Option<Behind>,
    /// Whether publish requests are being ended.
    is_finishing: bool,
    /// Scratch for the events that are due.
    lines: Vec<u8>,
    /// When the span began; 0 before.
    begun_us: u64,
    progress: Progress,
    /// Of the first connection, before the kernel makes its buffers larger.
    negotiated: Negotiated,
    /// Of subscribers that have stopped reading.
    stopped_ports: Vec<u16>,
    /// What spans before have reported of the ledger.
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
        self.start_posting(f64::from(self.load.settings.rate))?;
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
        match self.load.settings.rate {
            _ if !self.load.drive.is_published_load() => {}
            0 => {
                self.posting = Posting::Window;
                self.post_what_is_due()?;
            }
            rate => self.offer(f64::from(rate)),
        }
        Ok(())
    }

    fn catch_up(&mut self) -> anyhow::Result<()> {
        self.read_what_is_due()
    }

    fn begin(&mut self, now_us: u64) {
        self.begun_us = now_us;
        // In a closed loop what was published before has waited for this span, too.
        let due_us = if self.posting == Posting::Window { 0 } else { now_us };
        self.subscribers.receiver().begin_span(due_us);
        self.schedule.begin_span(now_us);
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
            if let Some(behind) = self.behind.take() {
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
        Ok(Outcome { latency, swarm_fell_short, failure, ledger, negotiated, ..outcome })
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

    fn collect(&mut self) -> anyhow::Result<Counts> {
        self.stop_posting()?;
        self.finish_publishing()?;
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
        let Load { address, settings, .. } = *load;
        Ok(Broadcast {
            load: *load,
            observer,
            poller: Poller::new()?,
            subscribers: Subscribers::new(load)?,
            dialer: Dialer::to_subject(address, settings, tls::HTTP_1)?,
            dialect: dialect::of(load.program, settings),
            publishers: Vec::new(),
            posting: Posting::Nothing,
            schedule: Schedule::default(),
            behind: None,
            is_finishing: false,
            lines: Vec::new(),
            begun_us: 0,
            progress: Progress::default(),
            negotiated: Negotiated::default(),
            stopped_ports: Vec::new(),
            reported: Reported::default(),
        })
    }

    /// What the ledger has counted since this was last asked.
    fn new_counts(&mut self) -> Counts {
        let counts = self.subscribers.receiver().ledger.counts().clone();
        self.reported.new_in(counts)
    }

    /// Waits once and handles everyone who is ready.
    fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let timeout_us = match self.posting {
            Posting::Schedule => self.post_on_schedule(timeout_us)?,
            _ => timeout_us,
        };
        let count = match self.subscribers.is_busy() {
            true => self.poller.wait(0)?,
            false => self.poller.wait_awake(timeout_us, SPIN_US)?,
        };
        self.subscribers.go_on(&self.poller)?;
        for index in 0..count {
            let ready = self.poller.ready(index);
            if ready.key >= PUBLISHER_KEYS {
                self.on_publisher((ready.key - PUBLISHER_KEYS) as usize, ready.readable)?;
                continue;
            }
            self.subscribers.on_ready(ready, &self.poller)?;
            match self.posting {
                // At once: the window's latency begins with this read.
                Posting::Window => self.post_what_is_due()?,
                Posting::Schedule
                    if self.schedule.is_due(self.subscribers.receiver().received_us) =>
                {
                    self.post_on_schedule(0)?;
                }
                _ => {}
            }
        }
        self.subscribers.trickle(now_us(), &self.poller)?;
        let Broadcast { progress, observer, subscribers, begun_us, .. } = self;
        if self.posting == Posting::Schedule {
            let now_us = now_us();
            if self.schedule.is_due(now_us + PROGRESS_TAKES_US) && progress.can_wait(now_us) {
                return Ok(());
            }
        }
        progress.tell(*observer, |now_us| {
            let connections = subscribers.standing();
            Figures::of_span(connections, &subscribers.receiver().statistics, *begun_us, now_us)
        })
    }
}
