//! The swarm's subscribers: opened a few at a time, then read as they get
//! ready.

use super::inbox::{Inbox, Parser, Stage};
use super::socket::{
    Interest, Poller, ReadBuffer, Ready, Received, dial, local_port, now_us, write,
};
use crate::measure::Counts;
use crate::scenario::{Drive, Settings, Transport};
use crate::subject::dialect;
use anyhow::{anyhow, bail};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;

/// Handshakes under way at once: below any server's queue of connections.
const OPENING_MAX: usize = 256;

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

impl Subscribers {
    pub(super) fn new(address: SocketAddr, settings: &Settings, drive: Drive) -> Subscribers {
        let Settings { transport, connections, topics, .. } = *settings;
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
            inbox: Inbox::new(settings, drive),
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

    /// Reads once; whether there may be more.
    #[inline]
    fn read(&mut self, index: usize, poller: &Poller) -> anyhow::Result<bool> {
        let Connection { socket, stage, searched, carry } = &mut self.connections[index];
        let was_standing = *stage == Stage::Standing;
        let (inbox, transport, is_reader) = (&mut self.inbox, self.transport, index < self.readers);
        let received = self.buffer.read(socket, carry, |bytes| {
            inbox.heard_us = now_us();
            let mut parser = Parser { inbox, transport, socket, index, is_reader };
            parser.parse(bytes, stage, searched)
        });
        let mut may_be_more = false;
        match received {
            Ok(Received::Nothing) => {}
            Ok(Received::Bytes { length, is_all }) => {
                self.inbox.tally.traffic.reads += 1;
                self.inbox.tally.traffic.wire_bytes += length as u64;
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
