//! The chunked transfer coding (RFC 9112 §7.1) as peers read it.

use thalweg_wire::{Format, format::TransferCoding};

pub(super) fn is_chunked(format: Format) -> bool {
    format.transfer() == TransferCoding::Chunked
}

pub(super) struct Chunk<'a> {
    pub(super) data_at: usize,
    /// Its data, which is empty in the last chunk.
    pub(super) data: &'a [u8],
    pub(super) len: usize,
}

/// Returns the chunk at the front of `bytes`. `None` while it is incomplete. Panics if no chunk can begin so.
pub(super) fn chunk(bytes: &[u8]) -> Option<Chunk<'_>> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = std::str::from_utf8(&bytes[..digits]).expect("ASCII");
    let rest = &bytes[digits..];
    assert!(digits <= 8, "a size of {size}");
    assert!(b"\r\n".starts_with(&rest[..rest.len().min(2)]), "no size: {}", bytes.escape_ascii());
    let data = rest.strip_prefix(b"\r\n")?;
    let size = usize::from_str_radix(size, 16).expect("a size");
    assert_eq!(format!("{size:x}").len(), digits, "a size with leading zeros, or in capitals");
    let end = data.get(size..size + 2)?;
    assert_eq!(end, b"\r\n", "a chunk of another size than it says");
    Some(Chunk { data_at: digits + 2, data: &data[..size], len: digits + 4 + size })
}

/// The bytes of a chunk besides its data.
pub(super) fn around_len(data_len: u64) -> u64 {
    format!("{data_len:x}\r\n\r\n").len() as u64
}

/// Encodes bytes for a format: as they are, or as a chunk.
pub(super) fn coded(format: Format, bytes: &[u8]) -> Vec<u8> {
    match is_chunked(format) && !bytes.is_empty() {
        true => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
        false => bytes.to_vec(),
    }
}
