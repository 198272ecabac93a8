//! Transports as the swarm speaks them: bytes in, messages out. All of each standard, for subjects and external endpoints.
//!
//! A waiting connection costs its socket only: incomplete bytes stay with the reader, and only the begun parts of a message in
//! several frames or lines are kept here.

pub(super) mod deflate;
mod forever_frame;
pub(super) mod http2;
pub(super) mod lines;
mod sse;
pub(super) mod websocket;

use crate::scenario::Transport;
use std::borrow::Cow;

/// A longer message or answer is refused: a subject that never ends a line, or announces more than any memory holds, must not
/// take the lab's memory. The longest that a scenario can ask for is an event of a MiB in an envelope of many.
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

/// The bytes are not this transport's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CarrierError(pub(super) Cow<'static, str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CarrierStep<'a> {
    /// Something whole, and how many bytes are done with.
    Incoming(Incoming<'a>, usize),
    /// Bytes without content, this many.
    Skip(usize),
    /// Part of a frame. With more bytes, the search for its end may leave out the first `searched`.
    Incomplete { searched: usize },
}

/// A message of which some frames or lines have come.
#[derive(Debug)]
struct Partial {
    kind: Kind,
    bytes: Vec<u8>,
    /// The message has been handed on and may go.
    is_whole: bool,
    /// The bytes are compressed.
    is_deflated: bool,
    /// The last byte was a CR: an LF now belongs to it.
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

/// The same for pieces that are cut anywhere, such as chunks, or frames of HTTP/2.
#[derive(Debug, Default)]
pub(super) struct PieceDecoder {
    decoder: Decoder,
    /// Part of a frame.
    carry: Vec<u8>,
}

impl Decoder {
    /// Takes the bytes from a frame's beginning on, and returns how many are done with: the caller shows the others again.
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

    /// Step by step; returns how many bytes are done with, and how many of the others need not be searched again.
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

/// The beginning of a message, for people.
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
