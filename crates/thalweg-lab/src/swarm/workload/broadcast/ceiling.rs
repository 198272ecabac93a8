//! The highest rate that meets an objective, on one running subject: `search` chooses the rates, this module tries them.

use super::super::published_load::Behind;
use super::Broadcast;
use super::search::{NextRate, RateOutcome, Tried, is_swarms, next};
use crate::measure::{Counts, Pacing, Step, WarmUp};
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::workload::{Workload, measure};
use crate::swarm::{Load, Moment, Observer, Outcome};
use std::time::Duration;

/// Where the search begins, if the settings do not say.
const RATE_FIRST: f64 = 100.0;
/// Maximum time that a rate gets to settle before it is measured.
const SETTLE: Duration = Duration::from_millis(200);
/// Length of a confirmation in spans.
const CONFIRMATION_SPANS: u32 = 3;
/// Share of the schedule that must be delivered in the span…
const DELIVERED: f64 = 0.99;
/// …without events that were due at its very end.
const EDGE_EVENTS: f64 = 1.0;
/// From this share on the swarm's core counts as saturated.
const SATURATED: f64 = 0.95;
/// A swarm that did not poll its sockets for this share of the time has caused the p99 itself.
const AWAY: f64 = 0.01;

struct Offered {
    /// Outcome of the span; almost empty if the span was aborted.
    outcome: Outcome,
    /// Why the span was aborted, or what did not arrive.
    failure: Option<String>,
    /// Duration of the offer, with the time before the span.
    took_us: u64,
    /// Share of its core that the swarm used.
    swarm_busy: f64,
}

pub(in crate::swarm) struct Ceiling<'a> {
    swarm: Broadcast<'a>,
    tried: Vec<Tried>,
    steps: Vec<Step>,
}

impl Workload for Ceiling<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        self.swarm.connect()
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        let (first, warm_up) = (self.first(), self.swarm.load.warm_up);
        self.swarm.start_posting(Some(first))?;
        let warm = self.offered(first, |found| {
            found.run(warm_up)?;
            Ok(Outcome::default())
        })?;
        if let Some(failure) = warm.failure.clone() {
            // The rate was too high: the search goes down from there.
            let (end, step) = self.judge(&warm, first, false, Some(failure));
            self.steps.push(step);
            self.tried.push(Tried { rate: first, is_confirmation: false, end });
        }
        Ok(WarmUp::default())
    }

    fn begin(&mut self, now_us: u64) {
        self.swarm.begin(now_us);
    }

    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        self.swarm.run(time)
    }

    /// Ends the span; late events are read when the rate is no longer offered.
    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        self.swarm.outcome(end_us)
    }

    /// Searches for the rate, and measures it for longer: `time` is the span of a single rate.
    fn span(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        self.swarm.observer.at(Moment::Warm);
        let first = self.first();
        // From the last confirmation, because only a confirmation finds a rate.
        let mut outcome = Outcome::default();
        let failure = loop {
            let (rate, is_confirmation) = match next(first, &self.tried) {
                NextRate::Try(rate) => (rate, false),
                NextRate::Confirm(rate) => (rate, true),
                NextRate::Found(_) => break None,
                NextRate::NothingMet => break Some("no rate met the objective"),
                // Results at the lowest rate count; otherwise low results would be left out.
                NextRate::NothingConfirmed => break None,
            };
            let (end, step);
            (outcome, end, step) = self.step(rate, is_confirmation, time)?;
            self.steps.push(step);
            self.tried.push(Tried { rate, is_confirmation, end });
            if !self.swarm.subscribers.receiver().ledger.counts().is_honest() {
                // The ledger has the reason, and cannot become whole again.
                break None;
            }
        };
        self.swarm.observer.at(Moment::Over { stopped_ports: &[] });
        let why = self.steps.iter().rev().find_map(|step| step.missed.clone());
        let gaps = outcome.ledger.gaps;
        Ok(Outcome {
            // An overloaded subject may announce gaps during the search.
            ledger: Counts { gaps, ..self.swarm.new_counts() },
            failure: failure.map(|failure| format!("{failure}: {}", why.unwrap_or_default())),
            swarm_fell_short: is_swarms(&self.tried),
            negotiated: self.swarm.negotiated.clone(),
            steps: std::mem::take(&mut self.steps),
            ..outcome
        })
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        Ok(Counts { gaps: 0, ..self.swarm.collect()? })
    }

    fn poller(&mut self) -> &mut Poller {
        self.swarm.poller()
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.swarm.observer
    }
}

impl<'a> Ceiling<'a> {
    pub(in crate::swarm) fn new(
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
    ) -> anyhow::Result<Ceiling<'a>> {
        let swarm = Broadcast::new(load, observer)?;
        Ok(Ceiling { swarm, tried: Vec::new(), steps: Vec::new() })
    }

    fn first(&self) -> f64 {
        match self.swarm.load.settings.rate {
            0 => RATE_FIRST,
            rate => f64::from(rate),
        }
    }

    fn step(
        &mut self,
        rate: f64,
        is_confirmation: bool,
        time: Duration,
    ) -> anyhow::Result<(Outcome, RateOutcome, Step)> {
        let spans = if is_confirmation { CONFIRMATION_SPANS } else { 1 };
        let mut offered = self.offered(rate, |found| {
            found.run(SETTLE.min(time))?;
            measure(found, time * spans)
        })?;
        let failure = offered.failure.take();
        let missed = failure.or_else(|| self.missed(&offered.outcome, rate));
        let (end, step) = self.judge(&offered, rate, is_confirmation, missed);
        Ok((offered.outcome, end, step))
    }

    /// Offers a rate while `load` runs, and awaits the rest of its events.
    fn offered(
        &mut self,
        rate: f64,
        load: impl FnOnce(&mut Self) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<Offered> {
        let before = self.swarm.subscribers.receiver().ledger.counts().clone();
        self.swarm.poller.take_away_us_max();
        let (begun_us, busy_ns) = (now_us(), self.swarm.poller.busy_ns());
        self.swarm.published.offer(rate);
        let loaded = load(self);
        let took_us = (now_us() - begun_us).max(1);
        let swarm_busy = (self.swarm.poller.busy_ns() - busy_ns) as f64 / (took_us * 1000) as f64;
        let (mut outcome, behind) = match loaded {
            Ok(outcome) => (outcome, None),
            Err(error) if error.is::<Behind>() => {
                let swarm_away_us = self.swarm.poller.take_away_us_max();
                let pacing = self.swarm.published.schedule.pacing(now_us());
                let outcome = Outcome { pacing, swarm_away_us, ..Outcome::default() };
                (outcome, Some(error.to_string()))
            }
            // The observer ended the sample, the publish connection failed, or the subject is gone.
            Err(error) => return Err(error),
        };
        let late = self.await_rest()?;
        let receiver = self.swarm.subscribers.receiver();
        outcome.latency = std::mem::take(&mut receiver.statistics.latency);
        outcome.ledger = receiver.ledger.counts().since(&before);
        Ok(Offered { outcome, failure: behind.or(late), took_us, swarm_busy })
    }

    /// Awaits the rest, so that it does not disturb the next rate; returns what was wrong. Fails if this takes too long.
    fn await_rest(&mut self) -> anyhow::Result<Option<String>> {
        let (is_all, behind) = match self.swarm.drain() {
            Err(error) if error.is::<Behind>() => (self.swarm.drain()?, Some(error.to_string())),
            drained => (drained?, None),
        };
        Ok(behind.or_else(|| (!is_all).then(|| "not everything came".to_owned())))
    }

    /// Judges whether the subject or the swarm missed the objective, if `missed` has a reason.
    fn judge(
        &self,
        offered: &Offered,
        rate: f64,
        is_confirmation: bool,
        missed: Option<String>,
    ) -> (RateOutcome, Step) {
        let Offered { outcome, swarm_busy, .. } = offered;
        // A rate that was met counts even with a busy swarm: a swarm that reads little at a time is busy at every rate.
        let end = match missed {
            None => RateOutcome::Met,
            Some(_) if *swarm_busy >= SATURATED => RateOutcome::SwarmBound,
            Some(_) if self.is_swarms_own(offered) => RateOutcome::Disturbed,
            Some(_) => RateOutcome::Missed,
        };
        let missed = missed.map(|reason| match end {
            RateOutcome::SwarmBound => format!("{reason}; the swarm is saturated"),
            _ => reason,
        });
        let step = Step {
            connections: 0,
            rate,
            span_us: outcome.span_us,
            events_per_s: outcome.traffic.events as f64 * 1e6 / outcome.span_us.max(1) as f64,
            p99_us: outcome.latency.quantile_us(0.99).unwrap_or(0),
            is_confirmation,
            missed,
        };
        (end, step)
    }

    /// Returns whether the swarm itself was so late, or so long away from its core, that no subject could meet
    /// the objective.
    fn is_swarms_own(&self, offered: &Offered) -> bool {
        let p99_us_max = self.swarm.load.settings.p99_us_max;
        let Offered { outcome, took_us, .. } = offered;
        let is_away = outcome.swarm_away_us > p99_us_max
            && outcome.swarm_away_us as f64 > AWAY * *took_us as f64;
        let is_late = outcome.pacing.is_some_and(|pacing| {
            // An aborted span need not publish its last events.
            pacing.late_p99_us > p99_us_max || outcome.span_us > 0 && pacing.is_short()
        });
        is_away || is_late
    }

    fn missed(&self, outcome: &Outcome, rate: f64) -> Option<String> {
        let settings = self.swarm.load.settings;
        if let Some(pacing) = outcome.pacing.filter(Pacing::is_short) {
            // The swarm was not saturated, but kept from its core for a moment.
            return pacing.remark(0);
        }
        let p99_us = outcome.latency.quantile_us(0.99).unwrap_or(u64::MAX);
        if p99_us > settings.p99_us_max {
            let late = outcome.pacing.and_then(|pacing| pacing.remark(p99_us));
            let late = late.map(|late| format!("; {late}")).unwrap_or_default();
            return Some(format!("p99 was {p99_us} µs{late}"));
        }
        if !outcome.ledger.is_whole() {
            return Some(outcome.ledger.to_string());
        }
        let subscriptions = f64::from(settings.readers() * settings.topics);
        let readers = f64::from(settings.readers());
        let scheduled = outcome.pacing.map_or(0.0, |pacing| pacing.scheduled as f64) * readers;
        let edge = subscriptions * (EDGE_EVENTS + rate * settings.p99_us_max as f64 / 1e6);
        let delivered = outcome.traffic.events as f64;
        (delivered + edge < DELIVERED * scheduled).then(|| {
            format!(
                "only {:.0} % of the schedule arrived in the span",
                100.0 * delivered / scheduled
            )
        })
    }
}
