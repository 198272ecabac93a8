//! Sends to an external endpoint: messages on each of its WebSockets, on a schedule set in advance, independent of earlier messages.
//! Everything else is as in `listen`.

use super::Workload;
use super::listen::Listen;
use crate::measure::{Counts, Pacing, WarmUp};
use crate::scenario::{Endpoint, Program};
use crate::swarm::carrier::Kind;
use crate::swarm::exchange::{Exchange, ID_DIGITS};
use crate::swarm::pace::Schedule;
use crate::swarm::socket::{self, Poller, now_us};
use crate::swarm::template::{Filling, Template};
use crate::swarm::{CALM, Load, Observer, Outcome, PROGRESS_EVERY_US, SILENCE_US_MAX};
use anyhow::bail;
use std::time::Duration;

/// The text before and after the padding of a message that `--size` gives.
const BEFORE_PAD: &str = r#"{"id":"{id}","pad":""#;
const BEHIND_PAD: &str = "\"}";

pub(super) struct Send<'a> {
    listen: Listen<'a>,
    load: Load<'a>,
    endpoint: &'a Endpoint,
    lines: Vec<Template>,
    /// For all connections together, which take turns, unless each has random times.
    schedule: Schedule,
    turns: u64,
    payload: Vec<u8>,
}

impl Workload for Send<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        self.listen.connect()
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        let settings = self.load.settings;
        let rate = f64::from(settings.rate) * f64::from(settings.connections);
        self.schedule = match self.endpoint.think_us {
            Some(think_us) => {
                Schedule::with_users(settings.connections as usize, think_us, now_us())
            }
            None => Schedule::new(rate, 1, now_us()),
        };
        self.run(self.load.warm_up)?;
        self.listen.expect_somebody()?;
        self.listen.slow_down()?;
        Ok(WarmUp::default())
    }

    fn catch_up(&mut self) -> anyhow::Result<()> {
        self.run(CALM)?;
        self.listen.expect_somebody()
    }

    fn begin(&mut self, now_us: u64) {
        self.schedule.begin_span(now_us);
        self.listen.begin(now_us);
    }

    /// Sends and listens for this time, or until no connection is left.
    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = self.listen.end_us(time);
        loop {
            let mut now_us = now_us();
            if now_us >= until_us || !self.listen.has_somebody() {
                return Ok(());
            }
            if self.schedule.is_due(now_us) {
                self.send_due(now_us)?;
                now_us = socket::now_us();
            }
            let left_us = until_us.saturating_sub(now_us).min(PROGRESS_EVERY_US);
            self.listen.turn(self.schedule.wait_us(now_us, left_us))?;
        }
    }

    /// Waits for the answers to messages of the span; only these count.
    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let pacing = self.schedule.pacing(end_us);
        let mut outcome = self.listen.end(end_us)?;
        self.await_answers()?;
        if let (Some(exchange), Some(received)) =
            (self.listen.exchange(), outcome.received.as_mut())
        {
            let (exchanged, round_trips, latency) = exchange.end_span(received.span_us);
            outcome.round_trips = round_trips;
            // Without answers, only timestamps of events give latencies.
            if round_trips.is_some() {
                outcome.latency = latency;
            }
            received.exchanged = Some(exchanged);
        }
        let swarm_fell_short = pacing.as_ref().is_some_and(Pacing::is_short);
        Ok(Outcome { pacing, swarm_fell_short, ..outcome })
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        self.listen.collect()
    }

    fn poller(&mut self) -> &mut Poller {
        self.listen.poller()
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.listen.observer()
    }
}

impl<'a> Send<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        let Program::Url(endpoint) = load.program else {
            bail!("the drive `send` needs an external endpoint");
        };
        let mut listen = Listen::new(load, observer)?;
        listen.expect_answers(Exchange::new());
        let lines: Vec<Template> = match endpoint.data.as_slice() {
            [] => vec![padded(load.settings.event_bytes as usize)],
            lines => lines.iter().map(|line| Template::new(line)).collect(),
        };
        Ok(Send {
            listen,
            load: load.clone(),
            endpoint,
            lines,
            schedule: Schedule::default(),
            turns: 0,
            payload: Vec::new(),
        })
    }

    /// Sends due messages; connections take turns, and those not established are skipped.
    fn send_due(&mut self, now_us: u64) -> anyhow::Result<()> {
        let connections = u64::from(self.load.settings.connections);
        let kind = if self.endpoint.binary { Kind::Binary } else { Kind::Text };
        loop {
            let turn = (self.turns % connections) as usize;
            let next = match self.endpoint.think_us {
                Some(_) => self.schedule.take_from_users(now_us),
                None => self.schedule.take(0, now_us).map(|due_us| (due_us, turn)),
            };
            let Some((due_us, connection)) = next else { break };
            // Each connection begins at another line.
            let line = connection as u64 + self.turns / connections;
            let line = &self.lines[(line % self.lines.len() as u64) as usize];
            self.turns += 1;
            let Some(exchange) = self.listen.exchange() else { continue };
            let token = self.endpoint.tokens.get(connection).map(String::as_str);
            self.payload.clear();
            line.write(Filling { id: exchange.next_id(), connection, token }, &mut self.payload);
            // Before the call, which on loopback includes a wake-up.
            let sent_us = socket::now_us();
            self.schedule.publish(sent_us);
            if self.listen.send(connection, kind, &self.payload)?
                && let Some(exchange) = self.listen.exchange()
            {
                exchange.sent(connection, line.has_id(), due_us, sent_us);
            }
        }
        self.schedule.look_ahead();
        Ok(())
    }

    /// Waits until every message is answered, or no answer came for long.
    fn await_answers(&mut self) -> anyhow::Result<()> {
        let mut left = self.unanswered();
        let mut until_us = now_us() + SILENCE_US_MAX;
        while left > 0 && self.listen.has_somebody() {
            let now_us = now_us();
            if now_us >= until_us {
                break;
            }
            self.listen.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
            if self.unanswered() < left {
                left = self.unanswered();
                until_us = now_us + SILENCE_US_MAX;
            }
        }
        Ok(())
    }

    fn unanswered(&mut self) -> u64 {
        self.listen.exchange().map_or(0, |exchange| exchange.unanswered())
    }
}

fn padded(bytes: usize) -> Template {
    let own = BEFORE_PAD.len() + BEHIND_PAD.len() - "{id}".len() + ID_DIGITS;
    Template::new(&format!("{BEFORE_PAD}{}{BEHIND_PAD}", "x".repeat(bytes.saturating_sub(own))))
}
