//! Envelopes and notices as one transport's frames. A frame is made once and
//! sent to every subscriber of its framing: nothing here depends on who reads.

mod deflate;
mod forever_frame;
mod gzip;
mod ndjson;
mod sse;
mod websocket;

use crate::{Close, Envelope, Gap, websocket::text_header};

/// How bytes are framed for a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One unmasked text frame (RFC 6455).
    WebSocket,
    /// One event with its position as `id:` (WHATWG HTML §9.2).
    Sse,
    /// The same for connections with several topics: the last line of a batch or gap,
    /// `id:` with all cursors, and the blank one after it are the connection's own.
    SseMany,
    /// One line.
    Ndjson,
    /// One script of an endless HTML document: the opening tag of the next one,
    /// with the document's nonce, is the connection's own.
    ForeverFrame,
    /// [`Self::WebSocket`] with permessage-deflate and no context takeover (RFC
    /// 7692): a batch is compressed if that makes it smaller.
    WebSocketDeflate,
    /// [`Self::Sse`] as the blocks of a gzip stream that [`gzip_header`] begins.
    SseGzip,
    /// [`Self::Ndjson`] in the same way.
    NdjsonGzip,
}

impl Framing {
    /// All framings; [`Self::index`] is the place in it.
    pub const ALL: [Self; 8] = [
        Self::WebSocket,
        Self::Sse,
        Self::SseMany,
        Self::Ndjson,
        Self::ForeverFrame,
        Self::WebSocketDeflate,
        Self::SseGzip,
        Self::NdjsonGzip,
    ];

    /// A small number, for tables with a place for each framing.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether each batch and gap ends with bytes that are the connection's own:
    /// [`sse_ids`] (or a blank line), or [`forever_frame_opening`].
    pub fn has_own_ending(self) -> bool {
        matches!(self, Self::SseMany | Self::ForeverFrame)
    }

    /// Whether events stand in a frame as they are: [`Self::around`] says where.
    pub fn keeps_events(self) -> bool {
        matches!(self, Self::WebSocket | Self::Sse | Self::SseMany | Self::Ndjson)
    }

    /// Appends a batch: always the same bytes for the same envelope. One without
    /// events is for one subscriber, and not compressed.
    pub fn batch(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::batch(envelope, out),
            Self::Sse => sse::batch(envelope, true, out),
            Self::SseMany => sse::batch(envelope, false, out),
            Self::Ndjson => ndjson::batch(envelope, out),
            Self::ForeverFrame => forever_frame::script(out, |out| envelope.write(out)),
            Self::WebSocketDeflate => websocket::deflated_batch(envelope, out),
            Self::SseGzip if envelope.is_empty() => {
                gzip::own(|out| sse::batch(envelope, true, out), out);
            }
            Self::SseGzip => gzip::shared(|out| sse::batch(envelope, true, out), out),
            Self::NdjsonGzip if envelope.is_empty() => {
                gzip::own(|out| ndjson::batch(envelope, out), out);
            }
            Self::NdjsonGzip => gzip::shared(|out| ndjson::batch(envelope, out), out),
        }
    }

    /// Appends what stands around a batch's events, and returns how many bytes of
    /// it stand before them: the frame is the first part, the envelope's events as
    /// they are, and the rest. `None`, and nothing appended, for framings that
    /// change the events.
    pub fn around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<usize> {
        let start = out.len();
        let mut before = None;
        let mut write = |out: &mut Vec<u8>| before = Some(envelope.write_around(out) - start);
        match self {
            Self::WebSocket => {
                text_header(envelope.len(), out);
                write(out);
            }
            Self::Sse => sse::event(envelope, true, write, out),
            Self::SseMany => sse::event(envelope, false, write, out),
            Self::Ndjson => ndjson::line(write, out),
            Self::ForeverFrame | Self::WebSocketDeflate | Self::SseGzip | Self::NdjsonGzip => {}
        }
        before
    }

    /// Appends a gap; on [`Self::SseMany`] without its last lines, as a batch.
    pub fn gap(self, gap: &Gap<'_>, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket | Self::WebSocketDeflate => websocket::gap(gap, out),
            Self::Sse => sse::gap(gap, true, out),
            Self::SseMany => sse::gap(gap, false, out),
            Self::Ndjson => ndjson::gap(gap, out),
            Self::ForeverFrame => forever_frame::script(out, |out| gap.write(out)),
            Self::SseGzip => gzip::own(|out| Self::Sse.gap(gap, out), out),
            Self::NdjsonGzip => gzip::own(|out| Self::Ndjson.gap(gap, out), out),
        }
    }

    /// Appends a heartbeat.
    pub fn heartbeat(self, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket | Self::WebSocketDeflate => websocket::heartbeat(out),
            Self::Sse | Self::SseMany => sse::heartbeat(out),
            Self::Ndjson => ndjson::heartbeat(out),
            Self::ForeverFrame => forever_frame::heartbeat(out),
            Self::SseGzip => gzip::own(sse::heartbeat, out),
            Self::NdjsonGzip => gzip::own(ndjson::heartbeat, out),
        }
    }

    /// Appends the connection's last words.
    pub fn close(self, close: Close, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket | Self::WebSocketDeflate => websocket::close(close, out),
            Self::Sse | Self::SseMany => sse::close(close, out),
            Self::Ndjson => ndjson::close(close, out),
            Self::ForeverFrame => forever_frame::script(out, |out| close.write(out)),
            Self::SseGzip => gzip::own(|out| Self::Sse.close(close, out), out),
            Self::NdjsonGzip => gzip::own(|out| Self::Ndjson.close(close, out), out),
        }
    }
}

pub use forever_frame::{document as forever_frame_document, opening as forever_frame_opening};
pub use gzip::{header as gzip_header, stored as gzip_stored};
pub use sse::ids as sse_ids;
