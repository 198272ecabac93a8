//! Experiment C: requests on a schedule set in advance, each to come back beside
//! a firehose on the same WebSocket.
//!
//! The firehose is read continuously; between any two reads it is looked up
//! whether a request is due.

use super::link::Dialer;
use super::socket::{Poller, now_us};
use super::talk::{Attention, Talk, mean_us, unknown};
use super::tally::Tally;
use super::{
    Figures, Moment, Observer, Outcome, PROGRESS_EVERY_US, SILENCE_US_MAX, SPIN_TALK_US, Workload,
};
use crate::measure::{Counts, RoundTrips};
use crate::scenario::{Dialect, Transport};
use crate::subject::dialect::{self, Said, Subscription};
use anyhow::bail;
use std::collections::VecDeque;
use std::time::Duration;

pub(super) fn run(workload: &Workload<'_>, observer: &mut dyn Observer) -> anyhow::Result<Outcome> {
    let open_us = now_us();
    let poller = Poller::new()?;
    let dialer = Dialer::new(workload.address, workload.settings, dialect::HTTP_1)?;
    let query = match workload.settings.window_bytes {
        bytes @ 1.. if workload.dialect == Dialect::Thalweg => format!("window={bytes}"),
        _ => String::new(),
    };
    let host = workload.address;
    let subscription = Subscription {
        transport: Transport::Websocket,
        host,
        path: workload.path,
        topics: 1,
        query: &query,
    };
    let talk = Talk::open(&dialer, &subscription, 0, &poller)?;
    let attention = Attention::new(observer);
    let acks = !query.is_empty();
    let is_bare = workload.dialect == Dialect::Bare;
    let inbox = Inbox { acks, is_bare, ..Inbox::default() };
    let mut echo = Echo { workload, poller, talk, attention, inbox, number: 0, begun_us: 0 };

    echo.run_until(|echo| echo.inbox.is_confirmed, u64::MAX)?;
    let open_us = now_us() - open_us;
    echo.attention.observer.at(Moment::Open);
    echo.run_for(workload.warm_up)?;

    echo.inbox.tally.reset();
    (echo.talk.wire_bytes, echo.talk.reads) = (0, 0);
    echo.attention.observer.at(Moment::Begin);
    let busy_ns = echo.poller.busy_ns();
    echo.begun_us = now_us();
    echo.ask()?;
    let span_us = now_us() - echo.begun_us;
    let swarm_cpu_ns = echo.poller.busy_ns() - busy_ns;
    echo.attention.observer.at(Moment::End { stopped_ports: &[] });
    Ok(echo.outcome(open_us, span_us, swarm_cpu_ns))
}

struct Echo<'a> {
    workload: &'a Workload<'a>,
    poller: Poller,
    talk: Talk,
    attention: Attention<'a>,
    inbox: Inbox,
    /// Requests sent.
    number: u64,
    begun_us: u64,
}

/// What came, and what is still to come.
#[derive(Debug, Default)]
struct Inbox {
    is_confirmed: bool,
    /// Whether messages come as they are, without an envelope.
    is_bare: bool,
    /// Whether the subject waits for acks.
    acks: bool,
    /// Of what was processed last, and is not acked.
    position: Vec<u8>,
    outstanding: VecDeque<Request>,
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
    /// Asks on schedule until everything is answered; without requests, only
    /// listens.
    fn ask(&mut self) -> anyhow::Result<()> {
        let settings = self.workload.settings;
        if settings.requests == 0 {
            return self.run_for(self.workload.measured);
        }
        let all = u64::from(settings.requests);
        let deadline_us = self.begun_us + all * settings.request_us + SILENCE_US_MAX;
        self.run_until(|echo| echo.number == all && echo.inbox.outstanding.is_empty(), deadline_us)
    }

    fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        self.run_until(|_| false, until_us)
    }

    /// Reads and asks until `is_done` or the time has come.
    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool, until_us: u64) -> anyhow::Result<()> {
        let mut may_be_more = false;
        loop {
            let now_us = now_us();
            if is_done(self) || now_us >= until_us {
                return Ok(());
            }
            let due_us = self.send_due(now_us)?;
            let timeout_us = match may_be_more {
                true => 0,
                false => due_us.min(until_us).saturating_sub(now_us).min(PROGRESS_EVERY_US),
            };
            let count = self.poller.wait_awake(timeout_us, SPIN_TALK_US)?;
            for index in 0..count {
                let ready = self.poller.ready(index);
                self.talk.on_ready(ready, &self.poller)?;
                may_be_more |= ready.readable;
            }
            if may_be_more {
                may_be_more = self.hear()?;
            }
            let Echo { attention, begun_us, inbox, number, workload, .. } = self;
            let settings = workload.settings;
            let all_asked = *number == u64::from(settings.requests);
            if inbox.is_confirmed && (all_asked || inbox.outstanding.is_empty()) {
                // Between two requests nobody has to say anything, and behind the
                // last there is the deadline.
                attention.heard_us = now_us;
            }
            let events = inbox.tally.traffic.events as f64;
            attention.tell(|| Figures {
                connections: 1,
                events_per_s: events * 1e6 / (now_us - *begun_us).max(1) as f64,
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
        while self.number < u64::from(settings.requests) {
            let due_us = self.begun_us + self.number * settings.request_us;
            if due_us > now_us {
                return Ok(due_us);
            }
            self.number += 1;
            let (message, answer) = dialect::echo(self.workload.dialect, self.number);
            let sent_us = super::socket::now_us();
            self.inbox.outstanding.push_back(Request { due_us, sent_us, answer });
            self.talk.say(&message, &self.poller)?;
        }
        Ok(u64::MAX)
    }

    fn hear(&mut self) -> anyhow::Result<bool> {
        let dummy_bytes = self.workload.settings.dummy_bytes as usize;
        let Echo { inbox, attention, talk, poller, .. } = self;
        let may_be_more = talk.hear(poller, |message, heard_us| {
            attention.heard_us = heard_us;
            inbox.message(message, heard_us, dummy_bytes)
        })?;
        // Without envelopes nothing confirms a subscription but the handshake.
        inbox.is_confirmed |= inbox.is_bare && talk.is_open();
        let position = std::mem::take(&mut inbox.position);
        if inbox.acks && !position.is_empty() {
            talk.say(&dialect::ack_command(&position), poller)?;
        }
        Ok(may_be_more)
    }

    fn outcome(self, open_us: u64, span_us: u64, swarm_cpu_ns: u64) -> Outcome {
        let Inbox { mut ledger, mut tally, outstanding, round_trips_us, .. } = self.inbox;
        ledger.missing += outstanding.len() as u64;
        tally.traffic.wire_bytes = self.talk.wire_bytes;
        tally.traffic.reads = self.talk.reads;
        Outcome {
            traffic: tally.traffic,
            latency: tally.latency,
            round_trips: RoundTrips::of(round_trips_us, span_us),
            ledger,
            open_us,
            span_us,
            swarm_cpu_ns,
            ..Outcome::default()
        }
    }
}

impl Inbox {
    #[inline]
    fn message(&mut self, message: &[u8], heard_us: u64, dummy_bytes: usize) -> anyhow::Result<()> {
        if let Some(at) = self.outstanding.iter().position(|request| request.answer == message) {
            if let Some(Request { due_us, sent_us, .. }) = self.outstanding.remove(at) {
                self.ledger.reordered += u64::from(at > 0);
                self.ledger.delivered += 1;
                self.round_trips_us.push(heard_us.saturating_sub(sent_us));
                self.tally.latency.record(heard_us.saturating_sub(due_us), 1);
            }
            return Ok(());
        }
        if self.is_bare {
            self.tally.traffic.events += 1;
            self.tally.traffic.envelopes += 1;
            self.ledger.corrupt += u64::from(message.len() != dummy_bytes);
            return Ok(());
        }
        match dialect::unwrap(message) {
            Some(Said::Events { events: b"", .. }) => self.is_confirmed = true,
            Some(Said::Events { position, events, .. }) => {
                // Events of one size, and the commas between them.
                let (count, rest) = (
                    (events.len() + 1) / (dummy_bytes + 1),
                    (events.len() + 1) % (dummy_bytes + 1),
                );
                self.ledger.corrupt += u64::from(rest != 0);
                self.tally.traffic.events += count as u64;
                self.tally.traffic.envelopes += 1;
                self.position = position.to_vec();
            }
            Some(Said::Gap { position, .. }) => {
                self.ledger.gaps += 1;
                self.tally.traffic.envelopes += 1;
                self.position = position.to_vec();
            }
            Some(Said::Heartbeat) => self.tally.traffic.heartbeats += 1,
            Some(Said::Close) => bail!("the subject closed the connection"),
            None => return Err(unknown(message)),
        }
        Ok(())
    }
}
