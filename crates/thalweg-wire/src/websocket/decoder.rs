use std::str;

use super::{
    ProtocolError,
    header::{Control, HEADER_BYTES_MAX, Header, Kind, Opcode},
    inflate::inflated,
    mask::unmask,
};
use crate::limits::{INFLATED_BYTES, INFLATED_PER_BYTE};

/// A decoder keeps a buffer of up to this capacity for its next message. Most
/// messages of a subscriber are far smaller; a rare large one must not weigh on
/// an idle connection ever after.
const RETAINED_BYTES_MAX: usize = 4096;

/// What a client said, borrowed from the [`Decoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A text message, its fragments put together.
    Text(&'a str),
    /// A binary message, its fragments put together.
    Binary(&'a [u8]),
    /// To be answered by a pong with the same payload (RFC 6455 §5.5.2).
    Ping(&'a [u8]),
    /// The answer to a ping, or a heartbeat nobody asked for (§5.5.3).
    Pong(&'a [u8]),
    /// The client's last word, to be answered by a close (§5.5.1).
    Close {
        /// One of the codes that may be sent (§7.4), or none.
        code: Option<u16>,
        /// For whoever debugs; mostly empty.
        reason: &'a str,
    },
}

/// Turns the bytes of one client into [`Message`]s (RFC 6455 §5, §6.2).
///
/// There is one for each connection, nearly always idle: it takes 56 bytes, and
/// heap only from its first message on. It never holds more than twice the
/// bytes it was given, whatever length a header claims or compression makes of
/// them: a compressed message is inflated when it is complete, in memory of the
/// thread, and one at a time: whoever takes them one by one ([`Decoder::next`]) may
/// stop after any.
#[derive(Debug)]
pub struct Decoder {
    /// The payload of the message so far, unmasked, not inflated. On top of it, for as long
    /// as they are incomplete: a header, or the payload of a control frame.
    buffer: Vec<u8>,
    /// How much of `buffer` belongs to the message.
    message_len: u32,
    message_bytes_max: u32,
    /// Bytes that messages may still be inflated to, where that is bounded.
    inflated_left: Option<u32>,
    state: State,
    /// The kind of the message that is not complete yet.
    message: Option<Kind>,
    /// How many bytes at the end of a text are the beginning of a character.
    cut_bytes: u8,
    /// Whether permessage-deflate was negotiated.
    inflates: bool,
    /// Whether `message` is compressed.
    is_deflated: bool,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    Payload(Frame),
    /// To nothing: there was a close frame or an error.
    Ended,
}

/// A frame whose payload is arriving.
#[derive(Debug, Clone, Copy)]
struct Frame {
    part: Part,
    is_final: bool,
    /// Turned so that it begins with the key of the next byte.
    mask: [u8; 4],
    bytes_left: u32,
}

/// What a frame is part of.
#[derive(Debug, Clone, Copy)]
enum Part {
    Message(Kind),
    Control(Control),
}

impl Decoder {
    /// A decoder for a new connection. A longer message than
    /// `message_bytes_max` is refused by the header that makes it too long.
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

    /// The same for a client that negotiated permessage-deflate. The limit is for
    /// a message as it comes and for what it is inflated to.
    pub fn inflating(message_bytes_max: u32) -> Self {
        Self { inflates: true, ..Self::new(message_bytes_max) }
    }

    /// The same, and what compressed messages are inflated to is at most [`INFLATED_BYTES`]
    /// and [`INFLATED_PER_BYTE`] times what they came as, over the connection's life.
    pub fn inflating_in_proportion(message_bytes_max: u32) -> Self {
        Self { inflated_left: Some(INFLATED_BYTES), ..Self::inflating(message_bytes_max) }
    }

    /// Takes bytes of the connection, however they are cut, up to the end of a message,
    /// which it calls `take` with, or else all there are. `input` is what is left of them.
    ///
    /// After [`Message::Close`] (RFC 6455 §5.5.1: nothing may follow it) or an
    /// error, input is ignored.
    ///
    /// # Errors
    ///
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

    /// The same with all of `input`: calls `each` with every message it completes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`]; `each` has seen the messages before it.
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

    /// Whether a message or frame is begun and not finished.
    pub fn is_unfinished(&self) -> bool {
        !self.buffer.is_empty() || self.message.is_some() || matches!(self.state, State::Payload(_))
    }

    /// Bytes that it holds of what is not finished.
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
                Part::Message(Kind::Text) if !self.is_deflated => self.check_text(text_from)?,
                Part::Message(_) | Part::Control(_) => {}
            }
        }
        Ok(())
    }

    /// The header at the front of `input`, or `None` if all of `input` is but a
    /// part of it.
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

    /// Checks that the frame may stand where it stands (RFC 6455 §5.4) and that
    /// its message is not too big.
    fn begin(&mut self, header: &Header) -> Result<Frame, ProtocolError> {
        let (part, room) = match (header.opcode, self.message) {
            // Its header bounds it, and it is no part of the message around it.
            (Opcode::Control(control), _) => (Part::Control(control), u32::MAX),
            (Opcode::Data(kind), None) => {
                self.message = Some(kind);
                self.is_deflated = header.is_deflated;
                (Part::Message(kind), self.message_bytes_max)
            }
            (Opcode::Continuation, Some(kind)) => {
                (Part::Message(kind), self.message_bytes_max - self.message_len)
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

    /// Moves what `input` has of the frame's payload into the buffer.
    fn take_payload(&mut self, mut frame: Frame, input: &mut &[u8]) -> Frame {
        let taken = input.len().min(frame.bytes_left as usize);
        let (chunk, rest) = input.split_at(taken);
        *input = rest;

        let start = self.buffer.len();
        self.buffer.extend_from_slice(chunk);
        unmask(&mut self.buffer[start..], frame.mask);
        frame.mask.rotate_left(taken % 4);
        // `taken` is at most `bytes_left`, so both casts keep it whole.
        frame.bytes_left -= taken as u32;
        if matches!(frame.part, Part::Message(_)) {
            self.message_len += taken as u32;
        }
        frame
    }

    /// Refuses a text that no further byte could make UTF-8 (RFC 6455 §8.1):
    /// its sender is not left to send megabytes of it. Looks at each byte once,
    /// but for those of a character that is cut off.
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
        kind: Kind,
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
        kind: Kind,
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
        // It is at most as long as was left.
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
    kind: Kind,
    payload: &[u8],
    take: &mut dyn FnMut(Message<'_>),
) -> Result<(), ProtocolError> {
    match kind {
        Kind::Text => take(Message::Text(utf8(payload)?)),
        Kind::Binary => take(Message::Binary(payload)),
    }
    Ok(())
}

/// RFC 6455 §5.5.1: nothing, or a code and a reason.
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

/// RFC 6455 §7.4: 1004 is reserved, 1005, 1006 and 1015 never travel, and the
/// rest below 3000 is for later versions of the protocol. 1012 to 1014 have
/// been registered since (IANA, "WebSocket Close Code Number Registry").
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

fn utf8(bytes: &[u8]) -> Result<&str, ProtocolError> {
    str::from_utf8(bytes).map_err(|_| ProtocolError::NotUtf8)
}

#[cfg(test)]
mod tests;
