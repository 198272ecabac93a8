//! HTTP streaming and long polling: one message per line.

use super::unread::{Malformed, Unread, text};

#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(super) unread: Unread,
}

impl Lines {
    pub(super) fn next(&mut self) -> Result<Option<String>, Malformed> {
        while let Some(line) = self.unread.until(b"\n")? {
            let line = line.trim_ascii();
            if !line.is_empty() {
                return text(line).map(Some);
            }
        }
        Ok(None)
    }
}
