/// The state that decides which frames of a connection with several topics end with an id. An id names the cursors of all topics, and
/// may be longer than the frame. It is sent only when the frames since the last id have at least as many bytes as that id, so ids are at
/// most half of the sent bytes. A client that resumes at the last id gets the events after it again, and loses none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ids {
    /// Bytes of the last id. 0 before the first.
    id_bytes: u32,
    frame_bytes: u32,
}

impl Ids {
    pub(super) fn is_due(self, frame_bytes: usize) -> bool {
        self.after_frame(frame_bytes).frame_bytes >= self.id_bytes
    }

    pub(super) fn after_frame(self, frame_bytes: usize) -> Self {
        let frame_bytes = u32::try_from(frame_bytes).unwrap_or(u32::MAX);
        Self { frame_bytes: self.frame_bytes.saturating_add(frame_bytes), ..self }
    }

    pub(super) fn after_id(id_bytes: usize) -> Self {
        Self { id_bytes: u32::try_from(id_bytes).unwrap_or(u32::MAX), frame_bytes: 0 }
    }
}
