//! The swarm's subscribers: opened a few at a time, then read as they get
//! ready.

use super::facts;
use super::inbox::{Inbox, Parser, Stage};
use super::link::{Dialer, Link, Received};
use super::read_buffer::ReadBuffer;
use super::socket::{Interest, Poller, Ready, now_us};
use super::streams::Streams;
use crate::measure::{Counts, Negotiated};
use crate::scenario::{Drive, Settings, Transport};
use crate::subject::dialect::Subscription;
use anyhow::{anyhow, bail};

/// Handshakes under way at once: below any server's queue of connections.
const OPENING_MAX: usize = 256;
/// A TLS handshake is work for both sides: so many do not wait for each other.
const OPENING_TLS_MAX: usize = 32;

/// All subscribers of a sample. Connections are numbered from 0; the last
/// `stopped` of them are those that will stop reading.
#[derive(Debug)]
pub(super) struct Subscribers {
    transport: Transport,
    dialer: Dialer,
    /// Subscribers that share an HTTP/2 connection; 0 is HTTP/1.1.
    streams: usize,
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
    /// Scratch for what a transport answers by itself.
    replies: Vec<u8>,
    inbox: Inbox,
}

/// One connection; small, for there are many.
#[derive(Debug)]
struct Connection {
    link: Link,
    /// Over HTTP/2, its subscribers.
    streams: Option<Box<Streams>>,
    stage: Stage,
    /// What its bytes so far need not be searched for again.
    searched: u32,
    /// Part of a frame.
    carry: Vec<u8>,
}

impl Subscribers {
    pub(super) fn new(dialer: Dialer, settings: &Settings, drive: Drive) -> Subscribers {
        let Settings { transport, connections, topics, .. } = *settings;
        let streams = settings.streams as usize;
        let host = dialer.address();
        let subscription = Subscription { transport, host, path: None, topics, query: "" };
        let request = match streams {
            0 => subscription.request(),
            _ => Streams::requests(&subscription, streams, dialer.is_tls()),
        };
        let wanted = connections as usize / streams.max(1);
        Subscribers {
            transport,
            dialer,
            streams,
            request,
            connections: Vec::with_capacity(wanted),
            wanted,
            readers: settings.readers() as usize,
            opening: 0,
            standing: 0,
            buffer: ReadBuffer::new(),
            replies: Vec::new(),
            inbox: Inbox::new(settings, drive),
        }
    }

    /// Whether every subscription stands.
    pub(super) fn all_stand(&self) -> bool {
        self.standing == self.wanted
    }

    /// Connections that stand.
    pub(super) fn standing(&self) -> usize {
        self.standing
    }

    /// Connections that shall stand.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Begins as many connections as may be under way.
    pub(super) fn open_more(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let opening_max = if self.dialer.is_tls() { OPENING_TLS_MAX } else { OPENING_MAX };
        while self.opening < opening_max && self.connections.len() < self.wanted {
            let index = self.connections.len();
            let link = self
                .dialer
                .dial(index)
                .map_err(|error| anyhow!("connection {index} cannot be opened: {error}"))?;
            poller.add(link.socket(), index as u64, Interest::ReadAndWrite)?;
            let streams = self.streams;
            self.connections.push(Connection {
                link,
                streams: (streams > 0).then(|| Box::new(Streams::new(index * streams, streams))),
                stage: Stage::Connecting,
                searched: 0,
                carry: Vec::new(),
            });
            self.opening += 1;
        }
        Ok(())
    }

    /// A connection is ready: asks, or reads what there is.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<()> {
        let index = ready.key as usize;
        match self.connections[index].stage {
            Stage::Connecting if ready.writable => self.ask(index, poller),
            Stage::Stopped | Stage::Ended => Ok(()),
            _ if ready.readable => {
                // The end is told once, and a read may stop just before it.
                while self.read(index, poller)?
                    || ready.has_ended && self.connections[index].stage != Stage::Ended
                {
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ask(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let sent = connection
            .link
            .write(&self.request)
            .map_err(|error| anyhow!("connection {index} was refused: {error}"))?;
        match sent {
            None => return Ok(()),
            Some(length) if length < self.request.len() => {
                bail!("the kernel took only part of a request of {} bytes", self.request.len())
            }
            Some(_) => {}
        }
        connection.stage = Stage::Asked;
        Ok(poller.change(connection.link.socket(), index as u64, Interest::Read)?)
    }

    /// Reads once; whether there may be more.
    #[inline]
    fn read(&mut self, index: usize, poller: &Poller) -> anyhow::Result<bool> {
        let Connection { link, streams, stage, searched, carry } = &mut self.connections[index];
        let was_standing = *stage == Stage::Standing;
        let (inbox, transport, is_reader) = (&mut self.inbox, self.transport, index < self.readers);
        let replies = &mut self.replies;
        let received = self.buffer.read(link, carry, |bytes| {
            inbox.heard_us = now_us();
            let mut parser = Parser { inbox, transport, replies, index, is_reader };
            match streams {
                Some(streams) => streams.parse(&mut parser, bytes, stage),
                None => parser.parse(bytes, stage, searched),
            }
        });
        if !self.replies.is_empty() {
            // Lost only if the socket is full, and then it is alive.
            let _ = link.write(&self.replies);
            self.replies.clear();
        }
        let mut may_be_more = false;
        match received {
            Ok(Received::Nothing) => {}
            Ok(Received::Bytes { wire_bytes, is_all, .. }) => {
                self.inbox.tally.traffic.reads += 1;
                self.inbox.tally.traffic.wire_bytes += wire_bytes as u64;
                may_be_more = !is_all;
            }
            Ok(Received::End) => self.cut(index, poller)?,
            Err(error) if error.downcast_ref().is_some_and(is_reset) => self.cut(index, poller)?,
            Err(error) => return Err(error),
        }
        if !was_standing && self.connections[index].stage == Stage::Standing {
            self.opening -= 1;
            self.standing += 1;
            self.open_more(poller)?;
        }
        Ok(may_be_more)
    }

    /// The subject ended a connection that should have lasted.
    fn cut(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        if self.connections[index].stage != Stage::Standing {
            bail!("connection {index} was ended before its subscription stood");
        }
        let connection = &mut self.connections[index];
        connection.stage = Stage::Ended;
        for _ in 0..connection.streams.as_ref().map_or(1, |streams| streams.count()) {
            self.inbox.ledger.cut();
        }
        Ok(poller.remove(connection.link.socket())?)
    }

    /// Makes the last connections stop reading; says which ports they come
    /// from.
    pub(super) fn stop_readers(&mut self, poller: &Poller) -> anyhow::Result<Vec<u16>> {
        let mut ports = Vec::new();
        let first = self.readers / self.streams.max(1);
        for connection in &mut self.connections[first..] {
            if connection.stage == Stage::Standing {
                poller.remove(connection.link.socket())?;
                connection.stage = Stage::Stopped;
                ports.push(connection.link.local_port()?);
            }
        }
        Ok(ports)
    }

    /// What the first connection agreed on.
    pub(super) fn negotiated(&self) -> Negotiated {
        let first = self.connections.first();
        first.map_or_else(Negotiated::default, |first| facts::of(&first.link, &self.inbox.head))
    }

    /// What arrived.
    #[inline]
    pub(super) fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// Nothing more will come: what the readers should have and do not, is
    /// missing.
    pub(super) fn close_ledger(&mut self) -> Counts {
        self.inbox.close_ledger(self.readers)
    }
}

fn is_reset(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), ConnectionReset | BrokenPipe)
}
