//! HTTP/1.1 responses (RFC 9112): heads, and bodies as they arrive. The parser keeps no bytes; the caller passes unused ones again.

use super::carrier::{self, CarrierError, MESSAGE_BYTES_MAX, TOO_LONG};
use anyhow::bail;
use httparse::{EMPTY_HEADER, Error, Header, Status, parse_chunk_size};
use std::borrow::Cow;
use std::ops::Range;

/// Limit of a head, with room for the cookies of a large site.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Limit of the fields of a head.
const FIELDS_MAX: usize = 128;
/// Limit of a chunk's size with its extensions, and of a line of the trailer.
const LINE_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) status: u16,
    minor_version: u8,
    reason: &'a str,
    fields: &'a [Header<'a>],
}

impl Head<'_> {
    /// Reads the head at the beginning of the bytes; returns `read`'s result and the head's length, or `None` while it is incomplete.
    pub(super) fn read<T>(
        bytes: &[u8],
        read: impl FnOnce(&Head<'_>) -> T,
    ) -> Result<Option<(T, usize)>, CarrierError> {
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(bytes) {
            Ok(Status::Complete(length)) => {
                let status = response.code.unwrap_or_default();
                let reason = response.reason.unwrap_or_default();
                let minor_version = response.version.unwrap_or_default();
                let head = Head { status, minor_version, reason, fields: response.headers };
                Ok(Some((read(&head), length)))
            }
            Ok(Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => Ok(None),
            Ok(Status::Partial) => Err(wrong("a head that does not end within 64 KiB")),
            Err(Error::Version) => {
                Err(wrong(format!("something that is not HTTP/1.1: \"{}\"", beginning(bytes))))
            }
            Err(error) => {
                Err(wrong(format!("a head that is not HTTP's ({error}): \"{}\"", beginning(bytes))))
            }
        }
    }

    /// Returns the status line, e.g. `503 Service Unavailable`.
    pub(super) fn status_line(&self) -> String {
        shown(&format!("{} {}", self.status, self.reason))
    }

    /// Returns the version, e.g. `HTTP/1.1`.
    pub(super) fn version(&self) -> String {
        format!("HTTP/1.{}", self.minor_version)
    }

    /// Returns whether the final response is yet to come (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    pub(super) fn field<'a>(&'a self, name: &'a str) -> Option<Cow<'a, str>> {
        self.values(name).next()
    }

    /// Returns every element of a field that is a list, in lower case (RFC 9110 §5.6.1).
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let mut elements = Vec::new();
        for value in self.values(name) {
            let value = value.to_ascii_lowercase();
            let found = value.split(',').map(str::trim).filter(|element| !element.is_empty());
            elements.extend(found.map(str::to_owned));
        }
        elements
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
        let fields = self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        fields.map(|field| String::from_utf8_lossy(field.value.trim_ascii()))
    }
}

/// How a body is delimited (RFC 9112 §6.3), and how far the parser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked(Chunk),
    UntilEnd,
}

/// Position of the next byte in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    Size,
    /// In a chunk with this many bytes left.
    Data(u64),
    /// After a chunk, before the end of its line.
    End,
    /// After the last chunk.
    Trailer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponsePart<'a> {
    /// A response begins, with this status.
    Head(u16),
    Body(&'a [u8]),
    /// The next byte is the next response's.
    End,
    Incomplete,
}

impl Body {
    pub(super) fn from_head(head: &Head<'_>) -> Result<Body, CarrierError> {
        if head.status < 200 || matches!(head.status, 204 | 304) {
            return Ok(Body::Length(0));
        }
        let codings = head.list("transfer-encoding");
        match &codings[..] {
            [] => {}
            [only] if only == "chunked" => return Ok(Body::Chunked(Chunk::Size)),
            _ => {
                let codings = shown(&codings.join(", "));
                return Err(wrong(format!(
                    "the transfer coding {codings}, which was not asked for"
                )));
            }
        }
        let lengths = head.list("content-length");
        let Some(first) = lengths.first() else { return Ok(Body::UntilEnd) };
        let is_length = first.bytes().all(|byte| byte.is_ascii_digit());
        match first.parse() {
            Ok(length) if is_length && lengths.iter().all(|length| length == first) => {
                Ok(Body::Length(length))
            }
            _ => Err(wrong(format!(
                "the Content-Length {} (RFC 9112 §6.3)",
                shown(&lengths.join(", "))
            ))),
        }
    }

    /// Returns the next part, and its length.
    #[inline]
    pub(super) fn step<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<(ResponsePart<'a>, usize), CarrierError> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self {
                Body::Length(0) => return Ok((ResponsePart::End, used)),
                Body::Chunked(Chunk::Data(0)) => *self = Body::Chunked(Chunk::End),
                _ if rest.is_empty() => return Ok((ResponsePart::Incomplete, used)),
                Body::UntilEnd => return Ok((ResponsePart::Body(rest), bytes.len())),
                Body::Length(left) | Body::Chunked(Chunk::Data(left)) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= length as u64;
                    return Ok((ResponsePart::Body(&rest[..length]), used + length));
                }
                Body::Chunked(place) => {
                    let Some((length, next)) = place.pass(rest)? else {
                        return Ok((ResponsePart::Incomplete, used));
                    };
                    used += length;
                    *self = next;
                }
            }
        }
    }

    /// Returns the number of announced bytes that are still to come.
    fn announced_bytes(&self) -> u64 {
        match self {
            Body::Length(left) | Body::Chunked(Chunk::Data(left)) => *left,
            _ => 0,
        }
    }
}

impl Chunk {
    /// Passes a line between the data of chunks; returns its length and what follows.
    #[inline]
    fn pass(self, bytes: &[u8]) -> Result<Option<(usize, Body)>, CarrierError> {
        const END: &[u8] = b"\r\n";
        let passed = match self {
            Chunk::Size => match parse_chunk_size(bytes) {
                Ok(Status::Complete((length, 0))) => Some((length, Chunk::Trailer)),
                Ok(Status::Complete((length, size))) => Some((length, Chunk::Data(size))),
                Ok(Status::Partial) => None,
                Err(_) => return Err(no_size(bytes)),
            },
            Chunk::End | Chunk::Data(_) if bytes.starts_with(END) => Some((2, Chunk::Size)),
            Chunk::End | Chunk::Data(_) if END.starts_with(bytes) => None,
            Chunk::End | Chunk::Data(_) => {
                return Err(wrong("a chunk that is longer than its size (RFC 9112 §7.1)"));
            }
            Chunk::Trailer if bytes.starts_with(END) => return Ok(Some((2, Body::Length(0)))),
            Chunk::Trailer => {
                memchr::memmem::find(bytes, END).map(|end| (end + END.len(), Chunk::Trailer))
            }
        };
        match passed {
            // The parser accepts a size without digits as 0.
            _ if self == Chunk::Size && !bytes[0].is_ascii_hexdigit() => Err(no_size(bytes)),
            None if bytes.len() > LINE_BYTES_MAX => {
                Err(wrong("a line of the chunked coding that has no end (RFC 9112 §7.1)"))
            }
            None => Ok(None),
            Some((length, next)) => Ok(Some((length, Body::Chunked(next)))),
        }
    }
}

fn no_size(bytes: &[u8]) -> CarrierError {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    wrong(format!("\"{}\" for the size of a chunk (RFC 9112 §7.1)", beginning(line)))
}

/// Parses consecutive responses that leave the connection open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reader(Option<Body>);

impl Reader {
    #[inline]
    pub(super) fn step<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<(ResponsePart<'a>, usize), CarrierError> {
        let Some(body) = &mut self.0 else {
            let Some(opening) = FinalHead::read(bytes)? else {
                return Ok((ResponsePart::Incomplete, 0));
            };
            if opening.body == Body::UntilEnd {
                let head = beginning(bytes);
                return Err(wrong(format!("a response of unknown length: \"{head}\"")));
            }
            self.0 = Some(opening.body);
            return Ok((ResponsePart::Head(opening.status), opening.head.end));
        };
        let (part, used) = body.step(bytes)?;
        if part == ResponsePart::End {
            self.0 = None;
        }
        Ok((part, used))
    }
}

/// The head of the final response, after any interim ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FinalHead {
    pub(super) status: u16,
    pub(super) head: Range<usize>,
    pub(super) body: Body,
}

impl FinalHead {
    /// Reads the opening at the beginning of the bytes; `None` while it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<FinalHead>, CarrierError> {
        let mut start = 0;
        loop {
            let read = |head: &Head<'_>| (head.status, head.is_interim(), Body::from_head(head));
            let Some(((status, is_interim, body), length)) = Head::read(&bytes[start..], read)?
            else {
                return Ok(None);
            };
            let head = start..start + length;
            if !is_interim {
                return Ok(Some(FinalHead { status, head, body: body? }));
            }
            start = head.end;
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Length of the head.
    pub(super) head_length: usize,
    /// Length of head and body.
    pub(super) length: usize,
}

/// Takes the response at the beginning of the bytes; `None` while it is incomplete. Refuses one longer than any message at once.
pub(super) fn take(bytes: &[u8]) -> anyhow::Result<Option<HttpResponse>> {
    let (mut reader, mut response) = (Reader::default(), HttpResponse::default());
    loop {
        let (part, length) = reader.step(&bytes[response.length..])?;
        response.length += length;
        match part {
            ResponsePart::Head(status) => {
                (response.status, response.head_length) = (status, response.length);
            }
            ResponsePart::Body(piece) => response.body.extend_from_slice(piece),
            ResponsePart::End => return Ok(Some(response)),
            ResponsePart::Incomplete => break,
        }
    }
    let announced_bytes = reader.0.map_or(0, |body| body.announced_bytes());
    if announced_bytes.saturating_add(bytes.len() as u64) > MESSAGE_BYTES_MAX as u64 {
        bail!("{TOO_LONG}: {}", beginning(bytes));
    }
    Ok(None)
}

/// Returns a text as a short line for error messages.
pub(super) fn shown(text: &str) -> String {
    text.trim().chars().take(200).flat_map(char::escape_debug).collect()
}

fn beginning(bytes: &[u8]) -> String {
    shown(&carrier::shown(bytes))
}

fn wrong(what: impl Into<Cow<'static, str>>) -> CarrierError {
    CarrierError(what.into())
}

#[cfg(test)]
mod tests;
