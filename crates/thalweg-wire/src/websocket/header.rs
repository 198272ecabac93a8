use super::{CONTROL_BYTES_MAX, ProtocolError};

/// The longest header: two bytes, a length of eight, a mask of four (RFC 6455 §5.2).
pub(super) const HEADER_BYTES_MAX: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Data(MessageKind),
    /// A control frame, which may stand between the fragments of a message.
    Control(Control),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Text,
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    Close,
    Ping,
    Pong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) opcode: Opcode,
    pub(super) is_final: bool,
    /// RSV1 of a message's first frame (RFC 7692 §6).
    pub(super) is_deflated: bool,
    pub(super) mask: [u8; 4],
    pub(super) payload_len: u64,
}

impl Header {
    /// Parses a header at the front of `bytes` (RFC 6455 §5.2) and returns it with its length; `None` if more bytes are needed;
    /// [`HEADER_BYTES_MAX`] bytes always suffice. `inflates`: whether a message may be compressed. Fails as soon as the bytes show
    /// an error.
    pub(super) fn parse(
        bytes: &[u8],
        inflates: bool,
    ) -> Result<Option<(Self, usize)>, ProtocolError> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        let is_deflated = first & 0x40 != 0;
        if first & 0x30 != 0 || (is_deflated && !inflates) {
            return Err(ProtocolError::ReservedBits);
        }
        let is_final = first & 0x80 != 0;
        let opcode = Opcode::parse(first & 0x0f)?;
        if is_deflated && !matches!(opcode, Opcode::Data(_)) {
            return Err(ProtocolError::ReservedBits);
        }
        if second & 0x80 == 0 {
            return Err(ProtocolError::Unmasked);
        }
        let short_len = second & 0x7f;
        if matches!(opcode, Opcode::Control(_)) {
            if !is_final {
                return Err(ProtocolError::FragmentedControl);
            }
            if usize::from(short_len) > CONTROL_BYTES_MAX {
                return Err(ProtocolError::LongControl);
            }
        }
        let Some((payload_len, rest)) = length(short_len, rest)? else {
            return Ok(None);
        };
        let Some((&mask, rest)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        let header = Self { opcode, is_final, is_deflated, mask, payload_len };
        Ok(Some((header, bytes.len() - rest.len())))
    }
}

impl Opcode {
    fn parse(opcode: u8) -> Result<Self, ProtocolError> {
        Ok(match opcode {
            0 => Self::Continuation,
            1 => Self::Data(MessageKind::Text),
            2 => Self::Data(MessageKind::Binary),
            8 => Self::Control(Control::Close),
            9 => Self::Control(Control::Ping),
            10 => Self::Control(Control::Pong),
            reserved => return Err(ProtocolError::ReservedOpcode(reserved)),
        })
    }
}

/// Returns the payload length and the bytes after it; `None` if more bytes are needed. A length of 2^63 or more, which RFC 6455
/// §5.2 forbids, passes here, because it exceeds every decoder's limit anyway.
fn length(short_len: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, ProtocolError> {
    let (len, shortest, rest) = match short_len {
        126 => match rest.split_first_chunk() {
            Some((len, rest)) => (u16::from_be_bytes(*len).into(), 126, rest),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk() {
            Some((len, rest)) => (u64::from_be_bytes(*len), 0x1_0000, rest),
            None => return Ok(None),
        },
        len => (len.into(), 0, rest),
    };
    if len < shortest {
        return Err(ProtocolError::PaddedLength);
    }
    Ok(Some((len, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    fn parse(start: &[u8]) -> Result<Option<(Header, usize)>, ProtocolError> {
        Header::parse(&[start, &MASK].concat(), false)
    }

    #[test]
    fn a_header_says_what_follows_it() {
        fn check(start: &[u8], opcode: Opcode, is_final: bool, payload_len: u64) {
            let header = Header { opcode, is_final, is_deflated: false, mask: MASK, payload_len };
            assert_eq!(parse(start), Ok(Some((header, start.len() + 4))));
            for cut in 0..start.len() + 3 {
                let bytes = [start, &MASK].concat();
                assert_eq!(Header::parse(&bytes[..cut], false), Ok(None), "cut at {cut}");
            }
        }
        check(&[0x81, 0x80], Opcode::Data(MessageKind::Text), true, 0);
        check(&[0x02, 0xfd], Opcode::Data(MessageKind::Binary), false, 125);
        check(&[0x00, 0xfe, 0, 126], Opcode::Continuation, false, 126);
        check(&[0x80, 0xfe, 255, 255], Opcode::Continuation, true, 0xffff);
        let long = [0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0];
        check(&long, Opcode::Data(MessageKind::Text), true, 0x1_0000);
        check(&[0x88, 0x82], Opcode::Control(Control::Close), true, 2);
        check(&[0x89, 0xfd], Opcode::Control(Control::Ping), true, 125);
        check(&[0x8a, 0x80], Opcode::Control(Control::Pong), true, 0);
    }

    #[test]
    fn a_malformed_header_is_refused() {
        fn check(start: &[u8], expected: ProtocolError) {
            assert_eq!(parse(start), Err(expected), "{start:x?}");
        }
        for bit in [0x40, 0x20, 0x10] {
            check(&[0x81 | bit, 0x80], ProtocolError::ReservedBits);
        }
        for opcode in (3..8).chain(11..16) {
            check(&[0x80 | opcode, 0x80], ProtocolError::ReservedOpcode(opcode));
        }
        check(&[0x81, 0x05], ProtocolError::Unmasked);
        check(&[0x09, 0x80], ProtocolError::FragmentedControl);
        check(&[0x89, 0xfe], ProtocolError::LongControl);
        check(&[0x88, 0xff], ProtocolError::LongControl);
        check(&[0x81, 0xfe, 0, 125], ProtocolError::PaddedLength);
        let padded = [0x81, 0xff, 0, 0, 0, 0, 0, 0, 255, 255];
        check(&padded, ProtocolError::PaddedLength);
    }
}
