//! A gzip stream (RFC 1952) without an end. After its header, each frame is whole
//! blocks of deflate that refer to nothing before them and end at a byte.

use super::deflate;

/// What a response begins with. RFC 1952 §2.3: deflate, no flags, no time, no extra
/// flags, unknown system.
pub(super) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// How much a stored block holds (RFC 1951 §3.2.4).
const STORED_BYTES_MAX: usize = 0xffff;

/// Appends a frame for many: what `write` appends, compressed.
pub(super) fn deflated(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    deflate::deflated(write, |plain, deflated| match deflated {
        Some(deflated) => out.extend_from_slice(deflated),
        None => store(plain, out),
    });
}

/// Appends what `write` appends as it is, in stored blocks: for small things of one
/// connection, which compressing would not make smaller by much.
pub(super) fn stored(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let mut plain = Vec::new();
    write(&mut plain);
    store(&plain, out);
}

fn store(plain: &[u8], out: &mut Vec<u8>) {
    for part in plain.chunks(STORED_BYTES_MAX) {
        // Not the last block, stored, and nothing up to the end of the byte.
        out.push(0);
        let len = part.len() as u16;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(part);
    }
}
