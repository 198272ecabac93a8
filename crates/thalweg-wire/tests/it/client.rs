//! Frames of clients, masked (RFC 6455 §5.2).

pub(crate) const FIN: u8 = 0x80;
pub(crate) const RSV1: u8 = 0x40;
pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = FIN | 8;
pub(crate) const PING: u8 = FIN | 9;
pub(crate) const PONG: u8 = FIN | 10;

pub(crate) const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame: its first byte and its payload.
pub(crate) type Frame<'a> = (u8, &'a [u8]);

pub(crate) fn frame((first, payload): Frame<'_>) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, k)| b ^ k));
    frame
}

pub(crate) fn sent(frames: &[Frame<'_>]) -> Vec<u8> {
    frames.iter().flat_map(|sent| frame(*sent)).collect()
}
