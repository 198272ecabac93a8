//! The contract of a protocol: for a request to its path, and then for a connection.

use std::{fmt::Debug, sync::Arc};

use http::{Response, request::Parts};
use serde_json::value::RawValue;
use thalweg_wire::{Close, Format, websocket};

use super::{
    command::{Reply, Request},
    session::{SessionPlace, SessionRequest, Sessions},
};
use crate::{
    access::{AccessPolicy, Identity},
    config::Config,
    refusal::Refusal,
    transport::SubscribeRequest,
};

/// A protocol, and the path of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// The path. The protocol also gets all requests below it.
    pub(crate) path: String,
    pub(crate) accept: Accept,
    /// The parameter of a URL that may have the token, because browsers set no headers for WebSockets and Server-Sent
    /// Events. No URL is ever logged.
    pub(crate) token_parameter: Option<&'static str>,
}

/// Parses a request to a mount. `None` if there is nothing at its path. The request has passed the checks of host and origin and
/// the limit of its address; holder and limits of connections are checked next.
pub(crate) type Accept = fn(&Opening<'_>) -> Result<Option<Accepted>, Refusal>;

pub(crate) struct Opening<'a> {
    pub(crate) request: &'a Parts,
    /// The rest of its path.
    pub(crate) rest: &'a str,
    pub(crate) config: &'a Config,
    /// For random numbers.
    pub(crate) access: &'a AccessPolicy,
    pub(crate) sessions: &'a Arc<Sessions>,
    /// When the connection of the request was opened, in µs.
    pub(crate) connection_us: u64,
}

pub(crate) enum Accepted {
    /// An answer without a connection, e.g. of a negotiation.
    Answer(Response<Vec<u8>>),
    /// A request of a session: a connection whose client sends, or also receives, in separate requests.
    Session(SessionRequest),
    /// A connection. The request has its head, whose body holds the first messages, and the format of its events
    /// ([`SubscribeRequest::websocket`]).
    Connection(SubscribeRequest, Box<dyn Protocol>),
}

/// The protocol between one connection's client and the server. Each connection has its own value, which may keep state. The
/// server calls it for each message and each command, and never for a delivery: events, positions, gaps and ends of topics are
/// frames that all connections of a format share. The format is chosen with the head of the connection; a protocol with another
/// form of events needs its own format.
pub(crate) trait Protocol: Debug {
    /// Returns the longest message of a client, in bytes. `None`: as long as its commands may be.
    fn message_bytes_max(&self) -> Option<usize> {
        None
    }

    /// Returns the length of the first record of a text message, in bytes. Each record is parsed separately. By default
    /// a message is one record.
    fn record_len(&self, text: &str) -> usize {
        text.len()
    }

    /// Parses a record. `event_bytes_max` is the longest event of a client that may publish; without it events are not
    /// parsed. Immediate answers go to `out`.
    fn read(
        &mut self,
        record: Message<'_>,
        event_bytes_max: Option<usize>,
        out: &mut Messages<'_>,
    ) -> Inbound;

    /// Appends the reply to a command; nothing if its client expects none. The server calls this for every command, even
    /// without an id, as replies become ready, so a refusal may overtake the reply to an earlier publish, unless
    /// [`Self::replies_in_order`].
    fn reply(
        &mut self,
        id: Option<&RawValue>,
        reply: Result<&Reply, &Refusal>,
        out: &mut Messages<'_>,
    );

    /// Returns whether each command waits for the reply to the one before, because replies have no id. A client then has one publish
    /// in flight, and its last replies come before a close that it asks for.
    fn replies_in_order(&self) -> bool {
        false
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::OfFormat
    }

    /// Returns the time without data of the client, in µs, after which the server closes the connection.
    fn client_timeout_us(&self) -> Option<u64> {
        None
    }

    /// Notes the place of the connection on its shard, and its client.
    fn opened(&mut self, _place: SessionPlace, _client: Identity) {}

    /// Appends messages before the format's close, unless fan-out closes the connection itself: policy `close`, or a
    /// document that is full.
    fn close(&mut self, _close: Close, _out: &mut Messages<'_>) {}
}

/// A record of a client's message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
}

/// A parsed record.
pub(crate) enum Inbound {
    /// A command to execute, or a refusal to reply with.
    Request(Request),
    /// A message between client and protocol that does not concern the server: a handshake, a pong.
    Handled,
    /// A reason to close the connection. Replies that are not ready are lost, unless replies come in order; their commands are
    /// executed nevertheless.
    Close(Close),
}

pub(crate) enum Heartbeat {
    /// None, because the client waits for another message.
    NotYet,
    /// The heartbeat of the format, if nothing else was sent.
    OfFormat,
    /// This message, whatever else was sent, because the client counts heartbeats.
    #[cfg_attr(not(test), expect(dead_code, reason = "the protocols need it only when idle"))]
    Always(&'static str),
}

/// Messages to one client, in its format.
pub(crate) struct Messages<'a> {
    format: Format,
    out: &'a mut Vec<u8>,
}

impl Mount {
    /// Returns the rest of a path after this mount.
    pub(crate) fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(&*self.path)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }
}

impl<'a> Messages<'a> {
    /// Returns messages that append to `out`.
    pub(crate) fn new(format: Format, out: &'a mut Vec<u8>) -> Self {
        Self { format, out }
    }

    /// Appends a text message. It must be UTF-8.
    pub(crate) fn text(&mut self, text: &[u8]) {
        self.format.text(text, self.out);
    }

    /// Appends a binary message, to the client of a WebSocket.
    pub(crate) fn binary(&mut self, bytes: &[u8]) {
        websocket::binary_header(bytes.len(), self.out);
        self.out.extend_from_slice(bytes);
    }
}
