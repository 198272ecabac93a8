//! Experiment C: requests on a schedule set in advance, each to come back beside
//! a firehose, on the same WebSocket or on one of their own. What the firehose pushes
//! is checked (`firehose`), and told next to what its schedule asks for.
//!
//! The firehose is read continuously; between any two reads it is looked up
//! whether a request is due.

use super::conversation::{Attention, Conversation, mean_us, unknown};
use super::firehose::Firehose;
use super::link::Dialer;
use super::socket::{Poller, now_us};
use super::tally::Tally;
use super::{
    CALM, Figures, Moment, Observer, Outcome, PROGRESS_EVERY_US, SILENCE_US_MAX, SPIN_TALK_US,
    Workload,
};
use crate::measure::{Counts, Pushed, RoundTrips};
use crate::scenario::{Answers, Dialect, Drive, Settings, Transport};
use crate::subject::dialect::{self, Said, Subscription};
use crate::subject::topic_name;
use anyhow::bail;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

pub(super) fn run(workload: &Workload<'_>, observer: &mut dyn Observer) -> anyhow::Result<Outcome> {
    let open_us = now_us();
    let query = match workload.settings.window_bytes {
        bytes @ 1.. if workload.dialect == Dialect::Thalweg => format!("window={bytes}"),
        _ => String::new(),
    };
    let inbox =
        Inbox { acks: !query.is_empty(), ..Inbox::new(workload.dialect, workload.settings) };
    let mut echo = Echo {
        workload,
        poller: Poller::new()?,
        lines: Vec::new(),
        attention: Attention::new(observer),
        inbox,
        begun_us: 0,
    };
    echo.open_line(workload.path, &query)?;
    if workload.settings.answers == Answers::Beside {
        echo.open_line(Some(&format!("/v1/topics/{}", topic_name(1))), "")?;
    }

    echo.run_until(Echo::is_confirmed, u64::MAX)?;
    let open_us = now_us() - open_us;
    // Before the kernel makes the buffers larger.
    let negotiated = echo.lines.first().map(|line| line.talk.negotiated()).unwrap_or_default();
    echo.attention.observer.at(Moment::Open);
    echo.run_for(workload.warm_up)?;
    echo.attention.observer.at(Moment::Warm);
    // What has come meanwhile.
    echo.run_for(CALM)?;

    echo.attention.observer.at(Moment::Begin);
    echo.inbox.tally.reset();
    for line in &mut echo.lines {
        (line.talk.wire_bytes, line.talk.reads) = (0, 0);
    }
    echo.poller.take_away_us_max();
    let busy_ns = echo.poller.busy_ns();
    echo.begun_us = now_us();
    echo.ask()?;
    let span_us = now_us() - echo.begun_us;
    let swarm_cpu_ns = echo.poller.busy_ns() - busy_ns;
    let swarm_away_us = echo.poller.take_away_us_max();
    echo.attention.observer.at(Moment::End);
    echo.attention.observer.at(Moment::Over { stopped_ports: &[] });
    let outcome = echo.outcome(span_us);
    Ok(Outcome { open_us, span_us, swarm_cpu_ns, swarm_away_us, negotiated, ..outcome })
}

struct Echo<'a> {
    workload: &'a Workload<'a>,
    poller: Poller,
    /// The first carries the firehose, the last the requests; the poller knows them
    /// by their index.
    lines: Vec<Line>,
    attention: Attention<'a>,
    inbox: Inbox,
    begun_us: u64,
}

/// One connection.
struct Line {
    talk: Conversation,
    may_be_more: bool,
}

/// What came, and what is still to come.
#[derive(Debug)]
struct Inbox {
    dialect: Dialect,
    /// Subscriptions that stand.
    confirmed: usize,
    /// Whether the subject waits for acks.
    acks: bool,
    /// Of what was processed last, and is not acked.
    position: Vec<u8>,
    firehose: Firehose,
    /// Requests that will be made; they are numbered from 1.
    wanted: u64,
    /// Those that were.
    asked: u64,
    outstanding: VecDeque<Request>,
    /// Of those that will be made, the ones that were answered before.
    early: HashSet<u64>,
    /// From sent to come back, of each.
    round_trips_us: Vec<u64>,
    ledger: Counts,
    tally: Tally,
}

#[derive(Debug)]
struct Request {
    due_us: u64,
    sent_us: u64,
    answer: Vec<u8>,
}

impl Echo<'_> {
    fn open_line(&mut self, path: Option<&str>, query: &str) -> anyhow::Result<()> {
        let Workload { address: host, settings, .. } = *self.workload;
        let dialer = Dialer::new(host, settings, dialect::HTTP_1)?;
        let transport = Transport::Websocket;
        let subscription = Subscription { transport, host, path, topics: 1, query };
        let talk =
            Conversation::open(&dialer, &subscription, self.lines.len() as u64, &self.poller)?;
        self.lines.push(Line { talk, may_be_more: false });
        Ok(())
    }

    /// Whether every subscription stands.
    fn is_confirmed(&self) -> bool {
        match self.inbox.dialect {
            // Without envelopes nothing confirms a subscription but the handshake.
            Dialect::Bare => self.lines.iter().all(|line| line.talk.is_open()),
            _ => self.inbox.confirmed >= self.lines.len(),
        }
    }

    /// Asks on schedule until everything is answered; without requests, only
    /// listens.
    fn ask(&mut self) -> anyhow::Result<()> {
        let settings = self.workload.settings;
        if settings.requests == 0 {
            return self.run_for(self.workload.measured);
        }
        let all = u64::from(settings.requests);
        let deadline_us = self.begun_us + all * settings.request_us + SILENCE_US_MAX;
        self.run_until(
            |echo| echo.inbox.asked == all && echo.inbox.outstanding.is_empty(),
            deadline_us,
        )
    }

    fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        self.run_until(|_| false, until_us)
    }

    /// Reads and asks until `is_done` or the time has come.
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
                line.talk.on_ready(ready, &self.poller)?;
                line.may_be_more |= ready.readable;
            }
            for line in 0..self.lines.len() {
                if self.lines[line].may_be_more {
                    self.hear(line)?;
                }
            }
            let is_confirmed = self.is_confirmed();
            let Echo { attention, begun_us, inbox, workload, .. } = self;
            let all_asked = inbox.asked == u64::from(workload.settings.requests);
            if is_confirmed && (all_asked || inbox.outstanding.is_empty()) {
                // Between two requests nobody has to say anything, and behind the
                // last there is the deadline.
                attention.heard_us = now_us;
            }
            let events = inbox.tally.traffic.events;
            attention.tell(|| Figures {
                connections: 1,
                events,
                events_per_s: events as f64 * 1e6 / (now_us - *begun_us).max(1) as f64,
                p99_us: None,
                round_trip_us: mean_us(&inbox.round_trips_us),
            })?;
        }
    }

    /// Sends the requests that are due; says when the next one is.
    fn send_due(&mut self, now_us: u64) -> anyhow::Result<u64> {
        let settings = self.workload.settings;
        if self.begun_us == 0 {
            return Ok(u64::MAX);
        }
        let Echo { inbox, lines, .. } = self;
        while inbox.asked < u64::from(settings.requests) {
            let due_us = self.begun_us + inbox.asked * settings.request_us;
            if due_us > now_us {
                return Ok(due_us);
            }
            inbox.asked += 1;
            let (message, answer) = dialect::echo(inbox.dialect, inbox.asked);
            let sent_us = super::socket::now_us();
            if !inbox.early.remove(&inbox.asked) {
                inbox.outstanding.push_back(Request { due_us, sent_us, answer });
            }
            if let Some(line) = lines.last_mut() {
                line.talk.send(&message, &self.poller)?;
            }
        }
        Ok(u64::MAX)
    }

    fn hear(&mut self, line: usize) -> anyhow::Result<()> {
        let Echo { inbox, attention, lines, poller, .. } = self;
        let Line { talk, may_be_more } = &mut lines[line];
        *may_be_more = talk.receive(poller, |message, heard_us| {
            attention.heard_us = heard_us;
            inbox.message(message, heard_us)
        })?;
        let position = std::mem::take(&mut inbox.position);
        if inbox.acks && !position.is_empty() {
            talk.send(&dialect::ack_command(&position), poller)?;
        }
        Ok(())
    }

    fn outcome(self, span_us: u64) -> Outcome {
        let Inbox { ledger, mut tally, firehose, outstanding, round_trips_us, .. } = self.inbox;
        let unanswered = Counts { missing: outstanding.len() as u64, ..Counts::default() };
        let scheduled = self.workload.settings.scheduled_events_per_s(Drive::Echo);
        tally.traffic.wire_bytes = self.lines.iter().map(|line| line.talk.wire_bytes).sum();
        tally.traffic.reads = self.lines.iter().map(|line| line.talk.reads).sum();
        Outcome {
            pushed: scheduled.map(|per_s| Pushed {
                wanted: (per_s * span_us as f64 / 1e6).round() as u64,
                came: tally.traffic.events,
            }),
            traffic: tally.traffic,
            latency: tally.latency,
            round_trips: RoundTrips::of(round_trips_us, span_us),
            ledger: ledger.and(&unanswered).and(&firehose.counts()),
            ..Outcome::default()
        }
    }
}

impl Inbox {
    fn new(dialect: Dialect, settings: &Settings) -> Inbox {
        Inbox {
            dialect,
            confirmed: 0,
            acks: false,
            position: Vec::new(),
            firehose: Firehose::new(settings.dummy_bytes),
            wanted: u64::from(settings.requests),
            asked: 0,
            outstanding: VecDeque::new(),
            early: HashSet::new(),
            round_trips_us: Vec::new(),
            ledger: Counts::default(),
            tally: Tally::default(),
        }
    }

    #[inline]
    fn message(&mut self, message: &[u8], heard_us: u64) -> anyhow::Result<()> {
        if let Some(at) = self.outstanding.iter().position(|request| request.answer == message) {
            if let Some(Request { due_us, sent_us, .. }) = self.outstanding.remove(at) {
                self.ledger.reordered += u64::from(at > 0);
                self.ledger.delivered += 1;
                self.round_trips_us.push(heard_us.saturating_sub(sent_us));
                self.tally.latency.record(heard_us.saturating_sub(due_us), 1);
            }
            return Ok(());
        }
        if let Some(number) = dialect::echo_number(self.dialect, message).filter(|it| *it > 0) {
            self.answered_unasked(number);
            return Ok(());
        }
        if self.dialect == Dialect::Bare {
            self.tally.traffic.events += self.firehose.push(message);
            self.tally.traffic.envelopes += 1;
            return Ok(());
        }
        match dialect::unwrap(message) {
            Some(Said::Events { events: b"", .. }) => self.confirmed += 1,
            Some(Said::Events { topic, position, events }) => {
                match topic == topic_name(0).as_bytes() {
                    true => self.tally.traffic.events += self.firehose.pushes(events),
                    false => self.firehose.corrupt(),
                }
                self.tally.traffic.envelopes += 1;
                self.position = position.to_vec();
            }
            Some(Said::Gap { position, missed, .. }) => {
                self.firehose.gap(missed);
                self.tally.traffic.envelopes += 1;
                self.position = position.to_vec();
            }
            Some(Said::Heartbeat) => self.tally.traffic.heartbeats += 1,
            Some(Said::Close | Said::Reload) => bail!("the subject closed the connection"),
            None => return Err(unknown(message)),
        }
        Ok(())
    }

    /// An answer to nothing that is outstanding: made before it was asked for, or once
    /// more. One that will never be asked for is not remembered.
    fn answered_unasked(&mut self, number: u64) {
        let is_early = number > self.asked && (number > self.wanted || self.early.insert(number));
        *if is_early { &mut self.ledger.early } else { &mut self.ledger.duplicated } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_what_will_never_be_asked_are_counted_and_not_kept() {
        let settings = Settings { requests: 20, ..Settings::default() };
        let mut inbox = Inbox::new(Dialect::Limit, &settings);
        for number in 1..=1000 {
            inbox.message(&dialect::echo(Dialect::Limit, number).1, 0).unwrap();
        }
        assert_eq!((inbox.ledger.to_string().as_str(), inbox.early.len()), ("1000 early", 20));
        inbox.message(&dialect::echo(Dialect::Limit, 20).1, 0).unwrap();
        assert_eq!(inbox.ledger.to_string(), "1 duplicated, 1000 early");
    }
}
