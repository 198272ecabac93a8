//! An endless gzip stream (RFC 1952). After the header, each frame consists of whole deflate blocks that end at a byte boundary.
//! Without a context they refer to no earlier block.

use super::deflate;

/// The header of a response. RFC 1952 §2.3: deflate, no flags, no time, no extra flags, unknown system.
pub(super) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Capacity of a stored block (RFC 1951 §3.2.4).
const STORED_BYTES_MAX: usize = 0xffff;

/// Appends the output of `write` compressed, for all subscribers.
pub(super) fn deflated(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    deflate::deflated(write, |plain, deflated| match deflated {
        Some(deflated) => out.extend_from_slice(deflated),
        None => store(plain, out),
    });
}

/// Appends the output of `write` in stored blocks, for the few bytes of one connection, which compression would hardly shorten.
pub(super) fn stored(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let mut plain = Vec::new();
    write(&mut plain);
    store(&plain, out);
}

/// Appends text in stored blocks, and a flush: without it, `compress/flate` of Go keeps the text of a stored block until the next
/// block begins.
pub(super) fn store(plain: &[u8], out: &mut Vec<u8>) {
    if plain.is_empty() {
        return;
    }
    for part in plain.chunks(STORED_BYTES_MAX) {
        // Header of a stored block that is not the last, padded to the byte boundary.
        out.push(0);
        let len = part.len() as u16;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(part);
    }
    // An empty stored block.
    out.push(0);
    out.extend_from_slice(&deflate::SYNC_END);
}
