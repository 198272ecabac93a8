//! Inflates the body of a response (gzip, RFC 1952), a piece at a time: a kilobyte may inflate to a megabyte.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

use crate::limits::INFLATED_BYTES;

/// 2^15 bytes, the largest window that there is.
const WINDOW_BITS: u8 = 15;

#[derive(Debug)]
pub(super) struct Gunzip {
    inflate: Decompress,
    /// Received bytes that are not inflated yet.
    input: Bytes,
    out: Vec<u8>,
    /// Whether `inflate` may hold more bytes than `out` had room for.
    is_full: bool,
    /// Whether the input is malformed behind the bytes that were returned.
    is_broken: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not valid gzip")]
pub(super) struct Broken;

impl Gunzip {
    pub(super) fn new() -> Self {
        Self {
            inflate: Decompress::new_gzip(WINDOW_BITS),
            input: Bytes::new(),
            out: Vec::with_capacity(INFLATED_BYTES),
            is_full: false,
            is_broken: false,
        }
    }

    /// Adds received bytes, after [`Self::piece`] has returned `None`.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.input = bytes;
    }

    /// Returns the next inflated bytes; `None` if more must be received first.
    pub(super) fn piece(&mut self) -> Result<Option<&[u8]>, Broken> {
        if self.is_broken {
            return Err(Broken);
        }
        while self.is_full || self.input.has_remaining() {
            self.out.clear();
            let before = self.inflate.total_in();
            let status =
                self.inflate.decompress_vec(&self.input, &mut self.out, FlushDecompress::Sync);
            let Ok(status) = status else {
                self.is_broken = true;
                return if self.out.is_empty() { Err(Broken) } else { Ok(Some(&self.out)) };
            };
            let taken = (self.inflate.total_in() - before) as usize;
            let is_stuck = taken == 0 && self.out.is_empty() && self.input.has_remaining();
            self.input.advance(taken);
            self.is_full = self.out.len() == self.out.capacity();
            if status == Status::StreamEnd {
                // Another member may follow (§2.2).
                (self.inflate, self.is_full) = (Decompress::new_gzip(WINDOW_BITS), false);
            } else if is_stuck {
                return Err(Broken);
            }
            if !self.out.is_empty() {
                return Ok(Some(&self.out));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn inflated(gunzip: &mut Gunzip, received: &[u8]) -> Result<Vec<u8>, Broken> {
        gunzip.push(Bytes::copy_from_slice(received));
        let mut out = Vec::new();
        while let Some(piece) = gunzip.piece()? {
            assert!(!piece.is_empty() && piece.len() <= INFLATED_BYTES, "{} bytes", piece.len());
            out.extend_from_slice(piece);
        }
        Ok(out)
    }

    proptest! {
        #[test]
        fn bodies_survive_any_cut(
            text in "[a-c]{0,4000}",
            repeats in 1usize..60,
            cuts in vec(1usize..200, 0..20),
        ) {
            let text = text.repeat(repeats).into_bytes();
            let body = gzip(&text).repeat(2);
            let (mut gunzip, mut out, mut rest) = (Gunzip::new(), Vec::new(), &body[..]);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (received, after) = rest.split_at(cut.min(rest.len()));
                out.extend(inflated(&mut gunzip, received).unwrap());
                rest = after;
            }
            prop_assert_eq!(out, text.repeat(2));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..300)) {
            let mut gunzip = Gunzip::new();
            let _ = inflated(&mut gunzip, &bytes);
            let _ = inflated(&mut gunzip, &[&gzip(&bytes)[..15], &bytes].concat());
        }
    }

    /// A multiple of a piece leaves nothing behind, and its last bytes come at once.
    #[test]
    fn each_flush_is_inflated_at_once() {
        let mut gunzip = Gunzip::new();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for pieces in [1, 2, 5] {
            for extra in [0, 1] {
                let text = vec![b'x'; pieces * INFLATED_BYTES + extra];
                encoder.write_all(&text).unwrap();
                encoder.flush().unwrap();
                let flushed = std::mem::take(encoder.get_mut());
                assert_eq!(inflated(&mut gunzip, &flushed).map(|out| out.len()), Ok(text.len()));
            }
        }
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        assert_eq!(inflated(&mut Gunzip::new(), b"{\"topic\":\"cars\"}\n"), Err(Broken));
        let mut body = gzip(b"a message");
        let last = body.len() - 5;
        // The check of the text (CRC-32).
        body[last] ^= 1;
        assert_eq!(inflated(&mut Gunzip::new(), &body), Err(Broken));
    }
}
