//! HTTP streaming: an event a line. Empty lines are signs of life.

use super::voice::{Hear, Kind, Malformed};
use super::{MESSAGE_BYTES_MAX, voice};
use memchr::memchr;

/// What has come of a line. Takes bytes however they are cut.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    #[inline]
    pub(super) fn feed(&mut self, mut bytes: &[u8], hear: &mut impl Hear) -> Result<(), Malformed> {
        while let Some(end) = memchr(b'\n', bytes) {
            if self.line.is_empty() {
                event(&bytes[..end], hear);
            } else {
                self.keep(&bytes[..end])?;
                event(&std::mem::take(&mut self.line), hear);
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes)
    }

    /// The answer is over: its last line may have no end.
    pub(super) fn finish(&mut self, hear: &mut impl Hear) {
        if !self.line.is_empty() {
            event(&std::mem::take(&mut self.line), hear);
        }
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.line.len() + part.len() > MESSAGE_BYTES_MAX {
            return voice::too_long();
        }
        self.line.extend_from_slice(part);
        Ok(())
    }
}

#[inline]
fn event(line: &[u8], hear: &mut impl Hear) {
    match line.strip_suffix(b"\r").unwrap_or(line) {
        [] => hear.sign(),
        line => hear.event(Kind::Text, line),
    }
}
