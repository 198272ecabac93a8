/// Frames for this subscriber alone: confirmations, gaps, heartbeats, answers,
/// the close. They go ahead of everybody's frames at the next frame boundary.
#[derive(Debug, Default)]
pub(super) struct Own {
    bytes: Vec<u8>,
    sent: usize,
}

impl Own {
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where to append whole frames.
    pub(super) fn frames(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.bytes.len() {
            // An idle connection keeps no memory for this.
            *self = Self::default();
        }
    }
}
