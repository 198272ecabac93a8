use thalweg_wire::Offset;

/// A window as its contract says it, by the plainest means: every frame sent and
/// not acked is remembered.
pub(super) struct Window {
    bytes_max: u64,
    /// One past the last event of each, and its bytes.
    frames: Vec<(Offset, u64)>,
    /// Acked since the frame under way was begun.
    acked_since: u64,
    /// Whether there were ever so many that the server may have merged some.
    may_be_merged: bool,
}

/// So many frames it must tell apart.
const FRAMES_APART: usize = 64;

impl Window {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, frames: Vec::new(), acked_since: 0, may_be_merged: false }
    }

    /// Bytes of frames sent and not acked.
    pub(super) fn unacked(&self) -> u64 {
        self.frames.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A frame of `bytes` was sent whole, up to the event before `next`.
    pub(super) fn sent(&mut self, next: Offset, bytes: u64) {
        let ahead = self.unacked() + self.acked_since;
        let is_right = ahead == 0 || ahead + bytes <= self.bytes_max;
        assert!(is_right, "{bytes} bytes sent, {ahead} ahead, a window of {}", self.bytes_max);
        self.frames.push((next, bytes));
        self.may_be_merged |= self.frames.len() > FRAMES_APART;
    }

    /// The next frame of the connection, whosever, is yet to be begun.
    pub(super) fn between_frames(&mut self) {
        self.acked_since = 0;
    }

    pub(super) fn ack(&mut self, offset: Offset, is_in_frame: bool) {
        let before = self.unacked();
        self.frames.retain(|(next, _)| *next > offset + 1);
        if is_in_frame {
            self.acked_since += before - self.unacked();
        }
    }

    /// Whether a frame of so many bytes (`None`: not known) must be sent.
    pub(super) fn must_admit(&self, bytes: Option<u64>) -> bool {
        let fits = |bytes| !self.may_be_merged && self.unacked() + bytes <= self.bytes_max;
        // At the very edge nothing fits, and nothing needs to be looked for.
        self.unacked() == 0 || self.unacked() < self.bytes_max && bytes.is_some_and(fits)
    }
}
