//! Experiment C: requests on a schedule set in advance, which the subject echoes beside a firehose, on the same WebSocket or on a
//! separate one. `firehose` checks the pushes.
//!
//! The firehose is read continuously; due requests are sent between reads.

use super::Workload;
use super::firehose::Firehose;
use crate::measure::{Counts, Negotiated, Pushed, Reported, RoundTrips, WarmUp};
use crate::scenario::{Answers, Drive, Settings, Transport};
use crate::subject::{tls, topic_name};
use crate::swarm::carrier::Kind;
use crate::swarm::conversation::{Attention, Conversation, mean_us, unknown};
use crate::swarm::dialect::{self, Dialect, Message, Wanted};
use crate::swarm::dialer::Dialer;
use crate::swarm::socket::{self, Poller, now_us};
use crate::swarm::span_statistics::SpanStatistics;
use crate::swarm::{
    CALM, Figures, Load, Observer, Outcome, PROGRESS_EVERY_US, SILENCE_US_MAX, SPIN_TALK_US,
};
use anyhow::bail;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

pub(super) struct Echo<'a> {
    load: Load<'a>,
    poller: Poller,
    /// The first carries the firehose, the last the requests; their index is their key for the poller.
    lines: Vec<EchoConnection>,
    dialect: Box<dyn Dialect>,
    attention: Attention<'a>,
    received: EchoProgress,
    negotiated: Negotiated,
    /// Counts of the ledger that earlier spans have reported.
    reported: Reported,
    /// When the span began; 0 before.
    begun_us: u64,
}

/// One connection.
struct EchoConnection {
    conversation: Conversation,
    may_be_more: bool,
}

#[derive(Debug)]
struct EchoProgress {
    /// Subscriptions that are confirmed.
    confirmed: usize,
    acks: bool,
    /// Position of the last message that was processed, and is not acked.
    position: Vec<u8>,
    firehose: Firehose,
    /// Number of requests to make; they are numbered from 1.
    wanted: u64,
    asked: u64,
    asked_before: u64,
    outstanding: VecDeque<EchoRequest>,
    /// Future requests that were answered already.
    early: HashSet<u64>,
    /// Times from request to answer.
    round_trips_us: Vec<u64>,
    ledger: Counts,
    statistics: SpanStatistics,
}

#[derive(Debug)]
struct EchoRequest {
    due_us: u64,
    sent_us: u64,
    answer: Vec<u8>,
}

impl Workload for Echo<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        let begun_us = now_us();
        let window = match self.load.settings.window_bytes {
            0 => None,
            bytes => self.dialect.window(bytes),
        };
        self.received.acks = window.is_some();
        self.open_line(0, &window.unwrap_or_default())?;
        if self.load.settings.answers == Answers::Beside {
            self.open_line(1, "")?;
        }
        self.run_until(Echo::is_confirmed, u64::MAX)?;
        // Before the kernel enlarges the buffers.
        self.negotiated =
            self.lines.first().map(|found| found.conversation.negotiated()).unwrap_or_default();
        Ok(now_us() - begun_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.run(self.load.warm_up)?;
        Ok(WarmUp::default())
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.attention.received_us = now_us();
        Ok(())
    }

    fn catch_up(&mut self) -> anyhow::Result<()> {
        self.run(CALM)
    }

    fn begin(&mut self, now_us: u64) {
        self.received.statistics.reset();
        for line in &mut self.lines {
            (line.conversation.wire_bytes, line.conversation.reads) = (0, 0);
        }
        self.received.asked_before = self.received.asked;
        self.received.wanted = self.received.asked + u64::from(self.load.settings.requests);
        self.begun_us = now_us;
    }

    /// Sends requests on schedule until all are answered; without requests, listens for this time.
    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let wanted = self.received.wanted - self.received.asked;
        if wanted == 0 || self.begun_us == 0 {
            return self.run_until(|_| false, now_us() + time.as_micros() as u64);
        }
        let asking_us = wanted * self.load.settings.request_us;
        let deadline_us = self.begun_us + asking_us + SILENCE_US_MAX;
        self.run_until(
            |echo| {
                echo.received.asked == echo.received.wanted && echo.received.outstanding.is_empty()
            },
            deadline_us,
        )
    }

    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let span_us = end_us - self.begun_us;
        let ledger = self.new_counts();
        let Echo { received, lines, load, .. } = self;
        let scheduled = load.settings.scheduled_events_per_s(Drive::Echo);
        let mut traffic = std::mem::take(&mut received.statistics.traffic);
        traffic.wire_bytes = lines.iter().map(|line| line.conversation.wire_bytes).sum();
        traffic.reads = lines.iter().map(|line| line.conversation.reads).sum();
        Ok(Outcome {
            pushed: scheduled.map(|per_s| Pushed {
                wanted: (per_s * span_us as f64 / 1e6).round() as u64,
                came: traffic.events,
            }),
            traffic,
            latency: std::mem::take(&mut received.statistics.latency),
            round_trips: RoundTrips::new(std::mem::take(&mut received.round_trips_us), span_us),
            ledger,
            negotiated: self.negotiated.clone(),
            ..Outcome::default()
        })
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        Ok(self.new_counts())
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.attention.observer
    }
}

impl<'a> Echo<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        Ok(Echo {
            load: load.clone(),
            poller: Poller::new()?,
            lines: Vec::new(),
            attention: Attention::new(observer),
            dialect: dialect::new(load.program, load.settings),
            received: EchoProgress::new(load.settings),
            negotiated: Negotiated::default(),
            reported: Reported::default(),
            begun_us: 0,
        })
    }

    fn open_line(&mut self, topic: u32, query: &str) -> anyhow::Result<()> {
        let Load { address: host, settings, .. } = self.load;
        let dialer = Dialer::to_subject(host, settings, tls::HTTP_1)?;
        let transport = Transport::Websocket;
        let wanted = Wanted { transport, topics: topic..topic + 1, query };
        let key = self.lines.len() as u64;
        let conversation = Conversation::open(&dialer, &*self.dialect, &wanted, key, &self.poller)?;
        self.lines.push(EchoConnection { conversation, may_be_more: false });
        Ok(())
    }

    fn is_confirmed(&self) -> bool {
        match self.dialect.confirms() {
            // The handshake alone confirms the subscription.
            false => self.lines.iter().all(|line| line.conversation.is_open()),
            true => self.received.confirmed >= self.lines.len(),
        }
    }

    /// Sends requests and reads until `is_done`, or until this time.
    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool, until_us: u64) -> anyhow::Result<()> {
        loop {
            let now_us = now_us();
            if is_done(self) || now_us >= until_us {
                return Ok(());
            }
            let due_us = self.send_due(now_us)?;
            let timeout_us = match self.lines.iter().any(|line| line.may_be_more) {
                true => 0,
                false => due_us.min(until_us).saturating_sub(now_us).min(PROGRESS_EVERY_US),
            };
            let count = self.poller.wait_awake(timeout_us, SPIN_TALK_US)?;
            for index in 0..count {
                let ready = self.poller.ready(index);
                let line = &mut self.lines[ready.key as usize];
                line.conversation.on_ready(ready, &self.poller)?;
                line.may_be_more |= ready.readable;
            }
            for line in 0..self.lines.len() {
                if self.lines[line].may_be_more {
                    self.hear(line)?;
                }
            }
            let is_confirmed = self.is_confirmed();
            let Echo { attention, begun_us, received, .. } = self;
            let all_asked = received.asked == received.wanted;
            if is_confirmed && (all_asked || received.outstanding.is_empty()) {
                // Between two requests no message is due, and after the last there is the deadline.
                attention.received_us = now_us;
            }
            let events = received.statistics.traffic.events;
            attention.report(|| Figures {
                connections: 1,
                events,
                events_per_s: events as f64 * 1e6 / (now_us - *begun_us).max(1) as f64,
                round_trip_us: mean_us(&received.round_trips_us),
                ..Figures::default()
            })?;
        }
    }

    /// Sends the requests that are due; returns when the next one is.
    fn send_due(&mut self, now_us: u64) -> anyhow::Result<u64> {
        let settings = self.load.settings;
        if self.begun_us == 0 {
            return Ok(u64::MAX);
        }
        let Echo { received, lines, dialect, .. } = self;
        while received.asked < received.wanted {
            let asked = received.asked - received.asked_before;
            let due_us = self.begun_us + due_after_us(settings, asked);
            if due_us > now_us {
                return Ok(due_us);
            }
            received.asked += 1;
            let (message, answer) = dialect.echo(received.asked);
            let sent_us = socket::now_us();
            if !received.early.remove(&received.asked) {
                received.outstanding.push_back(EchoRequest { due_us, sent_us, answer });
            }
            if let Some(line) = lines.last_mut() {
                line.conversation.send(&message, &self.poller)?;
            }
        }
        Ok(u64::MAX)
    }

    fn hear(&mut self, line: usize) -> anyhow::Result<()> {
        let Echo { received, dialect, attention, lines, poller, .. } = self;
        let EchoConnection { conversation, may_be_more } = &mut lines[line];
        *may_be_more = conversation.receive(&**dialect, poller, |message, received_us| {
            attention.received_us = received_us;
            received.on_message(&**dialect, message, received_us)
        })?;
        let position = std::mem::take(&mut received.position);
        if received.acks && !position.is_empty() {
            conversation.send(&dialect.ack(&position), poller)?;
        }
        Ok(())
    }

    /// Counts of the ledger since the last call; outstanding events are missing.
    fn new_counts(&mut self) -> Counts {
        let EchoProgress { ledger, firehose, outstanding, .. } = &mut self.received;
        ledger.missing += outstanding.len() as u64;
        outstanding.clear();
        let counts = ledger.and(&firehose.counts());
        self.reported.new_in(counts)
    }
}

/// Returns how long after the first request's turn the `nth` one is due, counted from 0: its turn, and up to one interval of the firehose,
/// or of the requests if that is shorter, later. A fixed place between two dummies would decide for all requests of a run whether they wait behind a dummy, so the
/// places of the requests are spread evenly.
fn due_after_us(settings: &Settings, nth: u64) -> u64 {
    /// The golden ratio's fraction in millionths: its multiples are spread evenly, however many there are.
    const STEP: u64 = 618_034;
    let place = nth * STEP % 1_000_000;
    nth * settings.request_us + place * settings.interval_us.min(settings.request_us) / 1_000_000
}

impl EchoProgress {
    fn new(settings: &Settings) -> EchoProgress {
        EchoProgress {
            confirmed: 0,
            acks: false,
            position: Vec::new(),
            firehose: Firehose::new(settings.dummy_bytes),
            wanted: u64::from(settings.requests),
            asked: 0,
            asked_before: 0,
            outstanding: VecDeque::new(),
            early: HashSet::new(),
            round_trips_us: Vec::new(),
            ledger: Counts::default(),
            statistics: SpanStatistics::default(),
        }
    }

    #[inline]
    fn on_message(
        &mut self,
        dialect: &dyn Dialect,
        message: Message<'_>,
        received_us: u64,
    ) -> anyhow::Result<()> {
        match message {
            // Without envelopes, the content tells an answer from a push.
            Message::Answer(message) | Message::Event(Kind::Text, message)
                if self.is_answered(message, received_us) => {}
            Message::Answer(message) | Message::Event(Kind::Text, message)
                if self.is_unasked(dialect, message) => {}
            Message::Answer(message) => return Err(unknown(message)),
            Message::Event(_, push) => {
                self.statistics.traffic.events += self.firehose.push(push);
                self.statistics.traffic.envelopes += 1;
            }
            Message::Events { events: b"", .. } | Message::Confirmed => self.confirmed += 1,
            Message::Events { topic, position, events, .. } => {
                match topic == topic_name(0).as_bytes() {
                    true => self.statistics.traffic.events += self.firehose.pushes(events),
                    false => self.firehose.corrupt(),
                }
                self.statistics.traffic.envelopes += 1;
                self.position = position.to_vec();
            }
            Message::Gap { position, missed, .. } => {
                self.firehose.gap(missed);
                self.statistics.traffic.envelopes += 1;
                self.position = position.to_vec();
            }
            Message::Heartbeat => self.statistics.traffic.heartbeats += 1,
            Message::Opening => {}
            Message::Version { .. } => {
                bail!("the subject sent a value topic instead of a firehose")
            }
            Message::Close
            | Message::Reload
            | Message::Ended(_)
            | Message::Refusal(..)
            | Message::Done => {
                bail!("the subject closed the connection")
            }
        }
        Ok(())
    }

    /// Counts the message if it answers an outstanding request; returns whether it does.
    fn is_answered(&mut self, message: &[u8], received_us: u64) -> bool {
        let Some(at) = self.outstanding.iter().position(|request| request.answer == message) else {
            return false;
        };
        if let Some(EchoRequest { due_us, sent_us, .. }) = self.outstanding.remove(at) {
            self.ledger.reordered += u64::from(at > 0);
            self.ledger.delivered += 1;
            self.round_trips_us.push(received_us.saturating_sub(sent_us));
            self.statistics.latency.record(received_us.saturating_sub(due_us), 1);
        }
        true
    }

    /// Counts the message if it answers a request that is yet to come or has been answered; returns whether it does.
    /// Only requests that are yet to come are remembered.
    fn is_unasked(&mut self, dialect: &dyn Dialect, message: &[u8]) -> bool {
        let number = dialect.echo_number(message);
        let Some(number) = number.filter(|number| *number > 0) else { return false };
        let is_early = number > self.asked && (number > self.wanted || self.early.insert(number));
        *if is_early { &mut self.ledger.early } else { &mut self.ledger.duplicated } += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Program;

    #[test]
    fn requests_are_due_everywhere_between_two_dummies() {
        let settings = Settings { request_us: 1000, interval_us: 500, ..Settings::default() };
        let mut tenths = [0; 10];
        let due: Vec<u64> = (0..1000).map(|nth| due_after_us(&settings, nth)).collect();
        due.iter().for_each(|due_us| tenths[(due_us % 500 / 50) as usize] += 1);
        assert!(tenths.iter().all(|count| (95..=105).contains(count)), "{tenths:?}");
        assert!(due.windows(2).all(|pair| (500..=1500).contains(&(pair[1] - pair[0]))));
        // Requests that are faster than the firehose stay in order.
        let settings = Settings { request_us: 100, ..settings };
        let due: Vec<u64> = (0..1000).map(|nth| due_after_us(&settings, nth)).collect();
        assert!(due.is_sorted());
    }

    #[test]
    fn answers_without_a_request_are_counted_and_not_kept() {
        let settings = Settings { requests: 20, ..Settings::default() };
        let dialect = dialect::new(&Program::Limit, &settings);
        let mut received = EchoProgress::new(&settings);
        let answered = |received: &mut EchoProgress, number| {
            let (_, answer) = dialect.echo(number);
            received.on_message(&*dialect, Message::Answer(&answer), 0).unwrap();
        };
        (1..=1000).for_each(|number| answered(&mut received, number));
        assert_eq!(
            (received.ledger.to_string().as_str(), received.early.len()),
            ("1000 early", 20)
        );
        answered(&mut received, 20);
        assert_eq!(received.ledger.to_string(), "1 duplicated, 1000 early");
    }
}
