//! Writes messages to subscribers as bytes, in four steps: a codec writes the message, a framing delimits it,
//! compression may follow, and a transfer coding may delimit the result. One frame serves every subscriber with the
//! same format: no step depends on the subscriber.

mod chunked;
mod codec;
mod context;
mod deflate;
mod forever_frame;
mod gzip;
mod message;
mod ndjson;
mod sse;
mod websocket;

use chunked::{chunk, chunk_around};
pub use codec::Codec;
use codec::{MessageForm, arrow, json};
pub use context::{ContextUse, ContextWindow, SharedContext};
use message::Outgoing;

use crate::{Close, End, Envelope, Gap, signalr::StreamId};

/// Codec, framing, compression, transfer coding and stream as one value. Only the combinations in
/// docs/reference/subscribing.md exist: start with one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    codec: Codec,
    framing: Framing,
    compression: Compression,
    transfer: TransferCoding,
    /// The stream whose items the messages are, in the codec that has streams.
    stream: Option<StreamId>,
}

const _: () = assert!(size_of::<Format>() == 8, "each subscriber has several");

/// Streams with smaller numbers share hot tails: a page begins few streams, and its client counts from 0. Subscribers
/// with other numbers get frames made for them alone, because each tail of a topic may take megabytes.
const SHARED_STREAMS: u32 = 16;

/// The delimiter of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One unmasked text frame (RFC 6455).
    WebSocket,
    /// One event with its position as `id:` (WHATWG HTML §9.2).
    Sse,
    /// One event, for connections with several topics. Each connection adds its own last line of a batch, gap or end
    /// (`id:` with all cursors) and the blank line after it.
    SseMany,
    /// One event without a name and an id, for a protocol whose client reads only data.
    SseData,
    /// One line.
    Ndjson,
    /// One script of an endless HTML document. Each connection adds the opening tag of the next script with its own nonce.
    ForeverFrame,
    /// Arrow's encapsulated messages, which hold their length.
    ArrowMessages,
    /// None: the messages of the codec mark their own end.
    Bare,
}

/// The compression of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    None,
    /// Deflate (RFC 1951) if it makes the batch smaller: permessage-deflate without context takeover over a WebSocket
    /// (RFC 7692), otherwise blocks of a gzip stream (RFC 1952).
    Deflate,
    /// Deflate whose frames may refer to the text of earlier ones ([`Format::batch_in_context`]): permessage-deflate with the
    /// server's context taken over, or a gzip stream. The context has as much text as the window.
    Context(ContextWindow),
}

/// The delimiter of an HTTP response's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferCoding {
    /// None: the end of the connection or HTTP/2 delimits the body, or no body exists.
    Identity,
    /// Each frame and each trailer of a connection is a chunk (RFC 9112 §7.1).
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
    /// SignalR over Server-Sent Events.
    pub const SIGNALR_SSE: Self = Self::plain(Framing::SseData).with_signalr();
    /// SignalR over long polling.
    pub const SIGNALR_POLLS: Self = Self::plain(Framing::Bare).with_signalr();

    /// The formats of HTTP streaming, by their media types. A client without a preference gets the last one. If it
    /// prefers several equally, it gets the first of them.
    pub const STREAMED: [(&'static str, Self); 2] =
        [(arrow::MEDIA_TYPE, Self::ARROW), (json::MEDIA_TYPE, Self::NDJSON)];

    const fn plain(framing: Framing) -> Self {
        let (compression, transfer) = (Compression::None, TransferCoding::Identity);
        Self { codec: Codec::Json, framing, compression, transfer, stream: None }
    }

    /// Returns this format with the codec of SignalR.
    pub const fn with_signalr(self) -> Self {
        Self { codec: Codec::SignalR, ..self }
    }

    /// Returns this format for a subscription whose client began it as a stream, in the codec that has streams.
    pub fn for_stream(self, stream: Option<StreamId>) -> Self {
        if self.codec.has_streams() { Self { stream, ..self } } else { self }
    }

    /// Returns the stream whose items the messages are.
    pub fn stream(self) -> Option<StreamId> {
        self.stream
    }

    /// Returns whether subscribers share frames. Otherwise each frame is made for one subscriber.
    pub fn is_shared(self) -> bool {
        self.stream.is_none_or(|stream| stream.number() < SHARED_STREAMS)
    }

    /// Returns all formats of JSON.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = [Self::WEBSOCKET, Self::SSE, Self::SSE_MANY, Self::NDJSON, Self::FOREVER_FRAME];
        let encoded = plain.into_iter().flat_map(|plain| {
            [Some(plain), plain.compressed(), plain.compressed_in_context(ContextWindow::Bits9)]
        });
        let coded =
            encoded.flatten().flat_map(|encoded| [Some(encoded), encoded.chunked()]).flatten();
        let with_patches =
            |coded: Self| Some(coded.with_patches()).filter(|format| *format != coded);
        coded.flat_map(move |coded| [Some(coded), with_patches(coded)]).flatten()
    }

    /// Returns this format with patches of versions. Server-Sent Events of several topics have none, because
    /// some events have no id: a client may resume at an older version than it has, and the next patch then does not apply.
    pub const fn with_patches(self) -> Self {
        match self.framing {
            Framing::SseMany => self,
            _ => Self { codec: self.codec.with_patches(), ..self },
        }
    }

    /// Returns this format without patches. The bytes of a topic without versions are the same.
    pub const fn without_patches(self) -> Self {
        Self { codec: self.codec.without_patches(), ..self }
    }

    /// Returns whether the format carries columns.
    #[inline]
    pub fn has_columns(self) -> bool {
        self.codec.has_columns()
    }

    /// Returns whether a version may be a patch.
    pub fn takes_patches(self) -> bool {
        self.codec.takes_patches()
    }

    /// Returns this format with compression; `None` if it has trailers, which each connection would have to compress
    /// itself, or columns, which are not compressed.
    pub const fn compressed(self) -> Option<Self> {
        self.with_compression(Compression::Deflate)
    }

    /// Returns this format with compression whose context has as much text as the window; `None` as in [`Self::compressed`].
    pub const fn compressed_in_context(self, window: ContextWindow) -> Option<Self> {
        self.with_compression(Compression::Context(window))
    }

    const fn with_compression(self, compression: Compression) -> Option<Self> {
        match self.framing {
            Framing::WebSocket | Framing::Sse | Framing::Ndjson => {
                Some(Self { compression, ..self })
            }
            Framing::SseMany
            | Framing::SseData
            | Framing::ForeverFrame
            | Framing::ArrowMessages
            | Framing::Bare => None,
        }
    }

    /// Returns this format in chunks; `None` for a WebSocket, which is not an HTTP body, and for unframed messages, which are whole bodies.
    pub const fn chunked(self) -> Option<Self> {
        match self.framing {
            Framing::WebSocket | Framing::Bare => None,
            Framing::Sse
            | Framing::SseMany
            | Framing::SseData
            | Framing::Ndjson
            | Framing::ForeverFrame
            | Framing::ArrowMessages => Some(Self { transfer: TransferCoding::Chunked, ..self }),
        }
    }

    /// Returns the delimiter of messages.
    pub fn framing(self) -> Framing {
        self.framing
    }

    /// Returns the compression of batches.
    pub fn compression(self) -> Compression {
        self.compression
    }

    /// Returns the delimiter of the body.
    pub fn transfer(self) -> TransferCoding {
        self.transfer
    }

    /// Returns whether a client may send commands. Such a client can subscribe after all its topics have ended.
    pub fn takes_commands(self) -> bool {
        self.framing == Framing::WebSocket || self.codec.takes_commands()
    }

    /// Returns whether each batch, gap and end of a topic ends with bytes for this connection alone:
    /// [`sse_ids`] (or a blank line), or [`forever_frame_opening`].
    pub fn has_trailer(self) -> bool {
        matches!(self.framing, Framing::SseMany | Framing::ForeverFrame)
    }

    /// Returns whether a frame holds its events unchanged; [`Self::around`] tells where.
    pub fn keeps_events(self) -> bool {
        self.compression == Compression::None
            && !matches!(self.framing, Framing::ForeverFrame | Framing::ArrowMessages)
    }

    /// Appends a batch: equal envelopes give equal bytes. A batch without events serves one subscriber and is not compressed.
    pub fn batch(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        self.message(Outgoing::Batch(envelope), out);
    }

    /// Returns a context for the frames of one topic in this format; `None` if its frames refer to no earlier ones.
    pub fn context(self) -> Option<SharedContext> {
        match self.compression {
            Compression::Context(window) => Some(SharedContext::new(window)),
            Compression::None | Compression::Deflate => None,
        }
    }

    /// Appends a batch with events that may refer to the text of the earlier batches in `context`, and adds it to that text. Only a
    /// client that has inflated the text from [`SharedContext::reach`] on, and nothing after it, can read a frame that refers to it.
    ///
    /// The text of a batch is the same as in [`Self::batch`]. A client that gets some frames from this method and some from that one has
    /// the same text.
    pub fn batch_in_context(
        self,
        envelope: &Envelope<'_>,
        context: &mut SharedContext,
        out: &mut Vec<u8>,
    ) -> ContextUse {
        let (form, message) = (self.form(), Outgoing::Batch(envelope));
        let len = self.framing.len_about(form, message);
        let mut text = Vec::with_capacity(len);
        self.framing.window_text(form, message, &mut text);
        let had_text = context.reach() < context.end();
        let mut deflated = Vec::new();
        if !context.deflate(&text, &mut deflated) {
            let write = |plain: &mut Vec<u8>| plain.extend_from_slice(&text);
            self.coded(len, out, |out| self.framing.deflated(true, write, out));
            return ContextUse::Alone;
        }
        self.coded(deflated.len(), out, |out| match self.framing {
            Framing::WebSocket => websocket::deflated_message(&deflated, out),
            _ => out.extend_from_slice(&deflated),
        });
        if had_text { ContextUse::Refers } else { ContextUse::Begins }
    }

    /// Returns whether the messages for one connection are part of the text that later frames refer to.
    pub fn own_messages_enter_context(self) -> bool {
        self.has_context() && self.framing.is_streamed()
    }

    /// Returns whether frames refer to the text of earlier ones.
    #[inline]
    pub fn has_context(self) -> bool {
        matches!(self.compression, Compression::Context(_))
    }

    /// Appends the parts of a batch around its events and returns the length of the first part: a frame is the first part, the
    /// envelope's events unchanged, and the rest. Returns `None` and appends nothing for formats that change the events.
    pub fn around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<usize> {
        if !self.keeps_events() {
            return None;
        }
        let start = out.len();
        let events_at = self.framing.around(self.form(), envelope, out);
        Some(match self.transfer {
            TransferCoding::Identity => events_at - start,
            TransferCoding::Chunked => {
                events_at - start + chunk_around(start, envelope.events.len(), out)
            }
        })
    }

    /// Appends a gap, without the trailer.
    pub fn gap(self, gap: &Gap<'_>, out: &mut Vec<u8>) {
        self.message(Outgoing::Gap(gap), out);
    }

    /// Appends the end of a topic, without the trailer.
    pub fn topic_end(self, end: &End<'_>, out: &mut Vec<u8>) {
        self.message(Outgoing::End(end), out);
    }

    /// Appends a heartbeat.
    pub fn heartbeat(self, out: &mut Vec<u8>) {
        self.message(Outgoing::Heartbeat, out);
    }

    /// Appends the connection's close; [`Self::end`] follows it. A WebSocket sends a control frame instead, which has no
    /// message of a codec.
    pub fn close(self, close: Close, out: &mut Vec<u8>) {
        self.message(Outgoing::Close(close), out);
    }

    /// Appends the beginning of a response: the compression's header, then `first`.
    pub fn begin(self, first: &[u8], out: &mut Vec<u8>) {
        let is_gzip = self.compression != Compression::None && self.framing.is_streamed();
        let header: &[u8] = if is_gzip { &gzip::HEADER } else { &[] };
        self.coded(header.len() + first.len(), out, |out| {
            out.extend_from_slice(header);
            self.stored(out, |out| out.extend_from_slice(first));
        });
    }

    /// Appends the output of `write`, which is for one connection: a trailer, or a message that no codec here writes.
    pub fn own(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.coded(1, out, |out| self.stored(out, write));
    }

    /// Appends a text message for one connection, such as a reply.
    pub fn text(self, text: &[u8], out: &mut Vec<u8>) {
        self.coded(text.len(), out, |out| self.stored(out, |out| self.framing.text(text, out)));
    }

    /// Appends the end of a response, which shows that the response is complete. No frame may follow.
    pub fn end(self, out: &mut Vec<u8>) {
        match self.transfer {
            TransferCoding::Identity => {}
            TransferCoding::Chunked => out.extend_from_slice(chunked::LAST),
        }
    }

    fn message(self, message: Outgoing<'_>, out: &mut Vec<u8>) {
        let is_shared = matches!(message, Outgoing::Batch(envelope) if !envelope.is_empty());
        let form = self.form();
        self.coded(self.framing.len_about(form, message), out, |out| match self.compression {
            Compression::Deflate | Compression::Context(_) if is_shared => {
                let write = |text: &mut Vec<u8>| self.framing.window_text(form, message, text);
                self.framing.deflated(self.has_context(), write, out);
            }
            _ => self.stored(out, |out| self.framing.message(form, message, out)),
        });
    }

    fn form(self) -> MessageForm {
        MessageForm { codec: self.codec, stream: self.stream }
    }

    fn stored(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self.compression {
            Compression::Deflate | Compression::Context(_) if self.framing.is_streamed() => {
                gzip::stored(write, out);
            }
            _ => write(out),
        }
    }

    /// Appends the output of `write`, about `len` bytes, in the body's transfer coding.
    fn coded(self, len: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self.transfer {
            TransferCoding::Identity => write(out),
            TransferCoding::Chunked => chunk(len, out, write),
        }
    }
}

impl Framing {
    /// Returns whether the format is a byte stream, which can be a gzip stream.
    fn is_streamed(self) -> bool {
        self != Self::WebSocket
    }

    fn message(self, form: MessageForm, message: Outgoing<'_>, out: &mut Vec<u8>) {
        let write = |out: &mut Vec<u8>| form.write(message, out);
        match self {
            Self::WebSocket => websocket::message(form, message, out),
            Self::Sse => sse::event(message, true, out, write),
            Self::SseMany => sse::event(message, false, out, write),
            Self::SseData => sse::data(out, write),
            Self::Ndjson => ndjson::line(out, write),
            Self::ForeverFrame => forever_frame::script(out, write),
            Self::ArrowMessages | Self::Bare => write(out),
        }
    }

    /// Appends the text of a message that is compressed, and enters the window of deflate.
    fn window_text(self, form: MessageForm, message: Outgoing<'_>, out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => form.write(message, out),
            _ => self.message(form, message, out),
        }
    }

    /// Appends the text that `write` appends, compressed without reference to earlier text. `enters_context`: this text is part of the
    /// context, compressed or not.
    fn deflated(self, enters_context: bool, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        match self {
            Self::WebSocket => websocket::deflated(enters_context, write, out),
            _ => gzip::deflated(write, out),
        }
    }

    fn text(self, text: &[u8], out: &mut Vec<u8>) {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(text);
        match self {
            Self::WebSocket => {
                crate::websocket::text_header(text.len(), out);
                write(out);
            }
            Self::Sse | Self::SseMany | Self::SseData => sse::data(out, write),
            Self::Ndjson => ndjson::line(out, write),
            Self::ForeverFrame => forever_frame::script(out, write),
            Self::ArrowMessages | Self::Bare => write(out),
        }
    }

    /// Appends the parts around the events, for framings that keep the events; returns where in `out` the events belong.
    fn around(self, form: MessageForm, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> usize {
        let mut events_at = out.len();
        let mut write = |out: &mut Vec<u8>| events_at = form.write_around(envelope, out);
        match self {
            Self::WebSocket => websocket::around(form, envelope, out, write),
            Self::Sse => sse::event(Outgoing::Batch(envelope), true, out, write),
            Self::SseMany => sse::event(Outgoing::Batch(envelope), false, out, write),
            Self::SseData => sse::data(out, write),
            Self::Ndjson => ndjson::line(out, write),
            Self::ForeverFrame => forever_frame::script(out, write),
            Self::ArrowMessages | Self::Bare => write(out),
        }
        events_at
    }

    /// Returns the expected length of a frame. The length is exact for batches with unchanged events, so that a large
    /// batch need not be moved to make room for its size.
    fn len_about(self, form: MessageForm, message: Outgoing<'_>) -> usize {
        let Outgoing::Batch(envelope) = message else { return 0 };
        form.len(envelope)
            + match self {
                Self::WebSocket | Self::ArrowMessages | Self::Bare => 0,
                Self::Sse => sse::around_len(true) + envelope.position_len(),
                Self::SseMany => sse::around_len(false),
                Self::SseData => sse::around_len(false) + 1,
                Self::Ndjson => 1,
                Self::ForeverFrame => forever_frame::AROUND_LEN,
            }
    }
}

pub use forever_frame::{document as forever_frame_document, opening as forever_frame_opening};
pub use sse::{ids as sse_ids, retry as sse_retry};
