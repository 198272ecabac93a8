//! Request bodies, however the network cuts them (RFC 9112 §6, §7.1).

/// Largest length of an event line, as in Thalweg.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A decoder of a body's transfer coding.
#[derive(Debug)]
pub(crate) struct Body {
    state: State,
}

#[derive(Debug)]
enum State {
    /// `Content-Length`: bytes still to come.
    Length(u64),
    Size {
        bytes: u64,
        digits: bool,
    },
    Extension {
        bytes: u64,
    },
    Chunk {
        bytes_left: u64,
    },
    ChunkEnd,
    Trailer {
        line_is_empty: bool,
    },
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Data(&'a [u8]),
    /// The input is used up, but the body has not ended.
    Starved,
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadChunk;

impl Body {
    pub(crate) fn chunked() -> Self {
        Self { state: State::Size { bytes: 0, digits: false } }
    }

    pub(crate) fn with_length(bytes: u64) -> Self {
        Self { state: State::Length(bytes) }
    }

    /// Takes the next piece off the front of `input`. Bytes after the body stay there.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, BadChunk> {
        loop {
            match &mut self.state {
                State::Length(0) | State::End => return Ok(Piece::End),
                State::Chunk { bytes_left: 0 } => self.state = State::ChunkEnd,
                _ if input.is_empty() => return Ok(Piece::Starved),
                State::Length(left) | State::Chunk { bytes_left: left } => {
                    let here = usize::try_from(*left).map_or(input.len(), |n| n.min(input.len()));
                    let (data, rest) = input.split_at(here);
                    *left -= here as u64;
                    *input = rest;
                    return Ok(Piece::Data(data));
                }
                state => {
                    let byte = input[0];
                    *input = &input[1..];
                    *state = between_chunks(state, byte)?;
                }
            }
        }
    }
}

/// Processes one byte of the coding itself. These bytes are few.
fn between_chunks(state: &State, byte: u8) -> Result<State, BadChunk> {
    Ok(match (state, byte) {
        (&State::Size { bytes, digits }, b'\r') => State::Size { bytes, digits },
        (State::Size { bytes: 0, digits: true } | State::Extension { bytes: 0 }, b'\n') => {
            State::Trailer { line_is_empty: true }
        }
        (&State::Size { bytes, digits: true } | &State::Extension { bytes }, b'\n') => {
            State::Chunk { bytes_left: bytes }
        }
        (&State::Size { bytes, digits: true }, b';' | b' ' | b'\t') => State::Extension { bytes },
        (&State::Size { bytes, .. }, _) => {
            let digit = char::from(byte).to_digit(16).ok_or(BadChunk)?;
            if bytes >> 56 != 0 {
                return Err(BadChunk);
            }
            State::Size { bytes: bytes << 4 | u64::from(digit), digits: true }
        }
        (&State::Extension { bytes }, _) => State::Extension { bytes },
        (State::ChunkEnd, b'\r') => State::ChunkEnd,
        (State::ChunkEnd, b'\n') => State::Size { bytes: 0, digits: false },
        (&State::Trailer { line_is_empty }, b'\r') => State::Trailer { line_is_empty },
        (State::Trailer { line_is_empty: true }, b'\n') => State::End,
        (State::Trailer { .. }, _) => State::Trailer { line_is_empty: byte == b'\n' },
        _ => return Err(BadChunk),
    })
}

#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The start of a line whose end has not arrived yet.
    partial: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

impl Lines {
    /// Hands every line that ends in `data` to `take`; empty ones are skipped.
    pub(crate) fn feed(
        &mut self,
        data: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), LineTooLong> {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', data) {
            let tail = &data[start..end];
            start = end + 1;
            if self.partial.is_empty() {
                take_line(tail, &mut take)?;
            } else {
                self.partial.extend_from_slice(tail);
                take_line(&self.partial, &mut take)?;
                self.partial.clear();
            }
        }
        self.partial.extend_from_slice(&data[start..]);
        if self.partial.len() > LINE_BYTES_MAX {
            return Err(LineTooLong);
        }
        Ok(())
    }

    /// Takes the last line, which needs no line break.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), LineTooLong> {
        take_line(&std::mem::take(&mut self.partial), &mut take)
    }
}

fn take_line(line: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), LineTooLong> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_BYTES_MAX {
        return Err(LineTooLong);
    }
    if !line.is_empty() {
        take(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] =
        b"4\r\n{\"a\"\r\n1;x=y\r\n:\r\nA \r\n1}\n\n[2,3]\r\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\nNEXT";

    /// Feeds `input` in pieces that end at `cuts`; returns lines and remainder.
    fn lines_of(mut body: Body, input: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>, bool) {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let mut rest = Vec::new();
        let mut ended = false;
        let mut take = |line: &[u8]| seen.push(String::from_utf8_lossy(line).into_owned());
        let bounds: Vec<usize> = [0].iter().chain(cuts).chain(&[input.len()]).copied().collect();
        for bound in bounds.windows(2) {
            let mut piece = &input[bound[0]..bound[1]];
            while !ended {
                match body.next(&mut piece).unwrap() {
                    Piece::Data(data) => lines.feed(data, &mut take).unwrap(),
                    Piece::Starved => break,
                    Piece::End => ended = true,
                }
            }
            rest.extend_from_slice(piece);
        }
        lines.finish(&mut take).unwrap();
        (seen, rest, ended)
    }

    #[test]
    fn chunks_cut_anywhere_give_the_same_lines() {
        let expected = (vec![r#"{"a":1}"#.to_owned(), "[2,3]".to_owned()], b"NEXT".to_vec(), true);
        let every_byte: Vec<usize> = (1..CHUNKED.len()).collect();
        assert_eq!(lines_of(Body::chunked(), CHUNKED, &every_byte), expected);
        for first in 0..CHUNKED.len() {
            for second in first..CHUNKED.len() {
                let cuts = [first, second];
                assert_eq!(lines_of(Body::chunked(), CHUNKED, &cuts), expected, "{cuts:?}");
            }
        }
    }

    #[test]
    fn a_body_of_known_length_ends_there() {
        let input = b"1\n\r\n22\n3NEXT";
        for cut in 0..input.len() {
            let (lines, rest, ended) = lines_of(Body::with_length(8), input, &[cut]);
            assert_eq!(lines, ["1", "22", "3"]);
            assert_eq!(rest, b"NEXT");
            assert!(ended);
        }
        assert_eq!(Body::with_length(0).next(&mut &b""[..]), Ok(Piece::End));
    }

    #[test]
    fn broken_chunks_are_refused() {
        for broken in
            ["\r\n", "g\r\n", ";\r\n", "fffffffffffffffff\r\n", "1\r\nab", "1\r\na\r\n\r\n"]
        {
            let mut body = Body::chunked();
            let mut input = broken.as_bytes();
            let outcome = loop {
                match body.next(&mut input) {
                    Ok(Piece::Data(_)) => {}
                    other => break other,
                }
            };
            assert_eq!(outcome, Err(BadChunk), "{broken:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        let data = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(lines.feed(&data, |_| {}), Ok(()));
        assert_eq!(lines.feed(b"x", |_| {}), Err(LineTooLong));
    }
}
