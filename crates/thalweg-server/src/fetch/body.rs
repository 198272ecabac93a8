//! The body of a response as it arrives: decoded, and bounded. Pure.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};

/// The accepted codings (RFC 9110 §12.5.3).
pub(super) const ACCEPTED: &str = "gzip, br";

/// Memory of a brotli decoder besides its window.
const BROTLI_BUFFER_BYTES: usize = 4096;

pub(super) struct Body {
    decoder: Decoder,
    /// Received bytes, before decoding.
    pub(super) received: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    /// The body is not in its declared coding, or the coding is not supported.
    Coding,
}

enum Decoder {
    Plain(Bounded),
    // Boxed, because decoders hold tables. A body of gzip may have several members (RFC 1952 §2.2) from servers that compress piece by
    // piece or concatenate files.
    Gzip(Box<MultiGzDecoder<Bounded>>),
    Brotli(Box<DecompressorWriter<Bounded>>),
}

/// Memory with a limit.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Body {
    /// Returns a reader for a response with these headers, whose decoded body has at most `bytes_max`. Fails when the coding is not
    /// supported.
    pub(super) fn new(headers: &HeaderMap, bytes_max: usize) -> Result<Self, BodyError> {
        let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
        let coding = codings.next().map_or(Ok("identity"), |coding| coding.to_str());
        let (Ok(coding), None) = (coding, codings.next()) else { return Err(BodyError::Coding) };
        let bounded = Bounded { bytes: Vec::new(), bytes_max };
        let decoder = match coding.trim().to_ascii_lowercase().as_str() {
            "identity" | "" => Decoder::Plain(bounded),
            "gzip" | "x-gzip" => Decoder::Gzip(Box::new(MultiGzDecoder::new(bounded))),
            "br" => {
                Decoder::Brotli(Box::new(DecompressorWriter::new(bounded, BROTLI_BUFFER_BYTES)))
            }
            _ => return Err(BodyError::Coding),
        };
        Ok(Self { decoder, received: 0 })
    }

    /// Adds a piece. Decoding stops at the bound, however far the piece inflates. Fails when the body is too large, or not in its
    /// coding.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), BodyError> {
        self.received += piece.len();
        let decoder: &mut dyn Write = match &mut self.decoder {
            Decoder::Plain(bounded) => bounded,
            Decoder::Gzip(decoder) => &mut **decoder,
            Decoder::Brotli(decoder) => &mut **decoder,
        };
        decoder.write_all(piece).map_err(|error| self.reason(&error))
    }

    /// Returns the whole body. Fails when the body ends too early, or its checksum is wrong.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, BodyError> {
        let finished = match &mut self.decoder {
            Decoder::Plain(_) => Ok(()),
            Decoder::Gzip(decoder) => decoder.try_finish(),
            Decoder::Brotli(decoder) => decoder.close(),
        };
        finished.map_err(|error| self.reason(&error))?;
        Ok(std::mem::take(&mut self.bounded_mut().bytes))
    }

    /// Returns the reason of an error. Decoders wrap the error of [`Bounded`] in their own ways, so its size decides.
    fn reason(&self, _: &io::Error) -> BodyError {
        let bounded = self.bounded();
        if bounded.bytes.len() > bounded.bytes_max {
            BodyError::TooLarge
        } else {
            BodyError::Coding
        }
    }

    fn bounded(&self) -> &Bounded {
        match &self.decoder {
            Decoder::Plain(bounded) => bounded,
            Decoder::Gzip(decoder) => decoder.get_ref(),
            Decoder::Brotli(decoder) => decoder.get_ref(),
        }
    }

    fn bounded_mut(&mut self) -> &mut Bounded {
        match &mut self.decoder {
            Decoder::Plain(bounded) => bounded,
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Brotli(decoder) => decoder.get_mut(),
        }
    }
}

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        // One byte too many shows that the body is too large.
        let room = (self.bytes_max + 1).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        match self.bytes.len() > self.bytes_max {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(piece.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// A stored meta-block, and the last, empty one (RFC 7932 §9.2): `hello`.
    const BROTLI: &[u8] = &[0x0b, 0x02, 0x80, b'h', b'e', b'l', b'l', b'o', 0x03];

    fn read(coding: &str, pieces: &[&[u8]], bytes_max: usize) -> Result<Vec<u8>, BodyError> {
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, coding.parse().unwrap())]);
        let mut body = Body::new(&headers, bytes_max)?;
        pieces.iter().try_for_each(|piece| body.push(piece))?;
        body.finish()
    }

    #[test]
    fn a_body_is_the_same_however_it_comes() {
        let zipped = gzip(b"hello");
        let all: [(&str, &[u8]); 5] = [
            ("identity", b"hello"),
            ("", b"hello"),
            ("gzip", &zipped),
            ("X-GZip", &zipped),
            ("br", BROTLI),
        ];
        for (coding, bytes) in all {
            assert_eq!(read(coding, &[bytes], 5).as_deref(), Ok(&b"hello"[..]), "{coding}");
            for at in 0..bytes.len() {
                let halves = [&bytes[..at], &bytes[at..]];
                assert_eq!(read(coding, &halves, 5).as_deref(), Ok(&b"hello"[..]), "{coding} {at}");
            }
            assert_eq!(read(coding, &[bytes], 4), Err(BodyError::TooLarge), "{coding}");
        }
    }

    #[test]
    fn all_members_of_gzip_are_read() {
        let members = [gzip(b"he"), gzip(b""), gzip(b"llo")].concat();
        for at in 0..members.len() {
            let halves = [&members[..at], &members[at..]];
            assert_eq!(read("gzip", &halves, 5).as_deref(), Ok(&b"hello"[..]), "{at}");
        }
        assert_eq!(read("gzip", &[&members], 4), Err(BodyError::TooLarge));
        let cut = &members[..members.len() - 3];
        assert_eq!(read("gzip", &[cut], 5), Err(BodyError::Coding));
        let garbage = [&members[..], b"garbage"].concat();
        assert_eq!(read("gzip", &[&garbage], 5), Err(BodyError::Coding));
    }

    #[test]
    fn bodies_that_inflate_a_thousandfold_end_at_the_bound() {
        let bomb = gzip(&vec![b' '; 100 << 20]);
        assert_eq!(read("gzip", &[&bomb], 1 << 20), Err(BodyError::TooLarge));
    }

    #[test]
    fn garbage_and_truncated_bodies_are_refused() {
        let zipped = gzip(b"hello");
        let mut wrong = zipped.clone();
        *wrong.last_mut().unwrap() ^= 1;
        for (coding, bytes) in [
            ("gzip", &b"hello"[..]),
            ("gzip", &zipped[..zipped.len() - 3]),
            ("gzip", &wrong),
            ("gzip", b""),
            ("br", b"\xff\xff\xff\xff hello"),
            ("br", &BROTLI[..6]),
            ("deflate", b"hello"),
            ("gzip, br", b"hello"),
        ] {
            assert_eq!(read(coding, &[bytes], 100), Err(BodyError::Coding), "{coding} {bytes:?}");
        }
    }
}
