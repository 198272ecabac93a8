//! Experiment B: sequential round trips, from ack to Runner. The subject sends a Runner, the client acks it, and only
//! then the subject sends the next. An ack contains the whole Runner on all transports, so that both directions carry equal
//! data, as published. Thalweg takes it as an event of the topic of acks, and answers that publish. A subject that echoes gets the
//! next Runner instead, of about the same size.
//!
//! A WebSocket carries both directions. On the other transports the ack is a request on a second connection that is kept open;
//! with long polling the next poll follows the ack.

use super::Workload;
use crate::measure::{
    Counts, Latency, Ledger, Negotiated, Reported, RoundTrips, Traffic, WarmUp, littles,
};
use crate::scenario::Transport;
use crate::subject::tls;
use crate::swarm::carrier::{Decoder, Incoming};
use crate::swarm::conversation::{Attention, Conversation, mean_us, unknown};
use crate::swarm::dialect::{self, Dialect, Message, Wanted};
use crate::swarm::dialer::Dialer;
use crate::swarm::http_client;
use crate::swarm::http_client::HttpClient;
use crate::swarm::json_string;
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::subscribe_request::SubscribeRequest;
use crate::swarm::{Figures, Load, Observer, Outcome, PROGRESS_EVERY_US, SPIN_TALK_US};
use anyhow::bail;
use std::time::Duration;

const LISTENER: u64 = 0;
const ACKS: u64 = 1;

pub(super) struct RoundTrip<'a> {
    load: Load<'a>,
    dialer: Dialer,
    poller: Poller,
    dialect: Box<dyn Dialect>,
    attention: Attention<'a>,
    listener: RunnerListener,
    /// Connection for acks, unless they use the one on which Runners arrive.
    acks: Option<HttpClient>,
    state: TripState,
    negotiated: Negotiated,
    /// Counts of the ledger that earlier spans have reported.
    reported: Reported,
    /// Bytes and reads before the span.
    received_before: (u64, u64),
    /// When the span began; 0 before.
    begun_us: u64,
}

/// The connection on which Runners arrive.
enum RunnerListener {
    Conversation(Box<Conversation>),
    Polls(HttpClient),
}

/// State of the round trips.
struct TripState {
    is_confirmed: bool,
    position: Vec<u8>,
    /// Position and content of the last Runner, which is not acked yet.
    runner: Option<(Vec<u8>, Vec<u8>)>,
    /// When the last ack was sent, until the next Runner comes.
    sent_us: Option<u64>,
    each_us: Vec<u64>,
    must_reload: bool,
    ledger: Ledger,
}

impl Workload for RoundTrip<'_> {
    fn connect(&mut self) -> anyhow::Result<u64> {
        let begun_us = now_us();
        // A client that starts at the earliest event loses nothing.
        self.poll(&format!("{}&wait=0", self.dialect.earliest_query()))?;
        self.run_until(|trips| trips.state.is_confirmed)?;
        self.negotiated = match &self.listener {
            RunnerListener::Conversation(conversation) => conversation.negotiated(),
            RunnerListener::Polls(polls) => polls.negotiated(),
        };
        Ok(now_us() - begun_us)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        let until_us = now_us() + self.load.warm_up.as_micros() as u64;
        self.run_until(|trips| !trips.state.each_us.is_empty() && now_us() >= until_us)?;
        Ok(WarmUp::default())
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.attention.received_us = now_us();
        Ok(())
    }

    /// Begins a span while no request is in flight, so that no trip includes the time of a look.
    fn begin(&mut self, now_us: u64) {
        self.state.each_us.clear();
        self.received_before = self.received();
        self.begun_us = now_us;
    }

    /// Makes as many round trips as the settings say.
    fn run(&mut self, _: Duration) -> anyhow::Result<()> {
        self.state.each_us.clear();
        let wanted = self.load.settings.requests as usize;
        self.run_until(|trips| trips.state.each_us.len() >= wanted)
    }

    fn end(&mut self, end_us: u64) -> anyhow::Result<Outcome> {
        let each_us = std::mem::take(&mut self.state.each_us);
        let span_us = end_us - self.begun_us;
        let mut latency = Latency::default();
        each_us.iter().for_each(|&us| latency.record(us, 1));
        let count = each_us.len() as u64;
        // One trip is in flight. With a separate connection for acks, the wait for the answer to the previous ack is not part of a trip.
        let littles_ratio = latency
            .mean_us()
            .filter(|_| self.load.settings.transport == Transport::Websocket)
            .and_then(|mean_us| littles::ratio(1.0, count as f64, span_us, mean_us));
        let (before, now) = (self.received_before, self.received());
        Ok(Outcome {
            traffic: Traffic {
                events: count,
                envelopes: count,
                reads: now.1 - before.1,
                wire_bytes: now.0 - before.0,
                heartbeats: 0,
            },
            latency,
            round_trips: RoundTrips::new(each_us, span_us),
            negotiated: self.negotiated.clone(),
            ledger: self.new_counts(),
            littles_ratio,
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

impl<'a> RoundTrip<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        let Load { address, program, settings, .. } = *load;
        let poller = Poller::new()?;
        let dialer = Dialer::to_subject(address, settings, tls::HTTP_1)?;
        let transport = settings.transport;
        let dialect = dialect::new(program, settings);
        let query = dialect.earliest_query();
        let wanted = Wanted { transport, topics: 0..1, query };
        let listener = match transport {
            Transport::LongPolling => {
                RunnerListener::Polls(HttpClient::open(&dialer, LISTENER, &poller)?)
            }
            _ => {
                let conversation =
                    Conversation::open(&dialer, &*dialect, &wanted, LISTENER, &poller)?;
                RunnerListener::Conversation(Box::new(conversation))
            }
        };
        let acks = match transport {
            Transport::Websocket => None,
            _ => Some(HttpClient::open(&dialer, ACKS, &poller)?),
        };
        Ok(RoundTrip {
            load: load.clone(),
            dialer,
            poller,
            dialect,
            attention: Attention::new(observer),
            listener,
            acks,
            state: TripState {
                is_confirmed: false,
                position: Vec::new(),
                runner: None,
                sent_us: None,
                each_us: Vec::new(),
                must_reload: false,
                ledger: Ledger::new(1, None),
            },
            negotiated: Negotiated::default(),
            reported: Reported::default(),
            received_before: (0, 0),
            begun_us: 0,
        })
    }

    fn new_counts(&mut self) -> Counts {
        let counts = self.state.ledger.counts().clone();
        self.reported.new_in(counts)
    }

    /// Continues until `is_done`, which is checked before the next ack: a span begins with an ack and ends with a Runner.
    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut may_be_more = false;
        loop {
            self.answer_runner()?;
            let timeout_us = if may_be_more { 0 } else { PROGRESS_EVERY_US };
            for index in 0..self.poller.wait_awake(timeout_us, SPIN_TALK_US)? {
                let ready = self.poller.ready(index);
                if ready.key == ACKS {
                    self.hear_ack_answer(ready.writable)?;
                    continue;
                }
                match &mut self.listener {
                    RunnerListener::Conversation(conversation) => {
                        conversation.on_ready(ready, &self.poller)?;
                    }
                    RunnerListener::Polls(polls) => polls.flush(&self.poller)?,
                }
                may_be_more |= ready.readable;
            }
            if may_be_more {
                may_be_more = self.hear()?;
            }
            if is_done(self) {
                return Ok(());
            }
            let each_us = &self.state.each_us;
            self.attention.report(|| Figures {
                connections: 1,
                round_trip_us: mean_us(each_us),
                ..Figures::default()
            })?;
        }
    }

    /// Acks the last Runner. On a separate connection, acks wait for the previous answer, as a browser's do.
    fn answer_runner(&mut self) -> anyhow::Result<()> {
        let state = &mut self.state;
        if self.acks.as_ref().is_some_and(HttpClient::is_waiting) {
            return Ok(());
        }
        let Some((position, runner)) = state.runner.take() else {
            return Ok(());
        };
        state.sent_us = Some(now_us());
        match (&mut self.listener, &mut self.acks) {
            (_, Some(acks)) => {
                let target = dialect::acks_target();
                let mut request = http_client::post(&target, self.load.address, runner.len());
                request.extend_from_slice(&runner);
                acks.send(&request, &self.poller)?;
            }
            (RunnerListener::Conversation(conversation), None) => {
                conversation.send(&self.dialect.ack_runner(&runner), &self.poller)?;
            }
            (RunnerListener::Polls(_), None) => bail!("polls have no way for acks"),
        }
        self.poll_from(&position)
    }

    fn poll_from(&mut self, position: &[u8]) -> anyhow::Result<()> {
        self.poll(&format!("cursor={}&wait=25s", String::from_utf8_lossy(position)))
    }

    /// Polls, over transports that need it.
    fn poll(&mut self, query: &str) -> anyhow::Result<()> {
        let RunnerListener::Polls(polls) = &mut self.listener else {
            return Ok(());
        };
        let wanted = Wanted { transport: Transport::LongPolling, topics: 0..1, query };
        let host = self.load.address.to_string();
        let mut request = Vec::new();
        SubscribeRequest::once(&*self.dialect, &wanted, host).first(0, &mut request);
        polls.send(&request, &self.poller)
    }

    fn hear(&mut self) -> anyhow::Result<bool> {
        let RoundTrip { listener, dialect, state, poller, attention, .. } = self;
        match listener {
            RunnerListener::Conversation(conversation) => {
                let may_be_more =
                    conversation.receive(&**dialect, poller, |message, received_us| {
                        attention.received_us = received_us;
                        state.on_message(&**dialect, message, received_us)
                    })?;
                // If the dialect does not confirm, the handshake confirms the subscription.
                if !dialect.confirms() && conversation.is_open() {
                    state.confirm();
                }
                if std::mem::take(&mut state.must_reload) {
                    self.reload()?;
                    return Ok(false);
                }
                Ok(may_be_more)
            }
            RunnerListener::Polls(polls) => {
                let Some(answer) = polls.receive()? else {
                    return Ok(false);
                };
                if answer.status != 200 {
                    let body = String::from_utf8_lossy(&answer.body);
                    bail!("the subject answered {} to a poll: {body}", answer.status);
                }
                let received_us = now_us();
                attention.received_us = received_us;
                Decoder::default().decode(Transport::LongPolling, &answer.body, |incoming| {
                    match incoming {
                        Incoming::Message(kind, message) => {
                            let (message, _) =
                                dialect.on_message(kind, message, &mut Vec::new())?;
                            state.on_message(&**dialect, message, received_us)
                        }
                        _ => Ok(()),
                    }
                })?;
                if state.runner.is_none() {
                    // The poll found nothing: poll again from the same position.
                    let position = state.position.clone();
                    self.poll_from(&position)?;
                }
                Ok(false)
            }
        }
    }

    /// Replaces a document that has grown large with a new one, from its cursor.
    fn reload(&mut self) -> anyhow::Result<()> {
        let RoundTrip { load, dialer, dialect, poller, listener, state, .. } = self;
        let RunnerListener::Conversation(conversation) = listener else { return Ok(()) };
        let query = format!("cursor={}", String::from_utf8_lossy(&state.position));
        let wanted = Wanted { transport: load.settings.transport, topics: 0..1, query: &query };
        let (wire_bytes, reads) = (conversation.wire_bytes, conversation.reads);
        **conversation = Conversation::open(dialer, &**dialect, &wanted, LISTENER, poller)?;
        (conversation.wire_bytes, conversation.reads) = (wire_bytes, reads);
        Ok(())
    }

    fn hear_ack_answer(&mut self, is_writable: bool) -> anyhow::Result<()> {
        let Some(acks) = &mut self.acks else { return Ok(()) };
        if is_writable {
            acks.flush(&self.poller)?;
        }
        match acks.receive()? {
            Some(answer) if answer.status >= 300 => {
                let body = String::from_utf8_lossy(&answer.body);
                bail!("the subject answered {} to an ack: {body}", answer.status)
            }
            _ => Ok(()),
        }
    }

    fn received(&self) -> (u64, u64) {
        match &self.listener {
            RunnerListener::Conversation(conversation) => {
                (conversation.wire_bytes, conversation.reads)
            }
            RunnerListener::Polls(polls) => (polls.wire_bytes, polls.reads),
        }
    }
}

impl TripState {
    fn on_message(
        &mut self,
        dialect: &dyn Dialect,
        message: Message<'_>,
        received_us: u64,
    ) -> anyhow::Result<()> {
        match message {
            Message::Events { events: b"", position, .. } => {
                self.position = position.to_vec();
                self.confirm();
            }
            Message::Events { position, events, .. } => {
                self.position = position.to_vec();
                self.runner(dialect, events, received_us);
            }
            // The message was echoed: the next Runner.
            Message::Answer(runner) | Message::Event(_, runner) if !dialect.makes_runners() => {
                self.runner(dialect, runner, received_us);
            }
            // The answer to an ack, which is a publish command.
            Message::Answer(_) => {}
            Message::Event(_, message) => return Err(unknown(message)),
            Message::Version { .. } => bail!("the subject sent a value topic instead of Runners"),
            Message::Gap { .. } => bail!("a gap where one Runner follows the other"),
            Message::Confirmed => self.confirm(),
            Message::Opening | Message::Heartbeat => {}
            Message::Reload => self.must_reload = true,
            Message::Close | Message::Ended(_) | Message::Refusal(..) | Message::Done => {
                bail!("the subject closed the connection")
            }
        }
        Ok(())
    }

    /// Notes that the subscription is established: acking the confirmation requests the first Runner.
    fn confirm(&mut self) {
        if !std::mem::replace(&mut self.is_confirmed, true) {
            self.runner = Some((self.position.clone(), dialect::runner(0)));
        }
    }

    /// Checks a Runner: its number must be one more than the last.
    fn runner(&mut self, dialect: &dyn Dialect, event: &[u8], received_us: u64) {
        let plain = if dialect.escapes() { json_string::unescaped(event) } else { None };
        let event = plain.as_deref().unwrap_or(event);
        let Some(id) = dialect::runner_id(event) else {
            self.ledger.corrupt();
            return;
        };
        if !self.ledger.arrived(0, id) {
            return;
        }
        match self.sent_us.take() {
            Some(sent_us) => self.each_us.push(received_us.saturating_sub(sent_us)),
            // The event came before the previous one was acked.
            None => self.ledger.early(1),
        }
        let next = if dialect.makes_runners() { event.to_vec() } else { dialect::runner(id + 1) };
        self.runner = Some((self.position.clone(), next));
    }
}
