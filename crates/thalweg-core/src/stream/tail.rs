use std::{
    cell::{Cell, OnceCell},
    collections::VecDeque,
};

use thalweg_wire::{ContextUse, Format, Offset, SharedContext};

/// Approximate size of a hot tail. It fits into the CPU's cache while a walk sends it to all subscribers, and
/// is long enough that a subscriber may be late for a moment without becoming cold.
pub(super) const TAIL_BYTES: usize = 1 << 20;

/// How long a context stays without new frames, in µs: topics with a message every few seconds gain most from it.
const CONTEXT_IDLE_US: u64 = 60_000_000;

/// The newest finished frames of one stream in one format.
///
/// Frames are contiguous within a segment, so that one send takes everything due to a subscriber. Bytes are
/// numbered from the tail's creation. The older of two segments is recycled when the newer is full. Readers
/// never block this: a cursor whose bytes are gone becomes cold, which means that its subscriber gets frames
/// that are encoded separately.
#[derive(Debug)]
pub(super) struct HotTail {
    segment_bytes: usize,
    older: Segment,
    newer: Segment,
    appended_us: u64,
    context: Option<Box<TailContext>>,
}

/// The text that the next frame may refer to.
#[derive(Debug)]
struct TailContext {
    text: SharedContext,
    /// The batches in the text: the start offset of each, and the position in the text at which it ends.
    batches: VecDeque<(Offset, u64)>,
}

#[derive(Debug, Default)]
struct Segment {
    /// The position of the first byte.
    base: u64,
    bytes: Vec<u8>,
    frames: Vec<FrameStart>,
    /// One for each frame, if the format has a context.
    references: Vec<Reference>,
    /// Total bytes of the frames that were compressed a second time, without the context.
    alone_bytes: Cell<usize>,
}

#[derive(Debug, Clone, Copy)]
struct FrameStart {
    byte: u64,
    start: Offset,
}

#[derive(Debug)]
struct Reference {
    /// The start of the oldest batch whose text the frame may refer to. If it refers to no earlier text, the
    /// start of its own batch.
    oldest: Offset,
    is_alone: bool,
    /// The same frame, compressed without the context. It is made when the first reader needs it.
    alone: OnceCell<Box<[u8]>>,
}

impl TailContext {
    fn memory_bytes(&self) -> usize {
        self.text.memory_bytes() + self.batches.capacity() * size_of::<(Offset, u64)>()
    }

    fn clear(&mut self) {
        self.text.clear();
        self.batches = VecDeque::new();
    }
}

impl HotTail {
    pub(super) fn new(tail_bytes: usize, format: Format) -> Self {
        let context = format.context();
        Self {
            segment_bytes: tail_bytes / 2,
            older: Segment::default(),
            newer: Segment::default(),
            appended_us: 0,
            context: context.map(|text| Box::new(TailContext { text, batches: VecDeque::new() })),
        }
    }

    /// Returns the position after the newest byte.
    pub(super) fn head(&self) -> u64 {
        self.newer.end()
    }

    /// Appends the frame of the batch that starts at `start`.
    pub(super) fn append(
        &mut self,
        start: Offset,
        now_us: u64,
        write: impl FnOnce(Option<&mut SharedContext>, &mut Vec<u8>) -> ContextUse,
    ) {
        if self.newer.used_bytes() >= self.segment_bytes {
            self.turn_over();
        }
        let byte = self.newer.end();
        self.newer.frames.push(FrameStart { byte, start });
        self.appended_us = now_us;
        let Some(context) = &mut self.context else {
            write(None, &mut self.newer.bytes);
            return;
        };
        let oldest = context.batches.front().map_or(start, |(oldest, _)| *oldest);
        let context_use = write(Some(&mut context.text), &mut self.newer.bytes);
        context.batches.push_back((start, context.text.end()));
        while context.batches.front().is_some_and(|(_, end)| *end <= context.text.reach()) {
            context.batches.pop_front();
        }
        self.newer.references.push(Reference {
            oldest: if context_use == ContextUse::Refers { oldest } else { start },
            is_alone: context_use == ContextUse::Alone,
            alone: OnceCell::new(),
        });
    }

    /// Returns whether a reader that was sent all text from the offset `context` on can read the frame of the
    /// batch that starts at `start`. It can then read all later ones.
    pub(super) fn is_readable(&self, start: Offset, context: Option<Offset>) -> bool {
        let Some((segment, index)) = self.find(start) else { return false };
        let oldest = segment.references[index].oldest;
        oldest == start || context.is_some_and(|from| oldest >= from)
    }

    /// Returns the frame, compressed without the context, of the batch that starts at `start`. Calls `make` if necessary. A segment
    /// has room for a limited number of such frames.
    pub(super) fn alone(
        &self,
        start: Offset,
        make: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<&[u8]> {
        let (segment, index) = self.find(start)?;
        let alone = &segment.references[index].alone;
        if alone.get().is_none() {
            if segment.alone_bytes.get() >= self.segment_bytes {
                return None;
            }
            let made = make()?;
            segment.alone_bytes.set(segment.alone_bytes.get() + made.len());
            alone.get_or_init(|| made.into());
        }
        alone.get().map(|alone| &**alone)
    }

    pub(super) fn has_context(&self) -> bool {
        self.context.is_some()
    }

    /// Returns the bytes from `at` to the end of their segment. They are empty at the head only. Returns
    /// `None` if they were dropped.
    pub(super) fn slice(&self, at: u64) -> Option<&[u8]> {
        if at >= self.newer.base {
            return self.newer.bytes.get((at - self.newer.base) as usize..);
        }
        let from = at.checked_sub(self.older.base)?;
        self.older.bytes.get(from as usize..)
    }

    /// Returns the batch's start and the first byte of the frame that holds byte `at`. Returns `None` at the
    /// head, or if the frame was dropped.
    pub(super) fn frame_at(&self, at: u64) -> Option<(Offset, u64)> {
        let segment = if at >= self.newer.base { &self.newer } else { &self.older };
        if at < segment.base || at >= segment.end() {
            return None;
        }
        let index = segment.frames.partition_point(|frame| frame.byte <= at);
        let frame = segment.frames.get(index.checked_sub(1)?)?;
        Some((frame.start, frame.byte))
    }

    /// Returns the frame that holds byte `at`, if it was compressed in a context: such a frame cannot be made
    /// again with the same bytes. Returns `None` at the head, or if the frame was dropped.
    pub(super) fn unique_frame(&self, at: u64) -> Option<&[u8]> {
        let (start, byte) = self.frame_at(at)?;
        let (segment, index) = self.find(start)?;
        if segment.references[index].is_alone {
            return None;
        }
        Some(&self.slice(byte)?[..(self.frame_end(at) - byte) as usize])
    }

    /// Returns the position after the frame that holds byte `at`, or `at` if no frame does.
    pub(super) fn frame_end(&self, at: u64) -> u64 {
        let segment = if at >= self.newer.base { &self.newer } else { &self.older };
        if at < segment.base || at >= segment.end() {
            return at;
        }
        let following = segment.frames.partition_point(|frame| frame.byte <= at);
        segment.frames.get(following).map_or(segment.end(), |frame| frame.byte)
    }

    /// Returns the first byte of the frame of the batch that starts at `start`.
    pub(super) fn byte_of(&self, start: Offset) -> Option<u64> {
        self.find(start).map(|(segment, index)| segment.frames[index].byte)
    }

    /// Returns the segment that has the frame of the batch that starts at `start`, and the frame's index.
    fn find(&self, start: Offset) -> Option<(&Segment, usize)> {
        [&self.newer, &self.older].into_iter().find_map(|segment| {
            let index = segment.frames.partition_point(|frame| frame.start < start);
            let found = segment.frames.get(index).filter(|frame| frame.start == start);
            found.map(|_| (segment, index))
        })
    }

    pub(super) fn release_if_idle(&mut self, now_us: u64, idle_us: u64) {
        let unused_us = now_us.saturating_sub(self.appended_us);
        if unused_us < idle_us {
            return;
        }
        self.restart_at(self.head());
        if let Some(context) = self.context.as_mut().filter(|_| unused_us >= CONTEXT_IDLE_US) {
            context.clear();
        }
    }

    /// Drops all bytes: every position, the head included, becomes invalid.
    pub(super) fn cut(&mut self) {
        self.clear_to(self.head() + 1);
        // No reader after a cut has the text before it, so frames that refer to this text would be useless.
        self.context.iter_mut().for_each(|context| context.clear());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let context = self.context.as_ref().map_or(0, |context| context.memory_bytes());
        self.older.memory_bytes() + self.newer.memory_bytes() + context
    }

    /// Drops the frames, but not the context.
    fn restart_at(&mut self, byte: u64) {
        self.older = Segment { base: byte, ..Segment::default() };
        self.newer = Segment { base: byte, ..Segment::default() };
    }

    fn clear_to(&mut self, byte: u64) {
        for segment in [&mut self.older, &mut self.newer] {
            segment.clear_to(byte);
        }
    }

    fn turn_over(&mut self) {
        let head = self.head();
        std::mem::swap(&mut self.older, &mut self.newer);
        let recycled = &mut self.newer;
        recycled.clear_to(head);
        // The memory of one very large frame must not be kept forever.
        recycled.bytes.shrink_to(2 * self.segment_bytes);
    }
}

impl Segment {
    fn clear_to(&mut self, byte: u64) {
        self.base = byte;
        self.bytes.clear();
        self.frames.clear();
        self.references.clear();
        self.alone_bytes.set(0);
    }

    /// Returns the number of bytes that decides when the segment is full.
    fn used_bytes(&self) -> usize {
        let of_references =
            self.references.len() * (size_of::<Reference>() + size_of::<FrameStart>());
        self.bytes.len() + of_references + self.alone_bytes.get()
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.frames.capacity() * size_of::<FrameStart>()
            + self.references.capacity() * size_of::<Reference>()
            + self.alone_bytes.get()
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
}
