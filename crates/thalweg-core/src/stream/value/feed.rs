//! A value as a feed.

use std::sync::Arc;

use thalweg_wire::{Before, Epoch, Format, Offset, StartAt, Topic};

use super::{
    super::{Backfill, Batch, Cursor, Encoding, Feed, Memory, Offsets, Start, batch::Retained},
    PAUSE_BITS_MAX, PatchFailures, Value, ValueFrames,
};

impl Feed for Value {
    type Frames<'a, 'e> = ValueFrames<'a>;

    #[inline]
    fn frames<'a>(&'a self, encoding: Encoding<'_>) -> ValueFrames<'a> {
        ValueFrames::new(self, encoding.format())
    }

    fn is_state(&self) -> bool {
        true
    }

    fn frame_format(&self, format: Format) -> Format {
        format
    }

    // A version that was trimmed for lack of memory will not come.
    fn has_all(&self, cursor: &Cursor) -> bool {
        !cursor.in_frame() && (!self.has_version() || cursor.next >= self.next)
    }

    fn first_readable(&self) -> Offset {
        self.next - u64::from(self.has_version())
    }

    fn retained_events(&self) -> usize {
        self.has_version().into()
    }

    // A cursor at 0 has no version, like one at 1.
    fn events_from(&self, from: Offset) -> u64 {
        self.next.saturating_sub(from.max(1))
    }

    // All readers that lack the newest version get the same one.
    fn frame_after(&self, _cursor: &Cursor) -> Offset {
        self.next
    }

    fn batch_at(&self, _offset: Offset) -> Option<&Arc<Batch>> {
        None
    }

    fn published_us(&self, _offset: Offset) -> Option<u64> {
        self.newest.as_ref().map(|batch| batch.published_us())
    }

    fn confirmed_after(&self, cursor: &Cursor) -> Before {
        Before::Version(cursor.next.saturating_sub(1))
    }

    fn topic(&self) -> &Topic {
        &self.topic
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn head(&self) -> Offset {
        self.next
    }

    // A subscription continues from the version that its client has, if that is possible. A subscription ahead of the newest version
    // waits until the stream has passed its position, if there is or was such a version. Its value is unknown if it has a version
    // that cannot be continued, or if there was a newer one and the newest is not here.
    fn start(&self, at: StartAt) -> Start {
        let (next, had_other) = match at.without_until() {
            StartAt::After(position) if position.epoch == self.epoch => {
                (position.offset + 1, false)
            }
            StartAt::After(position) => (1, position.offset > 0),
            StartAt::Latest
            | StartAt::Earliest
            | StartAt::Newest(_)
            | StartAt::Since(_)
            | StartAt::Within(..) => (1, false),
        };
        if self.is_unsure(next) {
            return Start::Backfill(next);
        }
        let is_given = next <= self.next || self.ahead.is_given(next) != Some(false);
        let (next, had_other) = if is_given { (next, had_other) } else { (1, true) };
        if had_other && self.needs_backfill(0) {
            // The broker may have the version.
            return Start::Backfill(0);
        }
        // A subscriber at offset 0 knows that it has no version. If it were told again, each of its polls would end at once.
        let knows = matches!(at, StartAt::After(position) if position.offset == 0);
        match (self.has_lost(next), knows) {
            (true, true) => Start::At(Cursor::told_unknown()),
            (true, false) => Start::Unknown(Cursor::told_unknown()),
            (false, _) if had_other && !self.has_version() => {
                Start::Unknown(Cursor::told_unknown())
            }
            (false, _) => Start::At(Cursor::before(next)),
        }
    }

    fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        self.newest.iter().map(|batch| &**batch).filter(move |batch| batch.end() > from)
    }

    // The last event of a batch is the newest version. A batch that a backfill has brought already is dropped.
    fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        if batch.end() <= self.next {
            return;
        }
        self.previous = if self.newest.is_some() { self.next - 1 } else { 0 };
        self.next = batch.end();
        self.patches.push(batch.patch(), self.previous, batch.last_event().len());
        self.newest = Some(Retained::new(batch));
        self.keep_frames(now_us);
    }

    fn skip_to(&mut self, head: Offset) {
        if head <= self.next {
            return;
        }
        self.next = head;
        self.trim_all(usize::MAX, u64::MAX);
        self.is_elsewhere = self.offsets == Offsets::Stored;
    }

    // After each failure in a row, more versions are sent whole before the next try. A version after missing
    // ones has no patch, because other shards could not use it.
    fn make_patch(&mut self, batch: &Batch, mut is_over: impl FnMut() -> bool) -> Option<bool> {
        let takes_patches = self.frames.iter().any(|(format, _)| format.takes_patches());
        let newest =
            self.newest.as_ref().filter(|_| takes_patches && batch.start() == self.next)?;
        if self.failures.pause > 0 {
            self.failures.pause -= 1;
            return None;
        }
        if batch.patch().is_none() && is_over() {
            return None;
        }
        let is_made = batch.make_patch(newest.last_event(), is_over)?;
        self.failures = match (is_made, self.failures.in_a_row) {
            (true, _) => PatchFailures::default(),
            (false, before) => {
                let in_a_row = (before + 1).min(PAUSE_BITS_MAX);
                PatchFailures { in_a_row, pause: (1 << in_a_row) - 1 }
            }
        };
        Some(is_made)
    }
}
