//! Server-sent events (WHATWG HTML §9.2.6). The message itself has its kind and position, so the parser skips
//! `event` and `id`.

use super::unread::{Malformed, Unread, text};
use crate::limits::MESSAGE_BYTES_MAX;

/// The data of events.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    pub(super) unread: Unread,
    data: Vec<u8>,
    /// Whether a line feed that comes next belongs to the carriage return before it.
    ended_with_return: bool,
    /// Whether the first line has begun: a byte order mark can only precede it.
    is_begun: bool,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl Sse {
    pub(super) fn next(&mut self) -> Result<Option<String>, Malformed> {
        loop {
            if self.ended_with_return {
                if !self.unread.skip(b'\n') {
                    return Ok(None);
                }
                self.ended_with_return = false;
            }
            let Some((line, end)) = self.unread.until_either(b'\n', b'\r')? else {
                return Ok(None);
            };
            self.ended_with_return = end == b'\r';
            let mut line = line;
            if !std::mem::replace(&mut self.is_begun, true) {
                line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            }
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if let Some(data) = data.strip_suffix(b"\n") {
                    return text(data).map(Some);
                }
            } else if let Some(value) = data_of(line) {
                if self.data.len() + value.len() > MESSAGE_BYTES_MAX {
                    return Err(Malformed::TooLarge);
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
        }
    }
}

/// Returns the value of a `data` line.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &str, expected: &[&str]) {
        for size in [1, 2, 3, stream.len().max(1)] {
            let mut sse = Sse::default();
            let mut found = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                sse.unread.push(piece);
                while let Some(message) = sse.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, expected, "{stream:?} in pieces of {size}");
        }
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check("data:1\nid:a\n\nevent:gap\ndata: 2\n\n", &["1", "2"]);
        check("data:1\r\n\r\ndata:2\r\rdata:3\n\n", &["1", "2", "3"]);
        check("data:a\ndata: b\ndata\ndata:  c\n\n", &["a\nb\n\n c"]);
        check("\u{feff}data:1\n\n\u{feff}data:2\n\n", &["1"]);
        check("data\n\n", &[""]);
    }

    #[test]
    fn lines_without_an_event_are_skipped() {
        check("retry:1000\n\n:comment\n\nid:9f.1,latest\n\n", &[]);
        check("retry:1437\ndata:1\nid:a\n\n", &["1"]);
        check("data:unfinished\n", &[]);
        check("datax:1\ndat:2\n\n", &[]);
    }
}
