//! One connection to an endpoint.

use super::handshake::{self, Wanted};
use super::protocol_session::{End, ProtocolSession};
use super::recorder::{Pace, Recorder};
use super::resolver::Resolver;
use crate::measure::Answer;
use crate::scenario::{Endpoint, Transport};
use crate::swarm::carrier::websocket;
use crate::swarm::link::Received;
use crate::swarm::read_buffer::ReadBuffer;
use crate::swarm::socket::{Poller, Ready, now_real_ns, now_us};
use crate::swarm::writer::Writer;
use anyhow::anyhow;
use std::io;

/// Answers to pings that may wait for a socket that takes nothing.
const REPLIES_BYTES_MAX: usize = 64 * 1024;

/// A connection, from its first byte to its last.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` when it is over.
    writer: Option<Writer>,
    pub(super) session: ProtocolSession,
    /// Part of a head, a chunk's size or a frame.
    carry: Vec<u8>,
    pub(super) pace: Pace,
    pub(super) dialed_us: u64,
    pub(super) stage: Stage,
}

/// How far its pool knows it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Standing,
    Refused,
    Ended,
}

/// What a read brought.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// There may be more to read.
    pub(super) may_be_more: bool,
    /// What the response says that has just opened the transport.
    pub(super) opened: Option<Box<Answer>>,
}

impl Connection {
    /// Connects. The poller will report `index`.
    pub(super) fn dial(
        resolver: &Resolver,
        endpoint: &Endpoint,
        index: usize,
        poller: &Poller,
    ) -> anyhow::Result<Connection> {
        let is_websocket = endpoint.transport == Transport::Websocket;
        let key = if is_websocket { handshake::key() } else { String::new() };
        let wanted = Wanted {
            transport: endpoint.transport,
            accept: if is_websocket { handshake::accept(&key) } else { String::new() },
            subprotocol: endpoint.subprotocol.clone(),
        };
        let dialed_us = now_us();
        let link = resolver.dial(index)?;
        let request = handshake::request(endpoint, &key);
        Ok(Connection {
            writer: Some(Writer::over(link, index as u64, request, poller)?),
            session: ProtocolSession::new(wanted),
            carry: Vec::new(),
            pace: Pace::default(),
            dialed_us,
            stage: Stage::Opening,
        })
    }

    /// Whether there is nothing more to expect.
    pub(super) fn is_over(&self) -> bool {
        self.session.refused().is_some() || self.session.ended().is_some()
    }

    /// Sends what it could not. The error is why the connection cannot be made.
    pub(super) fn flush(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<()> {
        match &mut self.writer {
            Some(writer) if ready.writable => writer.flush(poller),
            _ => Ok(()),
        }
    }

    /// Says what was to be said on opening.
    pub(super) fn greet(&mut self, messages: &[String], poller: &Poller) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.send(poller, |out| {
            for message in messages {
                websocket::text(message.as_bytes(), out);
            }
        })
    }

    /// Reads once. The error is that what it hears is malformed.
    #[inline]
    pub(super) fn receive(
        &mut self,
        buffer: &mut ReadBuffer,
        recorder: &mut Recorder,
        poller: &Poller,
    ) -> anyhow::Result<Turn> {
        let Connection { writer: Some(writer), session, pace, carry, .. } = self else {
            return Ok(Turn::default());
        };
        let mut turn = Turn::default();
        let received = buffer.read(&mut writer.link, carry, |bytes| {
            let mut reading = recorder.reading(now_us(), now_real_ns);
            let used = session.receive(bytes, |incoming| reading.on_message(incoming));
            reading.finish(pace);
            used.map_err(anyhow::Error::from)
        });
        match received {
            Ok(Received::Nothing) => {}
            Ok(Received::Bytes { wire_bytes, is_all, .. }) => {
                recorder.tally.traffic.reads += 1;
                recorder.tally.traffic.wire_bytes += wire_bytes as u64;
                turn.may_be_more = !is_all;
            }
            Ok(Received::End) => self.end(End::Orderly, recorder),
            Err(error) => match error.downcast_ref::<io::Error>() {
                // What TLS finds wrong is told by it, not by the socket.
                Some(error) if error.raw_os_error().is_none() => {
                    self.session.break_off(&encryption(error));
                }
                Some(_) => self.end(End::Reset, recorder),
                None => return Err(error),
            },
        }
        turn.opened = self.session.take_opened();
        self.reply(recorder, poller);
        if self.is_over() {
            self.writer = None;
            turn.may_be_more = false;
        }
        Ok(turn)
    }

    /// It could not be connected, or could not be written to.
    pub(super) fn fail(&mut self, reason: &anyhow::Error, recorder: &mut Recorder) {
        if self.session.is_open() {
            self.end(End::Reset, recorder);
        } else {
            self.session.give_up(format!("{reason:#}"));
        }
        self.writer = None;
    }

    /// Takes leave as a WebSocket should; what the kernel does not take is lost.
    pub(super) fn leave(&mut self, poller: &Poller) {
        if let Some(writer) = &mut self.writer
            && self.session.is_websocket()
        {
            let _ = writer.send(poller, websocket::close);
        }
        self.writer = None;
    }

    fn end(&mut self, end: End, recorder: &mut Recorder) {
        let mut reading = recorder.reading(now_us(), now_real_ns);
        self.session.end(end, |incoming| reading.on_message(incoming));
        reading.finish(&mut self.pace);
    }

    fn reply(&mut self, recorder: &mut Recorder, poller: &Poller) {
        if recorder.replies.is_empty() {
            return;
        }
        let replies = std::mem::take(&mut recorder.replies);
        let Some(writer) = &mut self.writer else { return };
        // Of pings that came while the socket was full, none need an answer. One
        // that cannot be written to is found out by reading.
        if writer.pending_bytes() < REPLIES_BYTES_MAX {
            let _ = writer.send(poller, |out| out.extend_from_slice(&replies));
        }
    }
}

/// What went wrong inside TLS, with the remedy.
fn encryption(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => {
            format!("{error}; name its authority with --cacert, or trust anyone with --insecure")
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("{error}; if there is no TLS, write the URL with ws:// or http://")
        }
        _ => error.to_string(),
    }
}

/// A connection that cannot be made, for a person.
pub(super) fn unreachable(error: &anyhow::Error, url: &str) -> anyhow::Error {
    match error.downcast_ref::<io::Error>() {
        Some(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            anyhow!("nothing listens at {url}: start the server first, or check the port")
        }
        _ => anyhow!("{url} cannot be reached: {error:#}"),
    }
}
