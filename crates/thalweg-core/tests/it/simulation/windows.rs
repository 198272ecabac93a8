use thalweg_wire::Offset;

/// A simple model of a window, as its contract defines it: every frame that was sent and not acked is remembered.
pub(super) struct Window {
    bytes_max: u64,
    /// One past the last event of each frame, and its bytes.
    frames: Vec<(Offset, u64)>,
    /// Bytes that the client may not have acked when it began again.
    before_again: u64,
    /// Bytes acked since the current frame was begun.
    acked_since: u64,
    /// Whether a frame was so small that the server may not tell it from the next.
    may_be_merged: bool,
}

/// Acks may open a window later by this part of it.
const PART_MAX: u64 = 64;

impl Window {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            frames: Vec::new(),
            before_again: 0,
            acked_since: 0,
            may_be_merged: false,
        }
    }

    pub(super) fn unacked(&self) -> u64 {
        self.frames.iter().map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn sent(&mut self, next: Offset, bytes: u64) {
        let ahead = self.unacked() + self.acked_since;
        let is_right = ahead == 0 || ahead + bytes <= self.bytes_max;
        assert!(is_right, "{bytes} bytes sent, {ahead} ahead, a window of {}", self.bytes_max);
        self.frames.push((next, bytes));
        self.may_be_merged |= bytes < self.bytes_max / PART_MAX;
    }

    /// The client begins again at the first offset. Any ack of it covers the frames before.
    pub(super) fn begin_again(&mut self) {
        self.before_again += self.unacked();
        self.frames.clear();
    }

    pub(super) fn between_frames(&mut self) {
        self.acked_since = 0;
    }

    pub(super) fn ack(&mut self, offset: Offset, is_in_frame: bool) {
        let before = self.unacked();
        self.before_again = 0;
        self.frames.retain(|(next, _)| *next > offset + 1);
        if is_in_frame {
            self.acked_since += before - self.unacked();
        }
    }

    /// Whether a frame of so many bytes (`None`: unknown) must be sent.
    pub(super) fn must_admit(&self, bytes: Option<u64>) -> bool {
        let part = if self.may_be_merged { self.bytes_max / PART_MAX } else { 0 };
        let ahead = self.unacked() + self.before_again;
        let fits = |bytes| ahead + part + bytes <= self.bytes_max;
        ahead == 0 || ahead < self.bytes_max && bytes.is_some_and(fits)
    }
}
