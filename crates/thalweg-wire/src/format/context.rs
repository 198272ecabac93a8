//! Compresses each frame once for all subscribers, with the text of earlier frames as context. The window of
//! deflate contains uncompressed text (RFC 1951, RFC 7692). Subscribers that have received the same recent
//! text can therefore inflate the same frame, in whatever frames they received that text.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use flate2::{Compress, Compression, FlushCompress};

/// The level of compression. With a context, frames of one event are up to a tenth larger at level 1 than at
/// level 2, but take a fraction of the time.
const LEVEL: Compression = Compression::new(1);

/// Maximum number of compressors (about 200 KiB each) that a thread keeps. If the compressor of a context was
/// recycled, another one gets the newest text of the context as its dictionary.
const COMPRESSORS_MAX: usize = 16;

/// Least size of such a dictionary, in bytes, if there is as much text. For a longer frame the dictionary is as
/// long as the frame. With this limit, such a frame takes about as long as one without a context. All 4 KiB of
/// a context take more than twice as long, 32 KiB more than ten times, and save a few bytes.
const DICTIONARY_BYTES_LEAST: usize = 1024;

thread_local! {
    static COMPRESSORS: Cell<Vec<Compressor>> = const { Cell::new(Vec::new()) };
    static PRIMED_FRAMES: Cell<u64> = const { Cell::new(0) };
}

/// How a frame uses a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextUse {
    /// The frame may refer to the text of the context.
    Refers,
    /// The context was empty, so the frame refers to no earlier text. The compressor of the context made the
    /// frame.
    Begins,
    /// The frame was compressed alone, without the context.
    Alone,
}

/// The window of a context, 2⁹ to 2¹⁵ bytes (RFC 7692 §7.1.2). It is an enum so that
/// [`Format`](super::Format), which each subscriber has, stays at 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ContextWindow {
    Bits9 = 9,
    Bits10,
    Bits11,
    Bits12,
    Bits13,
    Bits14,
    Bits15,
}

/// The newest text of one topic in one format.
#[derive(Debug)]
pub struct SharedContext {
    /// The number of the context in this process.
    number: u64,
    window: ContextWindow,
    /// The newest text: at least as much as the window, unless there was less.
    text: Vec<u8>,
    /// Number of bytes of text so far.
    end: u64,
}

/// A compressor that has compressed the text of a context up to `end`.
struct Compressor {
    number: u64,
    end: u64,
    window: ContextWindow,
    compress: Compress,
}

impl ContextWindow {
    /// Returns the largest window of at most `bytes`, or the smallest window there is.
    pub fn within(bytes: usize) -> Self {
        let larger =
            [Self::Bits15, Self::Bits14, Self::Bits13, Self::Bits12, Self::Bits11, Self::Bits10];
        larger.into_iter().find(|window| window.bytes() <= bytes).unwrap_or(Self::Bits9)
    }

    /// Returns the size of the window, in bytes.
    pub fn bytes(self) -> usize {
        1 << self as usize
    }
}

impl SharedContext {
    pub(super) fn new(window: ContextWindow) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed);
        Self { number, window, text: Vec::new(), end: 0 }
    }

    /// Returns the offset of the first byte of text that the next frame may refer to, counted from the
    /// beginning of all text.
    pub fn reach(&self) -> u64 {
        self.end - self.reachable().len() as u64
    }

    /// Returns how many bytes of text there were so far.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns how many frames of this thread needed a compressor that had to be primed with the text of their
    /// context.
    pub fn primed_frames() -> u64 {
        PRIMED_FRAMES.get()
    }

    /// Forgets the text: the next frame refers to no earlier one.
    pub fn clear(&mut self) {
        self.text = Vec::new();
    }

    /// Returns the memory of this context in bytes. The compressors belong to the thread and are not
    /// included.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// Appends `text` deflated up to a sync flush, and adds it to the context. Returns `false` and appends
    /// nothing if the text is at least as long as the window, or does not become smaller. The caller then
    /// encodes the frame without a context, and the next frame can refer to this text only.
    pub(super) fn deflate(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let is_deflated = text.len() < self.window.bytes() && self.continued(text, out);
        if !is_deflated {
            self.clear();
        }
        self.push(text);
        is_deflated
    }

    fn text_bytes_max(&self) -> usize {
        self.window.bytes() * 3 / 2
    }

    fn reachable(&self) -> &[u8] {
        &self.text[self.text.len().saturating_sub(self.window.bytes())..]
    }

    fn push(&mut self, text: &[u8]) {
        self.end += text.len() as u64;
        let window = self.window.bytes();
        let text = &text[text.len().saturating_sub(window)..];
        // Drop old text only when the buffer is full, because that moves the rest.
        if self.text.len() + text.len() > self.text_bytes_max() {
            let kept = (window - text.len()).min(self.text.len());
            self.text.drain(..self.text.len() - kept);
        }
        self.text.reserve_exact(text.len());
        self.text.extend_from_slice(text);
    }

    fn continued(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let mut compressors = COMPRESSORS.take();
        let mut compressor = self.take_compressor(text.len(), &mut compressors);
        let start = out.len();
        // If the output fills the buffer, the flush may be incomplete.
        let room = text.len();
        out.resize(start + room, 0);
        let before = compressor.compress.total_out();
        let read_before = compressor.compress.total_in();
        let outcome = compressor.compress.compress(text, &mut out[start..], FlushCompress::Sync);
        let len = (compressor.compress.total_out() - before) as usize;
        let has_read_all = compressor.compress.total_in() - read_before == text.len() as u64;
        let is_whole = outcome.is_ok() && has_read_all && len < room;
        out.truncate(start + if is_whole { len } else { 0 });
        if is_whole {
            compressor.end += text.len() as u64;
            compressors.push(compressor);
        } else {
            // The state of this compressor belongs to no context any more. Put it first, so that it is
            // recycled first.
            compressor.number = u64::MAX;
            compressors.insert(0, compressor);
        }
        COMPRESSORS.set(compressors);
        is_whole
    }

    /// Takes a compressor for a frame with `text_bytes` of text. It is the one that made the last frame of this
    /// context, or another one of the same window with the context's newest text as its dictionary.
    fn take_compressor(&self, text_bytes: usize, compressors: &mut Vec<Compressor>) -> Compressor {
        let is_own = |one: &Compressor| (one.number, one.end) == (self.number, self.end);
        if let Some(index) = compressors.iter().position(is_own)
            && !self.text.is_empty()
        {
            return compressors.remove(index);
        }
        let Self { number, end, window, .. } = *self;
        // The first compressor has waited longest.
        let is_free = |one: &Compressor| one.number == u64::MAX;
        let recycles =
            compressors.len() >= COMPRESSORS_MAX || compressors.first().is_some_and(is_free);
        let recycled = recycles.then(|| compressors.remove(0));
        let mut compressor =
            recycled.filter(|one| one.window == window).unwrap_or_else(|| Compressor {
                number,
                end,
                window,
                compress: Compress::new_with_window_bits(LEVEL, false, window as u8),
            });
        (compressor.number, compressor.end) = (number, end);
        compressor.compress.reset();
        let reachable = self.reachable();
        let dictionary_bytes = text_bytes.max(DICTIONARY_BYTES_LEAST);
        let dictionary = &reachable[reachable.len().saturating_sub(dictionary_bytes)..];
        if !dictionary.is_empty() {
            // Setting a dictionary cannot fail right after a reset.
            let _ = compressor.compress.set_dictionary(dictionary);
            PRIMED_FRAMES.set(PRIMED_FRAMES.get() + 1);
        }
        compressor
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress};

    use super::*;

    const WINDOW: ContextWindow = ContextWindow::Bits9;

    fn event(number: usize) -> Vec<u8> {
        let (car, speed) = (number % 7, number * 31 % 140);
        format!(
            r#"{{"car":"c{car}","speed_kmh":{speed},"speed_mph":{speed},"total_km":{number},"total_miles":{number}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn a_reader_of_all_frames_or_of_the_last_window_reads_the_next_frame() {
        let mut contexts: Vec<_> = (0..3).map(|_| SharedContext::new(WINDOW)).collect();
        let mut inflaters: Vec<_> = (0..3).map(|_| Decompress::new(false)).collect();
        for number in 0..2_000 {
            // Contexts take turns, so that their compressors are recycled in some turns.
            let which = number / 5 % 3;
            if number % 211 == 0 {
                (0..COMPRESSORS_MAX).for_each(|_| {
                    SharedContext::new(WINDOW).deflate(&b"of others ".repeat(20), &mut Vec::new());
                });
            }
            let (context, text) = (&mut contexts[which], event(number));
            let window = context.reachable().to_vec();
            let mut deflated = Vec::new();
            assert!(context.deflate(&text, &mut deflated));
            let read = |inflater: &mut Decompress| {
                let mut plain = Vec::with_capacity(1 << 12);
                let flush = FlushDecompress::Sync;
                inflater.decompress_vec(&deflated, &mut plain, flush).expect("deflate");
                plain
            };
            assert_eq!(read(&mut inflaters[which]), text);
            let mut primed = Decompress::new(false);
            if !window.is_empty() {
                primed.set_dictionary(&window).expect("a dictionary");
            }
            assert_eq!(read(&mut primed), text);
        }
    }

    #[test]
    fn a_recycled_compressor_continues_with_the_newest_text() {
        let mut context = SharedContext::new(ContextWindow::Bits12);
        let mut inflater = Decompress::new(false);
        let mut lens = Vec::new();
        for number in 0..200 {
            if number == 150 {
                // Others use all compressors of this thread.
                (0..COMPRESSORS_MAX).for_each(|_| {
                    SharedContext::new(WINDOW).deflate(&b"of others ".repeat(20), &mut Vec::new());
                });
            }
            let (text, primed_before) = (event(number), SharedContext::primed_frames());
            let mut deflated = Vec::new();
            assert!(context.deflate(&text, &mut deflated));
            let mut plain = Vec::with_capacity(1 << 12);
            let inflated = inflater.decompress_vec(&deflated, &mut plain, FlushDecompress::Sync);
            assert_eq!((inflated.is_ok(), plain), (true, text));
            let is_primed = SharedContext::primed_frames() > primed_before;
            assert_eq!(is_primed, number == 150);
            lens.push(deflated.len());
        }
        assert!(lens[150] * 2 < lens[0], "{lens:?}");
    }

    #[test]
    fn repeated_events_take_few_bytes_and_a_cleared_context_none_of_them() {
        let mut context = SharedContext::new(ContextWindow::Bits12);
        let mut lens = Vec::new();
        for number in 0..50 {
            if number == 40 {
                context.clear();
            }
            let mut deflated = Vec::new();
            context.deflate(&event(number), &mut deflated);
            lens.push(deflated.len());
        }
        assert!(lens[30] * 2 < lens[0], "{lens:?}");
        assert!(lens[40].abs_diff(lens[0]) < 12, "{lens:?}");
    }

    #[test]
    fn a_context_keeps_little_more_than_its_window() {
        let mut context = SharedContext::new(WINDOW);
        let window = context.window.bytes();
        let mut all = Vec::new();
        for len in [40, 60, window - 1, window, 3 * window, 50, 2 * window, 100] {
            let text: Vec<u8> = (0..len).map(|at| (all.len() + at % 16) as u8).collect();
            context.deflate(&text, &mut Vec::new());
            all.extend(text);
            assert_eq!(context.end(), all.len() as u64);
            assert!(context.memory_bytes() <= context.text_bytes_max());
            let reach = context.reach() as usize;
            assert_eq!(context.reachable(), &all[reach..]);
            assert_eq!(reach, all.len().saturating_sub(window));
        }
    }
}
