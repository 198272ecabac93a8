mod feed;
mod frames;

use std::{borrow::Cow, sync::Arc};

use thalweg_wire::{Before, Envelope, Epoch, Format, Offset, Topic};

use super::{
    Backfill, Batch, ColumnRows, Cursor, Feed, FormatMap, Memory, Offsets, Page, Pinning,
    ahead::AheadAnswers,
    batch::Retained,
    kept_frames::{KeptFrame, KeptFrames, Target},
    pins::Pins,
    version_patch::{PatchPins, Patches},
};
pub use frames::ValueFrames;

/// Frames of at least this many bytes are not kept, if the format keeps events as they are: all subscribers get
/// them from the batch's own memory, as three slices instead of one.
const KEPT_FRAME_BYTES_MAX: usize = 64 << 10;

/// The number of sweeps after which an unused format is dropped.
const UNUSED_SWEEPS: u8 = 2;

/// How long a kept frame without a successor keeps its memory, in µs.
const FRAME_IDLE_US: u64 = 2_000_000;

/// A topic whose newest event, its *version*, replaces the older ones, as one shard reads it.
///
/// A subscriber gets the newest version, and each newer one, unless a still newer one has come in the meantime.
/// Only the last event of a batch is a version. A subscriber that takes patches and has a version in the short
/// chain of patches gets the patches from there on.
///
/// A cursor says which version a subscriber has: `next` is one past it. 1 means none, 0 means that the
/// subscriber was told "unknown". Within a frame `hot` identifies the frame (`Target`). Its bytes follow
/// from `next` and `hot` and from pinned data, whatever versions have come since.
#[derive(Debug)]
pub struct Value {
    topic: Topic,
    epoch: Epoch,
    offsets: Offsets,
    /// One past the newest version.
    next: Offset,
    /// Whether the newest version may be stored in a broker, while none is here.
    is_elsewhere: bool,
    ahead: AheadAnswers,
    newest: Option<Retained>,
    /// The version that up-to-date subscribers had before the newest. 0: none.
    previous: Offset,
    patches: Patches,
    failures: PatchFailures,
    frames: FormatMap<KeptFrames>,
    /// Versions whose frames are partly sent.
    pins: Pins,
    patch_pins: PatchPins,
}

/// The number of failed patches in a row, and for how many versions no patch is tried.
#[derive(Debug, Default)]
struct PatchFailures {
    in_a_row: u32,
    pause: u32,
}

/// Maximum number of failures in a row that count. After n failures, one patch is tried per 2^n versions.
const PAUSE_BITS_MAX: u32 = 6;

impl Value {
    /// Creates a value without a version. The next version has the offset `next` or a later one.
    pub fn new(topic: Topic, epoch: Epoch, next: Offset, offsets: Offsets) -> Self {
        Self {
            topic,
            epoch,
            offsets,
            next,
            is_elsewhere: offsets == Offsets::Stored,
            ahead: AheadAnswers::default(),
            newest: None,
            previous: 0,
            patches: Patches::default(),
            failures: PatchFailures::default(),
            frames: FormatMap::default(),
            pins: Pins::default(),
            patch_pins: PatchPins::default(),
        }
    }

    /// Returns whether there is a version.
    pub fn has_version(&self) -> bool {
        self.newest.is_some()
    }

    /// Returns whether it is unknown if the stream has assigned `from` − 1.
    fn is_unsure(&self, from: Offset) -> bool {
        let is_ahead = from > self.next && self.offsets == Offsets::Stored;
        is_ahead && self.ahead.is_given(from).is_none()
    }

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
            // The memory of one large frame must not be kept forever.
            made.shrink_to(2 * bytes + 1024);
            if let Some(content) = self.content(self.previous, target) {
                format.batch(&self.envelope(self.previous, target, &content), &mut made);
            }
            let (previous, made_us) = (self.previous, now_us);
            *frame = Some(Box::new(KeptFrame { previous, target, bytes: made, made_us }));
        }
        self.frames = frames;
    }

    /// Returns whether the newest version is lost to a subscriber whose cursor has this `next` and that was not
    /// told about the loss.
    fn has_lost(&self, next: Offset) -> bool {
        // The head of a stored stream does not tell whether there was a version.
        let may_expect_one = next > 1 || (next == 1 && self.offsets == Offsets::Consecutive);
        let is_here = self.has_version() || self.needs_backfill(next);
        may_expect_one && next < self.next && !is_here
    }

    /// Returns the batch that ends with a version, if it is the newest or pinned.
    fn version(&self, offset: Offset) -> Option<&Arc<Batch>> {
        let newest = self.newest.as_ref().filter(|_| offset + 1 == self.next);
        newest.map(|batch| &**batch).or_else(|| self.pins.find(offset))
    }

    /// Returns the target of the frame after the version that a subscriber has.
    fn target_after(&self, previous: Offset, format: Format) -> Target {
        let is_patch = format.takes_patches() && self.patches.begin_at(previous);
        Target { offset: self.next - 1, is_patch }
    }

    /// Returns the document or the operations of a frame. `None` if its parts are neither here nor pinned.
    fn content(&self, previous: Offset, target: Target) -> Option<Cow<'_, [u8]>> {
        let Target { offset, is_patch } = target;
        if !is_patch {
            return self.version(offset).map(|batch| batch.last_event().into());
        }
        let pinned = || self.patch_pins.find(offset)?.joined(previous, offset);
        self.patches.joined(previous, offset).or_else(pinned)
    }

    fn envelope<'a>(&'a self, previous: Offset, target: Target, content: &'a [u8]) -> Envelope<'a> {
        let Target { offset, is_patch } = target;
        Envelope {
            topic: &self.topic,
            epoch: self.epoch,
            first: offset,
            last: offset,
            before: if is_patch { Before::Patched(previous) } else { Before::Version(previous) },
            offsets: None,
            keyed: None,
            events: content,
        }
    }
}

impl Memory for Value {
    fn history_bytes(&self) -> usize {
        self.newest.as_ref().map_or(0, |batch| batch.memory_bytes())
    }

    fn trim_all(&mut self, _bytes: usize, now_us: u64) -> usize {
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

    fn sweep(&mut self, now_us: u64) {
        for (_, frames) in self.frames.iter_mut() {
            let made_us = frames.newest.as_ref().map_or(0, |frame| frame.made_us);
            if now_us.saturating_sub(made_us) >= FRAME_IDLE_US {
                frames.clear();
            }
            frames.unused_sweeps = frames.unused_sweeps.map(|sweeps| sweeps + 1);
        }
        self.ahead.sweep(now_us);
        let is_used = |sweeps: u8| sweeps < UNUSED_SWEEPS;
        self.frames.retain(|frames| frames.unused_sweeps.is_none_or(is_used));
        if !self.frames.iter().any(|(format, _)| format.takes_patches()) {
            self.patches = Patches::default();
        }
    }

    fn tail_bytes(&self) -> usize {
        let kept = self
            .frames
            .iter()
            .flat_map(|(_, frames)| frames.newest.as_ref().into_iter().chain(frames.whole.get()));
        kept.map(|frame| frame.bytes.capacity()).sum::<usize>() + self.patches.bytes()
    }

    fn open_tail(&mut self, format: Format) {
        self.frames.get_or_insert_with(format, KeptFrames::default).unused_sweeps = None;
    }

    // Clients that poll are absent between two polls, so frames and patches are still made for a second or two.
    fn close_tail(&mut self, format: Format) {
        if let Some(frames) = self.frames.get_mut(format) {
            frames.unused_sweeps = Some(0);
        }
    }
}

impl Pinning for Value {
    fn pin(&mut self, cursor: &Cursor, _: Format) {
        let Some(target) = Target::at(cursor) else { return };
        if target.is_patch {
            self.patch_pins.pin(target.offset, &self.patches);
        } else if let Some(batch) = self.version(target.offset) {
            let batch = Arc::clone(batch);
            self.pins.pin(&batch);
        }
    }

    fn unpin(&mut self, cursor: &Cursor) {
        match Target::at(cursor) {
            Some(Target { offset, is_patch: true }) => self.patch_pins.unpin(offset),
            Some(Target { offset, is_patch: false }) => self.pins.unpin(offset),
            None => {}
        }
    }

    fn pinned_bytes(&self) -> usize {
        self.pins.bytes_before(self.first_retained()) + self.patch_pins.bytes_before(self.next - 1)
    }

    fn rest_of_frame(&self, cursor: &Cursor, _format: Format) -> Option<usize> {
        let target = Target::at(cursor)?;
        let bytes = if target.is_patch {
            let pinned = self.patch_pins.find(target.offset)?;
            pinned.bytes_from(cursor.next.saturating_sub(1))
        } else {
            self.version(target.offset)?.last_event().len()
        };
        Some(bytes.saturating_sub(cursor.sent()))
    }
}

impl Backfill for Value {
    fn needs_backfill(&self, from: Offset) -> bool {
        match from <= self.next {
            true => self.is_elsewhere && self.newest.is_none() && from < self.next,
            false => self.is_unsure(from),
        }
    }

    fn holds_from(&self, _from: Offset) -> bool {
        !self.needs_backfill(0)
    }

    fn backfill_until(&self, _from: Offset) -> Offset {
        self.next
    }

    // The page has the newest version, unless a newer one has come in the meantime.
    fn backfill(&mut self, page: Page, now_us: u64) {
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

    fn answer_ahead(&mut self, from: Offset, is_given: bool, now_us: u64) {
        self.ahead.answer(from, is_given, now_us);
    }
}

impl ColumnRows for Value {}
