/// When frames of a connection with several topics end with an id. It names the cursors
/// of them all, and is soon longer than the frame: so it comes once the frames since the
/// last one have as many bytes as that, and ids are at most half of what is sent. Whoever
/// resumes at the last id gets again what came after it, and loses nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ids {
    /// Bytes of the last one; 0 before the first.
    id_bytes: u32,
    /// Bytes of frames since then.
    frame_bytes: u32,
}

impl Ids {
    /// Whether a frame of so many bytes ends with one.
    pub(super) fn is_due(self, frame_bytes: usize) -> bool {
        self.after_frame(frame_bytes).frame_bytes >= self.id_bytes
    }

    /// The state after a frame that ends without one.
    pub(super) fn after_frame(self, frame_bytes: usize) -> Self {
        let frame_bytes = u32::try_from(frame_bytes).unwrap_or(u32::MAX);
        Self { frame_bytes: self.frame_bytes.saturating_add(frame_bytes), ..self }
    }

    /// The state after an id of so many bytes.
    pub(super) fn after_id(id_bytes: usize) -> Self {
        Self { id_bytes: u32::try_from(id_bytes).unwrap_or(u32::MAX), frame_bytes: 0 }
    }
}
