//! A server of Thalweg that uses this crate, in sequence numbers.

use std::{
    sync::{Arc, mpsc as blocking},
    time::Duration,
};

use thalweg_broker::{Append, AppendError, Content, ReadRange, Stream, TicketDigest, TicketError};
use thalweg_broker_tests::Caller;
use thalweg_core::stream::Payloads;
use thalweg_nats::{Counts, Nats, Settings, offset_of, sequence_of};
use thalweg_testing::{receive, wait_for};
use thalweg_wire::Epoch;
use tokio::runtime::Builder;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Batch { sequence: u64, topic: String, events: String },
    Restarted { epoch: Epoch, from: u64 },
}

impl Call {
    pub(crate) fn batch(sequence: u64, topic: &str, events: &str) -> Self {
        Self::Batch { sequence, topic: topic.to_owned(), events: events.to_owned() }
    }
}

impl From<thalweg_broker_tests::Call> for Call {
    fn from(call: thalweg_broker_tests::Call) -> Self {
        match call {
            thalweg_broker_tests::Call::Record { first, topic, content, .. } => {
                Self::Batch { sequence: sequence_of(first), topic, events: content }
            }
            thalweg_broker_tests::Call::Restarted { epoch, from, .. } => {
                Self::Restarted { epoch, from: sequence_of(from) }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) epoch: Epoch,
    pub(crate) sequence: u64,
    pub(crate) is_repetition: bool,
}

impl From<thalweg_broker::Stored> for Stored {
    fn from(stored: thalweg_broker::Stored) -> Self {
        let thalweg_broker::Stored { epoch, first, is_repetition } = stored;
        Self { epoch, sequence: sequence_of(first), is_repetition }
    }
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) messages: Vec<(u64, Payloads)>,
    pub(crate) pauses: Vec<(u64, u64)>,
    pub(crate) is_whole: bool,
    pub(crate) first_sequence: u64,
    pub(crate) newest: u64,
    pub(crate) last_sequence: u64,
}

pub(crate) struct Node {
    pub(crate) stream: Stream,
    pub(crate) counts: Arc<Counts>,
    pub(crate) tickets: Tickets,
    node: thalweg_broker_tests::Node<Nats>,
}

#[derive(Clone)]
pub(crate) struct Writer(Caller<Nats>);

#[derive(Clone)]
pub(crate) struct Tickets(Caller<Nats>);

pub(crate) fn open(settings: &Settings) -> Result<Nats, String> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(thalweg_nats::open(settings))
}

impl Node {
    pub(crate) fn start(settings: &Settings) -> Self {
        let settings = settings.clone();
        let open = async move { thalweg_nats::open(&settings).await };
        let node = thalweg_broker_tests::Node::start(open).expect("open the stream");
        let caller = node.caller();
        let counts = caller.broker.own_counts();
        Self { stream: node.streams[0].clone(), counts, tickets: Tickets(caller), node }
    }

    pub(crate) fn store(
        &self,
        topic: &str,
        event: &str,
        key: Option<&str>,
    ) -> Result<Stored, AppendError> {
        self.writer().store(topic, event, key)
    }

    /// Reads a page of a topic, or the newest record of a value topic; tries again until the broker can read it.
    pub(crate) fn page(&self, topic: &str, from: u64, until: u64) -> Page {
        let (from, until) = (offset_of(from), offset_of(until));
        let topic = topic.parse().expect("a topic");
        let range = ReadRange { stream: 0, topic, epoch: self.stream.epoch, from, until };
        let is_newest = self.stream.kind.is_state() && from <= until;
        let page = wait_for("a page", || self.tickets.0.read(range.clone(), is_newest).ok());
        let numbered = |(first, payloads): (u64, Payloads)| (sequence_of(first), payloads);
        let pauses = page.pauses.iter().map(|(at, ms)| (sequence_of(*at), *ms)).collect();
        Page {
            messages: page.records.into_iter().map(numbered).collect(),
            pauses,
            is_whole: page.is_whole,
            first_sequence: sequence_of(page.stored_from + 255),
            newest: sequence_of(page.newest),
            last_sequence: sequence_of(page.head) - 1,
        }
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer(self.node.caller())
    }

    pub(crate) fn next(&mut self) -> Call {
        self.node.next_call().into()
    }

    pub(crate) fn calls(&mut self) -> Vec<Call> {
        self.node.calls().into_iter().map(Call::from).collect()
    }

    pub(crate) fn restarted(&mut self) -> (Epoch, u64) {
        let (_, epoch, from) = self.node.restarted();
        (epoch, sequence_of(from))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.node.is_ready()
    }

    pub(crate) fn await_ready(&self) {
        self.node.await_ready(true);
    }

    pub(crate) fn take_batches(&self, is_taken: bool) {
        self.node.take_records(is_taken);
    }

    pub(crate) fn end(&mut self) {
        self.node.stop();
    }
}

impl Tickets {
    pub(crate) fn keep(&self, ticket: TicketDigest, holder: &str) -> Result<(), TicketError> {
        self.0.keep(ticket, holder)
    }

    pub(crate) fn redeem(&self, ticket: TicketDigest) -> Result<Option<String>, TicketError> {
        self.0.redeem(ticket)
    }
}

impl Writer {
    /// Starts to store a message, and returns the receiver of the answer.
    pub(crate) fn start_store(
        &self,
        topic: &str,
        events: &[&str],
        key: Option<&str>,
    ) -> blocking::Receiver<Result<thalweg_broker::Stored, AppendError>> {
        let payloads = Payloads::from_lines(events.join("\n").into_bytes()).expect("events");
        let content = Content::Events(payloads);
        self.0.start_append(append(topic, content, key), None)
    }

    pub(crate) fn store_after(
        &self,
        topic: &str,
        content: Content,
        after: Option<u64>,
    ) -> Result<Stored, AppendError> {
        let answer = self.0.start_append(append(topic, content, None), after.map(offset_of));
        receive(&answer, "an answer").expect("an answer").map(Stored::from).map_err(|error| {
            match error {
                AppendError::Outdated(newest) => AppendError::Outdated(newest.map(sequence_of)),
                other => other,
            }
        })
    }

    pub(crate) fn store(
        &self,
        topic: &str,
        event: &str,
        key: Option<&str>,
    ) -> Result<Stored, AppendError> {
        let answer =
            receive(&self.start_store(topic, &[event], key), "an answer").expect("an answer");
        answer.map(Stored::from)
    }
}

fn append(topic: &str, content: Content, key: Option<&str>) -> Append {
    let (topic, key) = (topic.parse().expect("a topic"), key.map(|key| key.as_bytes().to_vec()));
    Append { stream: 0, topic, content, key, waited: Duration::ZERO }
}
