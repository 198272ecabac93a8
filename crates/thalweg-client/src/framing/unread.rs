//! Received bytes that are not parsed yet.

use crate::limits::MESSAGE_BYTES_MAX;

/// The reason why bytes are not a frame, as one clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a message is larger than {} MiB", MESSAGE_BYTES_MAX >> 20)]
    TooLarge,
    #[error("a message is not UTF-8")]
    NotUtf8,
    #[error("a script passes no string")]
    NoString,
}

/// A buffer that searches each byte once.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: Vec<u8>,
    /// The index of the first unread byte.
    at: usize,
    /// Bytes up to here hold no delimiter.
    searched: usize,
}

impl Unread {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.searched -= self.at;
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes before the next `end`, and removes both; `None` until `end` is there.
    pub(crate) fn until(&mut self, end: &[u8]) -> Result<Option<&[u8]>, Malformed> {
        let found = memchr::memmem::find(&self.bytes[self.searched..], end);
        self.take(found, end.len())
    }

    /// Returns the bytes before the next of two delimiters, and which of them it is.
    pub(crate) fn until_either(
        &mut self,
        one: u8,
        other: u8,
    ) -> Result<Option<(&[u8], u8)>, Malformed> {
        let found = memchr::memchr2(one, other, &self.bytes[self.searched..]);
        let end = found.and_then(|found| self.bytes.get(self.searched + found)).copied();
        Ok(self.take(found, 1)?.zip(end))
    }

    /// Skips one byte if it is next; returns whether any byte is next.
    pub(crate) fn skip(&mut self, byte: u8) -> bool {
        let next = self.bytes.get(self.at);
        let is_any = next.is_some();
        if next == Some(&byte) {
            self.at += 1;
            self.searched = self.searched.max(self.at);
        }
        is_any
    }

    fn take(&mut self, found: Option<usize>, end_len: usize) -> Result<Option<&[u8]>, Malformed> {
        let Some(found) = found else {
            // The last bytes may be the beginning of a delimiter.
            self.searched = self.at.max(self.bytes.len().saturating_sub(end_len - 1));
            let is_too_large = self.bytes.len() - self.at > MESSAGE_BYTES_MAX;
            return if is_too_large { Err(Malformed::TooLarge) } else { Ok(None) };
        };
        let (start, end) = (self.at, self.searched + found);
        self.at = end + end_len;
        self.searched = self.at;
        Ok(Some(&self.bytes[start..end]))
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<String, Malformed> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_cut_in_two_is_found() {
        let mut unread = Unread::default();
        unread.push(b"one</scr");
        assert_eq!(unread.until(b"</script>"), Ok(None));
        unread.push(b"ipt>two");
        assert_eq!(unread.until(b"</script>"), Ok(Some(&b"one"[..])));
        assert_eq!(unread.until(b"</script>"), Ok(None));
        unread.push(b"</script>");
        assert_eq!(unread.until(b"</script>"), Ok(Some(&b"two"[..])));
    }

    #[test]
    fn endless_messages_are_refused() {
        let mut unread = Unread::default();
        unread.push(&vec![b'x'; MESSAGE_BYTES_MAX]);
        assert_eq!(unread.until(b"\n"), Ok(None));
        unread.push(b"x");
        assert_eq!(unread.until(b"\n"), Err(Malformed::TooLarge));
    }
}
