//! Dialects: the protocols on top of a carrier, one per file.
//!
//! Carriers split bytes into messages. A dialect defines how a connection opens, what a message means, and how to publish. It keeps no
//! state of a connection: the reply to a message depends only on that message.
//!
//! - `thalweg`: `docs/reference/messages.md`
//! - `limit`: the same for subscribers; the server echoes WebSocket messages
//! - `raw`: messages without an envelope; the server echoes WebSocket messages
//! - `external`: an endpoint that somebody else runs, with or without one of the protocols of `--dialect` on top:
//!   (`foreign`): `graphql_ws`, `llm_stream`, and those of `socketio`, `centrifugo` and `signalr`
//! - `socketio`: Socket.IO 5 over Engine.IO 4, as Socket.IO 3 and 4 speak them; Engine.IO alone
//! - `sockjs`, `primus`, `nats`, `nchan`, `centrifugo`, `mercure`, `signalr`: the protocols of these servers
//! - `message`: the content of a message
//! - `echo`: messages of experiment C; `runner`: events of experiment B

mod centrifugo;
mod echo;
mod external;
mod foreign;
mod graphql_ws;
mod limit;
mod llm_stream;
mod mercure;
mod message;
mod nats;
mod nchan;
mod primus;
mod raw;
mod runner;
mod signalr;
mod socketio;
mod sockjs;
mod thalweg;

pub(super) use message::{Encoding, Message, Version, VersionBody};
pub(super) use runner::{runner, runner_id};
pub(super) use thalweg::acks_target;

use super::carrier::{Kind, shown};
use super::publishing::Publishing;
use crate::scenario::{self, Program, Settings, Transport};
use anyhow::anyhow;
use message::alone;
use std::fmt::Debug;
use std::ops::Range;

/// Request of a new connection.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) transport: Transport,
    pub(super) topics: Range<u32>,
    /// Further parameters of the query, e.g. `cursor=earliest`.
    pub(super) query: &'a str,
}

/// A field of a request's head.
pub(super) type Field<'a> = (&'a str, &'a str);

/// A protocol on top of a carrier. The defaults are those of Thalweg, which peers offer, too.
pub(super) trait Dialect: Debug {
    /// Returns path and query of a connection's first request.
    fn target(&self, wanted: &Wanted<'_>) -> String {
        thalweg::target(wanted)
    }

    /// Returns the host of a request, if it is not the address.
    fn authority(&self) -> Option<&str> {
        None
    }

    /// Returns the fields of the first request, besides those that open the transport.
    fn fields(&self) -> Vec<Field<'_>> {
        Vec::new()
    }

    /// Returns the only subprotocol that a WebSocket offers (RFC 6455 §1.9).
    fn subprotocol(&self) -> Option<&str> {
        None
    }

    /// Returns whether requests offer compression: permessage-deflate or gzip.
    fn compresses(&self) -> bool {
        false
    }

    /// Returns whether the subject confirms subscriptions. If not, a subscription is established with its transport.
    fn confirms(&self) -> bool {
        true
    }

    fn resumes(&self) -> bool {
        false
    }

    /// Returns the method of the first request.
    fn method(&self) -> &str {
        "GET"
    }

    /// Inserts the values of a single connection into its request, and appends the body.
    fn complete_request(&self, _connection: usize, _request: &mut Vec<u8>) {}

    /// Appends the messages that a connection sends as soon as its transport is open.
    fn greet(&self, _connection: usize, _out: &mut Vec<u8>) {}

    /// Returns how many replies open a connection to an endpoint. Until they have come, events are possible replies.
    fn replies(&self) -> u32 {
        0
    }

    /// Returns a description of the reply that comes next if `left` are yet to come.
    fn awaited(&self, _left: u32) -> Option<String> {
        None
    }

    /// Returns whether a message is the reply that comes next, and appends the messages that follow it.
    fn is_reply(
        &self,
        _connection: usize,
        _left: u32,
        _message: &[u8],
        _out: &mut Vec<u8>,
    ) -> bool {
        false
    }

    /// Returns the place of the event in the JSON of a message.
    fn event_path(&self) -> &'static str {
        ""
    }

    /// Returns the first content of a message and the bytes after it, and appends answers to `replies`. Fails if the message is not of
    /// this dialect. A message without an envelope is an event by itself.
    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        Ok(alone(Message::Event(kind, message)))
    }

    /// Returns whether events arrive as JSON strings (RFC 8259 §7), without the quotes around them.
    fn escapes(&self) -> bool {
        false
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: thalweg::publish_target(topic) }
    }

    /// Returns the request with this number, and the message that the subject must echo.
    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number).into_bytes();
        (data.clone(), data)
    }

    /// Returns the number in an echoed message, expected or not; `None` for other messages.
    fn echo_number(&self, answer: &[u8]) -> Option<u64> {
        let number = echo::number(answer)?;
        (self.echo(number).1 == answer).then_some(number)
    }

    /// Returns the query that limits a subject's unacked bytes; `None` if the subject has no such window.
    fn window(&self, _bytes: u32) -> Option<String> {
        None
    }

    fn earliest_query(&self) -> &'static str {
        ""
    }

    /// Returns the message that acks the events up to this position; only a subject with a window needs it.
    fn ack(&self, _position: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    /// Returns the WebSocket message with a whole Runner: the ack of one that the subject has created, or the next one for a subject
    /// that echoes.
    fn ack_runner(&self, runner: &[u8]) -> Vec<u8> {
        runner.to_vec()
    }

    /// Returns whether the subject creates the Runners of a round trip. If not, the client creates them and the subject echoes them.
    fn makes_runners(&self) -> bool {
        false
    }
}

pub(super) fn new(program: &Program, settings: &Settings) -> Box<dyn Dialect> {
    if let Program::Url(endpoint) = program {
        return Box::new(external::External::new(endpoint));
    }
    match program.dialect() {
        scenario::PeerDialect::Thalweg => Box::new(thalweg::Thalweg),
        scenario::PeerDialect::Limit => Box::new(limit::Limit),
        // A consumer is never connected to.
        scenario::PeerDialect::Raw | scenario::PeerDialect::Consumer => Box::new(raw::Raw),
        scenario::PeerDialect::Socketio => Box::new(socketio::SocketIo),
        scenario::PeerDialect::Engineio => Box::new(socketio::EngineIo),
        scenario::PeerDialect::Sockjs => Box::new(sockjs::SockJs::new(settings)),
        scenario::PeerDialect::Primus => Box::new(primus::Primus),
        scenario::PeerDialect::Nats => Box::new(nats::Nats::new(settings)),
        scenario::PeerDialect::Nchan => Box::new(nchan::Nchan),
        scenario::PeerDialect::Centrifugo => Box::new(centrifugo::Centrifugo::new(settings)),
        scenario::PeerDialect::Mercure => Box::new(mercure::Mercure),
        scenario::PeerDialect::Signalr => Box::new(signalr::SignalR::new(settings)),
    }
}

fn unknown(what: &str, message: &[u8]) -> anyhow::Error {
    anyhow!("{what}: {}", shown(message))
}

#[cfg(test)]
mod tests;
