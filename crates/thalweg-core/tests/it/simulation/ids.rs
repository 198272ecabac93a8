use thalweg_wire::incoming::Kind;

use super::{
    chunks::around_len,
    tally::{Situation, Tally},
};

/// The number of topics whose gaps one send can take.
pub(super) const AT_ONCE: usize = 16;

/// How often a connection of several topics has named the cursors of all.
pub(super) struct Ids {
    is_chunked: bool,
    /// The bytes of the last `id`, and of frames since then.
    id_bytes: u64,
    frame_bytes: u64,
}

impl Ids {
    pub(super) fn new(is_chunked: bool) -> Self {
        Self { is_chunked, id_bytes: 0, frame_bytes: 0 }
    }

    /// Checks a frame of so many bytes. A gap has an id. Events have one if the frames since the last id have at
    /// least as many bytes as it, neither more nor less often. The first of several confirmations always has one.
    pub(super) fn check(
        &mut self,
        kind: &Kind<'_>,
        id: Option<&str>,
        bytes: u64,
        tally: &mut Tally,
    ) {
        let mut ending_bytes = id.map_or(1, |id| ("id:\n\n".len() + id.len()) as u64);
        if self.is_chunked {
            ending_bytes += around_len(ending_bytes);
        }
        let frame_bytes = self.frame_bytes + bytes - ending_bytes;
        match kind {
            Kind::Gap(_) | Kind::End(_) => assert!(id.is_some(), "a gap or an end without an id"),
            Kind::Events(events) if events.is_empty() && id.is_some() => {}
            Kind::Events(_) | Kind::Patch(..) => {
                let is_due = frame_bytes >= self.id_bytes;
                assert_eq!(id.is_some(), is_due, "{frame_bytes} after {}", self.id_bytes);
            }
            _ => return assert_eq!(id, None),
        }
        tally.saw_if(Situation::WithoutId, id.is_none());
        match id {
            Some(_) => (self.id_bytes, self.frame_bytes) = (ending_bytes, 0),
            None => self.frame_bytes = frame_bytes,
        }
    }
}
