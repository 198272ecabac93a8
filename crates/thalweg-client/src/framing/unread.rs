//! Bytes that came and are not read yet.

use super::Malformed;
use crate::limits::MESSAGE_BYTES_MAX;

/// A buffer that is searched once: what was searched in vain is not searched again.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: Vec<u8>,
    /// Where the unread bytes begin.
    at: usize,
    /// Up to where they hold no end.
    searched: usize,
}

impl Unread {
    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.searched -= self.at;
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes before the next `end`, which is taken away; `None` until it is there.
    pub(crate) fn until(&mut self, end: &[u8]) -> Result<Option<&[u8]>, Malformed> {
        let found = memchr::memmem::find(&self.bytes[self.searched..], end);
        self.take(found, end.len())
    }

    /// The same, with either of two bytes for an end; which one it was.
    pub(crate) fn until_either(
        &mut self,
        one: u8,
        other: u8,
    ) -> Result<Option<(&[u8], u8)>, Malformed> {
        let found = memchr::memchr2(one, other, &self.bytes[self.searched..]);
        let end = found.and_then(|found| self.bytes.get(self.searched + found)).copied();
        Ok(self.take(found, 1)?.zip(end))
    }

    /// Takes one byte away if it is next; whether anything is next at all.
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
            // The last bytes may be the beginning of an end.
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

/// Bytes as a message's text.
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
    fn what_never_ends_is_refused() {
        let mut unread = Unread::default();
        unread.push(&vec![b'x'; MESSAGE_BYTES_MAX]);
        assert_eq!(unread.until(b"\n"), Ok(None));
        unread.push(b"x");
        assert_eq!(unread.until(b"\n"), Err(Malformed::TooLarge));
    }
}
