//! A forever frame: each frame ends with the opening tag of the next script. When the document is too long,
//! the client loads it again.

use thalweg_wire::{Format, StartAt, format::forever_frame_opening};

use super::{super::ids::Ids, own_frames::OwnFrames};

/// A document that grows with each frame.
#[derive(Debug, Clone)]
pub struct ForeverDocument {
    nonce: Box<str>,
    /// Bytes left until the client is told to reload the document.
    bytes_left: u64,
}

impl ForeverDocument {
    pub(super) fn new(nonce: &str, bytes_max: u64) -> Self {
        Self { nonce: nonce.into(), bytes_left: bytes_max }
    }
}

impl OwnFrames for ForeverDocument {
    fn trailer(
        &self,
        format: Format,
        ids: Ids,
        _frame_bytes: usize,
        _cursors: impl Iterator<Item = StartAt>,
        out: &mut Vec<u8>,
    ) -> Ids {
        self.end_own(format, out);
        ids
    }

    fn end_own(&self, format: Format, out: &mut Vec<u8>) {
        format.own(out, |out| forever_frame_opening(&self.nonce, out));
    }

    fn is_full_after(&mut self, bytes: usize) -> bool {
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
        self.bytes_left == 0
    }
}
