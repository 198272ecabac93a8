use thalweg_wire::Offset;

use super::Payloads;

/// The events of a backfill.
#[derive(Debug)]
pub struct Page {
    /// The requested offset, or the oldest stored one. The page has every event from here on, up to its last.
    pub from: Offset,
    /// Messages with the offset of their first event, in order. The first may begin before `from`.
    pub messages: Vec<(Offset, Payloads)>,
    /// No event comes between the page's last one and this offset, if set ([`super::Backfill::backfill_until`]).
    pub is_last_before: Option<Offset>,
    /// Older events cannot be read.
    pub stored_from: Offset,
}
