//! JSON Patches (RFC 6902) from one document to another. Pure.
//!
//! ```text
//! document   the places of a JSON text's values
//! number     whether reading and writing changes a number
//! path       a JSON Pointer (RFC 6901) to the current value
//! operations writes the operations
//! members    compares two objects or two arrays
//! ```
//!
//! Values are compared as text. The patch contains them exactly as they stand in the new document, so a client that
//! applies it gets the same values as from the new document. A value that is equal as JSON but written differently is
//! replaced. Arrays of objects with an `id` are compared by `id`.

mod document;
mod members;
mod number;
mod operations;
mod path;

use document::JsonDocument;
use operations::Operations;

/// The budget of a patch. A patch that exceeds the budget is abandoned.
#[derive(Debug)]
pub struct PatchBudget<F> {
    is_over: F,
    /// Bytes examined since the last check of the time.
    looked_at: usize,
    bytes_max: usize,
}

/// Bytes examined between two checks of the time: about 20 µs of work.
const BYTES_BETWEEN: usize = 16 << 10;

/// The reason why no patch is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPatch {
    /// Making the patch takes too long.
    #[error("the patch takes too long")]
    TooSlow,
    /// The patch exceeds its limit.
    #[error("the patch is larger than the document")]
    TooLarge,
    /// JSON readers change or reject a part: a number that a double cannot hold, half of a surrogate pair, too many levels.
    #[error("JSON readers would change or reject a part of the document")]
    Unsafe,
}

impl<F: FnMut() -> bool> PatchBudget<F> {
    /// Allows at most `bytes_max` of patch, until `is_over` returns true. `is_over` is called at once, and then repeatedly.
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

/// Returns the operations that turn `before` into `after`, joined by commas, as they stand between the brackets of
/// a patch. The result is empty if the documents are equal. Both must be events as on the wire: JSON without insignificant whitespace.
///
/// # Errors
/// If the budget is exceeded, or a document is not safe to patch.
pub fn between<F: FnMut() -> bool>(
    before: &[u8],
    after: &[u8],
    mut budget: PatchBudget<F>,
) -> Result<Vec<u8>, NoPatch> {
    let before = JsonDocument::read(before, None, &mut budget)?;
    let after = JsonDocument::read(after, Some(&before), &mut budget)?;
    let mut operations = Operations::new((before, after), budget);
    operations.value(document::ROOT, document::ROOT)?;
    operations.finish()
}

#[cfg(test)]
mod tests;
