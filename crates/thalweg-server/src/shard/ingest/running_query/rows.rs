//! The rows of a query: they go to the batches of its topic.

use std::cell::Cell;

use thalweg_core::stream::DerivedBatches;
use thalweg_query::{Plan, Sink, limits};
use thalweg_wire::{Offset, key};

use crate::derived;

// A key of a group must be a key of a topic.
const _: () = assert!(limits::KEY_BYTES_MAX == key::KEY_BYTES_MAX);

/// A sink that adds rows to the batches of a topic.
pub(super) struct Rows<'a> {
    pub(super) batches: &'a mut DerivedBatches,
    now_us: u64,
    /// The publish time of the event whose rows these are, in ms since 1970.
    pub(super) published_ms: i64,
    /// Bytes of the unsealed rows.
    pub(super) unsealed_bytes: &'a Cell<usize>,
    /// The topic has all rows from this offset on.
    pub(super) begins: Option<Offset>,
    /// Whether the topic's columns follow the query's plan.
    pub(super) has_columns: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        batches: &'a mut DerivedBatches,
        unsealed_bytes: &'a Cell<usize>,
        published_ms: i64,
        now_us: u64,
    ) -> Self {
        unsealed_bytes.set(batches.unsealed_bytes());
        Self { batches, now_us, published_ms, unsealed_bytes, begins: None, has_columns: false }
    }

    /// Advances the publish time by a pause of `ms`.
    pub(super) fn pass(&mut self, ms: u64) {
        self.published_ms = self.published_ms.saturating_add_unsigned(ms);
    }
}

impl Sink for Rows<'_> {
    fn begins(&mut self, offset: Offset) {
        self.batches.begin(offset);
        self.begins = Some(offset);
    }

    fn row(&mut self, offset: Offset, row: &[u8]) {
        self.unsealed_bytes.set(self.unsealed_bytes.get() + row.len());
        self.batches.push(offset, row, self.published_ms, self.now_us);
    }

    fn change(&mut self, offset: Offset, key: &str, row: Option<&[u8]>) {
        let event = row.unwrap_or(b"null");
        self.unsealed_bytes.set(self.unsealed_bytes.get() + key.len() + event.len());
        self.batches.push_keyed(offset, (key, event), self.published_ms, self.now_us);
    }

    fn lost(&mut self, offset: Offset) {
        self.batches.lose(offset, self.now_us);
    }

    fn widened(&mut self, plan: &Plan) {
        if self.has_columns
            && let Some(columns) = derived::ad_hoc_columns(plan)
        {
            self.batches.set_columns(columns, self.now_us);
        }
    }
}
