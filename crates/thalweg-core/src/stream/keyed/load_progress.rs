use thalweg_wire::Offset;

/// The progress of reading a state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loading {
    /// The next page begins here.
    pub(super) next: Offset,
    /// Records from here on are delivered.
    pub(super) until: Offset,
    /// [`Page::compacted`](super::super::Page::compacted) of the first page.
    pub(super) compacted: Option<Offset>,
    /// [`Page::stored_from`](super::super::Page::stored_from) of the first page.
    pub(super) stored_from: Option<Offset>,
    /// Removals before this offset are missing.
    pub(super) complete_from: Offset,
    /// The first removal that the broker has.
    pub(super) first_removal: Option<Offset>,
    /// Whether events are lost.
    pub(super) has_lost: bool,
}

impl Loading {
    pub(super) fn new(until: Offset) -> Self {
        Self {
            next: 1,
            until,
            compacted: None,
            stored_from: None,
            complete_from: 0,
            first_removal: None,
            has_lost: false,
        }
    }
}
