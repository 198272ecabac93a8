//! Connections arrive at a set rate, in stages, independent of earlier ones. The span is the whole ramp: from the due time of the first
//! connection until the last is established.
//!
//! With an objective for the events published beside them, the ramp ends a few seconds after an event misses it. The result is the number
//! of connections held, and the counted events are the published ones.

use super::Workload;
use super::connecting::Connecting;
use crate::measure::{Beyond, Counts, Held, Latency, Step, Traffic, WarmUp, tcp_share};
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::{Load, Observer, Outcome};
use std::time::Duration;

/// Connections still arrive this long after the objective was missed, to show how the subject fails.
const BEYOND_US: u64 = 5_000_000;
const STEP_US: u64 = 1_000_000;
/// Interval of the looks at published events.
const LOOK_EVERY_US: u64 = 10_000;

pub(super) struct Ramp<'a> {
    connecting: Connecting<'a>,
    objective: Option<Objective>,
}

/// The objective that every event is in time, and the results so far.
#[derive(Debug)]
struct Objective {
    late_us_max: u64,
    /// When each step began, and what the ledger and the clock of the swarm said then.
    step_us: u64,
    busy_ns: u64,
    events: u64,
    swarm_busy: f64,
    steps: Vec<Step>,
    latency: Latency,
    /// Since the objective was missed.
    missed: Option<MissedRate>,
}

#[derive(Debug)]
struct MissedRate {
    at_us: u64,
    held: Held,
    counts: Counts,
}

impl<'a> Ramp<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        let mut connecting = Connecting::new(load, observer)?;
        connecting.subscribers.come_when_due();
        let late_us_max = load.settings.late_us_max;
        let objective = (late_us_max > 0).then(|| Objective::new(late_us_max));
        Ok(Ramp { connecting, objective })
    }

    fn is_over(&mut self) -> bool {
        let Ramp { connecting, objective: Some(objective) } = self else { return false };
        objective.look(connecting);
        objective.missed.as_ref().is_some_and(|missed| now_us() - missed.at_us > BEYOND_US)
    }

    /// Runs until this time, or until the ramp is over; returns whether the ramp is over.
    fn run_until(&mut self, until_us: u64) -> anyhow::Result<bool> {
        loop {
            let now_us = now_us();
            if self.is_over() || now_us >= until_us {
                return Ok(now_us < until_us);
            }
            self.connecting.run_until(until_us.min(now_us + LOOK_EVERY_US))?;
        }
    }
}

impl Objective {
    fn new(late_us_max: u64) -> Objective {
        Objective {
            late_us_max,
            step_us: 0,
            busy_ns: 0,
            events: 0,
            swarm_busy: 0.0,
            steps: Vec::new(),
            latency: Latency::default(),
            missed: None,
        }
    }

    fn begin(&mut self, connecting: &mut Connecting<'_>, now_us: u64) {
        let late_us_max = self.late_us_max;
        let busy_ns = connecting.poller.busy_ns();
        connecting.subscribers.receiver().begin_span(now_us);
        *self = Objective { step_us: now_us, busy_ns, ..Objective::new(late_us_max) };
    }

    /// Checks whether published events have arrived in time.
    fn look(&mut self, connecting: &mut Connecting<'_>) {
        let now_us = now_us();
        let since_us = connecting.subscribers.receiver().waits_since_us();
        let late_us = since_us.map_or(0, |us| now_us.saturating_sub(us));
        match &mut self.missed {
            Some(MissedRate { held, .. }) => {
                held.beyond.late_us_max = held.beyond.late_us_max.max(late_us);
            }
            None if late_us > self.late_us_max => {
                let due_us = now_us - late_us;
                let held = Held {
                    connections: connecting.stood_by(due_us),
                    at_us: now_us - connecting.begun_us,
                    is_all: false,
                    swarm_busy: self.swarm_busy,
                    kernel_share: tcp_share().unwrap_or(0.0),
                    beyond: Beyond { late_us_max: late_us, ..Beyond::default() },
                };
                let counts = connecting.subscribers.receiver().ledger.counts().clone();
                self.missed = Some(MissedRate { at_us: now_us, held, counts });
            }
            None => {}
        }
        if now_us - self.step_us >= STEP_US {
            self.step(connecting, now_us);
        }
    }

    fn step(&mut self, connecting: &mut Connecting<'_>, now_us: u64) {
        let busy_ns = connecting.poller.busy_ns();
        let span_us = now_us - self.step_us;
        self.swarm_busy = (busy_ns - self.busy_ns) as f64 / (span_us * 1000) as f64;
        let statistics = &mut connecting.subscribers.receiver().statistics;
        let latency = std::mem::take(&mut statistics.latency);
        let events = statistics.traffic.events;
        let rate = connecting.load.settings.events_per_s().unwrap_or(0.0);
        self.steps.push(Step {
            connections: connecting.subscribers.established() as u32,
            rate,
            span_us,
            events_per_s: (events - self.events) as f64 * 1e6 / span_us as f64,
            p99_us: latency.quantile_us(0.99).unwrap_or(0),
            is_confirmation: false,
            missed: self.missed.as_ref().map(|_| "an event was late".to_owned()),
        });
        latency.buckets().for_each(|(us, count)| self.latency.record(us, count));
        (self.step_us, self.busy_ns, self.events) = (now_us, busy_ns, events);
    }

    /// Returns the outcome of the span. Losses beyond the objective are reported, and do not invalidate the figures.
    fn end(&mut self, connecting: &mut Connecting<'_>, outcome: Outcome, events: u64) -> Outcome {
        let now = connecting.subscribers.receiver().ledger.counts().clone();
        let connections = connecting.subscribers.established() as u32;
        let (held, ledger) = match self.missed.take() {
            None => {
                let held = Held {
                    connections,
                    at_us: now_us() - connecting.begun_us,
                    is_all: true,
                    swarm_busy: self.swarm_busy,
                    kernel_share: tcp_share().unwrap_or(0.0),
                    beyond: Beyond::default(),
                };
                (held, outcome.ledger)
            }
            Some(MissedRate { held, counts, .. }) => {
                let beyond = now.since(&counts);
                let beyond = Beyond {
                    connections,
                    cut: beyond.cut,
                    gaps: beyond.gaps,
                    replaced: beyond.replaced,
                    ..held.beyond
                };
                (Held { beyond, ..held }, counts)
            }
        };
        let statistics = &mut connecting.subscribers.receiver().statistics;
        statistics.latency.buckets().for_each(|(us, count)| self.latency.record(us, count));
        let traffic = Traffic { events, ..outcome.traffic };
        Outcome {
            traffic,
            latency: std::mem::take(&mut self.latency),
            steps: std::mem::take(&mut self.steps),
            held: Some(held),
            ledger,
            ..outcome
        }
    }
}

impl Workload for Ramp<'_> {
    /// Does nothing: there is no connection before the ramp.
    fn connect(&mut self) -> anyhow::Result<u64> {
        Ok(0)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.connecting.start_publishing()?;
        let until_us = self.connecting.warm_at_us();
        self.connecting.run_until(until_us)?;
        Ok(WarmUp::default())
    }

    fn begin(&mut self, now_us: u64) {
        self.connecting.begin(now_us);
        if let Some(objective) = &mut self.objective {
            objective.begin(&mut self.connecting, now_us);
        }
    }

    fn run(&mut self, _: Duration) -> anyhow::Result<()> {
        let settings = self.connecting.load.settings;
        let (due_us, end_us) = settings.arrivals.schedule(settings.connections as usize);
        let begun_us = self.connecting.begun_us;
        for (index, due_us) in due_us.iter().enumerate() {
            let due_us = begun_us + due_us;
            if self.run_until(due_us)? {
                return Ok(());
            }
            self.connecting.is_due(index, due_us);
            self.connecting.subscribers.allow(index + 1, &self.connecting.poller)?;
        }
        match &self.objective {
            None => {
                self.run_until(begun_us + end_us)?;
                self.connecting.await_established(now_us())
            }
            // The last connections must be held for as long as the others.
            Some(objective) => {
                let late_us_max = objective.late_us_max;
                self.run_until(begun_us + end_us + 2 * late_us_max).map(drop)
            }
        }
    }

    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let Ramp { connecting, objective } = self;
        let events = connecting.subscribers.receiver().statistics.traffic.events;
        let latency = std::mem::take(&mut connecting.subscribers.receiver().statistics.latency);
        let outcome = connecting.end(end_us)?;
        connecting.subscribers.receiver().statistics.latency = latency;
        Ok(match objective {
            Some(objective) => objective.end(connecting, outcome, events),
            None => outcome,
        })
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        match &self.objective {
            // Events under way beyond the objective do not count.
            Some(_) => Ok(Counts::default()),
            None => self.connecting.collect(),
        }
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.connecting.poller
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.connecting.observer
    }
}
