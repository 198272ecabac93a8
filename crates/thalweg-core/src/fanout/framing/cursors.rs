//! Server-Sent Events of several topics: each frame ends with the cursors of all of them, or with a blank line.

use thalweg_wire::{Format, StartAt, format::sse_ids};

use super::{super::ids::Ids, own_frames::OwnFrames};

/// A connection whose frames end with its cursors.
#[derive(Debug, Clone, Copy)]
pub struct Cursors;

impl OwnFrames for Cursors {
    fn trailer(
        &self,
        format: Format,
        ids: Ids,
        frame_bytes: usize,
        cursors: impl Iterator<Item = StartAt>,
        out: &mut Vec<u8>,
    ) -> Ids {
        if !ids.is_due(frame_bytes) {
            format.own(out, |out| out.push(b'\n'));
            return ids.after_frame(frame_bytes);
        }
        let before = out.len();
        format.own(out, |out| sse_ids(cursors, out));
        Ids::after_id(out.len() - before)
    }

    // Ids name the cursors of all requested topics.
    fn keeps_ended(&self) -> bool {
        true
    }
}
