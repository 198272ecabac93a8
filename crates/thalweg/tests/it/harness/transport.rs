//! Requests of each transport, and their protocol.

use std::net::SocketAddr;

use super::{Http2, Socket, request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    WebSocket,
    Sse,
    HttpStreaming,
    ForeverFrame,
    LongPolling,
}

impl Transport {
    pub(crate) const ALL: [Self; 5] =
        [Self::WebSocket, Self::Sse, Self::HttpStreaming, Self::ForeverFrame, Self::LongPolling];

    /// Transports whose response lasts as long as the subscription.
    pub(crate) const STREAMING: [Self; 4] =
        [Self::WebSocket, Self::Sse, Self::HttpStreaming, Self::ForeverFrame];

    /// Transports over plain HTTP.
    pub(crate) const ONE_WAY: [Self; 4] =
        [Self::Sse, Self::HttpStreaming, Self::ForeverFrame, Self::LongPolling];

    pub(crate) fn headers(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::WebSocket => vec![
                UPGRADE,
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Version", "13"),
                // RFC 6455 §1.3.
                ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ],
            Self::Sse => vec![("Accept", "text/event-stream")],
            Self::HttpStreaming => vec![("Accept", "application/x-ndjson")],
            Self::ForeverFrame | Self::LongPolling => Vec::new(),
        }
    }

    pub(crate) fn query(self) -> Option<&'static str> {
        match self {
            Self::ForeverFrame => Some("transport=forever-frame"),
            Self::LongPolling => Some("wait=0"),
            _ => None,
        }
    }

    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::WebSocket => None,
            Self::Sse => Some("text/event-stream"),
            Self::HttpStreaming | Self::LongPolling => Some("application/x-ndjson"),
            Self::ForeverFrame => Some("text/html"),
        }
    }
}

const UPGRADE: (&str, &str) = ("Upgrade", "websocket");

/// The headers of a handshake that only HTTP/1.1 has.
const HANDSHAKE: [&str; 3] = ["Upgrade", "Connection", "Sec-WebSocket-Key"];

/// A way to the server: a connection for each request, or a stream.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Http1(SocketAddr),
    Http2(Http2),
}

impl Line {
    /// Sends a request. The socket then has the response.
    pub(crate) fn start(&self, target: &str, headers: &[(&str, &str)]) -> Socket {
        match self {
            Self::Http1(address) => {
                let mut socket = Socket::connect(*address);
                socket.send(request("GET", target, headers, b""));
                socket
            }
            Self::Http2(connection) if headers.contains(&UPGRADE) => {
                // RFC 8441 §5: a tunnel has neither an upgrade nor a key.
                let is_kept = |(name, _): &&(&str, &str)| !HANDSHAKE.contains(name);
                let headers: Vec<_> = headers.iter().filter(is_kept).copied().collect();
                connection.tunnel("websocket", target, &headers)
            }
            Self::Http2(connection) => connection.start("GET", target, headers, b""),
        }
    }

    /// Does the same after a complete response: HTTP/1.1 keeps the connection.
    pub(crate) fn start_again(&self, socket: &mut Socket, target: &str, headers: &[(&str, &str)]) {
        match self {
            Self::Http1(_) => socket.send_if_open(request("GET", target, headers, b"")),
            Self::Http2(_) => *socket = self.start(target, headers),
        }
    }
}
