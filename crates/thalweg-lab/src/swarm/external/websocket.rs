//! A WebSocket as any server may speak it (RFC 6455 §5): text and binary
//! messages, in fragments, with control frames between them.

use super::protocol_session::{Handler, Kind, Malformed, wrong};
use super::{MESSAGE_BYTES_MAX, protocol_session};
use crate::swarm::carrier::websocket_head;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Control frames are no longer than this (§5.5).
const CONTROL_BYTES_MAX: u64 = 125;
/// A server's frames have no mask, so their heads are no longer than this.
const HEAD_BYTES_MAX: usize = 10;
/// A connection that waits keeps no more than this for the next message.
const IDLE_BYTES_MAX: usize = 4096;

/// What has come of a frame and a message. Takes bytes however they are cut.
#[derive(Debug, Default)]
pub(super) struct Websocket {
    /// Part of a head.
    head: [u8; HEAD_BYTES_MAX],
    head_length: u8,
    /// The frame whose payload is not all here.
    frame: Option<Frame>,
    /// What the message that is under way is, and what has come of it.
    kind: Option<Kind>,
    message: Vec<u8>,
    /// What has come of a control frame.
    control: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_final: bool,
    /// Payload bytes yet to come.
    left: u64,
}

impl Websocket {
    /// Takes bytes; what it says if it closes. Nothing may come after that.
    #[inline]
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        handler: &mut impl Handler,
    ) -> Result<Option<String>, Malformed> {
        loop {
            let Some(frame) = &mut self.frame else {
                let Some(frame) = self.head(&mut bytes)? else {
                    return Ok(None);
                };
                // Almost every message is one frame, and all of it is here.
                let whole = usize::try_from(frame.left).ok().and_then(|left| bytes.get(..left));
                if let (Some(payload), Some(kind), true) =
                    (whole, Kind::of(frame.opcode), frame.is_final)
                {
                    event(kind, payload, handler)?;
                    bytes = &bytes[payload.len()..];
                } else {
                    self.frame = Some(frame);
                }
                continue;
            };
            let into = if frame.opcode >= CLOSE { &mut self.control } else { &mut self.message };
            let length = bytes.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
            into.extend_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
            frame.left -= length as u64;
            if frame.left > 0 {
                return Ok(None);
            }
            let frame = *frame;
            self.frame = None;
            if let Some(closed) = self.finish(frame, handler)? {
                return Ok(Some(closed));
            }
        }
    }

    /// The next frame's head, checked; `None` while it is incomplete.
    #[inline]
    fn head(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, Malformed> {
        let frame = if self.head_length == 0
            && let Some((frame, length)) = parse(bytes)
        {
            *bytes = &bytes[length..];
            frame
        } else {
            loop {
                let Some((&byte, rest)) = bytes.split_first() else {
                    return Ok(None);
                };
                *bytes = rest;
                self.head[usize::from(self.head_length)] = byte;
                self.head_length += 1;
                if let Some((frame, _)) = parse(&self.head[..usize::from(self.head_length)]) {
                    self.head_length = 0;
                    break frame;
                }
            }
        };
        self.check(frame).map(Some)
    }

    #[inline]
    fn check(&mut self, (first, second, length): (u8, u8, u64)) -> Result<Frame, Malformed> {
        if second & MASKED != 0 {
            return wrong("a masked frame from a server (RFC 6455 §5.1)");
        }
        if first & RESERVED != 0 {
            return wrong("a frame of an extension that was not offered (RFC 6455 §5.2)");
        }
        let (opcode, is_final) = (first & 0x0F, first & FINAL != 0);
        match (opcode, self.kind) {
            (TEXT | BINARY, Some(_)) => {
                return wrong("a message that begins within another (RFC 6455 §5.4)");
            }
            (CONTINUATION, None) => {
                return wrong("a continuation of no message (RFC 6455 §5.4)");
            }
            (CLOSE | PING | PONG, _) if !is_final || length > CONTROL_BYTES_MAX => {
                return wrong("a control frame in fragments or over 125 bytes (RFC 6455 §5.5)");
            }
            (CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG, _) => {}
            _ => return wrong(&format!("a frame of the unknown kind {opcode} (RFC 6455 §5.2)")),
        }
        if opcode < CLOSE
            && length.saturating_add(self.message.len() as u64) > MESSAGE_BYTES_MAX as u64
        {
            return protocol_session::too_long();
        }
        if !is_final && opcode < CLOSE && opcode != CONTINUATION {
            self.kind = Kind::of(opcode);
        }
        Ok(Frame { opcode, is_final, left: length })
    }

    /// All of a frame's payload has come.
    fn finish(
        &mut self,
        frame: Frame,
        handler: &mut impl Handler,
    ) -> Result<Option<String>, Malformed> {
        match frame.opcode {
            CLOSE => {
                let said = close(&self.control)?;
                handler.on_close(self.control.get(..2).unwrap_or_default());
                return Ok(Some(said));
            }
            PING => handler.on_ping(&self.control),
            PONG => handler.on_sign_of_life(),
            _ if frame.is_final => {
                // A message of one frame has set no kind.
                let kind = self.kind.take().or(Kind::of(frame.opcode)).unwrap_or(Kind::Binary);
                event(kind, &self.message, handler)?;
                self.message.clear();
                self.message.shrink_to(IDLE_BYTES_MAX);
            }
            _ => {}
        }
        self.control.clear();
        Ok(None)
    }
}

impl Kind {
    #[inline]
    fn of(opcode: u8) -> Option<Kind> {
        match opcode {
            TEXT => Some(Kind::Text),
            BINARY => Some(Kind::Binary),
            _ => None,
        }
    }
}

#[inline]
fn event(kind: Kind, payload: &[u8], handler: &mut impl Handler) -> Result<(), Malformed> {
    if kind == Kind::Text && std::str::from_utf8(payload).is_err() {
        return wrong("a text message that is not UTF-8 (RFC 6455 §8.1)");
    }
    handler.on_message(kind, payload);
    Ok(())
}

/// First and second byte, payload's length, and the head's own length; `None`
/// while it is incomplete.
#[inline]
fn parse(bytes: &[u8]) -> Option<((u8, u8, u64), usize)> {
    let &[first, second, ref rest @ ..] = bytes else {
        return None;
    };
    let (length, head) = match second & !MASKED {
        126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (u64::from_be_bytes(*rest.first_chunk()?), 10),
        short => (u64::from(short), 2),
    };
    Some(((first, second, length), head))
}

/// What a close frame says, for a person.
fn close(payload: &[u8]) -> Result<String, Malformed> {
    let (code, reason) = match payload {
        [] => return Ok("closed without a code (1005)".to_owned()),
        [_] => return wrong("a close frame of one byte (RFC 6455 §5.5.1)"),
        [a, b, reason @ ..] => (u16::from_be_bytes([*a, *b]), reason),
    };
    // §7.4: these are never sent, or belong to nobody.
    if !(1000..5000).contains(&code) || matches!(code, 1004..=1006 | 1015) {
        return wrong(&format!("the close code {code}, which may not be sent (RFC 6455 §7.4)"));
    }
    let Ok(reason) = std::str::from_utf8(reason) else {
        return wrong("a close reason that is not UTF-8 (RFC 6455 §5.5.1)");
    };
    Ok(if reason.is_empty() {
        format!("closed with {code}")
    } else {
        format!("closed with {code}: {}", reason.escape_debug())
    })
}

/// Appends a pong, masked with a random key (§5.3).
pub(super) fn pong(payload: &[u8], out: &mut Vec<u8>) {
    frame(PONG, payload, out);
}

/// Appends a close frame; `code` is two bytes or none.
pub(super) fn closing(code: &[u8], out: &mut Vec<u8>) {
    frame(CLOSE, code, out);
}

/// Appends a text message.
pub(super) fn text(payload: &[u8], out: &mut Vec<u8>) {
    frame(TEXT, payload, out);
}

fn frame(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    websocket_head(FINAL | opcode, MASKED, payload.len(), out);
    let mask = fastrand::u32(..).to_ne_bytes();
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

#[cfg(test)]
mod tests;
