//! WebSocket frames as a client sends and receives them (RFC 6455 §5), also invalid ones.

use super::Socket;

pub(crate) mod opcode {
    pub(crate) const CONTINUATION: u8 = 0x0;
    pub(crate) const TEXT: u8 = 0x1;
    pub(crate) const BINARY: u8 = 0x2;
    pub(crate) const CLOSE: u8 = 0x8;
    pub(crate) const PING: u8 = 0x9;
    pub(crate) const PONG: u8 = 0xa;
}

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame of a client, valid unless a method changes it.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    opcode: u8,
    is_final: bool,
    reserved_bits: u8,
    is_masked: bool,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(crate) fn new(opcode: u8, payload: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let payload = payload.as_ref();
        Self { opcode, is_final: true, reserved_bits: 0, is_masked: true, payload }
    }

    pub(crate) fn not_final(self) -> Self {
        Self { is_final: false, ..self }
    }

    pub(crate) fn with_reserved_bits(self, bits: u8) -> Self {
        Self { reserved_bits: bits, ..self }
    }

    pub(crate) fn unmasked(self) -> Self {
        Self { is_masked: false, ..self }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let first = if self.is_final { FIN } else { 0 } | self.reserved_bits | self.opcode;
        let mask_bit = if self.is_masked { MASKED } else { 0 };
        let mut bytes = vec![first];
        match self.payload.len() {
            length @ 0..126 => bytes.push(mask_bit | length as u8),
            length @ 126..0x1_0000 => {
                bytes.push(mask_bit | 126);
                bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                bytes.push(mask_bit | 127);
                bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        if self.is_masked {
            bytes.extend_from_slice(&MASK);
            let masked = self.payload.iter().zip(MASK.iter().cycle());
            bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
        } else {
            bytes.extend_from_slice(self.payload);
        }
        bytes
    }
}

impl Socket {
    /// Returns the server's next frame: opcode and payload. Server frames are whole, unmasked and without extensions.
    pub(crate) fn websocket_frame(&mut self, what: &str) -> Option<(u8, Vec<u8>)> {
        let head = self.exact(2, what)?;
        assert_eq!(head[0] & 0xf0, FIN, "the server's frames are final, reserved bits clear");
        assert_eq!(head[1] & MASKED, 0, "the server's frames are not masked");
        let length = match head[1] {
            126 => big_endian(&self.exact(2, what)?),
            127 => big_endian(&self.exact(8, what)?),
            short => usize::from(short),
        };
        Some((head[0] & 0x0f, self.exact(length, what)?))
    }
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
