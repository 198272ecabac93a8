//! A body in chunks (RFC 9112 §7.1), as it comes.

/// What of a body was read.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Not a whole chunk yet; behind the last one, what comes after the body.
    pub(super) unread: Vec<u8>,
    /// The last one has come.
    pub(super) has_ended: bool,
}

impl Chunks {
    /// Takes bytes, and appends the data of each chunk that is whole.
    pub(super) fn take(&mut self, bytes: &[u8], data: &mut Vec<u8>) {
        self.unread.extend_from_slice(bytes);
        while !self.has_ended {
            let line = self.unread.windows(2).position(|two| two == b"\r\n");
            let Some(line) = line else { return };
            let size = std::str::from_utf8(&self.unread[..line]).expect("the size of a chunk");
            let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
            let begin = line + 2;
            let Some(chunk) = self.unread.get(begin..begin + size + 2) else { return };
            let chunk = chunk.strip_suffix(b"\r\n").expect("a chunk of the size that it says");
            data.extend_from_slice(chunk);
            self.unread.drain(..begin + size + 2);
            self.has_ended = size == 0;
        }
    }
}
