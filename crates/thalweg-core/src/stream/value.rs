use std::{borrow::Cow, sync::Arc};

use thalweg_wire::{Before, Envelope, Epoch, Format, Offset, StartAt, Topic};

use super::{
    Batch, Cursor, FormatMap, Offsets, Page, Start,
    batch::Retained,
    beyond::Beyond,
    kept_frames::{KeptFrame, KeptFrames, Target},
    pins::Pins,
    version_patch::{PatchPins, Patches},
};

/// Frames of at least this many bytes are not kept, if the format keeps events as they are: they
/// are sent to all from the batch's own memory, as three slices instead of one.
const KEPT_FRAME_BYTES_MAX: usize = 64 << 10;

/// A format that nobody uses is forgotten by the sweep after the next one.
const UNUSED_SWEEPS: u8 = 2;

/// How long a kept frame that nobody follows up keeps its memory, in µs.
const FRAME_IDLE_US: u64 = 2_000_000;

/// A topic whose newest event, its *version*, replaces the older ones, as one shard reads it.
///
/// A subscriber gets the newest version, and each newer one, unless a still newer one has come
/// meanwhile. Of a batch only the last event is a version. If a subscriber takes patches and has
/// a version that the short chain of patches begins at, it gets the patches from there on.
///
/// A cursor says which version a subscriber has (`next` is one past it; 1 is none; 0 is none, and it was
/// told that the newest one is unknown). Within a frame
/// `hot` says which frame it is (`Target`); the frame's bytes follow from the two, and from what
/// is pinned, whatever versions have come since.
#[derive(Debug)]
pub struct Value {
    topic: Topic,
    epoch: Epoch,
    offsets: Offsets,
    /// One past the newest version.
    pub(super) next: Offset,
    /// Whether the newest version may be stored elsewhere, while none is here.
    is_elsewhere: bool,
    beyond: Beyond,
    newest: Option<Retained>,
    /// What a subscriber that keeps up had before the newest version; 0: nothing.
    previous: Offset,
    patches: Patches,
    failures: PatchFailures,
    pub(super) frames: FormatMap<KeptFrames>,
    /// Versions whose frames are partly sent.
    pins: Pins,
    patch_pins: PatchPins,
}

/// How often in a row a patch could not be made, and for how many versions none is tried.
#[derive(Debug, Default)]
struct PatchFailures {
    in_a_row: u32,
    pause: u32,
}

/// After many failures a patch is tried once in so many versions: 2 to this power.
const PAUSE_BITS_MAX: u32 = 6;

impl Value {
    /// A topic without a version here, whose next one has the offset `next` or a later one.
    pub fn new(topic: Topic, epoch: Epoch, next: Offset, offsets: Offsets) -> Self {
        Self {
            topic,
            epoch,
            offsets,
            next,
            is_elsewhere: offsets == Offsets::Stored,
            beyond: Beyond::default(),
            newest: None,
            previous: 0,
            patches: Patches::default(),
            failures: PatchFailures::default(),
            frames: FormatMap::default(),
            pins: Pins::default(),
            patch_pins: PatchPins::default(),
        }
    }

    /// Its topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Its stream's incarnation.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Offset one past the newest version.
    pub fn head(&self) -> Offset {
        self.next
    }

    /// The batch of the newest version, if it ends past `from`.
    pub fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        self.newest.iter().map(|batch| &**batch).filter(move |batch| batch.end() > from)
    }

    /// Where the newest version's batch starts; the head, if there is none.
    pub fn first_retained(&self) -> Offset {
        self.newest.as_ref().map_or(self.next, |batch| batch.start())
    }

    /// The newest version.
    pub(super) fn newest_version(&self) -> Option<&Batch> {
        self.newest.as_ref().map(|batch| &***batch)
    }

    /// Whether there is a version.
    pub fn has_version(&self) -> bool {
        self.newest.is_some()
    }

    /// Makes the patch that makes a batch's version of the newest one, if somebody here takes
    /// patches. After a failure some versions go out whole, more each time, before it is tried
    /// again. A version that comes after others were missed has no patch: it would be no use to
    /// other shards; nor has one that comes when time is over. Returns whether it was made here;
    /// `None` if it was not tried here.
    pub fn make_patch(&mut self, batch: &Batch, mut is_over: impl FnMut() -> bool) -> Option<bool> {
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

    /// Takes a sealed batch in: its last event is the newest version. Batches come in order. One that
    /// was read back meanwhile is dropped.
    pub fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        if batch.end() <= self.next {
            return;
        }
        self.previous = if self.newest.is_some() { self.next - 1 } else { 0 };
        self.next = batch.end();
        self.patches.push(batch.patch(), self.previous, batch.last_event().len());
        self.newest = Some(Retained::new(batch));
        self.keep_frames(now_us);
    }

    /// Moves the head: the version that was there is not the newest.
    pub(super) fn skip_to(&mut self, head: Offset) {
        self.next = head;
        self.trim_all(u64::MAX);
        self.is_elsewhere = self.offsets == Offsets::Stored;
    }

    /// Whether a reader waits for a version that is not here and can be read back.
    pub(super) fn is_away(&self, from: Offset) -> bool {
        match from <= self.next {
            true => self.is_elsewhere && self.newest.is_none() && from < self.next,
            false => self.is_unsure(from),
        }
    }

    /// Whether nobody knows yet if the stream has given the offset before `from`.
    fn is_unsure(&self, from: Offset) -> bool {
        let is_beyond = from > self.next && self.offsets == Offsets::Stored;
        is_beyond && self.beyond.is_given(from).is_none()
    }

    /// As [`super::Feed::look_beyond`].
    pub(super) fn look_beyond(&mut self, from: Offset, is_given: bool, now_us: u64) {
        self.beyond.answer(from, is_given, now_us);
    }

    /// Takes in what was read back: the newest version, unless a newer one has come meanwhile.
    pub(super) fn recall(&mut self, page: Page, now_us: u64) {
        if self.newest.is_some() || page.is_last_before != Some(self.next) {
            return;
        }
        self.is_elsewhere = false;
        let Some((first, payloads)) = page.messages.into_iter().next_back() else { return };
        let batch = Batch::seal(first, first, payloads, now_us);
        self.previous = 0;
        self.next = batch.end();
        self.newest = Some(Retained::new(Arc::new(batch)));
    }

    /// Makes the frames that are kept for those who had the version before.
    fn keep_frames(&mut self, now_us: u64) {
        let mut frames = std::mem::take(&mut self.frames);
        for (format, KeptFrames { newest: frame, whole, .. }) in frames.iter_mut() {
            whole.take();
            let target = self.target_after(self.previous, format);
            let bytes = match target.is_patch {
                true => self.patches.bytes_from(self.previous),
                false => self.newest.as_ref().map_or(0, |batch| batch.last_event().len()),
            };
            if bytes >= KEPT_FRAME_BYTES_MAX && format.keeps_events() {
                *frame = None;
                continue;
            }
            let mut made = frame.take().map_or_else(Vec::new, |before| before.bytes);
            made.clear();
            // The memory of one large frame must not be kept for ever.
            made.shrink_to(2 * bytes + 1024);
            if let Some(content) = self.content(self.previous, target) {
                format.batch(&self.envelope(self.previous, target, &content), &mut made);
            }
            let (previous, made_us) = (self.previous, now_us);
            *frame = Some(Box::new(KeptFrame { previous, target, bytes: made, made_us }));
        }
        self.frames = frames;
    }

    /// Frees what is no longer needed. Call it about once a second.
    pub fn sweep(&mut self, now_us: u64) {
        for (_, frames) in self.frames.iter_mut() {
            let made_us = frames.newest.as_ref().map_or(0, |frame| frame.made_us);
            if now_us.saturating_sub(made_us) >= FRAME_IDLE_US {
                frames.clear();
            }
            frames.unused_sweeps = frames.unused_sweeps.map(|sweeps| sweeps + 1);
        }
        self.beyond.sweep(now_us);
        self.frames.retain(|frames| frames.unused_sweeps.is_none_or(|it| it < UNUSED_SWEEPS));
        if !self.frames.iter().any(|(format, _)| format.takes_patches()) {
            self.patches = Patches::default();
        }
    }

    /// Lets go of the version, if it was sealed before `now_us`. Returns the bytes freed.
    pub fn trim_all(&mut self, now_us: u64) -> usize {
        if self.newest.as_ref().is_none_or(|batch| batch.sealed_us() >= now_us) {
            return 0;
        }
        let freed = self.history_bytes();
        self.newest = None;
        self.is_elsewhere = self.offsets == Offsets::Stored;
        self.patches = Patches::default();
        self.frames.iter_mut().for_each(|(_, frames)| frames.clear());
        freed
    }

    /// Where a new subscription begins: with the version that it has, if that may be continued.
    /// One that is ahead of the newest version waits until that has passed it, if there is or was
    /// such a version. If a subscriber has a version that cannot be continued, or there was a newer one,
    /// and the newest is not here, its value is unknown.
    pub fn start(&self, at: StartAt) -> Start {
        let (next, had_other) = match at {
            StartAt::After(position) if position.epoch == self.epoch => {
                (position.offset + 1, false)
            }
            StartAt::After(position) => (1, position.offset > 0),
            StartAt::Latest | StartAt::Earliest | StartAt::Newest(_) => (1, false),
        };
        if self.is_unsure(next) {
            return Start::Away(next);
        }
        let is_given = next <= self.next || self.beyond.is_given(next) != Some(false);
        let (next, had_other) = if is_given { (next, had_other) } else { (1, true) };
        if had_other && self.is_away(0) {
            // It may be stored.
            return Start::Away(0);
        }
        // A subscriber at offset 0 knows that it has none: to tell it again would answer each of its
        // polls at once.
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

    /// Whether the newest version is lost to a subscriber whose cursor has this `next`, and it was not
    /// told so.
    pub(super) fn has_lost(&self, next: Offset) -> bool {
        // Of a stored stream the head says nothing of whether there was a version.
        let may_expect_one = next > 1 || (next == 1 && self.offsets == Offsets::Consecutive);
        let is_here = self.has_version() || self.is_away(next);
        may_expect_one && next < self.next && !is_here
    }

    /// Appends the frame that confirms a subscription at `cursor`: an envelope without events.
    pub fn write_confirmation(&self, cursor: &Cursor, format: Format, out: &mut Vec<u8>) {
        let previous = cursor.next.saturating_sub(1);
        let envelope = Envelope {
            topic: &self.topic,
            epoch: self.epoch,
            first: previous + 1,
            last: previous,
            before: Before::Version(previous),
            offsets: None,
            events: &[],
        };
        format.batch(&envelope, out);
    }

    /// Makes sure that frames of `format` are kept from the next version on.
    pub fn open_tail(&mut self, format: Format) {
        self.frames.get_or_insert_with(format, KeptFrames::default).unused_sweeps = None;
    }

    /// Nobody uses a format any more. Whoever polls is away between two polls: so its frames and patches
    /// are still made for a second or two.
    pub fn close_tail(&mut self, format: Format) {
        if let Some(frames) = self.frames.get_mut(format) {
            frames.unused_sweeps = Some(0);
        }
    }

    /// Keeps what the frame that a cursor is in is made of.
    pub fn pin(&mut self, cursor: &Cursor) {
        let Some(target) = Target::of(cursor) else { return };
        if target.is_patch {
            self.patch_pins.pin(target.offset, &self.patches);
        } else if let Some(batch) = self.version(target.offset) {
            let batch = Arc::clone(batch);
            self.pins.pin(&batch);
        }
    }

    /// Undoes [`Self::pin`].
    pub fn unpin(&mut self, cursor: &Cursor) {
        match Target::of(cursor) {
            Some(Target { offset, is_patch: true }) => self.patch_pins.unpin(offset),
            Some(Target { offset, is_patch: false }) => self.pins.unpin(offset),
            None => {}
        }
    }

    /// Memory that partly sent frames hold beside the newest version, in bytes.
    pub fn pinned_bytes(&self) -> usize {
        self.pins.bytes_before(self.first_retained()) + self.patch_pins.bytes_before(self.next - 1)
    }

    /// Bytes that are left of the frame that a cursor is in, about.
    pub fn rest_of_frame(&self, cursor: &Cursor) -> Option<usize> {
        let target = Target::of(cursor)?;
        let bytes = if target.is_patch {
            let pinned = self.patch_pins.find(target.offset)?;
            pinned.bytes_from(cursor.next.saturating_sub(1))
        } else {
            self.version(target.offset)?.last_event().len()
        };
        Some(bytes.saturating_sub(cursor.sent()))
    }

    /// Memory of the newest version and its patches, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.newest.as_ref().map_or(0, |batch| batch.memory_bytes())
    }

    /// Memory of kept frames and of patches, in bytes.
    pub fn tail_bytes(&self) -> usize {
        let kept = self
            .frames
            .iter()
            .flat_map(|(_, frames)| frames.newest.as_ref().into_iter().chain(frames.whole.get()));
        kept.map(|frame| frame.bytes.capacity()).sum::<usize>() + self.patches.bytes()
    }

    /// The batch that ends with a version, if it is the newest or pinned.
    fn version(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let newest = self.newest.as_ref().filter(|_| offset + 1 == self.next);
        newest.map(|batch| &**batch).or_else(|| self.pins.find(offset))
    }

    /// What comes after the version that a subscriber has.
    pub(super) fn target_after(&self, previous: Offset, format: Format) -> Target {
        let is_patch = format.takes_patches() && self.patches.begin_at(previous);
        Target { offset: self.next - 1, is_patch }
    }

    /// What a frame says: the document, or the operations of the patches. `None`, if what it is
    /// made of is neither there nor pinned.
    pub(super) fn content(&self, previous: Offset, target: Target) -> Option<Cow<'_, [u8]>> {
        let Target { offset, is_patch } = target;
        if !is_patch {
            return self.version(offset).map(|batch| batch.last_event().into());
        }
        let pinned = || self.patch_pins.find(offset)?.joined(previous, offset);
        self.patches.joined(previous, offset).or_else(pinned)
    }

    pub(super) fn envelope<'a>(
        &'a self,
        previous: Offset,
        target: Target,
        content: &'a [u8],
    ) -> Envelope<'a> {
        let Target { offset, is_patch } = target;
        Envelope {
            topic: &self.topic,
            epoch: self.epoch,
            first: offset,
            last: offset,
            before: if is_patch { Before::Patched(previous) } else { Before::Version(previous) },
            offsets: None,
            events: content,
        }
    }
}
