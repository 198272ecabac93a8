//! Publishing what subscribers are to get: in a closed loop as the window moves, in
//! an open one on a schedule, whatever becomes of the events before.

use super::{Broadcast, PUBLISHER_KEYS};
use crate::scenario::Drive;
use crate::swarm::pace::Schedule;
use crate::swarm::published::Topic;
use crate::swarm::publisher::Publisher;
use crate::swarm::socket::{self, now_us};
use crate::swarm::{Load, PROGRESS_EVERY_US, SILENCE_US_MAX};
use anyhow::{anyhow, bail};

/// How long the last events of a closed loop may take.
const SETTLE_US_MAX: u64 = 1_000_000;
/// What may be outstanding over all topics: more, and the subject is not slow, it
/// does not keep up.
const OUTSTANDING_BYTES_MAX: u64 = 64 << 20;
const OUTSTANDING_EVENTS_MAX: u64 = 1_000_000;
/// How long what is outstanding in an open loop may take.
const DRAIN_US_MAX: u64 = 10_000_000;

/// When events are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posting {
    Nothing,
    /// As the window moves: a closed loop.
    Window,
    /// On a schedule: an open loop.
    Schedule,
}

/// How waiting for events ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// All readers have them.
    Come,
    /// For long nothing came: the rest is lost.
    Silent,
    /// They still come, and it takes too long.
    StillComing,
}

/// A schedule that was given up.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the subject was {} s behind: {events} events were outstanding", seconds(*.behind_us))]
pub(super) struct Behind {
    behind_us: u64,
    events: u64,
}

fn seconds(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e6)
}

impl Broadcast<'_> {
    /// On a schedule, if there is a rate.
    pub(super) fn start_posting(&mut self, rate: f64) -> anyhow::Result<()> {
        if !self.load.drive.is_published_load() {
            return Ok(());
        }
        for topic in 0..self.load.settings.topics {
            let key = PUBLISHER_KEYS + u64::from(topic);
            self.publishers.push({
                let target = self.dialect.publish_target(topic);
                Publisher::open(&self.dialer, &target, key, &self.poller)?
            });
        }
        if rate > 0.0 {
            self.offer(rate);
            return Ok(());
        }
        self.posting = Posting::Window;
        self.post_what_is_due()
    }

    #[inline]
    pub(super) fn post_what_is_due(&mut self) -> anyhow::Result<()> {
        let receiver = self.subscribers.receiver();
        while let Some((index, topic)) = receiver.next_moved() {
            self.lines.clear();
            topic.publish(now_us(), &mut self.lines);
            self.publishers[index].post(&self.lines, &self.poller)?;
        }
        Ok(())
    }

    /// From now on events of each topic are due `rate` times a second.
    pub(super) fn offer(&mut self, rate: f64) {
        self.posting = Posting::Schedule;
        self.behind = None;
        self.schedule = Schedule::new(rate, self.publishers.len(), now_us());
    }

    /// Publishes what is due; says how long to wait then, at most `timeout_us`.
    pub(super) fn post_on_schedule(&mut self, timeout_us: u64) -> anyhow::Result<u64> {
        let mut now_us = now_us();
        if self.schedule.is_due(now_us) {
            self.post_until(now_us)?;
            now_us = socket::now_us();
        }
        Ok(self.schedule.wait_us(now_us, timeout_us))
    }

    fn post_until(&mut self, now_us: u64) -> anyhow::Result<()> {
        let settings = self.load.settings;
        let events_max = (OUTSTANDING_BYTES_MAX / u64::from(settings.event_bytes))
            .min(OUTSTANDING_EVENTS_MAX)
            / u64::from(settings.topics);
        let topics = self.subscribers.receiver().topics().iter_mut();
        for (index, (topic, publisher)) in topics.zip(&mut self.publishers).enumerate() {
            self.lines.clear();
            while let Some(due_us) = self.schedule.take(index, now_us) {
                topic.publish_on_schedule(due_us, &mut self.lines);
                if topic.outstanding() >= events_max {
                    self.behind = Some(behind(topic, now_us));
                    break;
                }
            }
            if !self.lines.is_empty() {
                // Before the call: what it takes, on loopback all of the subject's wake-up, is
                // not the swarm's lateness.
                self.schedule.publish(socket::now_us());
                publisher.post(&self.lines, &self.poller)?;
            }
        }
        match self.behind {
            // It is taken from there as soon as the ready sockets have been read.
            Some(_) => self.schedule.stop(),
            None => self.schedule.look_ahead(),
        }
        Ok(())
    }

    /// Whether something should have come by now, when for so long nothing has.
    pub(super) fn is_silent(&mut self, now_us: u64) -> bool {
        match self.posting {
            Posting::Nothing => self.must_hear_rows(now_us),
            Posting::Window => true,
            Posting::Schedule => {
                let topics = self.subscribers.receiver().topics().iter();
                let since_us = topics.filter_map(Topic::waits_since_us).min();
                since_us.is_some_and(|us| now_us.saturating_sub(us) > SILENCE_US_MAX)
            }
        }
    }

    /// Whether a subject's own schedule leaves no such silence.
    fn must_hear_rows(&self, now_us: u64) -> bool {
        let Load { drive, start_us, settings, .. } = self.load;
        drive == Drive::GeneratedLoad
            && settings.interval_us < SILENCE_US_MAX / 2
            && now_us > start_us + SILENCE_US_MAX
    }

    /// Publishes nothing more and waits until everything has come; `false` if for
    /// long nothing came, and so the rest is lost.
    pub(super) fn drain(&mut self) -> anyhow::Result<bool> {
        self.schedule.stop();
        self.behind = None;
        let published = self.subscribers.receiver().last_due(now_us());
        match self.wait_for(&published, DRAIN_US_MAX)? {
            Wait::Come => Ok(true),
            Wait::Silent => Ok(false),
            Wait::StillComing => {
                let topics = self.subscribers.receiver().topics().iter();
                let last = topics.max_by_key(|topic| topic.outstanding());
                match last.map(|topic| behind(topic, now_us())) {
                    Some(behind) => Err(behind.into()),
                    None => bail!("there is no topic to wait for"),
                }
            }
        }
    }

    /// Waits for so long at most until all readers have everything up to these, or
    /// were told of a gap.
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

    /// Publishes nothing more, and waits for what was published last.
    pub(super) fn stop_posting(&mut self) -> anyhow::Result<()> {
        if self.posting == Posting::Schedule {
            self.drain()?;
            return Ok(());
        }
        self.posting = Posting::Nothing;
        let deadline_us = now_us() + SETTLE_US_MAX;
        while !self.subscribers.receiver().topics().iter().all(Topic::is_settled)
            && now_us() < deadline_us
        {
            self.turn(PROGRESS_EVERY_US)?;
        }
        Ok(())
    }

    /// Ends the publish requests.
    pub(super) fn finish_publishing(&mut self) -> anyhow::Result<()> {
        self.is_finishing = true;
        for publisher in &mut self.publishers {
            publisher.finish(&self.poller)?;
        }
        Ok(())
    }

    pub(super) fn on_publisher(&mut self, index: usize, is_readable: bool) -> anyhow::Result<()> {
        let publisher = &mut self.publishers[index];
        if is_readable {
            let answer = publisher.answer()?;
            if !answer.is_empty() && !self.is_finishing {
                let text = String::from_utf8_lossy(&answer).into_owned();
                return Err(anyhow!("the subject ended publishing: {text}"));
            }
        }
        publisher.flush(&self.poller)
    }
}

fn behind(topic: &Topic, now_us: u64) -> Behind {
    let since_us = topic.waits_since_us().unwrap_or(now_us);
    Behind { behind_us: now_us.saturating_sub(since_us), events: topic.outstanding() }
}
