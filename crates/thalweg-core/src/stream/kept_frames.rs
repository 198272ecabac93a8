use std::cell::OnceCell;

use thalweg_wire::Offset;

use super::{Cursor, cursor::COLD};

/// Finished frames of the newest version in one format.
#[derive(Debug, Default)]
pub(super) struct KeptFrames {
    /// The frame for subscribers that have the previous version.
    pub(super) newest: Option<Box<KeptFrame>>,
    /// The frame for subscribers without a version. If the format changes events, the first such subscriber
    /// makes the frame.
    pub(super) whole: OnceCell<Box<KeptFrame>>,
    /// The number of sweeps without a user of the format. `None` if it has users.
    pub(super) unused_sweeps: Option<u8>,
}

impl KeptFrames {
    pub(super) fn clear(&mut self) {
        self.newest = None;
        self.whole.take();
    }
}

#[derive(Debug)]
pub(super) struct KeptFrame {
    pub(super) previous: Offset,
    pub(super) target: Target,
    pub(super) bytes: Vec<u8>,
    pub(super) made_us: u64,
}

/// The version that a frame leads to, as a document or by patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) offset: Offset,
    pub(super) is_patch: bool,
}

impl Target {
    /// Set in a cursor's `hot` for a patch. Offsets have at most 53 bits.
    const PATCH: u64 = 1 << 62;

    pub(super) fn at(cursor: &Cursor) -> Option<Self> {
        let is_in_frame = cursor.in_frame() && cursor.hot != COLD;
        is_in_frame.then_some(Self {
            offset: cursor.hot & !Self::PATCH,
            is_patch: cursor.hot & Self::PATCH != 0,
        })
    }

    pub(super) fn to_hot(self) -> u64 {
        self.offset | if self.is_patch { Self::PATCH } else { 0 }
    }
}
