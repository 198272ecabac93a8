//! HTTP streaming: an event a line. Empty lines are signs of life.

use super::protocol_session::{Handler, Kind, Malformed};
use super::{MESSAGE_BYTES_MAX, protocol_session};
use memchr::memchr;

/// What has come of a line. Takes bytes however they are cut.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    #[inline]
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), Malformed> {
        while let Some(end) = memchr(b'\n', bytes) {
            if self.line.is_empty() {
                event(&bytes[..end], handler);
            } else {
                self.keep(&bytes[..end])?;
                event(&std::mem::take(&mut self.line), handler);
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes)
    }

    /// The answer is over: its last line may have no end.
    pub(super) fn finish(&mut self, handler: &mut impl Handler) {
        if !self.line.is_empty() {
            event(&std::mem::take(&mut self.line), handler);
        }
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.line.len() + part.len() > MESSAGE_BYTES_MAX {
            return protocol_session::too_long();
        }
        self.line.extend_from_slice(part);
        Ok(())
    }
}

#[inline]
fn event(line: &[u8], handler: &mut impl Handler) {
    match line.strip_suffix(b"\r").unwrap_or(line) {
        [] => handler.on_sign_of_life(),
        line => handler.on_message(Kind::Text, line),
    }
}
