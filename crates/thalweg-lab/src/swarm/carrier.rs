//! Transports of the swarm: bytes in, messages out. WebSocket and SSE are supported in full, because external endpoints may use any part.
//!
//! A waiting connection costs only its socket: the reader keeps incomplete bytes, and a decoder keeps only the first parts of a
//! message in several frames or lines.

pub(super) mod deflate;
mod forever_frame;
pub(super) mod http2;
pub(super) mod lines;
mod sse;
pub(super) mod websocket;

use crate::scenario::Transport;
use std::borrow::Cow;

/// Limit of a message or answer, so that a subject that never ends a line, or announces too much, does not exhaust the lab's memory. The
/// longest that a scenario can request is an envelope of many events of a MiB.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;
pub(super) const TOO_LONG: &str = "a message of over 64 MiB, or one without an end";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming<'a> {
    /// A WebSocket message, the data of an SSE event, or a line.
    Message(Kind, &'a [u8]),
    /// A WebSocket ping with this payload, to be answered with a pong.
    Ping(&'a [u8]),
    /// A pong, a comment or an empty line.
    SignOfLife,
    /// A close frame with this payload, the last frame.
    Close(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Binary,
}

/// Error: the bytes violate the transport's protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CarrierError(pub(super) Cow<'static, str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CarrierStep<'a> {
    /// A complete item, and the number of bytes consumed.
    Incoming(Incoming<'a>, usize),
    /// Bytes without content, this many.
    Skip(usize),
    /// Part of a frame. When more bytes arrive, the search for its end may skip the first `searched`.
    Incomplete { searched: usize },
}

/// A message of which some frames or lines have arrived.
#[derive(Debug)]
struct Partial {
    kind: Kind,
    bytes: Vec<u8>,
    /// The message was passed on and may be removed.
    is_whole: bool,
    /// The bytes are compressed.
    is_deflated: bool,
    /// The last byte was a CR, so an LF right after it is part of the same line end.
    is_behind_cr: bool,
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Inflates messages of a WebSocket, if they may come compressed.
    pub(super) inflate: Option<Box<deflate::Inflate>>,
    /// Incomplete bytes that need not be searched again.
    searched: u32,
    has_begun: bool,
    partial: Option<Box<Partial>>,
}

/// The same for pieces that are cut anywhere, such as chunks or HTTP/2 frames.
#[derive(Debug, Default)]
pub(super) struct PieceDecoder {
    decoder: Decoder,
    /// Part of a frame.
    carry: Vec<u8>,
}

impl Decoder {
    /// Decodes bytes from the beginning of a frame on, and returns the number consumed; the caller passes the others again.
    #[inline]
    pub(super) fn decode<E: From<CarrierError>>(
        &mut self,
        transport: Transport,
        bytes: &[u8],
        on_message: impl FnMut(Incoming<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let searched = (std::mem::take(&mut self.searched) as usize).min(bytes.len());
        let (used, searched) = match transport {
            Transport::HttpStreaming | Transport::LongPolling => {
                lines::decode(bytes, searched, on_message)?
            }
            Transport::Websocket => {
                self.each(bytes, searched, on_message, |carrier, bytes, _| {
                    websocket::step(bytes, &mut carrier.partial, carrier.inflate.as_deref_mut())
                })?
            }
            Transport::Sse => {
                self.each(bytes, searched, on_message, |carrier, bytes, searched| {
                    sse::step(bytes, searched, &mut carrier.has_begun, &mut carrier.partial)
                })?
            }
            Transport::ForeverFrame => {
                self.each(bytes, searched, on_message, |_, bytes, searched| {
                    forever_frame::step(bytes, searched)
                })?
            }
        };
        if bytes.len() - used > MESSAGE_BYTES_MAX {
            return Err(too_long().into());
        }
        self.searched = u32::try_from(searched).unwrap_or(0);
        Ok(used)
    }

    /// Decodes step by step; returns the number of bytes consumed, and how many of the others need not be searched again.
    #[inline]
    fn each<E: From<CarrierError>>(
        &mut self,
        bytes: &[u8],
        mut searched: usize,
        mut on_message: impl FnMut(Incoming<'_>) -> Result<(), E>,
        step: impl for<'a> Fn(&'a mut Decoder, &'a [u8], usize) -> Result<CarrierStep<'a>, CarrierError>,
    ) -> Result<(usize, usize), E> {
        let mut used = 0;
        loop {
            if self.partial.as_ref().is_some_and(|partial| partial.is_whole) {
                self.partial = None;
            }
            match step(self, &bytes[used..], std::mem::take(&mut searched))? {
                CarrierStep::Incoming(incoming, length) => {
                    used += length;
                    let is_close = matches!(incoming, Incoming::Close(_));
                    on_message(incoming)?;
                    if is_close {
                        return Ok((bytes.len(), 0));
                    }
                }
                CarrierStep::Skip(length) => used += length,
                CarrierStep::Incomplete { searched } => return Ok((used, searched)),
            }
        }
    }
}

impl PieceDecoder {
    #[inline]
    pub(super) fn decode<E: From<CarrierError>>(
        &mut self,
        transport: Transport,
        piece: &[u8],
        on_message: impl FnMut(Incoming<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let PieceDecoder { decoder, carry } = self;
        if carry.is_empty() {
            let used = decoder.decode(transport, piece, on_message)?;
            *carry = piece[used..].to_vec();
        } else {
            carry.extend_from_slice(piece);
            let used = decoder.decode(transport, carry, on_message)?;
            carry.drain(..used);
        }
        Ok(())
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.carry
    }
}

impl Partial {
    fn begin(kind: Kind) -> Box<Partial> {
        let (is_whole, is_deflated, is_behind_cr) = (false, false, false);
        Box::new(Partial { kind, bytes: Vec::new(), is_whole, is_deflated, is_behind_cr })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), CarrierError> {
        if self.bytes.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(too_long());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Incoming<'_> {
        self.is_whole = true;
        Incoming::Message(self.kind, &self.bytes)
    }
}

/// Returns the beginning of a message as readable text.
pub(super) fn shown(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(120)]).into_owned()
}

fn too_long() -> CarrierError {
    wrong(TOO_LONG)
}

const fn wrong(what: &'static str) -> CarrierError {
    CarrierError(Cow::Borrowed(what))
}

#[cfg(test)]
mod tests;
