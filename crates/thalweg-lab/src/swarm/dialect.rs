//! A dialect: what is said on top of a carrier, a file each.
//!
//! Carriers take bytes apart into messages. A dialect says what opens a connection, what a message means, and
//! how to publish. A dialect has no state of a connection: the reply to a message follows from the message
//! alone.
//!
//! - `thalweg`: `docs/reference/messages.md`
//! - `limit`: the same towards subscribers; what a WebSocket says comes back as it is
//! - `raw`: messages without an envelope; what a WebSocket says comes back as it is
//! - `external`: an endpoint that somebody else runs
//! - `socketio`: Socket.IO 5 over Engine.IO 4, as Socket.IO 3 and 4 speak them; Engine.IO alone
//! - `sockjs`, `primus`, `nats`, `nchan`, `centrifugo`, `mercure`, `signalr`: the protocols of these servers
//! - `echo`: what comes back as it is; `runner`: what round trips are made of

mod centrifugo;
mod echo;
mod external;
mod limit;
mod mercure;
mod nats;
mod nchan;
mod primus;
mod raw;
mod runner;
mod signalr;
mod socketio;
mod sockjs;
mod thalweg;

pub(super) use runner::{runner, runner_id};
pub(super) use thalweg::acks_target;

use super::carrier::{Kind, shown};
use super::publishing::Publishing;
use crate::scenario::{self, Program, Settings, Transport};
use anyhow::anyhow;
use std::fmt::Debug;
use std::ops::Range;

/// Request of a new connection.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) transport: Transport,
    pub(super) topics: Range<u32>,
    /// More of the query, e.g. `cursor=earliest`.
    pub(super) query: &'a str,
}

/// A field of a request's head.
pub(super) type Field<'a> = (&'a str, &'a str);

/// One way to speak. The defaults are those of Thalweg, which peers offer.
pub(super) trait Dialect: Debug {
    /// Path and query of the request that a connection begins with.
    fn target(&self, wanted: &Wanted<'_>) -> String {
        thalweg::target(wanted)
    }

    /// Host of a request, if not the address.
    fn authority(&self) -> Option<&str> {
        None
    }

    /// Fields of that request, besides those that open the transport.
    fn fields(&self) -> Vec<Field<'_>> {
        Vec::new()
    }

    /// The one subprotocol that a WebSocket offers (RFC 6455 §1.9).
    fn subprotocol(&self) -> Option<&str> {
        None
    }

    /// Whether compression is offered: permessage-deflate, or gzip.
    fn compresses(&self) -> bool {
        false
    }

    /// Whether the subject confirms what was asked for. If not, a subscription stands as soon as its transport does.
    fn confirms(&self) -> bool {
        true
    }

    fn resumes(&self) -> bool {
        false
    }

    /// Puts what a connection has of its own into its request.
    fn personalise(&self, _connection: usize, _request: &mut Vec<u8>) {}

    /// Appends what a connection says as soon as its transport stands.
    fn greet(&self, _connection: usize, _out: &mut Vec<u8>) {}

    /// Returns the first content of a message and the bytes behind it, and appends answers to `replies`. The error is that it is
    /// not of this dialect. A message without an envelope is an event by itself.
    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        Ok(alone(Message::Event(kind, message)))
    }

    /// Whether events come as JSON strings (RFC 8259 §7), without the quotes around them.
    fn escapes(&self) -> bool {
        false
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: thalweg::publish_target(topic) }
    }

    /// The message with this number that is to come back, and what comes back.
    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number).into_bytes();
        (data.clone(), data)
    }

    /// The number of what is to come back, whether or not it was asked for; `None` of anything else.
    fn echo_number(&self, answer: &[u8]) -> Option<u64> {
        let number = echo::number(answer)?;
        (self.echo(number).1 == answer).then_some(number)
    }

    /// Query that makes a subject stop sending at so many unacked bytes; `None` without such a window.
    fn window(&self, _bytes: u32) -> Option<String> {
        None
    }

    fn earliest_query(&self) -> &'static str {
        ""
    }

    /// The message that acks an event, which is at this position.
    fn ack(&self, _position: &[u8], event: &[u8]) -> Vec<u8> {
        event.to_vec()
    }

    /// Whether the subject makes the Runners of a round trip by itself. If not, the client does, and what it says comes back.
    fn makes_runners(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Events of a topic; without any, the subscription to it is confirmed.
    Events {
        topic: &'a [u8],
        /// That of the last event; empty if there are none.
        position: &'a [u8],
        /// Offset of the first event, in digits; empty if the subject does not say.
        first: &'a [u8],
        /// Separated by commas.
        events: &'a [u8],
    },
    /// The newest version of a value topic.
    Version {
        topic: &'a [u8],
        /// Position of this version.
        position: &'a [u8],
        version: Version<'a>,
    },
    /// Events that will not come.
    Gap {
        topic: &'a [u8],
        /// The next event is the one after it.
        position: &'a [u8],
        /// How many; `None` if unknown.
        missed: Option<u64>,
    },
    Confirmed,
    /// A message that is an event by itself, of the connection's only topic.
    Event(Kind, &'a [u8]),
    Answer(&'a [u8]),
    /// Part of how a connection opens.
    Opening,
    Heartbeat,
    /// The end of a document that has grown large: it must be loaded again.
    Reload,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version<'a> {
    /// The offset of the version.
    pub(super) number: u64,
    /// That of the version that the subscriber was sent before.
    pub(super) previous: u64,
    pub(super) body: VersionBody<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionBody<'a> {
    Document(&'a [u8]),
    /// A patch of the version before (RFC 6902).
    Patch(&'a [u8]),
}

pub(super) fn of(program: &Program, settings: &Settings) -> Box<dyn Dialect> {
    if let Program::Url(endpoint) = program {
        return Box::new(external::External::new(endpoint));
    }
    match program.dialect() {
        scenario::Dialect::Thalweg => Box::new(thalweg::Thalweg),
        scenario::Dialect::Limit => Box::new(limit::Limit),
        // A consumer is never connected to.
        scenario::Dialect::Raw | scenario::Dialect::Consumer => Box::new(raw::Raw),
        scenario::Dialect::Socketio => Box::new(socketio::SocketIo),
        scenario::Dialect::Engineio => Box::new(socketio::EngineIo),
        scenario::Dialect::Sockjs => Box::new(sockjs::SockJs::new(settings)),
        scenario::Dialect::Primus => Box::new(primus::Primus),
        scenario::Dialect::Nats => Box::new(nats::Nats::new(settings)),
        scenario::Dialect::Nchan => Box::new(nchan::Nchan),
        scenario::Dialect::Centrifugo => Box::new(centrifugo::Centrifugo::new(settings)),
        scenario::Dialect::Mercure => Box::new(mercure::Mercure),
        scenario::Dialect::Signalr => Box::new(signalr::SignalR::new(settings)),
    }
}

fn alone(message: Message<'_>) -> (Message<'_>, &[u8]) {
    (message, b"")
}

fn unknown(what: &str, message: &[u8]) -> anyhow::Error {
    anyhow!("{what}: {}", shown(message))
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
