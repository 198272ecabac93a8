use std::ops::Range;

use thalweg_wire::Offset;

use super::Payloads;

/// The events of a backfill.
#[derive(Debug)]
pub struct Page {
    /// The requested offset, or the oldest stored one. The page has every event from here on, up to its last,
    /// except those in `holes`.
    pub from: Offset,
    /// Messages with the offset of their first event, in order. The first may begin before `from`.
    pub messages: Vec<(Offset, Payloads)>,
    /// Offsets whose events are lost, in order. None has an event of the page.
    pub holes: Vec<Range<Offset>>,
    /// If set, no event lies between the page's last event or hole and this offset ([`super::Backfill::page_until`]).
    pub is_last_before: Option<Offset>,
    /// The oldest offset that can be read.
    pub stored_from: Offset,
    /// Removals of keys before this offset may be missing from a keyed topic, and an earlier page may have the events that they removed.
    pub compacted: Offset,
    /// When the page was read, in ms since 1970.
    pub unix_ms: i64,
}
