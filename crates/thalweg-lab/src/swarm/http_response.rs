//! Answers over HTTP/1.1 that leave the connection open (RFC 9112 §6), taken
//! apart as they come or whole.

use super::carrier::{MESSAGE_BYTES_MAX, TOO_LONG};
use anyhow::{anyhow, bail};

/// A longer head of an answer is not an answer.
pub(super) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// A chunk's size with its extensions, or a trailer, is no longer than this.
const LINE_BYTES_MAX: usize = 1024;

/// Takes one answer after the other apart. It keeps no bytes: what it has not
/// used is to be shown to it again, with more behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reader(Place);

/// Where in an answer the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    /// In a body of known length, so far from its end.
    Body(u64),
    /// Before the size of a chunk.
    Size,
    /// In a chunk, so far from its end.
    Chunk(u64),
    /// Behind a chunk, before the end of its line.
    ChunkEnd,
    /// Behind the last chunk.
    Trailer,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// An answer begins, with this status.
    Head(u16),
    /// More of its body.
    Body(&'a [u8]),
    /// It is whole. The next byte is the next answer's.
    End,
    /// More bytes are needed.
    Incomplete,
}

impl Reader {
    /// For what comes behind a head, if that is in chunks.
    pub(super) fn of_chunks(bytes: &[u8]) -> Option<Reader> {
        let (_, place) = head(bytes.strip_suffix(b"\r\n")?).ok()?;
        (place == Place::Size).then_some(Reader(place))
    }

    /// How much of a body or chunk is still to come.
    fn announced_bytes(&self) -> u64 {
        match self.0 {
            Place::Body(left) | Place::Chunk(left) => left,
            _ => 0,
        }
    }

    /// The next part, and how many bytes it takes.
    pub(super) fn step<'a>(&mut self, bytes: &'a [u8]) -> anyhow::Result<(Part<'a>, usize)> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self.0 {
                Place::Head => {
                    let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") else {
                        return incomplete(rest, HEAD_BYTES_MAX, used);
                    };
                    let status;
                    (status, self.0) = head(&rest[..end + 2])?;
                    return Ok((Part::Head(status), used + end + 4));
                }
                Place::Body(0) => {
                    self.0 = Place::Head;
                    return Ok((Part::End, used));
                }
                Place::Chunk(0) => self.0 = Place::ChunkEnd,
                Place::Body(left) | Place::Chunk(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if length == 0 {
                        return Ok((Part::Incomplete, used));
                    }
                    let left = left - length as u64;
                    self.0 = match self.0 {
                        Place::Body(_) => Place::Body(left),
                        _ => Place::Chunk(left),
                    };
                    return Ok((Part::Body(&rest[..length]), used + length));
                }
                Place::Size | Place::ChunkEnd | Place::Trailer => {
                    let Some(end) = memchr::memmem::find(rest, b"\r\n") else {
                        return incomplete(rest, LINE_BYTES_MAX, used);
                    };
                    used += end + 2;
                    self.0 = match (self.0, &rest[..end]) {
                        (Place::Size, line) => match chunk_bytes(line)? {
                            0 => Place::Trailer,
                            size => Place::Chunk(size),
                        },
                        (Place::Trailer, b"") => {
                            self.0 = Place::Head;
                            return Ok((Part::End, used));
                        }
                        (Place::Trailer, _) => Place::Trailer,
                        (_, b"") => Place::Size,
                        _ => bail!("a chunk longer than it says (RFC 9112 §7.1)"),
                    };
                }
            }
        }
    }
}

/// Nothing but part of a head or of a line, which have bounds.
fn incomplete(
    rest: &[u8],
    bytes_max: usize,
    used: usize,
) -> anyhow::Result<(Part<'static>, usize)> {
    if rest.len() > bytes_max {
        bail!("an answer whose head or chunk has no end: {}", super::inbox::shown(rest));
    }
    Ok((Part::Incomplete, used))
}

/// What a head says: its status, and where its body begins.
fn head(head: &[u8]) -> anyhow::Result<(u16, Place)> {
    let mut lines = memchr::memmem::find_iter(head, b"\r\n").scan(0, |start, end| {
        let line = &head[*start..end];
        *start = end + 2;
        Some(line)
    });
    let status = lines.next().and_then(status);
    let status =
        status.ok_or_else(|| anyhow!("not an HTTP answer: {}", super::inbox::shown(head)))?;
    let (mut place, mut is_chunked) = (None, false);
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            is_chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"content-length") {
            place = crate::subject::dialect::number(value).map(Place::Body);
        }
    }
    let place = match (is_chunked, place) {
        (true, _) => Place::Size,
        (false, Some(place)) => place,
        (false, None) if status == 204 => Place::Body(0),
        (false, None) => bail!("an answer of unknown length: {}", super::inbox::shown(head)),
    };
    Ok((status, place))
}

fn status(line: &[u8]) -> Option<u16> {
    let digits = line.strip_prefix(b"HTTP/1.1 ")?.first_chunk::<3>()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The size that a chunk begins with; what follows a semicolon means nothing
/// here.
fn chunk_bytes(line: &[u8]) -> anyhow::Result<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| anyhow!("not the size of a chunk: {digits:?}"))
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Of its head.
    pub(super) head_length: usize,
    /// Of head and body, as they came.
    pub(super) length: usize,
}

/// The answer that the bytes begin with; `None` while it is incomplete. One longer
/// than any message is refused as soon as it says so.
pub(super) fn take(bytes: &[u8]) -> anyhow::Result<Option<HttpResponse>> {
    let (mut reader, mut answer) = (Reader::default(), HttpResponse::default());
    loop {
        let (part, length) = reader.step(&bytes[answer.length..])?;
        answer.length += length;
        match part {
            Part::Head(status) => {
                (answer.status, answer.head_length) = (status, answer.length);
            }
            Part::Body(piece) => answer.body.extend_from_slice(piece),
            Part::End => return Ok(Some(answer)),
            Part::Incomplete => break,
        }
    }
    if reader.announced_bytes().saturating_add(bytes.len() as u64) > MESSAGE_BYTES_MAX as u64 {
        bail!("{TOO_LONG}: {}", super::inbox::shown(bytes));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        let bytes = format!("{text}more").into_bytes();
        let answer = take(&bytes).unwrap().unwrap();
        assert_eq!((answer.status, &*answer.body), (200, expected.as_bytes()));
        assert_eq!(answer.length, text.len());
        for cut in 0..text.len() {
            assert_eq!(take(&bytes[..cut]).unwrap(), None, "{cut}");
        }
    }

    #[test]
    fn answers_have_a_length_or_chunks() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"count\":42}", "{\"count\":42}");
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
            "abc0123456789",
        );
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding:Chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n",
            "abc",
        );
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let check = |text: &str| assert!(take(text.as_bytes()).is_err(), "{text:?}");
        check("HTTP/1.1 200 OK\r\n\r\n");
        check("nonsense\r\n\r\n");
        check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{chunked}1\r\nabc\r\n"));
        check(&format!("{chunked}x\r\n"));
        check(&format!("{chunked}{}", "1".repeat(LINE_BYTES_MAX + 1)));
        check(&"x".repeat(HEAD_BYTES_MAX + 1));
        // More than any message has, announced, or there.
        check("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
        check(&format!("{chunked}fffffff0\r\n"));
        let endless = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
        check(&format!("{chunked}{}", endless.repeat(65)));
    }

    /// Answers as a subject writes them, one behind the other; those with a size
    /// are in chunks of it.
    fn written(bodies: &[(Vec<u8>, usize)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (body, size) in bodies {
            bytes.extend(b"HTTP/1.1 200 OK\r\nServer: x\r\n");
            if *size == 0 {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                bytes.extend(body);
                continue;
            }
            bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(*size) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        }
        bytes
    }

    /// Reads them in pieces as a connection does, carrying over what is not used.
    fn received(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let (mut bodies, mut body, mut reader) = (Vec::new(), Vec::new(), Reader::default());
        let (mut carried, mut at) = (Vec::new(), 0usize);
        for piece in cuts.iter().map(|cut| cut % 97).chain([usize::MAX]) {
            let end = at.saturating_add(piece).min(bytes.len());
            carried.extend_from_slice(&bytes[at..end]);
            at = end;
            let mut used = 0;
            loop {
                let (part, length) = reader.step(&carried[used..]).unwrap();
                used += length;
                match part {
                    Part::Head(status) => assert_eq!(status, 200),
                    Part::Body(piece) => body.extend_from_slice(piece),
                    Part::End => bodies.push(std::mem::take(&mut body)),
                    Part::Incomplete => break,
                }
            }
            carried.drain(..used);
        }
        assert!(carried.is_empty() && body.is_empty());
        bodies
    }

    proptest! {
        #[test]
        fn cuts_anywhere_change_nothing(
            bodies in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..300), 0usize..40), 1..10),
            cuts in prop::collection::vec(any::<usize>(), 0..100),
        ) {
            let expected: Vec<_> = bodies.iter().map(|(body, _)| body.clone()).collect();
            prop_assert_eq!(received(&written(&bodies), &cuts), expected);
        }

        #[test]
        fn any_bytes_are_an_answer_not_a_panic(
            head in prop::sample::select(vec![
                "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            ]),
            rest in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"\r\n:; 0aF".to_vec())], 0..200),
        ) {
            let bytes = [head.as_bytes(), &rest].concat();
            let _ = take(&bytes);
        }
    }
}
