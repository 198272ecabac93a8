/// While this many bytes of control messages are unsent, no events are planned, because planning events may
/// add further control messages, for example gaps, whose ids may be long.
pub(super) const CONTROL_BYTES_MAX: usize = 64 << 10;

/// Frames that only this subscriber gets (confirmations, gaps, replies, …). They are sent before shared
/// frames, at the next frame boundary.
#[derive(Debug, Default)]
pub(super) struct Control {
    bytes: Vec<u8>,
    sent: usize,
}

impl Control {
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn frames(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Puts the rest of a partly sent trailer in front, because it must be sent before anything else.
    pub(super) fn put_back(&mut self, rest: &[u8]) {
        self.bytes.splice(..self.sent, rest.iter().copied());
        self.sent = 0;
    }

    pub(super) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.bytes.len() {
            // This frees the memory of an idle connection.
            *self = Self::default();
        } else if self.sent > self.bytes.len() / 2 {
            // This removes sent bytes even if some bytes always wait.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_freed_even_if_some_bytes_always_wait() {
        let mut control = Control::default();
        for _ in 0..10_000 {
            control.frames().extend_from_slice(&[0; 100]);
            let waiting = control.unsent().len();
            control.advance(waiting - 1);
        }
        assert!(control.bytes.capacity() < 1_000, "{}", control.bytes.capacity());
    }
}
