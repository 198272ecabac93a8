//! HTTP streaming: a message a line (`application/x-ndjson`), ended by LF or CRLF.

use super::{Incoming, Kind, Step};
use memchr::memchr;

#[inline]
pub(super) fn step(bytes: &[u8], searched: usize) -> Step<'_> {
    match memchr(b'\n', &bytes[searched..]) {
        None => Step::Incomplete { searched: bytes.len() },
        Some(length) => {
            let end = searched + length;
            let incoming = match without_cr(&bytes[..end]) {
                [] => Incoming::SignOfLife,
                line => Incoming::Message(Kind::Text, line),
            };
            Step::Incoming(incoming, end + 1)
        }
    }
}

/// The last line, if the body has ended without ending it.
pub(in crate::swarm) fn last(rest: &[u8]) -> Option<Incoming<'_>> {
    let line = without_cr(rest);
    (!line.is_empty()).then_some(Incoming::Message(Kind::Text, line))
}

#[inline]
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
