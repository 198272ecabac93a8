//! How what a subscriber is told becomes bytes, in four steps: a codec says it, a
//! framing delimits it, it may be compressed, and a transfer coding may delimit that.
//! A frame is made once and sent to every subscriber of its format: nothing here
//! depends on who reads.

mod chunked;
mod codec;
mod deflate;
mod forever_frame;
mod gzip;
mod ndjson;
mod sse;
mod websocket;

use chunked::{chunk, chunk_around};
use codec::Message;

use crate::{Close, End, Envelope, Gap};

/// The four choices, as one value to compare and to copy. Only what docs/wire.md
/// knows can be made: start with one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    codec: Codec,
    framing: Framing,
    compression: Compression,
    transfer: TransferCoding,
}

/// What a message's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// One JSON object.
    Json,
    /// The same, and a version of a value topic may be a patch of the one before.
    JsonPatch,
    /// Columns of rows, as an Arrow IPC stream. What is said depends on the topic's schema, so it is
    /// not made here: whoever knows the schema gives it to [`Format::own`]. All other messages are
    /// nothing in this codec.
    Arrow,
}

/// How messages are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One unmasked text frame (RFC 6455).
    WebSocket,
    /// One event with its position as `id:` (WHATWG HTML §9.2).
    Sse,
    /// The same for connections with several topics: the last line of a batch, gap or end,
    /// `id:` with all cursors, and the blank one after it are the connection's own.
    SseMany,
    /// One line.
    Ndjson,
    /// One script of an endless HTML document: the opening tag of the next one,
    /// with the document's nonce, is the connection's own.
    ForeverFrame,
    /// Arrow's encapsulated messages, each of which says how long it is.
    ArrowMessages,
}

/// Whether batches are compressed, each by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// They are not.
    None,
    /// Deflate (RFC 1951), if that makes them smaller: over a WebSocket by
    /// permessage-deflate without context takeover (RFC 7692), otherwise as the blocks
    /// of a gzip stream (RFC 1952).
    Deflate,
}

/// How the body of a response is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferCoding {
    /// By something else: the end of the connection, HTTP/2, or there is no body.
    Identity,
    /// Each frame is a chunk, and so is each trailer of a connection (RFC 9112
    /// §7.1).
    Chunked,
}

impl Format {
    /// WebSocket messages.
    pub const WEBSOCKET: Self = Self::plain(Framing::WebSocket);
    /// Server-Sent Events of one topic.
    pub const SSE: Self = Self::plain(Framing::Sse);
    /// Server-Sent Events of several topics.
    pub const SSE_MANY: Self = Self::plain(Framing::SseMany);
    /// HTTP streaming, and long polling.
    pub const NDJSON: Self = Self::plain(Framing::Ndjson);
    /// Scripts of a forever frame.
    pub const FOREVER_FRAME: Self = Self::plain(Framing::ForeverFrame);
    /// HTTP streaming of columns.
    pub const ARROW: Self = Self { codec: Codec::Arrow, ..Self::plain(Framing::ArrowMessages) };

    const fn plain(framing: Framing) -> Self {
        let (compression, transfer) = (Compression::None, TransferCoding::Identity);
        Self { codec: Codec::Json, framing, compression, transfer }
    }

    /// All formats that there are of JSON.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = [Self::WEBSOCKET, Self::SSE, Self::SSE_MANY, Self::NDJSON, Self::FOREVER_FRAME];
        let encoded = plain.into_iter().flat_map(|plain| [Some(plain), plain.compressed()]);
        let coded =
            encoded.flatten().flat_map(|encoded| [Some(encoded), encoded.chunked()]).flatten();
        let with_patches = |coded: Self| Some(coded.with_patches()).filter(|it| *it != coded);
        coded.flat_map(move |coded| [Some(coded), with_patches(coded)]).flatten()
    }

    /// The same for whoever takes patches of versions. Over Server-Sent Events with several
    /// topics there are none: not every event has an id there, so that who is cut off resumes at an
    /// older version than it has, and a patch of that is no use to it.
    pub const fn with_patches(self) -> Self {
        match self.framing {
            Framing::SseMany | Framing::ArrowMessages => self,
            _ => Self { codec: Codec::JsonPatch, ..self },
        }
    }

    /// The same for whoever does not: of whatever has no versions the bytes are the same.
    pub const fn without_patches(self) -> Self {
        match self.codec {
            Codec::JsonPatch => Self { codec: Codec::Json, ..self },
            Codec::Json | Codec::Arrow => self,
        }
    }

    /// Whether it is one of columns.
    #[inline]
    pub fn has_columns(self) -> bool {
        self.codec == Codec::Arrow
    }

    /// Whether a version may be a patch.
    pub fn takes_patches(self) -> bool {
        self.codec == Codec::JsonPatch
    }

    /// The same, compressed; `None` where a trailer would have to be compressed with
    /// each frame.
    pub const fn compressed(self) -> Option<Self> {
        match self.framing {
            Framing::WebSocket | Framing::Sse | Framing::Ndjson => {
                Some(Self { compression: Compression::Deflate, ..self })
            }
            Framing::SseMany | Framing::ForeverFrame | Framing::ArrowMessages => None,
        }
    }

    /// The same in chunks; `None` for a WebSocket, which is no body of HTTP.
    pub const fn chunked(self) -> Option<Self> {
        match self.framing {
            Framing::WebSocket => None,
            Framing::Sse
            | Framing::SseMany
            | Framing::Ndjson
            | Framing::ForeverFrame
            | Framing::ArrowMessages => Some(Self { transfer: TransferCoding::Chunked, ..self }),
        }
    }

    /// How messages are told apart.
    pub fn framing(self) -> Framing {
        self.framing
    }

    /// Whether batches are compressed.
    pub fn compression(self) -> Compression {
        self.compression
    }

    /// How the body is delimited.
    pub fn transfer(self) -> TransferCoding {
        self.transfer
    }

    /// Whether each batch, gap and end of a topic ends with bytes that are the connection's own:
    /// [`sse_ids`] (or a blank line), or [`forever_frame_opening`].
    pub fn has_trailer(self) -> bool {
        matches!(self.framing, Framing::SseMany | Framing::ForeverFrame)
    }

    /// Whether events stand in a frame as they are: [`Self::around`] says where.
    pub fn keeps_events(self) -> bool {
        self.compression == Compression::None
            && !matches!(self.framing, Framing::ForeverFrame | Framing::ArrowMessages)
    }

    /// Appends a batch: always the same bytes for the same envelope. One without
    /// events is for one subscriber, and not compressed.
    pub fn batch(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        self.message(Message::Batch(envelope), out);
    }

    /// Appends what stands around a batch's events, and returns how many bytes of
    /// it stand before them: the frame is the first part, the envelope's events as
    /// they are, and the rest. `None`, and nothing appended, for formats that
    /// change the events.
    pub fn around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<usize> {
        if !self.keeps_events() {
            return None;
        }
        let start = out.len();
        let events_at = self.framing.around(self.codec, envelope, out);
        Some(match self.transfer {
            TransferCoding::Identity => events_at - start,
            TransferCoding::Chunked => {
                events_at - start + chunk_around(start, envelope.events.len(), out)
            }
        })
    }

    /// Appends a gap; where there is a trailer without it, as a batch.
    pub fn gap(self, gap: &Gap<'_>, out: &mut Vec<u8>) {
        self.message(Message::Gap(gap), out);
    }

    /// Appends the end of a topic; where there is a trailer without it, as a batch.
    pub fn topic_end(self, end: &End<'_>, out: &mut Vec<u8>) {
        self.message(Message::End(end), out);
    }

    /// Appends a heartbeat.
    pub fn heartbeat(self, out: &mut Vec<u8>) {
        self.message(Message::Heartbeat, out);
    }

    /// Appends the connection's last words; [`Self::end`] comes after them.
    pub fn close(self, close: Close, out: &mut Vec<u8>) {
        self.message(Message::Close(close), out);
    }

    /// Appends what a response begins with: `first`, and before it what the compression
    /// needs.
    pub fn begin(self, first: &[u8], out: &mut Vec<u8>) {
        let is_gzip = self.compression == Compression::Deflate && self.framing.is_streamed();
        let header: &[u8] = if is_gzip { &gzip::HEADER } else { &[] };
        self.coded(header.len() + first.len(), out, |out| {
            out.extend_from_slice(header);
            self.stored(out, |out| out.extend_from_slice(first));
        });
    }

    /// Appends what `write` appends, for one connection alone: a trailer, or a
    /// message of which nothing is known here.
    pub fn own(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.coded(1, out, |out| self.stored(out, write));
    }

    /// Appends what tells the end of a response from a cut: nothing may come after it.
    pub fn end(self, out: &mut Vec<u8>) {
        match self.transfer {
            TransferCoding::Identity => {}
            TransferCoding::Chunked => out.extend_from_slice(chunked::LAST),
        }
    }

    fn message(self, message: Message<'_>, out: &mut Vec<u8>) {
        let is_shared = matches!(message, Message::Batch(envelope) if !envelope.is_empty());
        self.coded(self.framing.len_about(message), out, |out| match self.compression {
            Compression::Deflate if is_shared => self.framing.deflated(self.codec, message, out),
            _ => self.stored(out, |out| self.framing.message(self.codec, message, out)),
        });
    }

    /// Appends what `write` appends as something that is not compressed.
    fn stored(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self.compression {
            Compression::Deflate if self.framing.is_streamed() => gzip::stored(write, out),
            _ => write(out),
        }
    }

    /// Appends what `write` appends, about `len` bytes, as the body has it.
    fn coded(self, len: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self.transfer {
            TransferCoding::Identity => write(out),
            TransferCoding::Chunked => chunk(len, out, write),
        }
    }
}

impl Framing {
    /// Whether it is a stream of bytes, which may be a gzip stream.
    fn is_streamed(self) -> bool {
        self != Self::WebSocket
    }

    fn message(self, codec: Codec, message: Message<'_>, out: &mut Vec<u8>) {
        let write = |out: &mut Vec<u8>| codec.write(message, out);
        match self {
            Self::WebSocket => websocket::message(codec, message, out),
            Self::Sse => sse::event(message, true, out, write),
            Self::SseMany => sse::event(message, false, out, write),
            Self::Ndjson => ndjson::line(out, write),
            Self::ForeverFrame => forever_frame::script(out, write),
            Self::ArrowMessages => write(out),
        }
    }

    fn deflated(self, codec: Codec, message: Message<'_>, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::deflated(codec, message, out),
            _ => gzip::deflated(|plain| self.message(codec, message, plain), out),
        }
    }

    /// Appends what stands around the events, for framings that keep them; returns where
    /// in `out` they belong.
    fn around(self, codec: Codec, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> usize {
        let mut events_at = out.len();
        let mut write = |out: &mut Vec<u8>| events_at = codec.write_around(envelope, out);
        match self {
            Self::WebSocket => websocket::around(codec, envelope, out, write),
            Self::Sse => sse::event(Message::Batch(envelope), true, out, write),
            Self::SseMany => sse::event(Message::Batch(envelope), false, out, write),
            Self::Ndjson => ndjson::line(out, write),
            Self::ForeverFrame => forever_frame::script(out, write),
            Self::ArrowMessages => write(out),
        }
        events_at
    }

    /// How long a frame will be: right for batches whose events are kept, so that a
    /// large one need not be moved behind its size.
    fn len_about(self, message: Message<'_>) -> usize {
        let Message::Batch(envelope) = message else { return 0 };
        envelope.len()
            + match self {
                Self::WebSocket => 0,
                Self::Sse => sse::around_len(true) + envelope.position_len(),
                Self::SseMany => sse::around_len(false),
                Self::Ndjson => 1,
                Self::ForeverFrame => forever_frame::AROUND_LEN,
                Self::ArrowMessages => 0,
            }
    }
}

pub use forever_frame::{document as forever_frame_document, opening as forever_frame_opening};
pub use sse::{ids as sse_ids, retry as sse_retry};
