//! Publishes to NATS for readers of a stream, without subscribers, to measure the cost of reading. The subject reports how many
//! messages it has read; a consumer also reports when each was due and when it arrived.

use super::Workload;
use crate::measure::{Counts, Latency, Pacing, Reported, Traffic, WarmUp};
use crate::scenario::PeerDialect;
use crate::subject::topic_name;
use crate::swarm::dialer::Dialer;
use crate::swarm::event::{self, Stamp};
use crate::swarm::nats::NatsPublisher;
use crate::swarm::pace::Schedule;
use crate::swarm::progress::ProgressReporter;
use crate::swarm::socket::{self, Poller, now_us};
use crate::swarm::{
    Figures, Load, MOMENT, Observer, Outcome, PROGRESS_EVERY_US, SPIN_US, tls_free,
};
use anyhow::{Context, bail};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Limit of the time until published events are acknowledged, and read.
const SETTLE_WITHIN_US: u64 = 5_000_000;
/// Interval of reading the subject's counter.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// Timeout of a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Metric of the messages that a node, or a consumer, has read.
const MESSAGES_READ: &str = "thalweg_nats_messages_total ";

/// A publisher, and the counts of the subject.
pub(super) struct Stored<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    progress: ProgressReporter,
    publisher: NatsPublisher,
    /// Due times of messages; without a rate there are none.
    schedule: Schedule,
    is_publishing: bool,
    published: u64,
    wire_bytes: u64,
    /// Messages that the subject had read before the load.
    read_before: u64,
    /// When the span began, and the numbers published by then.
    begun: (u64, u64, u64),
    counts: Counts,
    reported: Reported,
    lines: Vec<u8>,
}

impl Workload for Stored<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        let begun_us = now_us();
        self.read_before = self.messages_read()?;
        Ok(now_us() - begun_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.resume()?;
        self.run(self.load.warm_up)?;
        while !self.observer.may_begin() {
            self.run(MOMENT)?;
        }
        Ok(WarmUp::default())
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.is_publishing = true;
        if let Some(rate) = self.load.settings.events_per_s() {
            let messages = rate / f64::from(self.load.settings.message_events);
            self.schedule = Schedule::new(messages, 1, now_us());
        }
        Ok(())
    }

    fn catch_up(&mut self) -> anyhow::Result<()> {
        self.run(MOMENT)
    }

    fn begin(&mut self, now_us: u64) {
        self.begun = (now_us, self.published, self.wire_bytes);
        self.schedule.begin_span(now_us);
    }

    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        loop {
            let now_us = now_us();
            if now_us >= until_us {
                return Ok(());
            }
            let wait_us = self.publish_due()?;
            self.turn(wait_us.min(until_us.saturating_sub(socket::now_us())))?;
        }
    }

    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let (begun_us, published, wire_bytes) = self.begun;
        let pacing = self.schedule.pacing(end_us);
        let traffic = Traffic {
            events: self.published - published,
            wire_bytes: self.wire_bytes - wire_bytes,
            ..Traffic::default()
        };
        self.settle()?;
        let latency = self.latency(begun_us, end_us)?;
        let ledger = self.reported.new_in(self.counts.clone());
        let swarm_fell_short = pacing.as_ref().is_some_and(Pacing::is_short);
        // Pacing tells how far a latency can be trusted. A node reports no latency here.
        let pacing = pacing.filter(|_| latency.quantile_us(0.5).is_some());
        Ok(Outcome { traffic, pacing, latency, ledger, swarm_fell_short, ..Outcome::default() })
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        self.settle()?;
        Ok(self.reported.new_in(self.counts.clone()))
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.observer
    }
}

impl<'a> Stored<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        let poller = Poller::new()?;
        let nats = load.cluster.nats.context("this subject has no NATS server to publish to")?;
        let dialer = Dialer::to_subject(nats, &tls_free(load.settings), "")?;
        let events_max = load.settings.message_events;
        let publisher = NatsPublisher::stored(&dialer, &topic_name(0), events_max, 0, &poller)?;
        Ok(Stored {
            load: load.clone(),
            observer,
            poller,
            progress: ProgressReporter::default(),
            publisher,
            schedule: Schedule::default(),
            is_publishing: false,
            published: 0,
            wire_bytes: 0,
            read_before: 0,
            begun: (0, 0, 0),
            counts: Counts::default(),
            reported: Reported::default(),
            lines: Vec::new(),
        })
    }

    /// Publishes due messages, by schedule or window. Returns how long to wait afterwards.
    fn publish_due(&mut self) -> anyhow::Result<u64> {
        if !self.is_publishing {
            return Ok(PROGRESS_EVERY_US);
        }
        let now_us = now_us();
        if self.load.settings.events_per_s().is_none() {
            let window = u64::from(self.load.settings.window);
            let is_open = |(sent, acked): (u64, u64)| sent - acked < window;
            while is_open(self.publisher.sent_and_acked()) {
                self.publish_message(now_us)?;
            }
            return Ok(PROGRESS_EVERY_US);
        }
        while let Some(due_us) = self.schedule.take(0, now_us) {
            self.schedule.publish(socket::now_us());
            self.publish_message(due_us)?;
        }
        self.schedule.look_ahead();
        Ok(self.schedule.wait_us(socket::now_us(), PROGRESS_EVERY_US))
    }

    /// Publishes a message. All its events are due when the message is.
    fn publish_message(&mut self, due_us: u64) -> anyhow::Result<()> {
        self.lines.clear();
        for _ in 0..self.load.settings.message_events {
            self.published += 1;
            let stamp = Stamp { seq: self.published, due_us };
            event::write(&mut self.lines, stamp, self.load.settings.event_bytes as usize);
            self.lines.push(b'\n');
        }
        self.wire_bytes += self.lines.len() as u64;
        self.publisher.post(&self.lines, &self.poller)
    }

    fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        if self.poller.wait_awake(timeout_us, SPIN_US)? > 0 {
            self.publisher.continue_transfer(&self.poller)?;
        }
        let Stored { published, begun, .. } = *self;
        self.progress.report(self.observer, |now_us| {
            let events = published - begun.1;
            let span_us = now_us.saturating_sub(begun.0).max(1);
            let events_per_s = events as f64 * 1e6 / span_us as f64;
            match begun.0 {
                0 => Figures { connections: 1, ..Figures::default() },
                _ => Figures { connections: 1, events_per_s, events, ..Figures::default() },
            }
        })
    }

    /// Stops publishing, and waits until all is stored and read. The rest counts as missing.
    fn settle(&mut self) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.is_publishing, false) {
            return Ok(());
        }
        self.schedule.stop();
        let until_us = now_us() + SETTLE_WITHIN_US;
        let unanswered = |(sent, acked): (u64, u64)| sent - acked;
        while unanswered(self.publisher.sent_and_acked()) > 0 {
            if now_us() > until_us {
                let (sent, acked) = self.publisher.sent_and_acked();
                let waits = self.publisher.pending_bytes();
                bail!("NATS has acknowledged {acked} of {sent} messages, {waits} bytes wait");
            }
            self.turn(PROGRESS_EVERY_US)?;
        }
        let (sent, _) = self.publisher.sent_and_acked();
        let mut read = self.messages_read()? - self.read_before;
        while read < sent && now_us() < until_us {
            std::thread::sleep(ASK_EVERY);
            read = self.messages_read()? - self.read_before;
        }
        if read > sent {
            bail!(
                "the subject says that it has read {read} messages, but only {sent} were published"
            );
        }
        let events = u64::from(self.load.settings.message_events);
        self.counts.delivered = read * events;
        self.counts.missing = (sent - read) * events;
        Ok(())
    }

    fn messages_read(&self) -> anyhow::Result<u64> {
        let metrics = self.get("/metrics")?;
        let line = metrics.lines().find_map(|line| line.strip_prefix(MESSAGES_READ));
        let count = line.and_then(|count| count.trim().parse().ok());
        count.with_context(|| format!("/metrics of the subject has no {MESSAGES_READ}"))
    }

    /// Returns the time from due to arrival. A consumer reports these times, a node does not.
    fn latency(&self, begun_us: u64, end_us: u64) -> anyhow::Result<Latency> {
        let mut latency = Latency::default();
        if self.load.program.dialect() != PeerDialect::Consumer {
            return Ok(latency);
        }
        for line in self.get("/times")?.lines() {
            let (due_us, came_us) = times(line)?;
            if came_us < due_us {
                bail!("a message came before it was due: {line}");
            }
            if due_us > begun_us && due_us <= end_us {
                latency.record(came_us - due_us, u64::from(self.load.settings.message_events));
            }
        }
        Ok(latency)
    }

    /// Requests a path outside of a span, because it blocks.
    fn get(&self, path: &str) -> anyhow::Result<String> {
        let ask = || -> std::io::Result<String> {
            let address = self.load.address;
            let mut socket = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
            socket.set_read_timeout(Some(ANSWER_WITHIN))?;
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
            socket.write_all(request.as_bytes())?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().with_context(|| format!("the subject does not answer {path}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        if !head.starts_with("HTTP/1.1 200") {
            bail!("the subject answers {path} with {}", head.lines().next().unwrap_or("nothing"));
        }
        Ok(body.to_owned())
    }
}

/// Parses `due came`, both in µs of the monotonic clock.
fn times(line: &str) -> anyhow::Result<(u64, u64)> {
    let both =
        line.split_once(' ').and_then(|(due, came)| Some((due.parse().ok()?, came.parse().ok()?)));
    both.with_context(|| format!("{line:?} is not a line DUE_US ARRIVED_US"))
}
