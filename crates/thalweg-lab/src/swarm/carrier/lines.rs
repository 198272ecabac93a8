//! HTTP streaming: one message per line (`application/x-ndjson`), ended by LF or CRLF.

use super::{Incoming, Kind};
use memchr::memchr_iter;

/// Decodes every whole line; the search skips the first `searched` bytes. Returns the number of bytes consumed, and how many of the
/// others need not be searched again.
#[inline]
pub(super) fn decode<E>(
    bytes: &[u8],
    searched: usize,
    mut on_message: impl FnMut(Incoming<'_>) -> Result<(), E>,
) -> Result<(usize, usize), E> {
    let mut used = 0;
    for end in memchr_iter(b'\n', &bytes[searched..]).map(|at| searched + at) {
        let incoming = match without_cr(&bytes[used..end]) {
            [] => Incoming::SignOfLife,
            line => Incoming::Message(Kind::Text, line),
        };
        used = end + 1;
        on_message(incoming)?;
    }
    Ok((used, bytes.len() - used))
}

/// Returns the last line, if the body ended without a line end.
pub(in crate::swarm) fn last(rest: &[u8]) -> Option<Incoming<'_>> {
    let line = without_cr(rest);
    (!line.is_empty()).then_some(Incoming::Message(Kind::Text, line))
}

#[inline]
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
