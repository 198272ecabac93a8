//! The swarm's subscribers: opened a few at a time, then read when they are ready. An external endpoint may refuse or end connections,
//! which is recorded. A subject that does so cannot be measured.
//!
//! - `connection`: one subscriber; `ending`: how connections are established and how they end
//! - `coming`: when connections arrive, leave and return; `renewals`: connections that make another request
//! - `slow`: subscribers that read slowly or not at all

mod coming;
mod connection;
mod ending;
mod renewals;
mod slow;

use super::Load;
use super::carrier::{Kind, websocket};
use super::dialect::{self, Dialect};
use super::dialer::{Dialer, tls_error};
use super::link::LinkRead;
use super::negotiated;
use super::parser::{Over, Parser, Stage};
use super::protocol_session::{End, ProtocolSession, Shape};
use super::read_buffer::{READ_BYTES, ReadBuffer};
use super::receiver::Receiver;
use super::recorder::EventValues;
use super::socket::{Interest, Poller, Ready, now_us};
use super::streams::Streams;
use super::subscribe_request::SubscribeRequest;
use crate::measure::{Counts, Negotiated};
use crate::scenario::{Drive, JsonPath, Program, Settings};
use crate::subject::tls;
use anyhow::{Context, anyhow};
use connection::Connection;
use renewals::Renewals;
use slow::Slow;
use std::collections::{BTreeSet, VecDeque};
use std::io;

/// Reads of one connection before the others get their turn.
const READS_MAX: usize = 4;
/// Limit of the connections that are dialed before established ones are read. This many take a few milliseconds;
/// longer work would make events late.
const OPENED_IN_A_TURN_MAX: usize = 32;
/// Limit of answers to pings that wait for a full socket.
const REPLIES_BYTES_MAX: usize = 64 * 1024;
/// Time limit for establishing a connection to an external endpoint.
const OPEN_WITHIN_US: u64 = 10_000_000;

/// All subscribers of a sample. Connections are numbered from 0; the last `stopped` of them are those that will stop reading.
#[derive(Debug)]
pub(super) struct Subscribers {
    settings: Settings,
    dialer: Dialer,
    dialect: Box<dyn Dialect>,
    subscribe_request: SubscribeRequest,
    /// The lab's name of an external endpoint.
    url: Option<String>,
    connections: Vec<Connection>,
    wanted: usize,
    allowed: usize,
    /// Whether a connection keeps its positions, to resume on another connection.
    resumes: bool,
    /// Connections to be opened again.
    returning: VecDeque<usize>,
    renewals: Renewals,
    /// Connections to a subject that were dialed a second time, and how many of them no span has reported yet.
    redialed: BTreeSet<usize>,
    redialed_new: u32,
    /// Connections established since the last `take_newly_established`, if it is in use.
    newly_established: Option<Vec<usize>>,
    readers: usize,
    opening: usize,
    /// Connections begun in this turn.
    opened: usize,
    /// No connection before this one is opening.
    oldest: usize,
    established: usize,
    slow: Slow,
    /// Connections with more to read, and whether their end has been reported.
    busy: Vec<(usize, bool)>,
    buffer: ReadBuffer,
    replies: Vec<u8>,
    receiver: Receiver,
}

impl Subscribers {
    pub(super) fn new(load: &Load<'_>) -> anyhow::Result<Subscribers> {
        let settings = load.settings;
        let dialect = dialect::new(load.program, settings);
        let (dialer, receiver, url) = match load.program {
            Program::Url(endpoint) => {
                let event = dialect.event_path();
                let below = |path: &JsonPath| path.below(event);
                let values = EventValues {
                    timestamp: endpoint.timestamp.as_ref().map(below),
                    sequence: endpoint.sequence.as_ref().map(below),
                    event,
                    has_responses: endpoint.renews(),
                };
                let receiver = Receiver::recording(values, settings);
                (Dialer::to_endpoint(endpoint)?, receiver, Some(endpoint.url.to_string()))
            }
            _ => {
                let protocol = if settings.streams > 0 { tls::HTTP_2 } else { tls::HTTP_1 };
                let receiver =
                    Receiver::new(settings, load.drive, load.start_us, dialect.escapes());
                (Dialer::to_subject(load.address, settings, protocol)?, receiver, None)
            }
        };
        let host = dialer.address().to_string();
        let wanted = settings.connections as usize / settings.streams.max(1) as usize;
        Ok(Subscribers {
            subscribe_request: SubscribeRequest::new(&*dialect, settings, host),
            settings: settings.clone(),
            dialer,
            url,
            connections: Vec::with_capacity(wanted),
            wanted,
            allowed: wanted,
            resumes: load.drive == Drive::Stampede && dialect.resumes(),
            returning: VecDeque::new(),
            renewals: Renewals::new(load),
            redialed: BTreeSet::new(),
            redialed_new: 0,
            newly_established: load.drive.is_connecting().then(Vec::new),
            readers: settings.readers() as usize,
            opening: 0,
            opened: 0,
            oldest: 0,
            established: 0,
            slow: Slow::default(),
            busy: Vec::new(),
            buffer: ReadBuffer::new(),
            replies: Vec::new(),
            receiver,
            dialect,
        })
    }

    pub(super) fn are_all_established(&self) -> bool {
        self.established == self.wanted
    }

    pub(super) fn established(&self) -> usize {
        self.established
    }

    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty() || self.may_open()
    }

    /// Returns whether a connection is due and may be dialed now.
    fn may_open(&self) -> bool {
        let is_due = !self.returning.is_empty() || self.connections.len() < self.allowed;
        is_due && self.opening < self.dialer.opening_max()
    }

    /// Dials as many connections as may be in progress, but a few at a time: in between, established ones are read.
    pub(super) fn open_more(&mut self, poller: &Poller) -> anyhow::Result<()> {
        while self.opening < self.dialer.opening_max() && self.opened < OPENED_IN_A_TURN_MAX {
            let index = match self.returning.pop_front() {
                Some(index) => index,
                None if self.connections.len() < self.allowed => self.connections.len(),
                None => break,
            };
            if let Some(recorder) = self.receiver.recorder() {
                recorder.dialed(index, now_us());
            }
            let is_slow = self.url.is_some() && index >= self.readers;
            let link = match self.dialer.dial(index, is_slow) {
                Ok(link) => link,
                // An unreachable network fails at once.
                Err(_) if !self.dialer.is_reached() && self.dialer.turn_to_next() => continue,
                Err(error) => {
                    return Err(self.unreachable(&error))
                        .with_context(|| format!("connection {index} of {}", self.wanted));
                }
            };
            poller.add(link.socket(), index as u64, Interest::ReadAndWrite)?;
            self.opening += 1;
            self.opened += 1;
            self.oldest = self.oldest.min(index);
            if let Some(connection) = self.connections.get_mut(index) {
                connection.link = link;
                continue;
            }
            let session = ProtocolSession::new(index, &self.settings, self.resumes);
            self.connections.push(Connection { link, session, carry: Vec::new(), unsent: None });
        }
        Ok(())
    }

    /// Gives up connections to an external endpoint that take too long.
    pub(super) fn give_up_late(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let now_us = now_us();
        let are_renewed = self.renewals.are_on();
        if are_renewed {
            // Connections are not in the order of their age.
            self.oldest = 0;
        }
        while let Some(connection) = self.connections.get(self.oldest) {
            let stage = connection.session.stage;
            // A connection that is yet to be dialed again has the time of the one before it.
            if stage.is_opening() && !self.returning.contains(&self.oldest) {
                let recorded =
                    self.receiver.recorder().and_then(|recorder| recorder.dialed_us(self.oldest));
                if recorded.is_none_or(|us| now_us.saturating_sub(us) < OPEN_WITHIN_US) {
                    if are_renewed {
                        self.oldest += 1;
                        continue;
                    }
                    break;
                }
                let seconds = OPEN_WITHIN_US / 1_000_000;
                let awaited = match stage {
                    Stage::Subscribing(left) => self.dialect.awaited(left),
                    _ => None,
                };
                let awaited =
                    awaited.map_or("answer".to_owned(), |reply| format!("reply with {reply}"));
                self.fail(self.oldest, &anyhow!("no {awaited} within {seconds} s"), poller)?;
            } else {
                self.oldest += 1;
            }
        }
        Ok(())
    }

    /// Handles a ready connection: sends its request or waiting bytes, and reads.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<()> {
        let index = ready.key as usize;
        let connection = &mut self.connections[index];
        match connection.session.stage {
            Stage::Connecting if ready.writable => {
                if let Err(error) = self.ask(index, poller) {
                    return self.fail(index, &error, poller);
                }
                if self.dialer.reach() {
                    self.open_more(poller)?;
                }
                Ok(())
            }
            Stage::Stopped | Stage::Ended => Ok(()),
            _ => {
                if ready.writable
                    && connection.unsent.is_some()
                    && let Err(error) = connection.send(index, &[], poller)
                {
                    return self.fail(index, &error, poller);
                }
                if ready.readable { self.read(index, ready.has_ended, poller) } else { Ok(()) }
            }
        }
    }

    /// Continues with connections that had more to read, and dials those that are due.
    pub(super) fn continue_connections(&mut self, poller: &Poller) -> anyhow::Result<()> {
        self.opened = 0;
        self.renew_due(poller)?;
        self.open_more(poller)?;
        for (index, has_ended) in std::mem::take(&mut self.busy) {
            let stage = self.connections[index].session.stage;
            if !stage.is_over() && stage != Stage::Stopped {
                self.read(index, has_ended, poller)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let request = &mut self.replies;
        request.clear();
        let stage = match connection.session.shape.as_deref() {
            Some(Shape::Streams(streams)) => {
                Streams::requests(&self.subscribe_request, streams.count(), request)?;
                Stage::Asked
            }
            Some(Shape::Resumable(cursors, _)) if cursors.are_known() => {
                self.subscribe_request.again(index, cursors, request);
                Stage::Returning
            }
            _ => {
                self.subscribe_request.first(index, request);
                Stage::Asked
            }
        };
        self.dialect.complete_request(index, request);
        connection.send(index, request, poller)?;
        connection.session.stage = stage;
        request.clear();
        if connection.unsent.is_none() {
            poller.change(connection.link.socket(), index as u64, Interest::Read)?;
        }
        Ok(())
    }

    /// Reads a few times. epoll reports the end once, and a read may stop just before it: with `has_ended`, reads until the end.
    #[inline]
    fn read(&mut self, index: usize, has_ended: bool, poller: &Poller) -> anyhow::Result<()> {
        for _ in 0..READS_MAX {
            let before = self.connections[index].session.stage;
            let (may_be_more, over) = self.read_once(index, READ_BYTES, poller)?;
            self.settle(index, before, over, poller)?;
            let is_over = self
                .connections
                .get(index)
                .is_none_or(|connection| connection.session.stage.is_over());
            if is_over || !may_be_more && !has_ended {
                return Ok(());
            }
        }
        if self.busy.iter().all(|(busy, _)| *busy != index) {
            self.busy.push((index, has_ended));
        }
        Ok(())
    }

    /// Reads at most `room` bytes; returns whether there may be more, and whether and how the connection has ended.
    #[inline]
    fn read_once(
        &mut self,
        index: usize,
        room: usize,
        poller: &Poller,
    ) -> anyhow::Result<(bool, Option<Over>)> {
        let Connection { link, session, carry, .. } = &mut self.connections[index];
        let mut over = None;
        let mut parser = Parser {
            receiver: &mut self.receiver,
            dialect: &*self.dialect,
            transport: self.settings.transport,
            request: &self.subscribe_request,
            replies: &mut self.replies,
            index,
            is_reader: index < self.readers,
            over: None,
        };
        let received = self.buffer.read(link, carry, room, |bytes| {
            parser.receiver.begin_read(now_us());
            let used = session.receive(&mut parser, bytes);
            over = parser.over.take();
            parser.receiver.end_read(index);
            used
        });
        let mut may_be_more = false;
        match received {
            Ok(LinkRead::Nothing) => {}
            Ok(LinkRead::Bytes { wire_bytes, is_all, .. }) => {
                parser.receiver.statistics.traffic.reads += 1;
                parser.receiver.statistics.traffic.wire_bytes += wire_bytes as u64;
                may_be_more = !is_all;
            }
            Ok(LinkRead::End) => {
                parser.receiver.begin_read(now_us());
                over = Some(session.end(End::Orderly, carry, &mut parser)?);
                parser.receiver.end_read(index);
            }
            Err(error) => match error.downcast_ref::<io::Error>() {
                Some(error) => {
                    over = Some(match tls_error(error) {
                        Some(reason) => session.give_up(reason),
                        None => session.end(End::Reset, carry, &mut parser)?,
                    });
                }
                None => return Err(self.with_connection(index, error)),
            },
        }
        if !self.replies.is_empty() {
            let connection = &mut self.connections[index];
            // Pings that arrived while the socket was full need no answer. A later read finds a broken socket.
            let has_room = connection.unsent_bytes() < REPLIES_BYTES_MAX;
            let sent = match has_room {
                true => connection.send(index, &self.replies, poller),
                false => Ok(()),
            };
            self.replies.clear();
            if over.is_none() && self.url.is_none() {
                sent?;
            }
        }
        Ok((may_be_more, over))
    }

    /// Sends a message on a WebSocket, compressed if that was negotiated; returns `false` if the WebSocket is not established.
    pub(super) fn send(
        &mut self,
        index: usize,
        kind: Kind,
        message: &[u8],
        poller: &Poller,
    ) -> anyhow::Result<bool> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(false) };
        if connection.session.stage != Stage::Established {
            return Ok(false);
        }
        let frame = &mut self.replies;
        websocket::message(kind, connection.session.deflates(), message, frame);
        let sent = connection.send(index, frame, poller);
        frame.clear();
        match sent {
            Ok(()) => Ok(true),
            Err(error) => self.fail(index, &error, poller).map(|()| false),
        }
    }

    /// Returns the negotiated values of the first established connection.
    pub(super) fn negotiated(&self) -> Negotiated {
        let (index, head) = match &self.receiver.first_head {
            Some((index, head)) => (*index, head.as_slice()),
            None => (0, &[][..]),
        };
        let Some(first) = self.connections.get(index) else {
            return Negotiated::default();
        };
        let is_http2 = matches!(first.session.shape.as_deref(), Some(Shape::Streams(_)));
        negotiated::from_link(&first.link, (!is_http2).then_some(head))
    }

    /// Returns whether all readers have everything up to these, or were told of a gap.
    pub(super) fn have(&self, last: &[u64]) -> bool {
        self.receiver.have(self.readers, last)
    }

    #[inline]
    pub(super) fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Counts rows up to these that readers lack as late so far.
    pub(super) fn count_late(&mut self, last: &[u64]) {
        self.receiver.count_late(self.readers, last, now_us());
    }

    /// Counts rows up to these that readers lack as missing.
    pub(super) fn count_missing(&mut self, last: &[u64]) {
        self.receiver.count_missing(self.readers, last);
    }

    /// Closes the ledger: events that readers should have and lack are missing.
    pub(super) fn close_ledger(&mut self) -> Counts {
        self.receiver.close_ledger(self.readers)
    }
}
