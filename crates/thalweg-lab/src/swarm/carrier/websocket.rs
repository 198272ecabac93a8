//! WebSocket frames from a server (RFC 6455 §5): text and binary messages, whole or in fragments, with control frames between
//! them, compressed (RFC 7692) if that was agreed on; and a client's frames.

use super::{
    CarrierError, CarrierStep, Incoming, Kind, MESSAGE_BYTES_MAX, Partial, deflate, too_long, wrong,
};

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const WHOLE_TEXT: u8 = FINAL | TEXT;
const WHOLE_BINARY: u8 = FINAL | BINARY;
const RESERVED: u8 = 0x70;
/// Bit in the first frame of a message that is compressed (RFC 7692 §6).
const DEFLATED: u8 = 0x40;
const MASKED: u8 = 0x80;
/// Limit of a control frame's payload (§5.5).
const CONTROL_BYTES_MAX: usize = 125;
/// Normal closure (§7.4.1).
const NORMAL: u16 = 1000;

/// Decodes one frame. `partial` is a message of which fragments have arrived; with `inflate`, messages may be compressed.
#[inline]
pub(super) fn step<'a>(
    bytes: &'a [u8],
    partial: &'a mut Option<Box<Partial>>,
    inflate: Option<&mut deflate::Inflate>,
) -> Result<CarrierStep<'a>, CarrierError> {
    const INCOMPLETE: Result<CarrierStep<'_>, CarrierError> =
        Ok(CarrierStep::Incomplete { searched: 0 });
    let &[first, second, ref rest @ ..] = bytes else {
        return INCOMPLETE;
    };
    let (length, head) = match (second & !MASKED, rest) {
        (126, &[a, b, ..]) => (u64::from(u16::from_be_bytes([a, b])), 4),
        (127, &[a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 10),
        (126 | 127, _) => return INCOMPLETE,
        (short, _) => (u64::from(short), 2),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let end = head + length.ok_or_else(too_long)?;
    // Almost every frame is a message.
    let kind = match first {
        WHOLE_TEXT => Some(Kind::Text),
        WHOLE_BINARY => Some(Kind::Binary),
        _ => None,
    };
    if let (Some(kind), None, 0) = (kind, &partial, second & MASKED) {
        return match bytes.get(head..end) {
            Some(payload) => Ok(CarrierStep::Incoming(Incoming::Message(kind, payload), end)),
            None => INCOMPLETE,
        };
    }
    check(first & !deflated(first, inflate.is_some()), second, end - head, partial.as_deref())?;
    let Some(payload) = bytes.get(head..end) else {
        return INCOMPLETE;
    };
    Ok(match first & 0x0F {
        CLOSE => CarrierStep::Incoming(Incoming::Close(payload), end),
        PING => CarrierStep::Incoming(Incoming::Ping(payload), end),
        PONG => CarrierStep::Incoming(Incoming::SignOfLife, end),
        opcode => {
            let kind = if opcode == TEXT { Kind::Text } else { Kind::Binary };
            let partial = partial.get_or_insert_with(|| Partial::begin(kind));
            partial.is_deflated |= first & DEFLATED != 0;
            partial.push(payload)?;
            if first & FINAL == 0 {
                return Ok(CarrierStep::Skip(end));
            }
            if let (true, Some(inflate)) = (partial.is_deflated, inflate) {
                partial.bytes = inflate.message(&partial.bytes)?;
            }
            CarrierStep::Incoming(partial.finish(), end)
        }
    })
}

fn deflated(first: u8, inflates: bool) -> u8 {
    if inflates && matches!(first & 0x0F, TEXT | BINARY) { DEFLATED } else { 0 }
}

fn check(
    first: u8,
    second: u8,
    length: usize,
    partial: Option<&Partial>,
) -> Result<(), CarrierError> {
    if second & MASKED != 0 {
        return Err(wrong("a masked frame from a server (RFC 6455 §5.1)"));
    }
    if first & RESERVED != 0 {
        return Err(wrong("a frame of an extension that was not offered (RFC 6455 §5.2)"));
    }
    match (first & 0x0F, partial) {
        (TEXT | BINARY, Some(_)) => {
            Err(wrong("a message that begins within another (RFC 6455 §5.4)"))
        }
        (CONTINUATION, None) => Err(wrong("a continuation of no message (RFC 6455 §5.4)")),
        (CLOSE | PING | PONG, _) if first & FINAL == 0 || length > CONTROL_BYTES_MAX => {
            Err(wrong("a control frame in fragments or over 125 bytes (RFC 6455 §5.5)"))
        }
        (CONTINUATION, Some(partial)) if partial.bytes.len() + length > MESSAGE_BYTES_MAX => {
            Err(too_long())
        }
        (CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG, _) => Ok(()),
        (opcode, _) => {
            let what = format!("a frame of the unknown kind {opcode} (RFC 6455 §5.2)");
            Err(CarrierError(what.into()))
        }
    }
}

/// Returns the reason in a close frame as readable text.
pub(in crate::swarm) fn close_reason(payload: &[u8]) -> Result<String, CarrierError> {
    let (code, reason) = match payload {
        [] => return Ok("closed without a code (1005)".to_owned()),
        [_] => return Err(wrong("a close frame of one byte (RFC 6455 §5.5.1)")),
        [a, b, reason @ ..] => (u16::from_be_bytes([*a, *b]), reason),
    };
    // §7.4: these codes must not be sent, or are not assigned.
    if !(1000..5000).contains(&code) || matches!(code, 1004..=1006 | 1015) {
        let what = format!("the close code {code}, which may not be sent (RFC 6455 §7.4)");
        return Err(CarrierError(what.into()));
    }
    let Ok(reason) = std::str::from_utf8(reason) else {
        return Err(wrong("a close reason that is not UTF-8 (RFC 6455 §5.5.1)"));
    };
    Ok(if reason.is_empty() {
        format!("closed with {code}")
    } else {
        format!("closed with {code}: {}", reason.escape_debug())
    })
}

pub(in crate::swarm) fn text(payload: &[u8], out: &mut Vec<u8>) {
    frame(TEXT, payload, out);
}

pub(in crate::swarm) fn message(kind: Kind, deflates: bool, payload: &[u8], out: &mut Vec<u8>) {
    let opcode = match kind {
        Kind::Text => TEXT,
        Kind::Binary => BINARY,
    };
    if deflates {
        let mut deflated = Vec::new();
        deflate::deflate(payload, &mut deflated);
        frame(DEFLATED | opcode, &deflated, out);
    } else {
        frame(opcode, payload, out);
    }
}

pub(in crate::swarm) fn pong(payload: &[u8], out: &mut Vec<u8>) {
    frame(PONG, payload, out);
}

/// Appends the answer to a close frame with this payload: the same code, if any (§5.5.1).
pub(in crate::swarm) fn close_back(payload: &[u8], out: &mut Vec<u8>) {
    frame(CLOSE, payload.get(..2).unwrap_or_default(), out);
}

/// Appends a close frame for a normal closure.
pub(in crate::swarm) fn close(out: &mut Vec<u8>) {
    frame(CLOSE, &NORMAL.to_be_bytes(), out);
}

/// Appends a client's frame, masked with a random key (§5.3).
fn frame(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    head(FINAL | opcode, MASKED, payload.len(), out);
    let mask = fastrand::u32(..).to_ne_bytes();
    out.extend(mask);
    let start = out.len();
    out.extend_from_slice(payload);
    for four in out[start..].chunks_mut(mask.len()) {
        four.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Appends the head of a frame (§5.2) up to its mask. `masked` is the bit that says whether there is one.
fn head(first: u8, masked: u8, length: usize, out: &mut Vec<u8>) {
    out.push(first);
    match length {
        short @ ..126 => out.push(masked | short as u8),
        medium @ ..0x1_0000 => {
            out.push(masked | 126);
            out.extend((medium as u16).to_be_bytes());
        }
        long => {
            out.push(masked | 127);
            out.extend((long as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
pub(in crate::swarm) mod tests;
