use std::borrow::Cow;

use thalweg_wire::{Format, Offset};

use super::{
    super::{
        Backfill, Cursor, Frames, Next,
        cursor::COLD,
        kept_frames::{KeptFrame, KeptFrames, Target},
    },
    Value,
};

/// Documents of at least this many bytes are sent from the batch's own memory.
const ZERO_COPY_BYTES: usize = 4 << 10;

/// A value as subscribers of one format read it.
#[derive(Debug, Clone, Copy)]
pub struct ValueFrames<'a> {
    value: &'a Value,
    format: Format,
    kept: Option<&'a KeptFrames>,
}

impl<'a> ValueFrames<'a> {
    pub(super) fn new(value: &'a Value, format: Format) -> Self {
        Self { value, format, kept: value.frames.get(format) }
    }

    /// Returns the finished frame from one version to another, if it is kept.
    fn kept_frame(&self, previous: Offset, target: Target) -> Option<&'a KeptFrame> {
        let frames = self.kept?;
        let newest = frames.newest.as_deref();
        if let Some(newest) =
            newest.filter(|newest| (newest.previous, newest.target) == (previous, target))
        {
            return Some(newest);
        }
        let is_newest = target.offset + 1 == self.value.next && self.value.has_version();
        if previous > 0 || self.format.keeps_events() || !is_newest {
            return None;
        }
        let whole: &KeptFrame = frames.whole.get_or_init(|| {
            let mut bytes = Vec::new();
            if let Some(content) = self.value.content(previous, target) {
                self.format.batch(&self.value.envelope(previous, target, &content), &mut bytes);
            }
            Box::new(KeptFrame { previous, target, bytes, made_us: 0 })
        });
        Some(whole)
    }

    fn target(&self, cursor: &Cursor) -> Option<Target> {
        let is_behind = cursor.next < self.value.next && self.value.has_version();
        let next = || self.value.target_after(cursor.next.saturating_sub(1), self.format);
        Target::at(cursor).or_else(|| is_behind.then(next))
    }
}

impl<'a> Frames<'a> for ValueFrames<'a> {
    fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a> {
        match self.kept(cursor, one_frame) {
            Some(([], _)) => return Next::Nothing,
            Some((bytes, after)) => return Next::Hot(bytes, after),
            None => {}
        }
        let previous = cursor.next.saturating_sub(1);
        let Some(target) = self.target(cursor) else {
            // All readers behind the head need the same version. A reader ahead of the head waits.
            let is_behind = cursor.next < self.value.next;
            if is_behind && self.value.needs_backfill(cursor.next) {
                return Next::Backfill(0);
            }
            return match self.value.has_lost(cursor.next) {
                true => Next::Unknown(Cursor::told_unknown()),
                false => Next::Nothing,
            };
        };
        let after = Cursor::before(target.offset + 1);
        let rest = |content: &'a [u8], scratch: &mut Vec<u8>| {
            let is_large = content.len() >= ZERO_COPY_BYTES;
            let envelope = self.value.envelope(previous, target, content);
            Next::cold(&envelope, self.format.into(), is_large, cursor.sent(), after, scratch)
        };
        match self.value.content(previous, target) {
            Some(Cow::Borrowed(content)) => rest(content, scratch),
            Some(Cow::Owned(content)) => {
                let envelope = self.value.envelope(previous, target, &content);
                let sent = cursor.sent();
                match Next::cold(&envelope, self.format.into(), false, sent, after, scratch) {
                    Next::Cold { before, .. } => Next::Cold { before, events: &[], after },
                    _ => Next::Nothing,
                }
            }
            None => Next::Nothing,
        }
    }

    fn kept(&self, cursor: &Cursor, _one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        if cursor.next == self.value.next && !cursor.in_frame() {
            return Some((&[], *cursor));
        }
        let target = self.target(cursor)?;
        let frame = self.kept_frame(cursor.next.saturating_sub(1), target)?;
        Some((&frame.bytes[cursor.sent()..], Cursor::before(target.offset + 1)))
    }

    fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor {
        let hot = self.target(cursor).map_or(COLD, Target::to_hot);
        Cursor { sent: cursor.sent + sent as u32, hot, ..*cursor }
    }
}
