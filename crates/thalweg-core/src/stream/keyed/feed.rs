//! A keyed topic as a feed.

use std::sync::Arc;

use thalweg_wire::{Epoch, GapReason, KeyFilter, Keyed as Keys, Offset, StartAt, Topic};

use super::{
    super::{Batch, ColumnCounts, Cursor, Encoding, Feed, KeyedEvent, Start},
    KeyedFeed, KeyedFrames, StatePart,
    table::Selected,
};

impl Feed for KeyedFeed {
    type Frames<'a, 'e> = KeyedFrames<'a, 'e>;

    #[inline]
    fn frames<'a, 'e>(&'a self, encoding: Encoding<'e>) -> KeyedFrames<'a, 'e> {
        KeyedFrames::new(self, encoding)
    }

    fn topic(&self) -> &Topic {
        self.log.topic()
    }

    fn epoch(&self) -> Epoch {
        self.log.epoch()
    }

    fn head(&self) -> Offset {
        self.log.head()
    }

    fn is_state(&self) -> bool {
        true
    }

    fn conflates(&self) -> bool {
        true
    }

    // A subscription continues from the state that its client has, or begins without any.
    fn start(&self, at: StartAt) -> Start {
        if self.is_loading() {
            return Start::Backfill(1);
        }
        let all = Cursor::before(1);
        let (position, chain) = match at {
            StartAt::After(position) => (position, None),
            StartAt::Within(position, ahead) => {
                (position, Some(position.offset + Offset::from(ahead) + 1))
            }
            StartAt::Latest | StartAt::Earliest | StartAt::Newest(_) | StartAt::Since(_) => {
                return Start::At(all);
            }
        };
        if position.epoch != self.epoch() {
            return match position.offset {
                0 => Start::At(all),
                _ => Start::OtherEpoch(Cursor::owed_page()),
            };
        }
        let cursor = Cursor::after_page(position.offset + 1, chain);
        match self.is_complete_after(&cursor) {
            true => Start::At(cursor),
            false => Start::Unknown(all),
        }
    }

    // A reader of an older state does not know which of its keys are gone.
    fn unknown_reason(&self) -> GapReason {
        GapReason::Trimmed
    }

    fn confirmed_keys(&self, cursor: &Cursor, filter: Option<&KeyFilter>) -> Option<Keys<'static>> {
        let newest = self.head().max(self.state_head) - 1;
        // A client whose keys have not changed gets nothing until they do. One that was cut off within a snapshot knows an `until`.
        let may_get = filter.is_none_or(|filter| {
            self.is_partial()
                || cursor.chain().is_some()
                || self.table.may_select_from(cursor.next(), filter)
        });
        let until = (may_get && newest >= cursor.next()).then_some(newest);
        Some(Keys { keys: &[], until })
    }

    fn batches_from(&self, from: Offset) -> impl Iterator<Item = &Arc<Batch>> {
        self.log.batches_from(from)
    }

    fn push(&mut self, batch: Arc<Batch>, now_us: u64) {
        // A part of the state may already include the first events of the batch.
        let head = self.head();
        for event in batch.keyed_events().iter().filter(|event| event.offset() >= head) {
            // A removal of a key that is not in the table counts, too: a reader from another shard may have a page
            // that leaves out an older removal of the key because of this one.
            self.table.push(Arc::clone(event), now_us);
        }
        self.log.push(batch, now_us);
    }

    fn has_all(&self, cursor: &Cursor) -> bool {
        !cursor.in_frame() && cursor.needed_from() >= self.head()
    }

    // The keys in between are unknown.
    fn skip_to(&mut self, head: Offset) {
        if head > self.head() {
            self.table.restart(head);
            self.pages.sweep(u64::MAX, head);
            self.log.skip_to(head);
            if self.is_stored {
                self.load_again();
            }
        }
    }

    fn load(&mut self) {
        self.load_again();
    }

    fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    fn state_part(
        &self,
        cursor: &Cursor,
        count_max: usize,
        filter: Option<&KeyFilter>,
    ) -> Option<(StatePart, Cursor)> {
        let (head, complete_from) = (self.head(), self.complete_from());
        let cursor = if self.is_complete_after(cursor) { *cursor } else { Cursor::before(1) };
        let from = cursor.next();
        let (events, end) = match filter {
            None => first_of(self.table.events_from(from), count_max),
            Some(filter) => {
                let Selected { events, end } = self.table.selected_from(from, filter);
                let (events, cut) = first_of(events.into_iter(), count_max);
                (events, cut.or(end))
            }
        };
        let to = end.unwrap_or(head);
        let chain = if from <= 1 { Some(head) } else { cursor.chain() };
        Some((StatePart { from, events, to, head, complete_from }, Cursor::after_page(to, chain)))
    }

    fn take_state(&mut self, part: StatePart, now_us: u64) {
        let StatePart { events, to, head, complete_from, .. } = part;
        let before = self.head();
        for event in events.into_iter().filter(|event| event.offset() >= before) {
            self.table.push(event, now_us);
        }
        self.table.lacks_removals_before(complete_from);
        self.pages.sweep(now_us, self.complete_from());
        self.state_head = self.state_head.max(head);
        self.log.skip_to(to);
    }

    fn keyed_event(&self, key: &[u8]) -> Option<&KeyedEvent> {
        self.table.get(key).map(|event| &**event)
    }

    fn forget_removals(&mut self) {
        if self.is_loading() {
            return;
        }
        let forgotten = self.table.forget_removals(0, 0) as u64;
        self.forgotten_early += forgotten;
        if forgotten > 0 {
            self.pages.sweep(u64::MAX, self.complete_from());
        }
    }

    fn make_frames(
        &mut self,
        cursor: &Cursor,
        encoding: Encoding<'_>,
        now_us: u64,
    ) -> ColumnCounts {
        let is_behind = !self.has_all(cursor) || cursor.is_owed_page();
        let is_behind = is_behind && !self.is_partial();
        if is_behind && !cursor.in_frame() && self.is_complete_after(cursor) {
            let page = self.make_page(cursor, encoding.without_patches(), now_us);
            self.pages.keep(page);
        }
        ColumnCounts::default()
    }

    // Removals alone are no reason to keep the topic.
    fn first_retained(&self) -> Offset {
        let oldest = self.table.oldest().filter(|_| self.table.live() > 0);
        oldest.unwrap_or(self.head())
    }

    fn retained_events(&self) -> usize {
        self.table.live()
    }

    fn events_from(&self, from: Offset) -> u64 {
        self.head().saturating_sub(from).min(self.table.len() as u64)
    }

    fn batch_at(&self, offset: Offset) -> Option<&Arc<Batch>> {
        self.log.batch_at(offset)
    }

    fn published_us(&self, offset: Offset) -> Option<u64> {
        self.log.published_us(offset)
    }

    fn newest_version(&self) -> Option<&Batch> {
        None
    }
}

/// Returns the first `count_max` events, and one past the offset of the last one if there are more.
fn first_of<'a>(
    mut all: impl Iterator<Item = &'a Arc<KeyedEvent>>,
    count_max: usize,
) -> (Vec<Arc<KeyedEvent>>, Option<Offset>) {
    let first: Vec<_> = all.by_ref().take(count_max).cloned().collect();
    let end = all.next().and_then(|_| first.last()).map(|last| last.offset() + 1);
    (first, end)
}
