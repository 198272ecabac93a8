use thalweg_wire::Offset;

/// A subscription's place in a log: the offset of the next event, and how many bytes of the frame that begins there are sent.
///
/// A cursor is a value: after a send the sender replaces it with the cursor that came with the bytes. A cursor keeps no part of
/// the log alive, and stays valid whatever the log drops.
///
/// `hot` is the same place in the hot tail, if the tail has it. With `hot`, a read costs no more than taking a slice. `hot` may
/// be lost at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub(super) next: Offset,
    pub(super) sent: u32,
    /// How many offsets before the next event have frames that were sent consecutively, exactly as in the hot tail, or [`NONE`].
    /// In a format with a context, the next frame may refer to the text of these frames.
    pub(super) in_context: u32,
    /// The absolute byte in the hot tail, or [`COLD`], or [`COLD_PART`].
    pub(super) hot: u64,
}

/// The cursor has no place in the hot tail.
pub(super) const COLD: u64 = u64::MAX;

/// The cursor has no place in the hot tail, and is within a frame that was made for it alone, with only some of a batch's events.
pub(super) const COLD_PART: u64 = u64::MAX - 1;

/// The cursor is within a page of a keyed topic. `in_context` has the page's serial number. The other bits are as for [`CHAIN`].
const PAGE: u64 = 1 << 62;

/// The cursor of a reader whose state began with the first page of a keyed topic. The other bits are the head when the oldest of
/// these pages was made: the reader has no key that was removed before that.
const CHAIN: u64 = 1 << 61;

/// The filter of the cursor's reader selects no event before the other bits, which are an offset. [`CHAIN`] is set, too: a removal before
/// that is none of the reader's.
const SKIP: u64 = 1 << 60;

/// The bits of an offset, which is a JSON number and has at most 53 bits.
const OFFSET: u64 = (1 << 53) - 1;

/// The reader of a cursor has no context.
const NONE: u32 = u32::MAX;

impl Cursor {
    /// Returns a cursor between frames, before `next`.
    pub fn before(next: Offset) -> Self {
        Self { next, sent: 0, in_context: NONE, hot: COLD }
    }

    /// Returns a cursor between pages of a keyed topic whose head is `head`, for a reader that needs only keys that exist: it may
    /// continue although removals were forgotten.
    pub fn before_keys(next: Offset, head: Offset) -> Self {
        Self::after_page(next, Some(head))
    }

    /// Returns this cursor for a reader that gets other text before the next frame.
    #[must_use]
    pub fn without_context(self) -> Self {
        if self.page().is_some() {
            return self;
        }
        let hot = if self.in_frame() || self.chain().is_some() { self.hot } else { COLD };
        Self { hot, in_context: NONE, ..self }
    }

    /// Returns the cursor between two pages of a keyed topic. `chain`: as [`Self::chain`] returns it.
    pub(super) fn after_page(next: Offset, chain: Option<Offset>) -> Self {
        Self { hot: chain.map_or(COLD, |head| CHAIN | head), ..Self::before(next) }
    }

    /// Returns the cursor of a reader that was told that all keys follow. The reader gets a page even if there are no keys.
    pub(super) fn owed_page() -> Self {
        Self::after_page(1, Some(0))
    }

    /// Returns this cursor, which is between pages, for a reader whose filter selects no event before `end`. The next page still begins
    /// at this cursor, because its client knows no later position.
    pub(super) fn skipping_to(self, end: Offset) -> Self {
        Self { hot: SKIP | CHAIN | end, ..Self::before(self.next) }
    }

    /// Returns the offset before which the reader needs no further event.
    pub(crate) fn needed_from(&self) -> Offset {
        let skips = self.is_hot() && self.hot & SKIP != 0;
        if skips { self.hot & OFFSET } else { self.next }
    }

    pub(super) fn is_owed_page(&self) -> bool {
        !self.in_frame() && self.chain() == Some(0)
    }

    /// Returns the cursor after `sent` bytes of a page.
    pub(super) fn within_page(
        from: Offset,
        serial: u32,
        sent: usize,
        chain: Option<Offset>,
    ) -> Self {
        let hot = PAGE | chain.map_or(0, |head| CHAIN | head);
        Self { next: from, sent: sent as u32, in_context: serial, hot }
    }

    /// Returns the serial number of the page that the cursor is within.
    pub(super) fn page(&self) -> Option<u32> {
        let is_page = self.in_frame() && self.is_hot() && self.hot & PAGE != 0;
        is_page.then_some(self.in_context)
    }

    /// Returns the head when the oldest page of its reader was made, if the reader's state began with a first page.
    pub(super) fn chain(&self) -> Option<Offset> {
        (self.is_hot() && self.hot & CHAIN != 0).then_some(self.hot & OFFSET)
    }

    /// Returns this cursor without [`CHAIN`], which only pages need.
    pub(super) fn without_chain(self) -> Self {
        if self.chain().is_some() { Self::before(self.next) } else { self }
    }

    /// Returns this cursor for a reader whose context begins at `from`, if it has one.
    pub(super) fn with_context(self, from: Option<Offset>) -> Self {
        // A context that is too long is shortened.
        let len = |from| u32::try_from(self.next.saturating_sub(from)).unwrap_or(NONE - 1);
        Self { in_context: from.map_or(NONE, |from| len(from).min(NONE - 1)), ..self }
    }

    /// Returns the offset at which the context of its reader begins.
    pub(super) fn context(&self) -> Option<Offset> {
        (self.in_context != NONE).then(|| self.next.saturating_sub(self.in_context.into()))
    }

    #[inline]
    pub(super) fn has_context(&self) -> bool {
        self.in_context != NONE
    }

    /// Returns the cursor of a value's subscriber that has no version and knows that the newest one is unknown.
    pub(super) fn told_unknown() -> Self {
        Self::before(0)
    }

    /// Returns the cursor after `sent` more bytes of the frame that begins at the next event.
    pub fn within(self, sent: usize) -> Self {
        Self { sent: self.sent + sent as u32, hot: COLD, ..self }
    }

    /// Returns the offset of the next event.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// Returns how many bytes of the frame at the next event are sent.
    pub fn sent(&self) -> usize {
        self.sent as usize
    }

    pub(super) fn is_hot(&self) -> bool {
        self.hot < COLD_PART
    }

    /// Returns whether a frame made for this cursor alone has only some of the batch's events.
    pub(super) fn wants_part(&self) -> bool {
        !self.in_frame() || self.hot == COLD_PART
    }

    /// Returns whether a frame is partly sent.
    pub fn in_frame(&self) -> bool {
        self.sent > 0
    }
}
