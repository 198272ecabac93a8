//! A chunked body (RFC 9112 §7.1), read incrementally.

#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// An incomplete chunk, or data after the body.
    pub(super) unread: Vec<u8>,
    pub(super) has_ended: bool,
}

impl Chunks {
    /// Reads bytes, and appends the data of each complete chunk.
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
