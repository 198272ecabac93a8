use thalweg_wire::Offset;

/// Where a subscription is in a log: the next event it is to get, and how much
/// of the frame that begins with it is already sent.
///
/// It is a value: the sender replaces it with the cursor that came with the bytes sent. It
/// keeps nothing in the log alive, and stays correct whatever the log drops.
///
/// These two say everything. `hot` is the same point in the hot tail, if it is there. It makes
/// reading on as cheap as a slice, and may be lost at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub(super) next: Offset,
    /// Bytes sent of the frame that begins at `next`; 0 between frames.
    pub(super) sent: u32,
    /// Absolute byte in the hot tail, or [`COLD`], or [`COLD_PART`].
    pub(super) hot: u64,
}

/// No place in the hot tail.
pub(super) const COLD: u64 = u64::MAX;

/// No place in the hot tail, within a frame that has only some of the batch's events, because it was
/// made for this cursor alone.
pub(super) const COLD_PART: u64 = u64::MAX - 1;

impl Cursor {
    /// Between frames, before `next`.
    pub fn before(next: Offset) -> Self {
        Self { next, sent: 0, hot: COLD }
    }

    /// Of a value topic: between frames, with no version, and told that the newest one is unknown.
    pub(super) fn told_unknown() -> Self {
        Self::before(0)
    }

    /// The next event to get.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// Bytes sent of the frame that begins there.
    pub fn sent(&self) -> usize {
        self.sent as usize
    }

    /// Whether it has a place in the hot tail.
    pub(super) fn is_hot(&self) -> bool {
        self.hot < COLD_PART
    }

    /// Whether a frame that is made for it alone has only some of the batch's events.
    pub(super) fn wants_part(&self) -> bool {
        !self.in_frame() || self.hot == COLD_PART
    }

    /// Whether a frame was begun and not finished.
    pub fn in_frame(&self) -> bool {
        self.sent > 0
    }
}
