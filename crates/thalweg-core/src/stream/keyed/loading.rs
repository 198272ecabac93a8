//! The state of a keyed topic that a broker stores, read page by page when the topic is first used.
//!
//! Events that come meanwhile go into the table at once; older events of their keys are then left out.

use std::sync::Arc;

use thalweg_wire::Offset;

use super::{
    super::{Backfill, Feed, KeyedEvent, Page, Payloads},
    KeyedFeed, Loading,
};

impl KeyedFeed {
    /// Forgets the state, and waits for the pages of a broker.
    pub(super) fn load_again(&mut self) {
        self.table = Default::default();
        self.pages.sweep(u64::MAX, 0);
        self.is_stored = true;
        self.loading = Some(Box::new(Loading::new(self.head())));
    }

    /// Takes the events of a message that were not delivered.
    fn load_message(
        &mut self,
        loading: &mut Loading,
        (first, payloads): (Offset, &Payloads),
        age_us: u64,
        now_us: u64,
    ) {
        let came_us = now_us.saturating_sub(age_us);
        for (offset, (key, event)) in (first..).zip(payloads.keyed_events()) {
            if !(loading.next..loading.until).contains(&offset) {
                continue;
            }
            let event = KeyedEvent::new(offset, key, event);
            if event.is_removal() {
                loading.first_removal.get_or_insert(offset);
            }
            if event.is_removal() && age_us >= self.removals.age_us_max {
                self.table.remove_before(key, offset);
                loading.complete_from = offset + 1;
            } else {
                self.table.load(Arc::new(event), came_us);
            }
        }
    }

    /// Notes that events before `end` are lost. A newer one of any key may be among them, so older ones count as lost, too. Readers of
    /// all positions may have keys that are lost.
    fn lose_before(&mut self, loading: &mut Loading, end: Offset) {
        let end = end.min(loading.until);
        self.table.forget_before(end);
        loading.has_lost = true;
    }
}

impl Backfill for KeyedFeed {
    fn needs_backfill(&self, _from: Offset) -> bool {
        self.loading.is_some()
    }

    fn holds_from(&self, _from: Offset) -> bool {
        self.loading.is_none()
    }

    fn backfill_until(&self, from: Offset) -> Offset {
        self.loading.as_ref().map_or(from, |loading| loading.until.max(1))
    }

    // The page of each reader continues the one before.
    fn stored_from(&self) -> Offset {
        self.loading.as_ref().map_or(0, |loading| loading.next)
    }

    fn backfill(&mut self, page: Page, now_us: u64) {
        let Some(mut loading) = self.loading.take() else { return };
        let Page { messages, holes, is_last_before, stored_from, compacted, unix_ms, .. } = page;
        let first = *loading.compacted.get_or_insert(compacted);
        if compacted > first && compacted > loading.next {
            // An event that was loaded may have been removed.
            self.table.forget_before(loading.until);
            self.loading = Some(Box::new(Loading::new(loading.until)));
            return;
        }
        // A page knows only the ends in its files, or in its range.
        loading.complete_from = loading.complete_from.max(stored_from);
        if stored_from > *loading.stored_from.get_or_insert(stored_from) {
            // The topic has ended, and the pages before have events from before the end.
            self.table.forget_before(stored_from.min(loading.until));
        }
        let mut holes = holes.into_iter().peekable();
        let mut end = loading.next;
        for (first, payloads) in &messages {
            while let Some(hole) = holes.next_if(|hole| hole.start < *first) {
                self.lose_before(&mut loading, hole.end.min(*first));
                end = end.max(hole.end);
            }
            let age_ms = unix_ms.saturating_sub(payloads.published_ms().unwrap_or(unix_ms)).max(0);
            self.load_message(&mut loading, (*first, payloads), age_ms as u64 * 1000, now_us);
            end = first + payloads.count() as Offset;
        }
        for hole in holes {
            self.lose_before(&mut loading, hole.end);
            end = end.max(hole.end);
        }
        loading.next = end;
        if is_last_before != Some(loading.until) {
            self.loading = Some(loading);
            return;
        }
        // The broker has left out no removal of the topic that is newer than one that it has.
        let removal = loading.first_removal.map_or(Offset::MAX, |first| first + 1);
        let lost = if loading.has_lost { loading.until } else { 0 };
        let complete_from = loading.complete_from.max(lost).max(compacted.min(removal));
        self.table.lacks_removals_before(complete_from.min(self.head()));
        self.table.end_load();
        self.pages.sweep(u64::MAX, self.complete_from());
    }
}
