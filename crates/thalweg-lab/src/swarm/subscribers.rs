//! The swarm's subscribers: opened a few at a time, then read as they get
//! ready.

use super::Load;
use super::carrier::Decoder;
use super::chunked_stream::ChunkedStream;
use super::cursors::{Cursors, Nothing};
use super::facts;
use super::inbox::{Inbox, Parser, Stage};
use super::link::{Dialer, Link, Received};
use super::polls::Polls;
use super::read_buffer::ReadBuffer;
use super::socket::{Interest, Poller, Ready, now_us};
use super::streams::Streams;
use super::subscribe_request::SubscribeRequest;
use crate::measure::{Counts, Negotiated};
use crate::scenario::{Settings, Transport};
use anyhow::{anyhow, bail};
use std::collections::VecDeque;

/// Handshakes under way at once: below any server's queue of connections.
const OPENING_MAX: usize = 256;
/// A TLS handshake is work for both sides: so many do not wait for each other.
const OPENING_TLS_MAX: usize = 32;

/// All subscribers of a sample. Connections are numbered from 0; the last
/// `stopped` of them are those that will stop reading.
#[derive(Debug)]
pub(super) struct Subscribers {
    settings: Settings,
    dialer: Dialer,
    subscribe_request: SubscribeRequest,
    /// What a connection begins with.
    request: Vec<u8>,
    connections: Vec<Connection>,
    wanted: usize,
    /// Those to be opened again.
    returning: VecDeque<usize>,
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
    /// `None`: one answer without an end, which is not in chunks.
    shape: Option<Box<Shape>>,
    stage: Stage,
    decoder: Decoder,
    /// Part of a frame.
    carry: Vec<u8>,
}

/// What comes on a connection.
#[derive(Debug)]
enum Shape {
    /// HTTP/2, with several subscribers.
    Streams(Streams),
    /// Answer after answer.
    Polls(Polls),
    /// One answer without an end.
    ChunkedStream(ChunkedStream),
    /// A document that may have to be loaded again, on a connection of its own; and its
    /// body, if that is in chunks.
    Document(Cursors, Option<ChunkedStream>),
}

impl Shape {
    /// Of the connection with this number.
    fn new(index: usize, settings: &Settings) -> Option<Box<Shape>> {
        let Settings { transport, streams, topics, .. } = *settings;
        match transport {
            _ if streams > 0 => {
                Some(Box::new(Shape::Streams(Streams::new(index * streams as usize, settings))))
            }
            Transport::LongPolling => Some(Box::new(Shape::Polls(Polls::new(topics)))),
            Transport::ForeverFrame => Some(Box::new(Shape::Document(Cursors::new(topics), None))),
            Transport::Websocket | Transport::Sse | Transport::HttpStreaming => None,
        }
    }

    /// An answer's head has said how its body is delimited.
    fn open(shape: &mut Option<Box<Shape>>, chunks: Option<ChunkedStream>) {
        match shape.as_deref_mut() {
            None => *shape = chunks.map(|chunks| Box::new(Shape::ChunkedStream(chunks))),
            Some(Shape::Document(_, body)) => *body = chunks,
            Some(Shape::Streams(_) | Shape::Polls(_) | Shape::ChunkedStream(_)) => {}
        }
    }
}

impl Subscribers {
    pub(super) fn new(dialer: Dialer, load: &Load<'_>) -> anyhow::Result<Subscribers> {
        let settings = load.settings;
        let subscribe_request = SubscribeRequest::new(settings, dialer.address());
        let streams = settings.streams as usize;
        let mut request = Vec::new();
        match streams {
            0 => subscribe_request.first(&mut request),
            _ => request = Streams::requests(&subscribe_request, streams)?,
        }
        let wanted = settings.connections as usize / streams.max(1);
        Ok(Subscribers {
            settings: settings.clone(),
            dialer,
            subscribe_request,
            request,
            connections: Vec::with_capacity(wanted),
            wanted,
            returning: VecDeque::new(),
            readers: settings.readers() as usize,
            opening: 0,
            standing: 0,
            buffer: ReadBuffer::new(),
            replies: Vec::new(),
            inbox: Inbox::new(settings, load.drive, load.start_us),
        })
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
        while self.opening < opening_max {
            let index = match self.returning.pop_front() {
                Some(index) => index,
                None if self.connections.len() < self.wanted => self.connections.len(),
                None => break,
            };
            let link = self
                .dialer
                .dial(index)
                .map_err(|error| anyhow!("connection {index} cannot be opened: {error}"))?;
            poller.add(link.socket(), index as u64, Interest::ReadAndWrite)?;
            self.opening += 1;
            if let Some(connection) = self.connections.get_mut(index) {
                connection.link = link;
                continue;
            }
            self.connections.push(Connection {
                link,
                shape: Shape::new(index, &self.settings),
                stage: Stage::Connecting,
                decoder: Decoder::default(),
                carry: Vec::new(),
            });
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
                    || ready.has_ended && !self.connections[index].stage.is_over()
                {}
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ask(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let again = match connection.shape.as_deref() {
            Some(Shape::Document(cursors, _)) if cursors.are_known() => {
                let mut request = Vec::new();
                self.subscribe_request.again(cursors, &mut request);
                Some(request)
            }
            _ => None,
        };
        let stage = if again.is_some() { Stage::Returning } else { Stage::Asked };
        let request = again.as_ref().unwrap_or(&self.request);
        let sent = connection
            .link
            .write(request)
            .map_err(|error| anyhow!("connection {index} was refused: {error}"))?;
        match sent {
            None => return Ok(()),
            Some(length) if length < request.len() => return Err(too_long(request)),
            Some(_) => {}
        }
        connection.stage = stage;
        Ok(poller.change(connection.link.socket(), index as u64, Interest::Read)?)
    }

    /// Reads once; whether there may be more.
    #[inline]
    fn read(&mut self, index: usize, poller: &Poller) -> anyhow::Result<bool> {
        let Connection { link, shape, stage, decoder, carry } = &mut self.connections[index];
        let was_standing = *stage == Stage::Standing;
        let (inbox, request, replies) =
            (&mut self.inbox, &self.subscribe_request, &mut self.replies);
        let (transport, is_reader) = (self.settings.transport, index < self.readers);
        let received = self.buffer.read(link, carry, |bytes| {
            inbox.heard_us = now_us();
            let mut parser = Parser { inbox, transport, request, replies, index, is_reader };
            match shape.as_deref_mut() {
                Some(Shape::Streams(streams)) => return streams.parse(&mut parser, bytes, stage),
                Some(Shape::Polls(polls)) => return polls.parse(&mut parser, bytes, stage),
                None | Some(Shape::ChunkedStream(_) | Shape::Document(..)) => {}
            }
            let mut head_length = 0;
            if matches!(stage, Stage::Asked | Stage::Returning) {
                let Some((length, body)) = parser.open(bytes, stage)? else { return Ok(0) };
                head_length = length;
                Shape::open(shape, ChunkedStream::new(body));
            }
            let bytes = &bytes[head_length..];
            let used = match shape.as_deref_mut() {
                Some(Shape::ChunkedStream(chunks)) => {
                    chunks.parse(&mut parser, bytes, stage, &mut Nothing)
                }
                Some(Shape::Document(cursors, Some(chunks))) => {
                    chunks.parse(&mut parser, bytes, stage, cursors)
                }
                Some(Shape::Document(cursors, None)) => {
                    parser.frames(bytes, stage, decoder, cursors)
                }
                _ => parser.frames(bytes, stage, decoder, &mut Nothing),
            };
            Ok(head_length + used?)
        });
        if !self.replies.is_empty() {
            let sent = link.write(&self.replies);
            // A pong is lost only if the socket is full, and then it is alive. A
            // request or a window that is lost would be waited for in vain.
            if shape.is_some() && sent.is_ok_and(|sent| sent != Some(self.replies.len())) {
                return Err(too_long(&self.replies));
            }
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
            Ok(Received::End) => self.end(index, poller)?,
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

    /// The subject ended a connection: to be opened again if that was said.
    fn end(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let Some(Shape::Document(cursors, _)) = connection.shape.as_deref_mut() else {
            return self.cut(index, poller);
        };
        if connection.stage != Stage::Standing || !cursors.take_reload() {
            return self.cut(index, poller);
        }
        poller.remove(connection.link.socket())?;
        connection.stage = Stage::Connecting;
        connection.decoder = Decoder::default();
        connection.carry = Vec::new();
        self.standing -= 1;
        self.returning.push_back(index);
        self.open_more(poller)
    }

    /// The subject ended a connection that should have lasted.
    fn cut(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        if self.connections[index].stage != Stage::Standing {
            bail!("connection {index} was ended before its subscription stood");
        }
        let connection = &mut self.connections[index];
        connection.stage = Stage::Ended;
        let subscribers = match connection.shape.as_deref() {
            Some(Shape::Streams(streams)) => streams.count(),
            _ => 1,
        };
        for _ in 0..subscribers {
            self.inbox.ledger.cut();
        }
        Ok(poller.remove(connection.link.socket())?)
    }

    /// Makes the last connections stop reading; says which ports they come
    /// from.
    pub(super) fn stop_readers(&mut self, poller: &Poller) -> anyhow::Result<Vec<u16>> {
        let mut ports = Vec::new();
        let first = self.readers / self.settings.streams.max(1) as usize;
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
        let Some(first) = self.connections.first() else {
            return Negotiated::default();
        };
        let is_http2 = matches!(first.shape.as_deref(), Some(Shape::Streams(_)));
        facts::of(&first.link, (!is_http2).then_some(self.inbox.head.as_slice()))
    }

    /// Whether all readers have everything up to these, or were told of a gap.
    pub(super) fn have(&self, last: &[u64]) -> bool {
        self.inbox.have(self.readers, last)
    }

    /// What arrived.
    #[inline]
    pub(super) fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// Of rows up to these, those that readers do not have are late so far.
    pub(super) fn count_late(&mut self, last: &[u64]) {
        self.inbox.count_late(self.readers, last, now_us());
    }

    /// Of rows up to these, those that readers do not have are missing.
    pub(super) fn count_missing(&mut self, last: &[u64]) {
        self.inbox.count_missing(self.readers, last);
    }

    /// Nothing more will come: what the readers should have and do not, is
    /// missing.
    pub(super) fn close_ledger(&mut self) -> Counts {
        self.inbox.close_ledger(self.readers)
    }
}

fn too_long(request: &[u8]) -> anyhow::Error {
    anyhow!("the kernel took only part of a request of {} bytes", request.len())
}

fn is_reset(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), ConnectionReset | BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 72, "{}", size_of::<Connection>());
    }
}
