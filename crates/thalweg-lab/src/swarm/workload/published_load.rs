//! Publishes to subscribers: in a closed loop as the window moves, in an open one on a schedule, independent of earlier events.

use super::probe::Probe;
use crate::measure::RoundTrips;
use crate::scenario::{PublishTo, Settings};
use crate::subject::{tls, topic_name};
use crate::swarm::dialect::{self, Dialect};
use crate::swarm::dialer::Dialer;
use crate::swarm::nats::NatsPublisher;
use crate::swarm::pace::Schedule;
use crate::swarm::published::Topic;
use crate::swarm::publisher::Publisher;
use crate::swarm::publishing::Publishing;
use crate::swarm::receiver::Receiver;
use crate::swarm::socket::{self, Poller, Ready, now_us};
use crate::swarm::{Load, tls_free};
use anyhow::{Context, anyhow};

/// Limit of outstanding bytes over all topics; beyond it, the subject does not keep up.
const OUTSTANDING_BYTES_MAX: u64 = 64 << 20;
const OUTSTANDING_EVENTS_MAX: u64 = 1_000_000;
/// First key of publishers for the poller; connections' keys are their numbers.
const PUBLISHER_KEYS: u64 = 1 << 32;
const PROBE_KEY: u64 = 1 << 33;
/// Some servers end a request that is silent for longer: uWebSockets waits for ten seconds.
const KEEP_ALIVE_US: u64 = 3_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posting {
    Nothing,
    /// As the window moves: a closed loop.
    Window,
    /// On a schedule: an open loop.
    Schedule,
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the subject was {} s behind: {events} events were outstanding", seconds(*.behind_us))]
pub(super) struct Behind {
    behind_us: u64,
    events: u64,
}

fn seconds(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e6)
}

impl Behind {
    pub(super) fn new(topic: &Topic, now_us: u64) -> Behind {
        let since_us = topic.waits_since_us().unwrap_or(now_us);
        Behind { behind_us: now_us.saturating_sub(since_us), events: topic.outstanding() }
    }
}

pub(super) struct PublishedLoad {
    settings: Settings,
    dialer: Dialer,
    dialect: Box<dyn Dialect>,
    publishers: Vec<Publisher>,
    /// Set beside a keyed load.
    probe: Option<Probe>,
    pub(super) posting: Posting,
    /// Schedule of an open loop.
    pub(super) schedule: Schedule,
    /// Why the schedule was given up.
    pub(super) behind: Option<Behind>,
    is_finishing: bool,
    /// Scratch for the events that are due.
    lines: Vec<u8>,
    /// Time of the last keep-alive in a pause.
    kept_us: u64,
}

impl PublishedLoad {
    pub(super) fn new(load: &Load<'_>) -> anyhow::Result<PublishedLoad> {
        Ok(PublishedLoad {
            settings: load.settings.clone(),
            dialer: Dialer::to_subject(load.address, load.settings, tls::HTTP_1)?,
            dialect: dialect::new(load.program, load.settings),
            publishers: Vec::new(),
            probe: None,
            posting: Posting::Nothing,
            schedule: Schedule::default(),
            behind: None,
            is_finishing: false,
            lines: Vec::new(),
            kept_us: 0,
        })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.dialer.is_tls()
    }

    pub(super) fn open(&mut self, load: &Load<'_>, poller: &Poller) -> anyhow::Result<()> {
        if self.settings.keys > 1 {
            self.probe = Some(Probe::open(load, PROBE_KEY, poller)?);
        }
        for topic in 0..self.settings.topics_in_all() {
            let key = PUBLISHER_KEYS + u64::from(topic);
            let publishing = match self.settings.publish_to {
                // Acknowledged as without subscribers, so that NATS has the same work for a consumer.
                PublishTo::Nats => None,
                PublishTo::Subject => Some(self.dialect.publishing(topic)),
            };
            self.publishers.push(match publishing {
                Some(Publishing::Ndjson { target }) => {
                    let chunk_events = self.settings.chunk_events;
                    Publisher::ndjson(&self.dialer, &target, chunk_events, key, poller)?
                }
                Some(Publishing::Requests(requests)) => {
                    Publisher::requests(&self.dialer, requests, key, poller)?
                }
                Some(Publishing::Nats { subject }) => {
                    let dialer = self.to_nats(load)?;
                    Publisher::Nats(Box::new(NatsPublisher::plain(&dialer, subject, key, poller)?))
                }
                None => {
                    let (topic, events_max) = (topic_name(topic), self.settings.message_events);
                    let dialer = self.to_nats(load)?;
                    let nats = NatsPublisher::stored(&dialer, &topic, events_max, key, poller)?;
                    Publisher::Nats(Box::new(nats))
                }
            });
        }
        Ok(())
    }

    fn to_nats(&self, load: &Load<'_>) -> anyhow::Result<Dialer> {
        let nats = load.cluster.nats.context("this subject has no NATS server to publish to")?;
        Dialer::to_subject(nats, &tls_free(&self.settings), "")
    }

    /// Sends incomplete messages, in a pause.
    pub(super) fn send_rest(&mut self, poller: &Poller) -> anyhow::Result<()> {
        self.publishers.iter_mut().try_for_each(|publisher| publisher.send_rest(poller))
    }

    /// Keeps publish connections alive, in a pause.
    pub(super) fn keep_alive(&mut self, now_us: u64, poller: &Poller) -> anyhow::Result<()> {
        if now_us.saturating_sub(self.kept_us) < KEEP_ALIVE_US {
            return Ok(());
        }
        self.kept_us = now_us;
        self.publishers.iter_mut().try_for_each(|publisher| publisher.keep_alive(poller))
    }

    pub(super) fn follow_window(
        &mut self,
        receiver: &mut Receiver,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        self.posting = Posting::Window;
        self.post_due(receiver, poller)
    }

    #[inline]
    pub(super) fn post_due(
        &mut self,
        receiver: &mut Receiver,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        while let Some((index, topic)) = receiver.next_moved() {
            self.lines.clear();
            topic.publish(now_us(), &mut self.lines);
            self.publishers[index].post(&self.lines, poller)?;
        }
        Ok(())
    }

    /// Makes events of each topic due `rate` times a second from now on.
    pub(super) fn offer(&mut self, rate: f64) {
        self.posting = Posting::Schedule;
        self.behind = None;
        self.schedule = Schedule::new(rate, self.publishers.len(), now_us());
    }

    /// Publishes due events; returns how long to wait then, at most `timeout_us`.
    pub(super) fn post_on_schedule(
        &mut self,
        receiver: &mut Receiver,
        timeout_us: u64,
        poller: &Poller,
    ) -> anyhow::Result<u64> {
        let timeout_us = match &mut self.probe {
            Some(probe) => probe.ask(timeout_us, poller)?,
            None => timeout_us,
        };
        if self.posting != Posting::Schedule {
            return Ok(timeout_us);
        }
        let mut now_us = now_us();
        if self.schedule.is_due(now_us) {
            self.post_until(receiver, now_us, poller)?;
            now_us = socket::now_us();
        }
        Ok(self.schedule.wait_us(now_us, timeout_us))
    }

    fn post_until(
        &mut self,
        receiver: &mut Receiver,
        now_us: u64,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        let settings = &self.settings;
        let events_max = (OUTSTANDING_BYTES_MAX / u64::from(settings.event_bytes))
            .min(OUTSTANDING_EVENTS_MAX)
            / u64::from(settings.topics_in_all());
        let topics = receiver.topics().iter_mut();
        for (index, (topic, publisher)) in topics.zip(&mut self.publishers).enumerate() {
            self.lines.clear();
            while let Some(due_us) = self.schedule.take(index, now_us) {
                topic.publish_on_schedule(due_us, &mut self.lines);
                if topic.outstanding() >= events_max {
                    self.behind = Some(Behind::new(topic, now_us));
                    break;
                }
            }
            if !self.lines.is_empty() {
                // Before the call: on loopback it includes the subject's wake-up, which is not the swarm's lateness.
                self.schedule.publish(socket::now_us());
                publisher.post(&self.lines, poller)?;
                topic.prepare();
            }
        }
        match self.behind {
            // The load continues from there as soon as the ready sockets have been read.
            Some(_) => self.schedule.stop(),
            None => self.schedule.look_ahead(),
        }
        Ok(())
    }

    /// Handles a ready socket, if it is a publisher's; returns whether it is.
    pub(super) fn take_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<bool> {
        let Some(index) = ready.key.checked_sub(PUBLISHER_KEYS) else { return Ok(false) };
        if let Some(probe) = &mut self.probe
            && probe.take_ready(ready, poller)?
        {
            return Ok(true);
        }
        let Some(publisher) = self.publishers.get_mut(index as usize) else { return Ok(false) };
        if ready.readable {
            let answer = publisher.answer()?;
            if !answer.is_empty() && !self.is_finishing {
                let text = String::from_utf8_lossy(&answer).into_owned();
                return Err(anyhow!("the subject ended publishing: {text}"));
            }
        }
        publisher.flush(poller)?;
        Ok(true)
    }

    pub(super) fn begin_span(&mut self, now_us: u64) {
        self.schedule.begin_span(now_us);
        self.probe.iter_mut().for_each(|probe| probe.begin(now_us));
    }

    /// Returns the result of the echo probe in the span, if there is a probe.
    pub(super) fn probed(&mut self, span_us: u64) -> Option<RoundTrips> {
        self.probe.as_mut()?.end(span_us)
    }

    pub(super) fn finish(&mut self, poller: &Poller) -> anyhow::Result<()> {
        self.is_finishing = true;
        self.publishers.iter_mut().try_for_each(|publisher| publisher.finish(poller))
    }
}
