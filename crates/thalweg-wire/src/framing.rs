//! Envelopes and notices as one transport's frames. A frame is made once and
//! sent to every subscriber of its framing: nothing here depends on who reads.

mod ndjson;
mod sse;
mod websocket;

use crate::{Close, Envelope, Gap};

/// How bytes are framed for a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One unmasked text frame (RFC 6455).
    WebSocket,
    /// One event with its position as `id:` (WHATWG HTML §9.2).
    Sse,
    /// The same without `id:`, for connections with several topics.
    SseBare,
    /// One line.
    Ndjson,
}

impl Framing {
    /// All framings; [`Self::index`] is the place in it.
    pub const ALL: [Self; 4] = [Self::WebSocket, Self::Sse, Self::SseBare, Self::Ndjson];

    /// A small number, for tables with a place for each framing.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Appends a batch.
    pub fn batch(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::batch(envelope, out),
            Self::Sse => sse::batch(envelope, true, out),
            Self::SseBare => sse::batch(envelope, false, out),
            Self::Ndjson => ndjson::batch(envelope, out),
        }
    }

    /// Appends a gap.
    pub fn gap(self, gap: &Gap<'_>, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::gap(gap, out),
            Self::Sse => sse::gap(gap, true, out),
            Self::SseBare => sse::gap(gap, false, out),
            Self::Ndjson => ndjson::gap(gap, out),
        }
    }

    /// Appends a heartbeat.
    pub fn heartbeat(self, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::heartbeat(out),
            Self::Sse | Self::SseBare => sse::heartbeat(out),
            Self::Ndjson => ndjson::heartbeat(out),
        }
    }

    /// Appends the connection's last words.
    pub fn close(self, close: Close, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::close(close, out),
            Self::Sse | Self::SseBare => sse::close(close, out),
            Self::Ndjson => ndjson::close(close, out),
        }
    }
}
