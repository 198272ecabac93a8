use std::str;

use super::{
    ProtocolError,
    header::{Control, HEADER_BYTES_MAX, Header, MessageKind, Opcode},
    inflate::inflated,
    mask::unmask,
};
use crate::limits::{INFLATED_BYTES, INFLATED_PER_BYTE};

/// Capacity of the buffer that a decoder keeps for its next message. Most messages of a subscriber are far smaller; a
/// rare large message must not hold memory of an idle connection afterwards.
const RETAINED_BYTES_MAX: usize = 4096;

/// A client's message, borrowed from the [`Decoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A text message, reassembled from its fragments.
    Text(&'a str),
    /// A binary message, reassembled from its fragments.
    Binary(&'a [u8]),
    /// A ping, to be answered by a pong with the same payload (RFC 6455 §5.5.2).
    Ping(&'a [u8]),
    /// The answer to a ping, or an unsolicited heartbeat (§5.5.3).
    Pong(&'a [u8]),
    /// The client's close, to be answered by a close (§5.5.1).
    Close {
        /// One of the codes that a client may send (§7.4), or none.
        code: Option<u16>,
        /// A text for debugging, usually empty.
        reason: &'a str,
    },
}

/// A parser of the bytes of one client as [`Message`]s (RFC 6455 §5, §6.2).
///
/// Each connection has a decoder, mostly idle: it takes 56 bytes, and heap memory from its first message on. It never holds more
/// than twice the received bytes, whatever a header announces and however well a message is compressed, because complete
/// messages are inflated in memory of the thread, one at a time. A caller that takes messages one by one ([`Decoder::next`]) may
/// stop after any of them.
#[derive(Debug)]
pub struct Decoder {
    /// The payload of the message, unmasked but not inflated, followed by an incomplete header, or the payload of an
    /// incomplete control frame.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that belong to the message.
    message_len: u32,
    message_bytes_max: u32,
    /// Bytes that messages may still inflate to, if bounded.
    inflated_left: Option<u32>,
    state: State,
    message: Option<MessageKind>,
    /// Bytes of an incomplete character at the end of a text.
    cut_bytes: u8,
    /// Whether the connection negotiated permessage-deflate.
    inflates: bool,
    is_deflated: bool,
}

/// The destination of the next byte.
#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    Payload(Frame),
    /// The decoder ignores input after a close frame or an error.
    Ended,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    part: Part,
    is_final: bool,
    /// Rotated: its first byte masks the next payload byte.
    mask: [u8; 4],
    bytes_left: u32,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Message(MessageKind),
    Control(Control),
}

impl Decoder {
    /// Returns a decoder for a new connection. It rejects a message longer than `message_bytes_max` at the frame header
    /// that exceeds the limit.
    pub fn new(message_bytes_max: u32) -> Self {
        Self {
            buffer: Vec::new(),
            message_len: 0,
            message_bytes_max,
            inflated_left: None,
            state: State::Header,
            message: None,
            cut_bytes: 0,
            inflates: false,
            is_deflated: false,
        }
    }

    /// Returns a decoder for a client that negotiated permessage-deflate. The limit applies both to the compressed and
    /// to the inflated message.
    pub fn inflating(message_bytes_max: u32) -> Self {
        Self { inflates: true, ..Self::new(message_bytes_max) }
    }

    /// Changes the limit of later messages. A message that has begun may end with its current frame. With
    /// `is_in_proportion`, all compressed messages together may inflate to [`INFLATED_BYTES`] plus
    /// [`INFLATED_PER_BYTE`] times the received bytes, over the connection's life.
    pub fn set_message_bytes_max(&mut self, message_bytes_max: u32, is_in_proportion: bool) {
        self.message_bytes_max = message_bytes_max;
        let left = self.inflated_left.unwrap_or(INFLATED_BYTES);
        self.inflated_left = (self.inflates && is_in_proportion).then_some(left);
    }

    /// Reads bytes of the connection, cut anywhere, up to the end of a message, and calls `take` with that message;
    /// without a complete message it reads all bytes. `input` keeps the unread bytes.
    ///
    /// After [`Message::Close`] (RFC 6455 §5.5.1: no frame may follow it) or an error, the decoder ignores input.
    ///
    /// # Errors
    /// [`ProtocolError`], as soon as the bytes show it.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        take: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), ProtocolError> {
        let outcome = self.advance(input, take);
        if outcome.is_err() {
            self.end();
        }
        if matches!(self.state, State::Ended) {
            *input = &[];
        }
        outcome
    }

    /// Reads all of `input` and calls `each` with every complete message.
    ///
    /// # Errors
    /// [`ProtocolError`]; `each` has received the messages before it.
    pub fn push(
        &mut self,
        mut input: &[u8],
        each: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), ProtocolError> {
        while !input.is_empty() {
            self.next(&mut input, each)?;
        }
        Ok(())
    }

    /// Returns whether a message or frame is incomplete.
    pub fn is_unfinished(&self) -> bool {
        !self.buffer.is_empty() || self.message.is_some() || matches!(self.state, State::Payload(_))
    }

    /// Returns the number of bytes held for incomplete messages and frames.
    pub fn held_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn advance(
        &mut self,
        input: &mut &[u8],
        take: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), ProtocolError> {
        while !input.is_empty() {
            let frame = match self.state {
                State::Header => match self.take_header(input)? {
                    Some(header) => self.begin(&header)?,
                    None => return Ok(()),
                },
                State::Payload(frame) => frame,
                State::Ended => return Ok(()),
            };
            let text_from = self.message_len as usize - usize::from(self.cut_bytes);
            let frame = self.take_payload(frame, input);
            let is_whole = frame.bytes_left == 0;
            self.state = if is_whole { State::Header } else { State::Payload(frame) };
            match frame.part {
                Part::Control(control) if is_whole => return self.finish_control(control, take),
                Part::Message(kind) if is_whole && frame.is_final => {
                    return self.finish_message(kind, take);
                }
                Part::Message(MessageKind::Text) if !self.is_deflated => {
                    self.check_text(text_from)?;
                }
                Part::Message(_) | Part::Control(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the header at the front of `input`, or `None` if `input` holds only a part of it.
    fn take_header(&mut self, input: &mut &[u8]) -> Result<Option<Header>, ProtocolError> {
        let earlier = &self.buffer[self.message_len as usize..];
        let earlier_len = earlier.len();
        let joined_len = HEADER_BYTES_MAX.min(earlier_len + input.len());
        let mut joined = [0; HEADER_BYTES_MAX];
        joined[..earlier_len].copy_from_slice(earlier);
        joined[earlier_len..joined_len].copy_from_slice(&input[..joined_len - earlier_len]);

        let Some((header, header_len)) = Header::parse(&joined[..joined_len], self.inflates)?
        else {
            self.buffer.extend_from_slice(input);
            *input = &[];
            return Ok(None);
        };
        self.buffer.truncate(self.message_len as usize);
        *input = &input[header_len - earlier_len..];
        Ok(Some(header))
    }

    /// Checks that the frame may stand here (RFC 6455 §5.4) and that its message is not too big.
    fn begin(&mut self, header: &Header) -> Result<Frame, ProtocolError> {
        let (part, room) = match (header.opcode, self.message) {
            // The header limits the length of a control frame, which is not part of the message around it.
            (Opcode::Control(control), _) => (Part::Control(control), u32::MAX),
            (Opcode::Data(kind), None) => {
                self.message = Some(kind);
                self.is_deflated = header.is_deflated;
                (Part::Message(kind), self.message_bytes_max)
            }
            (Opcode::Continuation, Some(kind)) => {
                (Part::Message(kind), self.message_bytes_max.saturating_sub(self.message_len))
            }
            (Opcode::Data(_), Some(_)) => return Err(ProtocolError::Interleaved),
            (Opcode::Continuation, None) => return Err(ProtocolError::NothingToContinue),
        };
        match u32::try_from(header.payload_len) {
            Ok(bytes_left) if bytes_left <= room => {
                Ok(Frame { part, is_final: header.is_final, mask: header.mask, bytes_left })
            }
            _ => Err(ProtocolError::TooBig { message_bytes_max: self.message_bytes_max }),
        }
    }

    fn take_payload(&mut self, mut frame: Frame, input: &mut &[u8]) -> Frame {
        let taken = input.len().min(frame.bytes_left as usize);
        let (chunk, rest) = input.split_at(taken);
        *input = rest;

        let start = self.buffer.len();
        self.buffer.extend_from_slice(chunk);
        unmask(&mut self.buffer[start..], frame.mask);
        frame.mask.rotate_left(taken % 4);
        // `taken` is at most `bytes_left`, which makes both casts lossless.
        frame.bytes_left -= taken as u32;
        if matches!(frame.part, Part::Message(_)) {
            self.message_len += taken as u32;
        }
        frame
    }

    /// Rejects a text as soon as no further byte can make it UTF-8 (RFC 6455 §8.1), so that the sender cannot continue it
    /// for megabytes. Examines each byte once, except those of an incomplete character.
    fn check_text(&mut self, from: usize) -> Result<(), ProtocolError> {
        let text = &self.buffer[from..];
        self.cut_bytes = match str::from_utf8(text) {
            Ok(_) => 0,
            Err(error) if error.error_len().is_none() => (text.len() - error.valid_up_to()) as u8,
            Err(_) => return Err(ProtocolError::NotUtf8),
        };
        Ok(())
    }

    fn finish_message(
        &mut self,
        kind: MessageKind,
        take: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), ProtocolError> {
        if self.is_deflated {
            self.finish_deflated(kind, take)?;
        } else {
            whole(kind, &self.buffer, take)?;
        }
        self.message = None;
        self.message_len = 0;
        self.cut_bytes = 0;
        self.buffer.clear();
        if self.buffer.capacity() > RETAINED_BYTES_MAX {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn finish_deflated(
        &mut self,
        kind: MessageKind,
        take: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), ProtocolError> {
        let earned = self.message_len.saturating_mul(INFLATED_PER_BYTE);
        let left = self.inflated_left.map(|left| left.saturating_add(earned));
        let bytes_max = self.message_bytes_max.min(left.unwrap_or(u32::MAX));
        let mut len = 0;
        inflated(&mut self.buffer, bytes_max, |payload| {
            len = payload.len();
            whole(kind, payload, take)
        })??;
        // The length is at most `left`.
        self.inflated_left = left.map(|left| left - len as u32);
        Ok(())
    }

    fn finish_control(
        &mut self,
        control: Control,
        take: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), ProtocolError> {
        let payload = &self.buffer[self.message_len as usize..];
        match control {
            Control::Ping => take(Message::Ping(payload)),
            Control::Pong => take(Message::Pong(payload)),
            Control::Close => {
                take(close_message(payload)?);
                self.end();
            }
        }
        self.buffer.truncate(self.message_len as usize);
        Ok(())
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.buffer = Vec::new();
    }
}

fn whole(
    kind: MessageKind,
    payload: &[u8],
    take: &mut dyn FnMut(Message<'_>),
) -> Result<(), ProtocolError> {
    match kind {
        MessageKind::Text => take(Message::Text(utf8(payload)?)),
        MessageKind::Binary => take(Message::Binary(payload)),
    }
    Ok(())
}

/// Parses the payload of a close frame: empty, or a code and a reason (RFC 6455 §5.5.1).
fn close_message(payload: &[u8]) -> Result<Message<'_>, ProtocolError> {
    match payload {
        [] => Ok(Message::Close { code: None, reason: "" }),
        [_] => Err(ProtocolError::HalfCloseCode),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !may_be_sent(code) {
                return Err(ProtocolError::BadCloseCode(code));
            }
            Ok(Message::Close { code: Some(code), reason: utf8(reason)? })
        }
    }
}

/// Returns whether a peer may send a close code (RFC 6455 §7.4). 1004 is reserved, no frame holds 1005, 1006 and 1015, and the
/// other codes below 3000 are for later versions of the protocol. IANA has registered 1012 to 1014 since ("WebSocket Close Code
/// Number Registry").
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

fn utf8(bytes: &[u8]) -> Result<&str, ProtocolError> {
    str::from_utf8(bytes).map_err(|_| ProtocolError::NotUtf8)
}

#[cfg(test)]
mod tests;
