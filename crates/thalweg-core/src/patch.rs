//! The way from one JSON document to another, as a JSON Patch (RFC 6902): what a subscriber that
//! has the one needs to have the other. Pure.
//!
//! ```text
//! document   where the values of a JSON text are
//! number     whether a number is the same after it was read and written
//! path       a JSON Pointer (RFC 6901), as it grows and shrinks
//! operations the operations, written
//! members    two objects, two arrays
//! ```
//!
//! Values are compared as the texts that they are, and the patch has them as they stand in the
//! new document: whoever applies it gets what it would have read from the new document. What
//! is equal as JSON but written differently is replaced, and arrays of objects that have an `id`
//! are compared by that.

mod document;
mod members;
mod number;
mod operations;
mod path;

use document::Document;
use operations::Operations;

/// What a patch may cost. A patch that would cost more is not made.
#[derive(Debug)]
pub struct Budget<F> {
    is_over: F,
    /// Bytes looked at since time was last asked.
    looked_at: usize,
    bytes_max: usize,
}

/// Bytes that are looked at between two questions whether time is over: some 20 µs.
const BYTES_BETWEEN: usize = 16 << 10;

/// A patch is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPatch {
    /// It takes too long.
    #[error("the patch takes too long")]
    TooSlow,
    /// It is larger than it may be.
    #[error("the patch is larger than the document")]
    TooLarge,
    /// A document has what JSON readers change or do not read: a number that a double does not
    /// hold, half of a surrogate pair, or too many levels.
    #[error("the document has what JSON readers change")]
    Unsafe,
}

impl<F: FnMut() -> bool> Budget<F> {
    /// At most `bytes_max` of patch, in the time until `is_over`, which is asked at once, and then
    /// again and again.
    pub fn new(bytes_max: usize, is_over: F) -> Self {
        Self { is_over, looked_at: BYTES_BETWEEN, bytes_max }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), NoPatch> {
        self.looked_at += bytes;
        if self.looked_at >= BYTES_BETWEEN {
            self.looked_at = 0;
            if (self.is_over)() {
                return Err(NoPatch::TooSlow);
            }
        }
        Ok(())
    }
}

/// The operations that make `after` of `before`, joined by commas: what stands between the
/// brackets of a patch. Nothing if they are equal. Both are events of the wire: JSON without
/// insignificant whitespace.
///
/// # Errors
/// When the budget is over, or a document is not safe to patch.
pub fn between<F: FnMut() -> bool>(
    before: &[u8],
    after: &[u8],
    mut budget: Budget<F>,
) -> Result<Vec<u8>, NoPatch> {
    let before = Document::read(before, None, &mut budget)?;
    let after = Document::read(after, Some(&before), &mut budget)?;
    let mut operations = Operations::new((before, after), budget);
    operations.value(document::ROOT, document::ROOT)?;
    operations.finish()
}

#[cfg(test)]
mod tests;
