use thalweg_wire::Offset;

/// Bytes of a hot tail, about: small enough to stay in the cache while a walk sends it to all, large enough that a
/// subscriber may be late for a moment without becoming cold.
pub(super) const TAIL_BYTES: usize = 1 << 20;

/// The newest finished frames of one stream in one format.
///
/// Frames are contiguous within a segment, so that one send takes everything due to a subscriber. Bytes are
/// numbered from the tail's creation. The older of two segments is recycled when the newer is full. Readers never
/// block this: a cursor whose bytes are gone becomes cold.
#[derive(Debug)]
pub(super) struct HotTail {
    segment_bytes: usize,
    older: Segment,
    newer: Segment,
    appended_us: u64,
}

#[derive(Debug, Default)]
struct Segment {
    /// The number of its first byte.
    base: u64,
    bytes: Vec<u8>,
    frames: Vec<FrameStart>,
}

#[derive(Debug, Clone, Copy)]
struct FrameStart {
    byte: u64,
    start: Offset,
}

impl HotTail {
    pub(super) fn new(tail_bytes: usize) -> Self {
        Self {
            segment_bytes: tail_bytes / 2,
            older: Segment::default(),
            newer: Segment::default(),
            appended_us: 0,
        }
    }

    /// The number of the byte after the newest.
    pub(super) fn head(&self) -> u64 {
        self.newer.end()
    }

    /// Appends the frame of the batch that starts at `start`.
    pub(super) fn append(&mut self, start: Offset, now_us: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if self.newer.bytes.len() >= self.segment_bytes {
            self.turn_over();
        }
        let byte = self.newer.end();
        self.newer.frames.push(FrameStart { byte, start });
        write(&mut self.newer.bytes);
        self.appended_us = now_us;
    }

    /// Returns the bytes from `at` to the end of their segment. They are empty at the head only. `None` if they are gone.
    pub(super) fn slice(&self, at: u64) -> Option<&[u8]> {
        if at >= self.newer.base {
            return self.newer.bytes.get((at - self.newer.base) as usize..);
        }
        let from = at.checked_sub(self.older.base)?;
        self.older.bytes.get(from as usize..)
    }

    /// Returns the batch's start and the first byte of the frame that holds byte `at`. `None` at the head, or if it is gone.
    pub(super) fn frame_at(&self, at: u64) -> Option<(Offset, u64)> {
        let segment = if at >= self.newer.base { &self.newer } else { &self.older };
        if at < segment.base || at >= segment.end() {
            return None;
        }
        let index = segment.frames.partition_point(|frame| frame.byte <= at);
        let frame = segment.frames.get(index.checked_sub(1)?)?;
        Some((frame.start, frame.byte))
    }

    /// Returns one past the frame that holds byte `at`, or `at` if no frame does.
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
        [&self.newer, &self.older].into_iter().find_map(|segment| {
            let index = segment.frames.partition_point(|frame| frame.start < start);
            segment.frames.get(index).filter(|frame| frame.start == start).map(|frame| frame.byte)
        })
    }

    pub(super) fn release_if_idle(&mut self, now_us: u64, idle_us: u64) {
        if now_us.saturating_sub(self.appended_us) < idle_us {
            return;
        }
        self.restart_at(self.head());
    }

    /// Drops all bytes: every place up to the head, included, becomes invalid.
    pub(super) fn cut(&mut self) {
        self.clear_to(self.head() + 1);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.older.bytes.capacity() + self.newer.bytes.capacity()
    }

    fn restart_at(&mut self, byte: u64) {
        self.older = Segment { base: byte, ..Segment::default() };
        self.newer = Segment { base: byte, ..Segment::default() };
    }

    fn clear_to(&mut self, byte: u64) {
        for segment in [&mut self.older, &mut self.newer] {
            segment.base = byte;
            segment.bytes.clear();
            segment.frames.clear();
        }
    }

    fn turn_over(&mut self) {
        let head = self.head();
        std::mem::swap(&mut self.older, &mut self.newer);
        let recycled = &mut self.newer;
        recycled.base = head;
        recycled.frames.clear();
        recycled.bytes.clear();
        // The memory of one very large frame must not be kept forever.
        recycled.bytes.shrink_to(2 * self.segment_bytes);
    }
}

impl Segment {
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
}
