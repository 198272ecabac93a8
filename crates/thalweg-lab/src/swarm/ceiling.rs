//! The highest rate that meets an objective, on one running subject: `search` says
//! which rates to try, here they are tried.

use super::offer::Behind;
use super::search::{End, Next, Tried, next};
use super::{Interrupted, Moment, Outcome, Swarm};
use crate::measure::{Counts, Pacing, Step};
use std::time::Duration;

/// Where the search begins, if the settings do not say.
const RATE_FIRST: f64 = 100.0;
/// A rate has so long to get going, at most, before it is measured.
const SETTLE: Duration = Duration::from_millis(200);
/// A confirmation lasts so many spans.
const CONFIRMATION_SPANS: u32 = 3;
/// Of the schedule, what must be delivered in the span…
const DELIVERED: f64 = 0.99;
/// …but for what was due at its very end.
const EDGE_EVENTS: f64 = 1.0;
/// From this share on the swarm's core counts as saturated.
const SATURATED: f64 = 0.95;

impl Swarm<'_> {
    /// Searches, and measures what is found for longer.
    pub(super) fn find_ceiling(mut self) -> anyhow::Result<Outcome> {
        let open_us = self.open()?;
        self.observer.at(Moment::Open);
        let first = match self.workload.settings.rate {
            0 => RATE_FIRST,
            rate => f64::from(rate),
        };
        self.start_posting(first)?;
        self.run_for(self.workload.warm_up)?;
        self.drain()?;

        let (mut tried, mut steps) = (Vec::new(), Vec::new());
        // Of the last confirmation: only then anything is found.
        let mut outcome = Outcome::default();
        let failure = loop {
            let (rate, is_confirmation) = match next(first, &tried) {
                Next::Try(rate) => (rate, false),
                Next::Confirm(rate) => (rate, true),
                Next::Found(_) => break None,
                Next::NothingMet => break Some("no rate met the objective"),
                Next::NothingConfirmed => break Some("no rate met the objective for longer"),
            };
            let (end, step);
            (outcome, end, step) = self.step(rate, is_confirmation)?;
            steps.push(step);
            tried.push(Tried { rate, is_confirmation, end });
            if !self.subscribers.inbox().ledger.counts().is_honest() {
                // The ledger says it all, and nothing will make it whole.
                break None;
            }
        };
        let why = steps.iter().rev().find_map(|step: &Step| step.missed.clone());
        let is_swarms = tried.iter().any(|tried| tried.end == End::SwarmBound);
        self.settle()?;
        let gaps = outcome.ledger.gaps;
        Ok(Outcome {
            // A subject that is asked too much may say so, on the way.
            ledger: Counts { gaps, ..self.subscribers.close_ledger() },
            failure: failure.map(|failure| format!("{failure}: {}", why.unwrap_or_default())),
            swarm_fell_short: is_swarms,
            open_us,
            steps,
            ..outcome
        })
    }

    /// Offers a rate for a span, or longer, and lets what is left of it come.
    fn step(&mut self, rate: f64, is_confirmation: bool) -> anyhow::Result<(Outcome, End, Step)> {
        let spans = if is_confirmation { CONFIRMATION_SPANS } else { 1 };
        let before = self.subscribers.inbox().ledger.counts().clone();
        self.offer(rate);
        let measured = self
            .run_for(SETTLE.min(self.workload.measured))
            .and_then(|()| self.span(self.workload.measured * spans));
        let failure = match &measured {
            Err(error) if error.is::<Interrupted>() => return Err(Interrupted.into()),
            // The connection that publishes is no longer one, or the subject is gone.
            Err(error) if !error.is::<Behind>() => return Err(anyhow::anyhow!("{error:#}")),
            Err(error) => Some(error.to_string()),
            Ok(_) => None,
        };
        let is_drained = self.drain()?;
        let inbox = self.subscribers.inbox();
        let mut outcome = measured.unwrap_or_default();
        outcome.latency = std::mem::take(&mut inbox.tally.latency);
        outcome.ledger = inbox.ledger.counts().since(&before);
        let lost = (!is_drained).then(|| "not everything came".to_owned());
        let missed = failure.or(lost).or_else(|| self.missed(&outcome, rate));
        let swarm_busy = outcome.swarm_cpu_ns as f64 / (outcome.span_us.max(1) * 1000) as f64;
        let (end, missed) = match missed {
            _ if swarm_busy >= SATURATED => {
                (End::SwarmBound, Some("the swarm is saturated, not the subject".to_owned()))
            }
            Some(reason) => (End::Missed, Some(reason)),
            None => (End::Met, None),
        };
        let step = Step {
            rate,
            span_us: outcome.span_us,
            events_per_s: outcome.traffic.events as f64 * 1e6 / outcome.span_us.max(1) as f64,
            p99_us: outcome.latency.quantile_us(0.99).unwrap_or(0),
            is_confirmation,
            missed,
        };
        Ok((outcome, end, step))
    }

    /// Why the objective was missed, if it was.
    fn missed(&self, outcome: &Outcome, rate: f64) -> Option<String> {
        let settings = self.workload.settings;
        if let Some(pacing) = outcome.pacing.filter(Pacing::is_short) {
            // Not saturated: kept from its core for a moment.
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
            format!("only {:.0} % of the schedule came in the span", 100.0 * delivered / scheduled)
        })
    }
}
