use thalweg_wire::Offset;

use super::Payloads;

/// Events that were read back, from an offset on.
#[derive(Debug)]
pub struct Page {
    /// The offset that was asked for, or the oldest that is stored. The page has every event from here on, up to its last.
    pub from: Offset,
    /// Messages with the offset of their first event, in order. The first may begin before `from`.
    pub messages: Vec<(Offset, Payloads)>,
    /// Set if no event comes between its last one and this offset, where the next batch that is here
    /// starts ([`super::Feed::here_from`]).
    pub is_last_before: Option<Offset>,
    /// What is older than this cannot be read.
    pub stored_from: Offset,
}
