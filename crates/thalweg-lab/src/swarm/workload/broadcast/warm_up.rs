//! Before the span, loads the subject until figures have stopped drifting. After it, checks Little's law, and
//! keeps the load for further counts.

use super::super::published_load::Posting;
use super::Broadcast;
use crate::measure::{Slice, Steadiness, Warm, WarmUp};
use crate::scenario::Drive;
use crate::swarm::socket::now_us;
use crate::swarm::workload::Workload;
use crate::swarm::{MOMENT, published};
use std::time::Duration;

impl Broadcast<'_> {
    /// Warms up for as long as the workload says, and longer while figures drift.
    pub(super) fn get_warm(&mut self) -> anyhow::Result<WarmUp> {
        let least = self.load.warm_up;
        let Some(tick) = self.tick().filter(|_| !least.is_zero()) else {
            self.run(least)?;
            return Ok(WarmUp::default());
        };
        let begun_us = now_us();
        let elapsed = || Duration::from_micros(now_us() - begun_us);
        let mut steadiness = Steadiness::new(least, !self.is_closed_loop());
        let slice = steadiness.slice(tick);
        loop {
            let slice_us = now_us();
            self.subscribers.receiver().statistics.reset();
            self.run(slice)?;
            let slice_us = (now_us() - slice_us).max(1);
            let statistics = &self.subscribers.receiver().statistics;
            steadiness.push(Slice {
                events_per_s: statistics.traffic.events as f64 * 1e6 / slice_us as f64,
                mean_us: statistics.latency.mean_us().unwrap_or(0.0),
            });
            let elapsed = elapsed();
            let is_steady = match steadiness.after(elapsed) {
                Warm::NotYet => continue,
                Warm::Steady => true,
                Warm::Drifting => false,
            };
            return Ok(WarmUp { took_us: elapsed.as_micros() as u64, is_steady });
        }
    }

    pub(super) fn littles_ratio(&mut self, span_us: u64) -> Option<f64> {
        if !self.is_closed_loop() {
            return None;
        }
        let receiver = self.subscribers.receiver();
        let delivered = receiver.statistics.traffic.events as f64;
        published::littles_ratio(receiver.topics(), delivered, span_us)
    }

    /// Continues the same load after the span, for as long as the observer wants it.
    pub(super) fn continue_while_wanted(&mut self) -> anyhow::Result<()> {
        self.subscribers.receiver().statistics.reset();
        if let Some(rate) = self.load.settings.events_per_s()
            && self.published.posting == Posting::Schedule
            && self.observer.wants_more(0)
        {
            self.published.offer(rate);
        }
        while self.observer.wants_more(self.subscribers.receiver().statistics.traffic.events) {
            self.run(MOMENT)?;
        }
        Ok(())
    }

    /// Returns whether publishing waits for arrivals.
    fn is_closed_loop(&self) -> bool {
        self.load.drive == Drive::PublishedLoad && self.load.settings.events_per_s().is_none()
    }

    /// Returns the time between two events of the schedule, zero in a closed loop; `None` if there are no events at all.
    fn tick(&self) -> Option<Duration> {
        let settings = self.load.settings;
        match self.load.drive {
            // Keys take turns.
            Drive::PublishedLoad => Some(settings.period().unwrap_or_default() / settings.keys),
            Drive::GeneratedLoad => Some(Duration::from_micros(settings.interval_us)),
            _ => None,
        }
    }
}
