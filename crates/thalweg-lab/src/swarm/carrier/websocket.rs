//! WebSocket frames from a server (RFC 6455 §5.2): unmasked, and on Thalweg's
//! wire one text frame per message.

use super::{CarrierError, MESSAGE_BYTES_MAX, Step, TOO_LONG};

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Control frames are no longer than this (§5.5).
const CONTROL_BYTES_MAX: usize = 125;

#[inline]
pub(super) fn step(bytes: &[u8]) -> Result<Step<'_>, CarrierError> {
    const INCOMPLETE: Result<Step<'_>, CarrierError> = Ok(Step::Incomplete { searched: 0 });
    let &[first, second, ref rest @ ..] = bytes else {
        return INCOMPLETE;
    };
    if second & MASKED != 0 {
        return Err(CarrierError("a masked frame from the server (RFC 6455 §5.1)"));
    }
    if first & FINAL == 0 || first & 0x70 != 0 {
        return Err(CarrierError("a fragmented or extended frame is not Thalweg's wire"));
    }
    let (length, head) = match (second, rest) {
        (126, &[a, b, ..]) => (u64::from(u16::from_be_bytes([a, b])), 4),
        (127, &[a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 10),
        (126 | 127, _) => return INCOMPLETE,
        (short, _) => (u64::from(short), 2),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let end = head + length.ok_or(CarrierError(TOO_LONG))?;
    let Some(payload) = bytes.get(head..end) else {
        return INCOMPLETE;
    };
    match first & 0x0F {
        TEXT => Ok(Step::Message(payload, end)),
        PING if payload.len() <= CONTROL_BYTES_MAX => Ok(Step::Ping(payload, end)),
        PONG => Ok(Step::Nothing(end)),
        CLOSE => Ok(Step::Close),
        _ => Err(CarrierError("neither a text nor a control frame")),
    }
}

/// The answer to a ping, masked as a client must, with a mask that changes
/// nothing: no intermediary on loopback could be attacked (§10.3).
pub(in crate::swarm) fn pong(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![FINAL | PONG, MASKED | payload.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(payload);
    frame
}

/// Appends a text frame, masked in the same way.
pub(in crate::swarm) fn text(payload: &[u8], out: &mut Vec<u8>) {
    head(FINAL | TEXT, MASKED, payload.len(), out);
    out.extend([0; 4]);
    out.extend_from_slice(payload);
}

/// Appends the head of a frame (§5.2) up to its mask. `masked` is the bit that says
/// whether there is one.
pub(in crate::swarm) fn head(first: u8, masked: u8, length: usize, out: &mut Vec<u8>) {
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
pub(super) mod tests {
    use super::*;

    pub(in crate::swarm) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        head(FINAL | opcode, 0, payload.len(), &mut frame);
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn every_length_comes_back() {
        for length in [0, 1, 125, 126, 127, 65535, 65536, 70000] {
            let payload = vec![b'x'; length];
            let bytes = frame(TEXT, &payload);
            assert_eq!(step(&bytes), Ok(Step::Message(&payload, bytes.len())));
            let short = &bytes[..bytes.len() - 1];
            assert_eq!(step(short), Ok(Step::Incomplete { searched: 0 }));
        }
    }

    #[test]
    fn control_frames_and_what_is_refused() {
        assert_eq!(step(&frame(PING, b"hi")), Ok(Step::Ping(b"hi", 4)));
        assert_eq!(step(&frame(CLOSE, b"\x03\xe9")), Ok(Step::Close));
        assert_eq!(pong(b"hi"), b"\x8a\x82\0\0\0\0hi");
        let mut said = Vec::new();
        text(b"hi", &mut said);
        assert_eq!(said, b"\x81\x82\0\0\0\0hi");
        assert!(step(&[0x01, 0x00]).is_err(), "not final");
        assert!(step(&[0x81, 0x80]).is_err(), "masked");
        assert!(step(&[0x82, 0x00]).is_err(), "binary");
        let endless = [0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(step(&endless).is_err());
    }
}
