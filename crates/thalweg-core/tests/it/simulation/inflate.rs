//! Deflate (RFC 1951) as peers read it: with another implementation than the writer's. A frame may refer to nothing but its own text
//! and the given text before it.

use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, decompress,
        inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF},
    },
};

/// RFC 1952 §2.3: deflate, no flags, no time, no extra flags, unknown system.
pub(super) const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The end of a sync flush: an empty stored block's length and its complement.
const FLUSH_END: [u8; 4] = [0, 0, 0xff, 0xff];

pub(super) struct Inflated {
    pub(super) text: Vec<u8>,
    /// Bytes after which all of the text is known.
    pub(super) told: usize,
    pub(super) len: usize,
    pub(super) is_stored: bool,
}

/// A block that is stored and not the last (RFC 1951 §3.2.4), and a flush.
pub(super) fn stored(plain: &[u8]) -> Vec<u8> {
    let len = u16::try_from(plain.len()).expect("a short one");
    let block = [&[0], &len.to_le_bytes()[..], &(!len).to_le_bytes()[..], plain].concat();
    [&block[..], &[0], &FLUSH_END].concat()
}

/// The text of a compressed WebSocket message (RFC 7692 §7.2.2). `None` if it refers to other text than `before`.
pub(super) fn message(payload: &[u8], before: &[u8]) -> Option<Vec<u8>> {
    assert!(!payload.ends_with(&FLUSH_END), "the end of the flush is left in (RFC 7692 §7.2.1)");
    let mut inflater = Inflater::after(before);
    (inflater.push(payload) && inflater.push(&FLUSH_END)).then(|| inflater.into_text())
}

/// Returns the blocks at the front of `bytes`, up to where the text ends with `end` and the compressor is empty.
/// `None` while they are incomplete.
pub(super) fn gzip_frame(bytes: &[u8], end: &[u8], before: &[u8]) -> Option<Inflated> {
    // A block of such a frame is not the last, is stored, and has no bits up to the end of the byte.
    let is_stored = *bytes.first()? == 0;
    let mut inflater = Inflater::after(before);
    let mut told = None;
    for (index, byte) in bytes.iter().enumerate() {
        assert!(inflater.push(&[*byte]), "a frame refers to other text");
        let len = index + 1;
        let was_told = told.is_some();
        if told.is_none() && inflater.text().ends_with(end) {
            told = Some(len);
        }
        let Some(told) = told else { continue };
        if was_told && bytes[..len].ends_with(&FLUSH_END) {
            return Some(Inflated { text: inflater.into_text(), told, len, is_stored });
        }
    }
    None
}

/// Whether the blocks can be read without the text before them.
pub(super) fn is_alone(blocks: &[u8]) -> bool {
    Inflater::after(&[]).push(blocks)
}

struct Inflater {
    state: DecompressorOxide,
    text: Vec<u8>,
    /// Where its own text begins.
    start: usize,
    /// The bytes in use. The others are room.
    len: usize,
}

impl Inflater {
    fn after(before: &[u8]) -> Self {
        let (state, len) = (DecompressorOxide::new(), before.len());
        Self { state, text: before.to_vec(), start: len, len }
    }

    /// Returns `false` if the input refers to other text, after which nothing may be pushed.
    fn push(&mut self, mut input: &[u8]) -> bool {
        const FLAGS: u32 = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        loop {
            // More than one symbol stands for (RFC 1951 §3.2.5).
            if self.text.len() < self.len + 512 {
                self.text.resize(2 * self.len + 4096, 0);
            }
            let (status, read, written) =
                decompress(&mut self.state, input, &mut self.text, self.len, FLAGS);
            self.len += written;
            input = &input[read..];
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput => {
                    assert!(input.is_empty());
                    return true;
                }
                TINFLStatus::Failed => return false,
                other => panic!("{other:?}: a stream does not end"),
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.text[self.start..self.len]
    }

    fn into_text(mut self) -> Vec<u8> {
        self.text.truncate(self.len);
        self.text.split_off(self.start)
    }
}
