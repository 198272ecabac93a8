//! The swarm's subscribers: opened a few at a time, then read as they get
//! ready.

use super::carrier::{self, Step};
use super::posted::{Arrival, Topic};
use super::rows::Rows;
use super::socket::{
    Interest, Poller, ReadBuffer, Ready, Received, dial, local_port, now_us, write,
};
use super::tally::Tally;
use crate::measure::{Counts, Ledger};
use crate::scenario::{Drive, Settings, Transport};
use crate::subject::dialect::{self, Said};
use crate::subject::topic_name;
use anyhow::{anyhow, bail};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;

/// Handshakes under way at once: below any server's queue of connections.
const OPENING_MAX: usize = 256;
/// A longer head of an answer is not an answer.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// All subscribers of a sample. Connections are numbered from 0; the last
/// `stopped` of them are those that will stop reading.
#[derive(Debug)]
pub(super) struct Subscribers {
    transport: Transport,
    address: SocketAddr,
    request: Vec<u8>,
    connections: Vec<Connection>,
    wanted: usize,
    /// How many of them read to the end.
    readers: usize,
    /// Handshakes under way.
    opening: usize,
    /// Connections whose subscriptions all stand.
    standing: usize,
    buffer: ReadBuffer,
    inbox: Inbox,
}

/// One connection; small, for there are many.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    stage: Stage,
    /// What its bytes so far need not be searched for again.
    searched: u32,
    /// Part of a frame.
    carry: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Asked,
    /// The transport is open; so many topics are yet to be confirmed.
    Subscribing(u32),
    Standing,
    Stopped,
    Ended,
}

/// What arrives, checked and counted.
#[derive(Debug)]
struct Inbox {
    topic_names: Vec<String>,
    expected: Expected,
    ledger: Ledger,
    tally: Tally,
    /// When something last arrived.
    heard_us: u64,
}

/// What the events are compared with.
#[derive(Debug)]
enum Expected {
    Posted(Vec<Topic>),
    Rows(Rows),
    Nothing,
}

impl Subscribers {
    pub(super) fn new(address: SocketAddr, settings: &Settings, drive: Drive) -> Subscribers {
        let Settings { transport, connections, topics, window, event_bytes, .. } = *settings;
        let subscriptions = connections as usize * topics as usize;
        let (expected, first) = match drive {
            Drive::Posted => {
                let topic = || Topic::new(window, settings.readers(), event_bytes);
                (Expected::Posted((0..topics).map(|_| topic()).collect()), Some(1))
            }
            Drive::SelfDriven => (Expected::Rows(Rows::default()), None),
            Drive::Idle | Drive::Publish => (Expected::Nothing, None),
        };
        Subscribers {
            transport,
            address,
            request: dialect::subscribe_request(transport, address, topics),
            connections: Vec::with_capacity(connections as usize),
            wanted: connections as usize,
            readers: settings.readers() as usize,
            opening: 0,
            standing: 0,
            buffer: ReadBuffer::new(),
            inbox: Inbox {
                topic_names: (0..topics).map(topic_name).collect(),
                expected,
                ledger: Ledger::new(subscriptions, first),
                tally: Tally::default(),
                heard_us: 0,
            },
        }
    }

    /// Whether every subscription stands.
    pub(super) fn all_stand(&self) -> bool {
        self.standing == self.wanted
    }

    /// Of the wanted.
    pub(super) fn standing(&self) -> usize {
        self.standing
    }

    /// Begins as many connections as may be under way.
    pub(super) fn open_more(&mut self, poller: &Poller) -> anyhow::Result<()> {
        while self.opening < OPENING_MAX && self.connections.len() < self.wanted {
            let index = self.connections.len();
            let socket = dial(self.address, index)
                .map_err(|error| anyhow!("connection {index} cannot be opened: {error}"))?;
            poller.add(&socket, index as u64, Interest::ReadAndWrite)?;
            self.connections.push(Connection {
                socket,
                stage: Stage::Connecting,
                searched: 0,
                carry: Vec::new(),
            });
            self.opening += 1;
        }
        Ok(())
    }

    /// A connection is ready: asks, or reads once.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<()> {
        let index = ready.key as usize;
        match self.connections[index].stage {
            Stage::Connecting if ready.writable => self.ask(index, poller),
            Stage::Stopped | Stage::Ended => Ok(()),
            _ if ready.readable => self.read(index, poller),
            _ => Ok(()),
        }
    }

    fn ask(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let sent = write(&connection.socket, &self.request)
            .map_err(|error| anyhow!("connection {index} was refused: {error}"))?;
        match sent {
            None => return Ok(()),
            Some(length) if length < self.request.len() => {
                bail!("the kernel took only part of a request of {} bytes", self.request.len())
            }
            Some(_) => {}
        }
        connection.stage = Stage::Asked;
        Ok(poller.change(&connection.socket, index as u64, Interest::Read)?)
    }

    #[inline]
    fn read(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let Connection { socket, stage, searched, carry } = &mut self.connections[index];
        let was_standing = *stage == Stage::Standing;
        let (inbox, transport, is_reader) = (&mut self.inbox, self.transport, index < self.readers);
        let received = self.buffer.read(socket, carry, |bytes| {
            inbox.heard_us = now_us();
            let mut parser = Parser { inbox, transport, socket, index, is_reader };
            parser.parse(bytes, stage, searched)
        });
        match received {
            Ok(Received::Bytes(length)) => {
                self.inbox.tally.traffic.reads += 1;
                self.inbox.tally.traffic.wire_bytes += length as u64;
            }
            Ok(Received::Nothing) => {}
            Ok(Received::End) => self.cut(index, poller)?,
            Err(error) if error.downcast_ref().is_some_and(is_reset) => self.cut(index, poller)?,
            Err(error) => return Err(error),
        }
        if !was_standing && self.connections[index].stage == Stage::Standing {
            self.opening -= 1;
            self.standing += 1;
            self.open_more(poller)?;
        }
        Ok(())
    }

    /// The subject ended a connection that should have lasted.
    fn cut(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        if self.connections[index].stage != Stage::Standing {
            bail!("connection {index} was ended before its subscription stood");
        }
        self.connections[index].stage = Stage::Ended;
        self.inbox.ledger.cut();
        Ok(poller.remove(&self.connections[index].socket)?)
    }

    /// Makes the last connections stop reading; says which ports they come
    /// from.
    pub(super) fn stop_readers(&mut self, poller: &Poller) -> anyhow::Result<Vec<u16>> {
        let mut ports = Vec::new();
        for connection in &mut self.connections[self.readers..] {
            if connection.stage == Stage::Standing {
                poller.remove(&connection.socket)?;
                connection.stage = Stage::Stopped;
                ports.push(local_port(&connection.socket)?);
            }
        }
        Ok(ports)
    }

    /// The topics that the lab publishes to.
    #[inline]
    pub(super) fn topics(&mut self) -> &mut [Topic] {
        match &mut self.inbox.expected {
            Expected::Posted(topics) => topics,
            _ => &mut [],
        }
    }

    /// What came in since the span began.
    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.inbox.tally
    }

    /// When something last came.
    pub(super) fn heard_us(&self) -> u64 {
        self.inbox.heard_us
    }

    /// Nothing more will come: what the readers should have and do not, is
    /// missing.
    pub(super) fn close_ledger(&mut self) -> Counts {
        let Inbox { expected, ledger, .. } = &mut self.inbox;
        if let Expected::Posted(topics) = expected {
            for subscription in 0..self.readers * topics.len() {
                let topic = &topics[subscription % topics.len()];
                ledger.close(subscription, topic.published());
            }
        }
        ledger.counts().clone()
    }
}

fn is_reset(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), ConnectionReset | BrokenPipe)
}

/// Takes one connection's bytes apart.
struct Parser<'a> {
    inbox: &'a mut Inbox,
    transport: Transport,
    socket: &'a OwnedFd,
    index: usize,
    is_reader: bool,
}

impl Parser<'_> {
    /// Says how many bytes are done with.
    #[inline]
    fn parse(
        &mut self,
        bytes: &[u8],
        stage: &mut Stage,
        searched: &mut u32,
    ) -> anyhow::Result<usize> {
        let mut used = 0;
        if *stage == Stage::Asked {
            used = self.head_length(bytes)?;
            if used == 0 {
                return Ok(0);
            }
            *stage = Stage::Subscribing(self.inbox.topic_names.len() as u32);
        }
        loop {
            let step = carrier::step(self.transport, &bytes[used..], *searched as usize)?;
            *searched = 0;
            match step {
                Step::Message(message, length) => {
                    self.message(message, stage)?;
                    used += length;
                }
                Step::Ping(payload, length) => {
                    // Lost only if the socket is full, and then it is alive.
                    let _ = write(self.socket, &carrier::pong(payload));
                    used += length;
                }
                Step::Nothing(length) => used += length,
                Step::Close => bail!("the subject closed connection {}", self.index),
                Step::Incomplete { searched: so_far } => {
                    *searched = u32::try_from(so_far).unwrap_or(0);
                    return Ok(used);
                }
            }
        }
    }

    /// Length of the answer's head; 0 while it is incomplete.
    fn head_length(&self, bytes: &[u8]) -> anyhow::Result<usize> {
        match memchr::memmem::find(bytes, b"\r\n\r\n") {
            Some(end) => {
                let head = &bytes[..end + 4];
                dialect::check_answer(self.transport, head).map_err(|reason| anyhow!(reason))?;
                Ok(head.len())
            }
            None if bytes.len() > HEAD_BYTES_MAX => bail!("the subject's answer has no end"),
            None => Ok(0),
        }
    }

    #[inline]
    fn message(&mut self, message: &[u8], stage: &mut Stage) -> anyhow::Result<()> {
        match dialect::unwrap(message) {
            Some(Said::Events { topic, events }) => {
                self.inbox.tally.traffic.envelopes += 1;
                let topic = self.inbox.topic_index(topic)?;
                if events.is_empty() {
                    confirm(stage);
                    return Ok(());
                }
                self.inbox.receive(self.index, topic, self.is_reader, events);
            }
            Some(Said::Gap { topic, missed }) => {
                let topic = self.inbox.topic_index(topic)?;
                if !confirm(stage) {
                    let subscription = self.index * self.inbox.topic_names.len() + topic;
                    self.inbox.ledger.gap(subscription, missed);
                }
            }
            Some(Said::Heartbeat) => self.inbox.tally.traffic.heartbeats += 1,
            Some(Said::Close) => bail!("the subject closed connection {}", self.index),
            None => {
                let shown = String::from_utf8_lossy(&message[..message.len().min(120)]);
                bail!("not an envelope of the wire: {shown}");
            }
        }
        Ok(())
    }
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
    #[inline]
    fn topic_index(&self, topic: &[u8]) -> anyhow::Result<usize> {
        let found = self.topic_names.iter().position(|name| name.as_bytes() == topic);
        found.ok_or_else(|| anyhow!("topic {} was not asked for", String::from_utf8_lossy(topic)))
    }

    #[inline]
    fn receive(&mut self, connection: usize, topic: usize, is_reader: bool, events: &[u8]) {
        let Inbox { expected, ledger, tally, heard_us, topic_names } = self;
        let subscription = connection * topic_names.len() + topic;
        match expected {
            Expected::Posted(topics) => {
                let arrival = Arrival { subscription, is_reader, events, now_us: *heard_us };
                topics[topic].receive(arrival, ledger, tally);
            }
            Expected::Rows(rows) => rows.receive(subscription, events, *heard_us, ledger, tally),
            Expected::Nothing => {}
        }
    }
}
