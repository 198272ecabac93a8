//! Server-Sent Events (WHATWG HTML §9.2.6) in full: lines that end in CR, LF or both, a byte order mark, several data lines,
//! comments, fields of any name. The name and id of an event are not used.

use super::{CarrierError, CarrierStep, Incoming, Kind, Partial};
use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const DATA: &[u8] = b"data";

/// Decodes one step. `partial` is an event that is decoded line by line. A stream that `has_begun` is past its byte order mark.
#[inline]
pub(super) fn step<'a>(
    bytes: &'a [u8],
    searched: usize,
    has_begun: &mut bool,
    partial: &'a mut Option<Box<Partial>>,
) -> Result<CarrierStep<'a>, CarrierError> {
    if !*has_begun {
        if bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(bytes) {
            return Ok(CarrierStep::Incomplete { searched: 0 });
        }
        *has_begun = true;
        if bytes.starts_with(BYTE_ORDER_MARK) {
            return Ok(CarrierStep::Skip(BYTE_ORDER_MARK.len()));
        }
    }
    if partial.is_none()
        && let Some(step) = whole(bytes, searched)
    {
        return Ok(step);
    }
    line(bytes, searched, partial)
}

/// Decodes an event in the common form: one data line, then perhaps unused lines, all ended by LF; else returns `None`.
#[inline]
fn whole(bytes: &[u8], searched: usize) -> Option<CarrierStep<'_>> {
    if !bytes.starts_with(b"data:") {
        return None;
    }
    let Some(length) = memchr2(b'\n', b'\r', &bytes[searched..]) else {
        return Some(CarrierStep::Incomplete { searched: bytes.len() });
    };
    let end = searched + length;
    let data = &bytes[b"data:".len()..end];
    let mut at = end;
    while bytes[at] == b'\n' {
        let line = &bytes[at + 1..];
        match memchr2(b'\n', b'\r', line) {
            None => return Some(CarrierStep::Incomplete { searched: end }),
            Some(0) if line[0] == b'\n' => {
                let message = Incoming::Message(Kind::Text, without_space(data));
                return Some(CarrierStep::Incoming(message, at + 2));
            }
            Some(_) if line.starts_with(DATA) || line[0] == b':' => return None,
            Some(length) => at += 1 + length,
        }
    }
    None
}

/// Decodes one line of any event.
#[cold]
fn line<'a>(
    bytes: &'a [u8],
    searched: usize,
    partial: &'a mut Option<Box<Partial>>,
) -> Result<CarrierStep<'a>, CarrierError> {
    if let (Some(partial), Some(first)) = (partial.as_deref_mut(), bytes.first())
        && std::mem::take(&mut partial.is_behind_cr)
        && *first == b'\n'
    {
        return Ok(CarrierStep::Skip(1));
    }
    let Some(length) = memchr2(b'\n', b'\r', &bytes[searched..]) else {
        return Ok(CarrierStep::Incomplete { searched: bytes.len() });
    };
    let (line, end) = bytes.split_at(searched + length);
    let used = line.len() + if end.starts_with(b"\r\n") { 2 } else { 1 };
    // Without a begun event, a separate LF is an empty line without effect.
    let is_behind_cr = end == b"\r";
    if line.is_empty() {
        return Ok(match partial {
            Some(partial) => CarrierStep::Incoming(partial.finish(), used),
            None => CarrierStep::Skip(used),
        });
    }
    if let Some(value) = value(line) {
        match partial {
            Some(partial) => partial.push(b"\n")?,
            None => *partial = Some(Partial::begin(Kind::Text)),
        }
        if let Some(partial) = partial {
            partial.push(value)?;
        }
    }
    if let Some(partial) = partial {
        partial.is_behind_cr = is_behind_cr;
    }
    Ok(if line[0] == b':' {
        CarrierStep::Incoming(Incoming::SignOfLife, used)
    } else {
        CarrierStep::Skip(used)
    })
}

/// Returns the value of a data line.
fn value(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(DATA)? {
        [] => Some(&[]),
        [b':', value @ ..] => Some(without_space(value)),
        // A field of another name.
        _ => None,
    }
}

fn without_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}
