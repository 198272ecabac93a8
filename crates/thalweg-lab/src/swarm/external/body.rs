//! Where an HTTP answer's body ends (RFC 9112 §6): in chunks, of a length, or
//! with the connection.

use super::protocol_session::{Malformed, wrong};

/// A chunk's size with its extensions, or a line of the trailer, is no longer.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// How a body is delimited, and how far it is. Takes bytes however they are cut.
#[derive(Debug)]
pub(super) enum Body {
    UntilEnd,
    /// Bytes yet to come.
    Length(u64),
    Chunked(Chunked),
}

#[derive(Debug, Default)]
pub(super) struct Chunked {
    stage: Stage,
    /// Of the line that is being read.
    line_bytes: usize,
    /// Of the chunk: its size so far, then bytes yet to come.
    left: u64,
    has_digits: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Size,
    Extension,
    Data,
    DataEnd,
    Trailer,
    Done,
}

impl Body {
    /// Takes bytes and passes on those of the body.
    #[inline]
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut pass: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        match self {
            Body::UntilEnd => pass(bytes),
            Body::Length(left) => {
                let length = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                pass(&bytes[..length])
            }
            Body::Chunked(chunked) => chunked.feed(bytes, pass),
        }
    }

    /// Whether nothing more can come.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Body::UntilEnd => false,
            Body::Length(left) => *left == 0,
            Body::Chunked(chunked) => chunked.stage == Stage::Done,
        }
    }

    /// Whether the end of the connection is an end of the body.
    pub(super) fn may_end(&self) -> bool {
        matches!(self, Body::UntilEnd) || self.is_done()
    }
}

impl Chunked {
    #[inline]
    fn feed(
        &mut self,
        mut bytes: &[u8],
        mut pass: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        while !bytes.is_empty() && self.stage != Stage::Done {
            if self.stage == Stage::Data {
                let length = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                pass(&bytes[..length])?;
                bytes = &bytes[length..];
                self.left -= length as u64;
                if self.left == 0 {
                    self.stage = Stage::DataEnd;
                }
                continue;
            }
            self.framing(bytes[0])?;
            bytes = &bytes[1..];
        }
        Ok(())
    }

    /// A byte between chunks.
    fn framing(&mut self, byte: u8) -> Result<(), Malformed> {
        self.line_bytes += 1;
        if self.line_bytes > LINE_BYTES_MAX {
            return wrong("a line of the chunked coding that does not end (RFC 9112 §7.1)");
        }
        match (self.stage, byte) {
            (Stage::Size | Stage::Extension, b'\n') => {
                if !self.has_digits {
                    return wrong("a chunk without a size (RFC 9112 §7.1)");
                }
                self.stage = if self.left == 0 { Stage::Trailer } else { Stage::Data };
                (self.line_bytes, self.has_digits) = (0, false);
            }
            (Stage::Size, b'\r') | (Stage::Extension, _) => {}
            (Stage::Size, b';' | b' ' | b'\t') => self.stage = Stage::Extension,
            (Stage::Size, digit) => self.digit(digit)?,
            (Stage::DataEnd, b'\r') if self.line_bytes == 1 => {}
            (Stage::DataEnd, b'\n') => (self.stage, self.line_bytes) = (Stage::Size, 0),
            (Stage::DataEnd, _) => {
                return wrong("a chunk that is longer than its size (RFC 9112 §7.1)");
            }
            // An empty line ends the trailer; a CR does not make it longer.
            (Stage::Trailer, b'\n') if self.line_bytes == 1 => self.stage = Stage::Done,
            (Stage::Trailer, b'\n' | b'\r') => {
                self.line_bytes = if byte == b'\n' { 0 } else { self.line_bytes - 1 };
            }
            (Stage::Trailer | Stage::Data | Stage::Done, _) => {}
        }
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<(), Malformed> {
        let digit = char::from(byte).to_digit(16);
        let size = digit.and_then(|digit| {
            self.left.checked_mul(16).and_then(|size| size.checked_add(u64::from(digit)))
        });
        let Some(size) = size else {
            return wrong("a chunk's size that is no hexadecimal number (RFC 9112 §7.1)");
        };
        (self.left, self.has_digits) = (size, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The body, and whether it is done.
    fn read(mut body: Body, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), Malformed> {
        let mut out = Vec::new();
        for piece in pieces {
            body.feed(piece, |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        Ok((out, body.is_done()))
    }

    fn chunked() -> Body {
        Body::Chunked(Chunked::default())
    }

    #[test]
    fn bodies_end_where_they_should() {
        let check = |body, bytes: &str, expected: &str, is_done| {
            let found = read(body, &[bytes.as_bytes()]).unwrap();
            assert_eq!(found, (expected.as_bytes().to_vec(), is_done), "{bytes:?}");
        };
        check(Body::UntilEnd, "abc", "abc", false);
        check(Body::Length(2), "abc", "ab", true);
        check(Body::Length(4), "abc", "abc", false);
        check(Body::Length(0), "", "", true);
        check(chunked(), "2\r\nab\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nrest", "ab0123456789", true);
        check(chunked(), "2\nab\n00\n\n", "ab", true);
        check(chunked(), "2\r\nab\r\n0\r\nName: value\r\nb: c\r\n\r\n", "ab", true);
        check(chunked(), "2\r\nab\r\n0\r\nName: value\r\n", "ab", false);
        check(chunked(), "2\r\nab", "ab", false);
    }

    #[test]
    fn chunks_that_are_none_are_named() {
        let check = |bytes: &str, expected: &str| {
            let said = read(chunked(), &[bytes.as_bytes()]).expect_err(bytes).to_string();
            assert!(said.contains(expected), "{said:?} should say {expected:?}");
        };
        check("\r\n", "without a size");
        check("x\r\n", "no hexadecimal number");
        check("10000000000000000\r\n", "no hexadecimal number");
        check("2\r\nabc\r\n", "longer than its size");
        check(&format!("2;{}", "x".repeat(LINE_BYTES_MAX)), "does not end");
    }

    proptest! {
        #[test]
        fn cuts_anywhere_change_nothing(
            chunks in prop::collection::vec("[a-c\r\n]{1,20}", 0..10),
            cuts in prop::collection::vec(1usize..9, 0..100),
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend(format!("{:x};e=\"1\"\r\n{chunk}\r\n", chunk.len()).as_bytes());
            }
            bytes.extend(b"0\r\nTrailer: x\r\n\r\n");
            let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            pieces.push(rest);
            prop_assert_eq!(read(chunked(), &pieces), Ok((chunks.concat().into_bytes(), true)));
        }

        #[test]
        fn any_bytes_are_an_answer(bytes in prop::collection::vec(
            prop::sample::select(b"0123aF;\r\n \xff".to_vec()), 0..60)
        ) {
            let _ = read(chunked(), &[&bytes]);
        }
    }
}
