//! Server-Sent Events (WHATWG HTML §9.2.6), all of it: lines that end in CR, LF
//! or both, a byte order mark, several data lines, comments, fields of any name.

use super::protocol_session::{Handler, Kind, Malformed};
use super::{MESSAGE_BYTES_MAX, protocol_session};
use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What has come of a line and an event. Takes bytes however they are cut.
#[derive(Debug, Default)]
pub(super) struct Sse {
    /// Part of a line.
    line: Vec<u8>,
    /// Data lines so far, joined by line feeds; `None` before the first.
    data: Option<Vec<u8>>,
    /// The last byte was a CR: an LF now belongs to it.
    is_behind_cr: bool,
    /// The first line is over, which may begin with a byte order mark.
    is_begun: bool,
}

impl Sse {
    #[inline]
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), Malformed> {
        if !bytes.is_empty() && std::mem::take(&mut self.is_behind_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        // The only data line so far, where it came.
        let mut held: Option<&[u8]> = None;
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let line = &bytes[..end];
            bytes = match &bytes[end..] {
                b"\r" => {
                    self.is_behind_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] => rest,
                rest => &rest[1..],
            };
            if self.line.is_empty() && self.is_begun {
                self.line(line, &mut held, handler)?;
            } else {
                self.long_line(line, handler)?;
            }
        }
        if let Some(data) = held {
            self.data = Some(data.to_vec());
        }
        self.keep(bytes)
    }

    /// A line that came in parts, or the first.
    fn long_line(&mut self, end: &[u8], handler: &mut impl Handler) -> Result<(), Malformed> {
        self.keep(end)?;
        let line = std::mem::take(&mut self.line);
        let mut rest = &line[..];
        if !std::mem::replace(&mut self.is_begun, true) {
            rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest);
        }
        let mut held = None;
        self.line(rest, &mut held, handler)?;
        if let Some(data) = held {
            self.data = Some(data.to_vec());
        }
        Ok(())
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.line.len() + part.len() > MESSAGE_BYTES_MAX {
            return protocol_session::too_long();
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    #[inline]
    fn line<'a>(
        &mut self,
        line: &'a [u8],
        held: &mut Option<&'a [u8]>,
        handler: &mut impl Handler,
    ) -> Result<(), Malformed> {
        if line.is_empty() {
            if let Some(data) = held.take() {
                handler.on_message(Kind::Text, data);
            } else if let Some(data) = self.data.take() {
                handler.on_message(Kind::Text, &data);
            }
            return Ok(());
        }
        let Some(rest) = line.strip_prefix(b"data") else {
            if line[0] == b':' {
                handler.on_sign_of_life();
            }
            return Ok(());
        };
        let value = match rest {
            [] => rest,
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            // A field of another name.
            _ => return Ok(()),
        };
        match (&mut self.data, held.take()) {
            (None, None) => *held = Some(value),
            (None, Some(first)) => self.data = Some([first, b"\n", value].concat()),
            (Some(data), _) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
        }
        match &self.data {
            Some(data) if data.len() > MESSAGE_BYTES_MAX => protocol_session::too_long(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
