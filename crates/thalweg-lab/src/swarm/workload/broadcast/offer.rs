//! Publishes to established subscribers, and waits for the published events.

use super::super::published_load::{Behind, Posting};
use super::Broadcast;
use crate::scenario::Drive;
use crate::swarm::published::Topic;
use crate::swarm::socket::now_us;
use crate::swarm::{Load, PROGRESS_EVERY_US, SILENCE_US_MAX};
use anyhow::bail;

/// Time limit for the last events of a closed loop, µs.
const SETTLE_US_MAX: u64 = 1_000_000;
/// Time limit for the outstanding events of an open loop, µs.
const DRAIN_US_MAX: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Come,
    /// No events arrived for too long: the rest is lost.
    Silent,
    /// Events still arrive, but the rest takes too long.
    StillComing,
}

impl Broadcast<'_> {
    /// Publishes on a schedule, if there is a rate.
    pub(super) fn start_posting(&mut self, rate: Option<f64>) -> anyhow::Result<()> {
        if !self.load.drive.is_published_load() {
            return Ok(());
        }
        self.published.open(&self.load, &self.poller)?;
        self.post_at(rate)
    }

    /// Publishes at this rate from now on, or as the window moves.
    pub(super) fn post_at(&mut self, rate: Option<f64>) -> anyhow::Result<()> {
        match rate {
            Some(rate) => self.published.offer(rate),
            None => self.published.follow_window(self.subscribers.receiver(), &self.poller)?,
        }
        Ok(())
    }

    /// Publishes what is due; returns how long to wait then, at most `timeout_us`.
    pub(super) fn post_on_schedule(&mut self, timeout_us: u64) -> anyhow::Result<u64> {
        self.published.post_on_schedule(self.subscribers.receiver(), timeout_us, &self.poller)
    }

    /// Returns whether something should have arrived by now, but nothing has for too long.
    pub(super) fn is_silent(&mut self, now_us: u64) -> bool {
        match self.published.posting {
            Posting::Nothing => self.must_hear_rows(now_us),
            Posting::Window => true,
            Posting::Schedule => {
                let topics = self.subscribers.receiver().topics().iter();
                let since_us = topics.filter_map(Topic::waits_since_us).min();
                since_us.is_some_and(|us| now_us.saturating_sub(us) > SILENCE_US_MAX)
            }
        }
    }

    /// Returns whether such a silence contradicts the subject's own schedule.
    fn must_hear_rows(&self, now_us: u64) -> bool {
        let Load { drive, start_us, settings, .. } = self.load;
        drive == Drive::GeneratedLoad
            && settings.interval_us < SILENCE_US_MAX / 2
            && now_us > start_us + SILENCE_US_MAX
    }

    /// Stops publishing and waits until everything has arrived; returns `false` after a long silence: the rest is lost.
    pub(super) fn drain(&mut self) -> anyhow::Result<bool> {
        self.published.schedule.stop();
        self.published.behind = None;
        self.published.send_rest(&self.poller)?;
        let published = self.subscribers.receiver().last_due(now_us());
        match self.wait_for(&published, DRAIN_US_MAX)? {
            Wait::Come => Ok(true),
            Wait::Silent => Ok(false),
            Wait::StillComing => {
                let topics = self.subscribers.receiver().topics().iter();
                let last = topics.max_by_key(|topic| topic.outstanding());
                match last.map(|topic| Behind::new(topic, now_us())) {
                    Some(behind) => Err(behind.into()),
                    None => bail!("there is no topic to wait for"),
                }
            }
        }
    }

    /// Waits until all readers have everything up to these, or were told of a gap, at most for this long.
    pub(super) fn wait_for(&mut self, last: &[u64], within_us: u64) -> anyhow::Result<Wait> {
        let begun_us = now_us();
        while !self.subscribers.have(last) {
            self.turn(PROGRESS_EVERY_US)?;
            let now_us = now_us();
            let received_us = self.subscribers.receiver().received_us.max(begun_us);
            if now_us.saturating_sub(received_us) > SILENCE_US_MAX {
                return Ok(Wait::Silent);
            }
            if now_us - begun_us > within_us {
                return Ok(Wait::StillComing);
            }
        }
        Ok(Wait::Come)
    }

    /// Stops publishing, and waits for the last events.
    pub(super) fn stop_posting(&mut self) -> anyhow::Result<()> {
        if self.published.posting == Posting::Schedule {
            self.drain()?;
            return Ok(());
        }
        self.published.posting = Posting::Nothing;
        self.published.send_rest(&self.poller)?;
        let deadline_us = now_us() + SETTLE_US_MAX;
        while !self.subscribers.receiver().topics().iter().all(Topic::is_settled)
            && now_us() < deadline_us
        {
            self.turn(PROGRESS_EVERY_US)?;
        }
        Ok(())
    }
}
