//! The chunked transfer coding (RFC 9112 §7.1). A chunk's size has no leading zeros: equal frames give equal chunks.

/// The last chunk, and no trailer section.
pub(super) const LAST: &[u8] = b"0\r\n\r\n";

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends the output of `write` as a chunk. Appends nothing for an empty output, because an empty chunk ends the body.
/// The output is not moved if `len` has as many hexadecimal digits as the length of the output.
pub(super) fn chunk(len: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(digits(len));
    let size_end = out.len();
    out.extend_from_slice(b"\r\n");
    write(out);
    let written = out.len() - size_end - 2;
    if written == 0 {
        out.truncate(start);
        return;
    }
    if written != len {
        out.splice(start..size_end, digits(written));
    }
    out.extend_from_slice(b"\r\n");
}

/// Makes a chunk from the bytes of `out` after `start` and `more` bytes that the caller inserts; returns by how many
/// bytes the content moved.
pub(super) fn chunk_around(start: usize, more: usize, out: &mut Vec<u8>) -> usize {
    let before = out.len();
    let size = before - start + more;
    out.splice(start..start, digits(size).chain(*b"\r\n"));
    let size_bytes = out.len() - before;
    out.extend_from_slice(b"\r\n");
    size_bytes
}

fn digits(size: usize) -> impl Iterator<Item = u8> {
    let count = size.checked_ilog2().map_or(1, |bits| bits / 4 + 1);
    (0..count).rev().map(move |digit| DIGITS[(size >> (4 * digit)) & 0xf])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_of(len: usize, written: usize) -> String {
        let mut out = b"before".to_vec();
        chunk(len, &mut out, |out| out.resize(out.len() + written, b'x'));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_chunk_has_its_own_size_whatever_was_expected() {
        for (written, size) in [(1, "1"), (15, "f"), (16, "10"), (255, "ff"), (4096, "1000")] {
            for len in [0, 1, 16, written, 100_000] {
                let expected = format!("before{size}\r\n{}\r\n", "x".repeat(written));
                assert_eq!(chunk_of(len, written), expected);
            }
        }
    }

    #[test]
    fn empty_data_makes_no_chunk() {
        assert_eq!(chunk_of(0, 0), "before");
        assert_eq!(chunk_of(10, 0), "before");
    }

    #[test]
    fn a_chunk_around_a_body_has_the_size_of_both() {
        let mut out = b"before[]".to_vec();
        assert_eq!(chunk_around(6, 14, &mut out), 4);
        assert_eq!(out, b"before10\r\n[]\r\n");
    }
}
