//! Transports: the only place with subscribers' sockets.
//!
//! ```text
//! query         a request's parameters
//! parameters    the parameters of a subscription, in a query or a command
//! accept        the client's preferred media type or coding
//! member_request  a client's description of itself, for the members of its topics
//! negotiate     a request → transport, topics, cursors, terms
//! head          the head of a response
//! socket        a non-blocking socket as fan-out's sink
//! tls           an encrypted socket
//! certificate   the certificate and key of TLS
//! pipe          a bounded pipe into a response that HTTP sends
//! polls         messages for the polls of a client
//! tunnel        a stream of HTTP/2 in both directions
//! writer        a socket, a TLS socket, a pipe, polls or a tunnel
//! client        the client of a request or a connection
//! ```
//!
//! A transport is only a format and a head: all of them deliver through `fanout`'s one loop.

mod accept;
mod certificate;
mod client;
pub(crate) mod head;
mod member_request;
mod negotiate;
pub(crate) mod parameters;
mod pipe;
mod polls;
mod query;
mod socket;
mod tls;
mod tunnel;
mod writer;

use http::{HeaderMap, HeaderName, Version, header, request::Parts};
use hyper::ext::Protocol;
use thalweg_wire::{ErrorCode, Format};

pub(crate) use accept::{prefers, takes, takes_gzip};
pub(crate) use certificate::Certificate;
pub(crate) use client::Client;
pub(crate) use member_request::MemberRequest;
pub(crate) use negotiate::{SubscribeRequest, negotiate};
pub(crate) use pipe::{Cut, PipeBody, PipeEvent, pipe};
pub(crate) use polls::{PollAnswer, Polls};
pub(crate) use query::{Query, parameter};
pub(crate) use socket::{Received, Socket, has_vanished};
pub(crate) use tls::TlsSocket;
pub(crate) use tunnel::{Tunnel, TunnelEnd};
pub(crate) use writer::Writer;

use crate::refusal::Refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    WebSocket,
    Sse,
    HttpStreaming,
    ForeverFrame,
    LongPolling,
}

/// The protocol of a CONNECT for a WebSocket over HTTP/2 (RFC 8441 §5).
pub(crate) const WEBSOCKET: &str = "websocket";

const NAMES: [(&str, Transport); 5] = [
    ("websocket", Transport::WebSocket),
    ("sse", Transport::Sse),
    ("http-streaming", Transport::HttpStreaming),
    ("forever-frame", Transport::ForeverFrame),
    ("long-polling", Transport::LongPolling),
];

impl Transport {
    fn named(name: &str) -> Result<Self, Refusal> {
        let named = NAMES.iter().find(|(known, _)| *known == name);
        named
            .map(|(_, transport)| *transport)
            .ok_or_else(|| parameters::unknown("transport", name, &NAMES.map(|(known, _)| known)))
    }

    /// Returns the transport that a request selects, if any.
    pub(crate) fn asked(request: &Parts, query: &Query<'_>) -> Option<Self> {
        let headers = &request.headers;
        if asks_for_websocket(request) {
            return Some(Self::WebSocket);
        }
        if query.transport.is_some() {
            return query.transport;
        }
        if query.wait_us.is_some() {
            return Some(Self::LongPolling);
        }
        let streamed = Format::STREAMED.into_iter().map(|(media_type, _)| media_type);
        let streams = [head::SSE].into_iter().chain(streamed);
        if let Some(media_type) = accept::preferred(headers, &header::ACCEPT, streams) {
            return Some(if media_type == head::SSE { Self::Sse } else { Self::HttpStreaming });
        }
        // A handshake without `Upgrade`: `from_request` refuses it.
        headers.contains_key(header::SEC_WEBSOCKET_KEY).then_some(Self::WebSocket)
    }

    fn from_request(request: &Parts, query: &Query<'_>) -> Result<Self, Refusal> {
        let asked = Self::asked(request, query);
        if asked == Some(Self::WebSocket) {
            check_upgrade(request)?;
        }
        asked.ok_or_else(|| {
            Refusal::new(
                ErrorCode::NotAcceptable,
                "choose a transport: Upgrade: websocket, Accept: text/event-stream, \
                 Accept: application/x-ndjson, Accept: application/vnd.apache.arrow.stream, \
                 ?wait=25s, or ?transport= with a name",
            )
        })
    }
}

/// Returns whether a request asks for a WebSocket over HTTP/2: its stream becomes a tunnel if the answer is a success.
pub(crate) fn is_tunnel(request: &Parts) -> bool {
    request.version == Version::HTTP_2 && request.extensions.get::<Protocol>().is_some()
}

fn asks_for_websocket(request: &Parts) -> bool {
    match request.version {
        Version::HTTP_11 => has_token(&request.headers, header::UPGRADE, WEBSOCKET),
        // HTTP/2 has no upgrades (RFC 9113 §8.6), nor does HTTP/1.0.
        _ => is_tunnel(request),
    }
}

/// Checks that a request asks for a WebSocket. The error has the remedy.
fn check_upgrade(request: &Parts) -> Result<(), Refusal> {
    let headers = &request.headers;
    if asks_for_websocket(request) {
        return Ok(());
    }
    let message = match headers.contains_key(header::SEC_WEBSOCKET_KEY) {
        true => {
            "a WebSocket handshake came without Upgrade: websocket over HTTP/1.1, because a proxy removed \
             it: configure the proxy to pass on Upgrade and Connection"
        }
        false => {
            "send the headers of a WebSocket handshake over HTTP/1.1 (RFC 6455 §4.1), or a CONNECT with :protocol over \
             HTTP/2 (RFC 8441 §5)"
        }
    };
    Err(Refusal::new(ErrorCode::UpgradeRequired, message))
}

/// Returns whether a list header has `token` (RFC 9110 §5.6.1), ignoring parameters.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|item| item.split(';').next().unwrap_or_default().trim())
        .any(|item| item.eq_ignore_ascii_case(token))
}
