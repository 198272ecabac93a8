//! What arrives on a connection: taken apart, checked against what had to come,
//! entered in the ledger.

mod due;

use super::carrier::{Decoder, Incoming, Kind, PieceDecoder, shown, websocket};
use super::cursors::Memory;
use super::http_response::{Body, Opening};
use super::posted::{Arrival, Topic};
use super::rows::Rows;
use super::subscribe_request::SubscribeRequest;
use super::tally::Tally;
use super::timetable::Timetable;
use crate::measure::{Counts, Ledger};
use crate::scenario::{Drive, Settings, Transport};
use crate::subject::dialect::{self, Said};
use crate::subject::topic_name;
use anyhow::{anyhow, bail};

/// How late a subscription's rows may be, next to the others', before they count
/// as missing.
const ROWS_LATE_US_MAX: u64 = 1_000_000;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Connecting,
    Asked,
    /// The transport is open; so many topics are yet to be confirmed.
    Subscribing(u32),
    Standing,
    /// It stood, its answer has ended, and it has asked again at its cursors.
    Returning,
    Stopped,
    Ended,
}

impl Stage {
    /// Whether nothing more is to be read from this connection.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Stage::Connecting | Stage::Ended)
    }
}

/// What arrives, checked and counted.
#[derive(Debug)]
pub(super) struct Inbox {
    topic_names: Vec<String>,
    expected: Expected,
    /// Topics whose window has moved since something was published to them.
    moved: Vec<usize>,
    pub(super) ledger: Ledger,
    /// What came in since the span began.
    pub(super) tally: Tally,
    /// When something last arrived.
    pub(super) heard_us: u64,
    /// How many rows a subscription may be behind the furthest at the end: a
    /// second's.
    rows_slack: u64,
    /// Head of the first connection's answer.
    pub(super) head: Vec<u8>,
}

/// What the events are compared with.
#[derive(Debug)]
enum Expected {
    Posted(Vec<Topic>),
    Rows(Rows),
    Nothing,
}

/// Takes one connection's bytes apart.
pub(super) struct Parser<'a> {
    pub(super) inbox: &'a mut Inbox,
    pub(super) transport: Transport,
    pub(super) request: &'a SubscribeRequest,
    /// What the transport itself has to answer, e.g. to a ping, and the requests
    /// that follow an answer.
    pub(super) replies: &'a mut Vec<u8>,
    /// Number of the connection.
    pub(super) index: usize,
    /// Whether it reads to the end.
    pub(super) is_reader: bool,
}

impl Parser<'_> {
    /// Opens a transport; says how much the answer's head takes, and how its body comes.
    /// `None` while it is incomplete.
    pub(super) fn open(
        &mut self,
        bytes: &[u8],
        stage: &mut Stage,
    ) -> anyhow::Result<Option<(usize, Body)>> {
        let Some(opening) = open(self.transport, bytes)? else { return Ok(None) };
        *stage = self.inbox.opened(*stage);
        if self.index == 0 {
            self.inbox.head = bytes[opening.head.clone()].to_vec();
        }
        Ok(Some((opening.head.end, opening.body)))
    }

    /// Takes the bytes of an open transport apart, from a frame's beginning on; says how
    /// many are done with.
    #[inline]
    pub(super) fn frames(
        &mut self,
        bytes: &[u8],
        stage: &mut Stage,
        decoder: &mut Decoder,
        memory: &mut impl Memory,
    ) -> anyhow::Result<usize> {
        decoder.decode(self.transport, bytes, |incoming| self.incoming(incoming, stage, memory))
    }

    /// The same, of what comes in pieces that are cut anywhere, such as chunks, or
    /// frames of HTTP/2.
    #[inline]
    pub(super) fn piece(
        &mut self,
        piece: &[u8],
        stage: &mut Stage,
        decoder: &mut PieceDecoder,
        memory: &mut impl Memory,
    ) -> anyhow::Result<()> {
        decoder.decode(self.transport, piece, |incoming| self.incoming(incoming, stage, memory))
    }

    #[inline]
    fn incoming(
        &mut self,
        incoming: Incoming<'_>,
        stage: &mut Stage,
        memory: &mut impl Memory,
    ) -> anyhow::Result<()> {
        match incoming {
            Incoming::Message(Kind::Text, message) => self.message(message, stage, memory)?,
            Incoming::Message(Kind::Binary, _) => {
                bail!("the subject sent a binary message, which is not of the wire")
            }
            Incoming::Ping(payload) => websocket::pong(payload, self.replies),
            Incoming::SignOfLife => {}
            Incoming::Close(payload) => {
                let how = websocket::close_reason(payload)?;
                bail!("the subject closed connection {}: {how}", self.index)
            }
        }
        Ok(())
    }

    #[inline]
    fn message(
        &mut self,
        message: &[u8],
        stage: &mut Stage,
        memory: &mut impl Memory,
    ) -> anyhow::Result<()> {
        match dialect::unwrap(message) {
            Some(Said::Events { topic, position, events }) => {
                let topic = self.inbox.topic_index(topic)?;
                memory.reached(topic, position)?;
                if events.is_empty() {
                    confirm(stage);
                    return Ok(());
                }
                // With those that only confirm, polls would have twice as many.
                self.inbox.tally.traffic.envelopes += 1;
                self.inbox.receive(self.index, topic, self.is_reader, events);
            }
            Some(Said::Gap { topic, position, missed }) => {
                let topic = self.inbox.topic_index(topic)?;
                memory.reached(topic, position)?;
                if !confirm(stage) {
                    self.inbox.gap(self.index, topic, self.is_reader, missed);
                }
            }
            Some(Said::Heartbeat) => self.inbox.tally.traffic.heartbeats += 1,
            Some(Said::Reload) if memory.reload() => {}
            Some(Said::Reload | Said::Close) => {
                bail!("the subject closed connection {}", self.index)
            }
            None => {
                let shown = shown(message);
                bail!("not an envelope of the wire: {shown}");
            }
        }
        Ok(())
    }
}

/// The head of an answer that opens the transport; `None` while it is incomplete.
pub(super) fn open(transport: Transport, bytes: &[u8]) -> anyhow::Result<Option<Opening>> {
    let Some(opening) = Opening::read(bytes)? else { return Ok(None) };
    let head = &bytes[opening.head.clone()];
    dialect::check_answer(transport, head).map_err(|reason| anyhow!(reason))?;
    Ok(Some(opening))
}

/// One more topic stands; `false` if all did already.
fn confirm(stage: &mut Stage) -> bool {
    let Stage::Subscribing(left) = stage else {
        return false;
    };
    *left -= 1;
    if *left == 0 {
        *stage = Stage::Standing;
    }
    true
}

impl Inbox {
    /// A self-driven subject begins at `start_us`.
    pub(super) fn new(settings: &Settings, drive: Drive, start_us: u64) -> Inbox {
        let Settings { connections, topics, window, event_bytes, .. } = *settings;
        let (expected, first) = match drive {
            Drive::Posted | Drive::Ceiling => {
                let topic = || Topic::new(window, settings.readers(), event_bytes);
                (Expected::Posted((0..topics).map(|_| topic()).collect()), Some(1))
            }
            Drive::SelfDriven => {
                let timetable = Timetable::new(settings, start_us);
                (Expected::Rows(Rows::new(timetable)), None)
            }
            Drive::Idle | Drive::Publish | Drive::Echo | Drive::RoundTrip | Drive::Listen => {
                (Expected::Nothing, None)
            }
        };
        Inbox {
            topic_names: (0..topics).map(topic_name).collect(),
            expected,
            moved: (0..topics as usize).rev().collect(),
            ledger: Ledger::new(connections as usize * topics as usize, first),
            tally: Tally::default(),
            heard_us: 0,
            rows_slack: u64::from(settings.batch)
                * (ROWS_LATE_US_MAX / settings.interval_us.max(1)).max(1),
            head: Vec::new(),
        }
    }

    /// What a transport is at that has just opened. One that stood before is not
    /// told again what it subscribes to: a gap now is one.
    pub(super) fn opened(&self, stage: Stage) -> Stage {
        match stage {
            Stage::Asked => Stage::Subscribing(self.topic_names.len() as u32),
            Stage::Returning => Stage::Standing,
            open => open,
        }
    }

    /// The span begins: what came before does not count, and no latency of what was
    /// due before `due_us`.
    pub(super) fn begin_span(&mut self, due_us: u64) {
        self.tally.begin(due_us);
        self.topics().iter_mut().for_each(Topic::begin_span);
    }

    /// The topics that the lab publishes to.
    #[inline]
    pub(super) fn topics(&mut self) -> &mut [Topic] {
        match &mut self.expected {
            Expected::Posted(topics) => topics,
            _ => &mut [],
        }
    }

    /// A topic to which something is to be published.
    #[inline]
    pub(super) fn next_moved(&mut self) -> Option<(usize, &mut Topic)> {
        let index = self.moved.pop()?;
        self.topics().get_mut(index).map(|topic| (index, topic))
    }

    /// Nothing more will come: what the first `readers` connections should have
    /// and do not, is missing.
    pub(super) fn close_ledger(&mut self, readers: usize) -> Counts {
        match &self.expected {
            Expected::Posted(topics) => {
                for subscription in 0..readers * topics.len() {
                    let last = topics[subscription % topics.len()].published();
                    self.ledger.close(subscription, last);
                }
            }
            Expected::Rows(_) => {
                let subscriptions = readers * self.topic_names.len();
                self.ledger.close_at_furthest(subscriptions, self.rows_slack);
            }
            Expected::Nothing => {}
        }
        self.ledger.counts().clone()
    }

    #[inline]
    fn topic_index(&self, topic: &[u8]) -> anyhow::Result<usize> {
        // A name ends with its number.
        let digits = topic.rsplit(|byte| *byte == b'/').next().and_then(dialect::number);
        let index = digits.and_then(|number| usize::try_from(number).ok());
        let is_asked_for = |index: &usize| {
            self.topic_names.get(*index).is_some_and(|name| name.as_bytes() == topic)
        };
        index
            .filter(is_asked_for)
            .ok_or_else(|| anyhow!("topic {} was not asked for", String::from_utf8_lossy(topic)))
    }

    #[inline]
    fn receive(&mut self, connection: usize, topic: usize, is_reader: bool, events: &[u8]) {
        let Inbox { expected, moved, ledger, tally, heard_us, topic_names, .. } = self;
        let subscription = connection * topic_names.len() + topic;
        match expected {
            Expected::Posted(topics) => {
                let arrival = Arrival { subscription, is_reader, events, now_us: *heard_us };
                topics[topic].receive(arrival, ledger, tally);
                if topics[topic].has_moved() {
                    moved.push(topic);
                }
            }
            Expected::Rows(rows) => rows.receive(subscription, events, *heard_us, ledger, tally),
            Expected::Nothing => {}
        }
    }

    /// The subject announced that a subscription will not get some events.
    #[cold]
    fn gap(&mut self, connection: usize, topic: usize, is_reader: bool, missed: Option<u64>) {
        let Inbox { expected, moved, ledger, heard_us, topic_names, .. } = self;
        let subscription = connection * topic_names.len() + topic;
        match expected {
            Expected::Posted(topics) => {
                let arrival = Arrival { subscription, is_reader, events: b"", now_us: *heard_us };
                topics[topic].gap(arrival, missed, ledger);
                if topics[topic].has_moved() {
                    moved.push(topic);
                }
            }
            _ => ledger.gap(subscription, missed),
        }
    }
}
