//! Pages of a topic's records, for reads.

use std::ops::Range;

use thalweg_core::stream::Payloads;
use thalweg_wire::{Epoch, Offset, Topic};

use crate::Content;

/// A range of one topic's offsets.
#[derive(Debug, Clone)]
pub struct ReadRange {
    /// The index of the topic's stream.
    pub stream: usize,
    /// Its topic.
    pub topic: Topic,
    /// The epoch of the offsets.
    pub epoch: Epoch,
    /// Read events from this offset on. The offset itself may have no event.
    pub from: Offset,
    /// Read records that begin before this offset. If it is less than `from`, the range is empty.
    pub until: Offset,
}

/// The first records of a range. [`PageBuilder`] builds a page.
#[derive(Debug)]
pub struct ReadPage {
    /// The first offset and the events of each record, in order. None is left out, except for those of `holes`. The
    /// first record has at least one event of the range. No record is older than `stored_from`.
    pub records: Vec<(Offset, Payloads)>,
    /// Offsets in the range whose records may be lost, in order. Records before them are still readable, and readers
    /// get a gap for each. The page has each hole that lies before its last record, and none behind the first record
    /// that did not fit.
    pub holes: Vec<Range<Offset>>,
    /// Offsets of [pauses](crate::Content::Paused) in the range, and their durations in ms, in order. The page has
    /// each pause that lies before its last record, and none behind the first record that did not fit.
    pub pauses: Vec<(Offset, u64)>,
    /// Whether the page has all remaining records of the range. If not, it has at least one record or hole.
    pub is_whole: bool,
    /// Older records cannot be read: they were trimmed, or belong to a topic of this name that has ended.
    pub stored_from: Offset,
    /// The first offset of the page's newest record or of the topic's end, whichever is newer; 0 if there is neither.
    pub newest: Offset,
    /// Offsets from this one on were not assigned yet when the page was read.
    pub head: Offset,
    /// Removals of keys before this offset may be missing from a keyed topic. An earlier page may have the events that they removed: a
    /// reader begins again if this number has risen beyond the place where its page begins.
    pub compacted: Offset,
}

/// The range cannot be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Default maximum number of records of a page. A subscriber receives about so many records while the next
/// page is read.
const PAGE_RECORDS: usize = 256;

/// Maximum bytes of a page's events, if it has more than one record.
const PAGE_BYTES: usize = 1 << 20;

/// Maximum number of holes of a page.
const PAGE_HOLES: usize = 64;

impl ReadPage {
    /// Returns the offset after its last record or hole, if it has any: the next page of the range begins there.
    pub fn end(&self) -> Option<Offset> {
        let hole = self.holes.last().map(|hole| hole.end);
        hole.max(self.records.last().map(|(first, payloads)| first + payloads.count() as Offset))
    }
}

/// Makes a page of a topic's records.
///
/// The broker calls `push` for the records of the topic, in order. It must push all records of the range, and
/// each later end of the topic. It may push others, which the builder ignores.
///
/// ```
/// # use thalweg_broker::{Content, PageBuilder, ReadRange};
/// # use thalweg_core::stream::Payloads;
/// # let (topic, epoch) = ("a".parse().unwrap(), thalweg_wire::Epoch::new(1).unwrap());
/// let range = ReadRange { stream: 0, topic, epoch, from: 257, until: 300 };
/// let event = || Content::Events(Payloads::from_lines(b"1".to_vec()).unwrap());
/// let mut page = PageBuilder::new(&range, 300);
/// for (first, content) in [(256, event()), (258, event()), (259, Content::Paused(300))] {
///     page.push(first, content);
/// }
/// let page = page.finish(256);
/// assert_eq!((page.records.len(), page.records[0].0, page.is_whole), (1, 258, true));
/// assert_eq!((page.pauses, page.newest), (vec![(259, 300)], 259));
/// ```
#[derive(Debug)]
pub struct PageBuilder {
    from: Offset,
    until: Offset,
    is_newest: bool,
    records_max: usize,
    /// Bytes of events that the page has room for.
    room: usize,
    page: ReadPage,
}

impl PageBuilder {
    /// Begins a page of a range. `head` is the offset of the next record of the stream.
    pub fn new(range: &ReadRange, head: Offset) -> Self {
        let page = ReadPage {
            records: Vec::new(),
            holes: Vec::new(),
            pauses: Vec::new(),
            is_whole: true,
            stored_from: 0,
            newest: 0,
            head,
            compacted: 0,
        };
        let &ReadRange { from, until, .. } = range;
        let (records_max, room) = (PAGE_RECORDS, PAGE_BYTES);
        Self { from, until, is_newest: false, records_max, room, page }
    }

    /// Begins a page of the newest record, as [`Broker::newest`](crate::Broker::newest) returns it.
    pub fn newest(range: &ReadRange, head: Offset) -> Self {
        Self { until: Offset::MAX, is_newest: true, ..Self::new(range, head) }
    }

    /// Sets the maximum number of records of the page, at least 1.
    #[must_use]
    pub fn with_records_max(self, records_max: usize) -> Self {
        Self { records_max: records_max.max(1), ..self }
    }

    /// Takes the next record of the topic.
    pub fn push(&mut self, first: Offset, content: Content) {
        if let Content::End(_) = content {
            return self.end(first);
        }
        let is_in_range = first < self.until && first + content.offsets() > self.from;
        if self.from > self.until || !is_in_range || !self.page.is_whole {
            return;
        }
        match content {
            Content::Paused(ms) => self.page.pauses.push((first, ms)),
            Content::Events(payloads) if self.is_newest => {
                self.page.records = vec![(first, payloads)];
            }
            Content::Events(payloads) => {
                let bytes = payloads.joined().len();
                let records = self.page.records.len();
                if records > 0 && (records == self.records_max || bytes > self.room) {
                    return self.leave_out();
                }
                self.room = self.room.saturating_sub(bytes);
                self.page.records.push((first, payloads));
            }
            Content::End(_) => {}
        }
        self.page.newest = first;
    }

    /// Takes offsets whose records may be lost. Call it in the order of the records.
    pub fn lose(&mut self, hole: Range<Offset>) {
        let from = hole.start.max(self.from).max(self.page.end().unwrap_or(0));
        let until = hole.end.min(self.until);
        if self.is_newest || !self.page.is_whole || from >= until {
            return;
        }
        let count = self.page.holes.len();
        match self.page.holes.last_mut().filter(|last| last.end == from) {
            Some(last) => last.end = until,
            None if count == PAGE_HOLES => self.leave_out(),
            None => self.page.holes.push(from..until),
        }
    }

    /// Takes the end of the topic, which has the offset `first`. Records before it cannot be read any more.
    pub fn end(&mut self, first: Offset) {
        self.page.records.clear();
        self.page.holes.clear();
        self.page.pauses.clear();
        self.page.is_whole = true;
        (self.page.newest, self.page.stored_from) = (first, first + 1);
    }

    /// Notes that the range has more records, and ignores those that are pushed from now on.
    pub fn leave_out(&mut self) {
        self.page.is_whole = false;
    }

    /// Returns whether the range has more records than the page.
    pub fn is_full(&self) -> bool {
        !self.page.is_whole
    }

    /// Returns whether the page has neither events nor holes.
    pub fn is_empty(&self) -> bool {
        self.page.end().is_none()
    }

    /// Returns the page. Records before `stored_from` were trimmed.
    pub fn finish(mut self, stored_from: Offset) -> ReadPage {
        self.page.stored_from = self.page.stored_from.max(stored_from);
        self.page
    }
}

#[cfg(test)]
mod tests {
    use thalweg_wire::EndCode;

    use super::*;

    fn range(from: Offset, until: Offset) -> ReadRange {
        let topic = "a".parse().expect("a topic");
        ReadRange { stream: 0, topic, epoch: Epoch::new(1).expect("not 0"), from, until }
    }

    fn events(count: usize) -> Content {
        let lines = vec!["1"; count].join("\n").into_bytes();
        Content::Events(Payloads::from_lines(lines).expect("events"))
    }

    fn offsets(page: &ReadPage) -> Vec<Offset> {
        page.records.iter().map(|(first, _)| *first).collect()
    }

    /// Ten records of two events each, from 256 on, and a pause behind each.
    fn filled(mut page: PageBuilder) -> PageBuilder {
        for nth in 0..10 {
            page.push(256 + 3 * nth, events(2));
            page.push(258 + 3 * nth, Content::Paused(nth));
        }
        page
    }

    #[test]
    fn a_page_has_the_records_of_a_range() {
        let page = filled(PageBuilder::new(&range(260, 266), 300)).finish(256);
        assert_eq!((offsets(&page), page.is_whole), (vec![259, 262, 265], true));
        assert_eq!(page.pauses, [(261, 1), (264, 2)]);
        assert_eq!((page.stored_from, page.newest, page.head), (256, 265, 300));
        for empty in [range(300, 400), range(257, 256), range(0, 256)] {
            let page = filled(PageBuilder::new(&empty, 300)).finish(256);
            assert!(page.records.is_empty() && page.is_whole && page.newest == 0, "{page:?}");
        }
    }

    #[test]
    fn pauses_behind_a_record_that_is_left_out_are_left_out() {
        let page = PageBuilder::new(&range(0, 300), 300).with_records_max(2);
        let page = filled(page).finish(256);
        assert_eq!((offsets(&page), page.is_whole), (vec![256, 259], false));
        assert_eq!((page.pauses, page.newest), (vec![(258, 0), (261, 1)], 261));
    }

    #[test]
    fn a_page_has_a_bounded_number_of_bytes_and_one_record_at_least() {
        let mut page = PageBuilder::new(&range(0, 10_000), 10_000);
        let large = || Payloads::from_lines(vec![b'1'; PAGE_BYTES + 1]).expect("an event");
        (1..3).for_each(|first| page.push(first, Content::Events(large())));
        page.push(3, events(1));
        let page = page.finish(0);
        assert_eq!((offsets(&page), page.is_whole), (vec![1], false));
    }

    #[test]
    fn holes_lie_between_the_records_of_a_page_and_within_its_range() {
        let mut page = PageBuilder::new(&range(260, 290), 300);
        page.lose(256..262);
        page.lose(262..263);
        page.push(264, events(2));
        // It cannot have records of the page.
        page.lose(264..270);
        page.push(272, events(1));
        page.lose(280..300);
        let page = page.finish(256);
        assert_eq!((offsets(&page), page.is_whole), (vec![264, 272], true));
        assert_eq!(page.holes, [260..263, 266..270, 280..290]);
        assert_eq!((page.end(), page.stored_from), (Some(290), 256));
    }

    #[test]
    fn a_page_has_a_bounded_number_of_holes_and_none_after_a_record_that_is_left_out() {
        let mut page = PageBuilder::new(&range(0, 10_000), 10_000);
        (0..2 * PAGE_HOLES as u64).for_each(|nth| page.lose(10 * nth..10 * nth + 5));
        let page = page.finish(0);
        assert_eq!((page.holes.len(), page.is_whole), (PAGE_HOLES, false));
        let mut page = filled(PageBuilder::new(&range(0, 400), 400).with_records_max(2));
        page.lose(350..360);
        assert!(page.finish(0).holes.is_empty());
    }

    #[test]
    fn an_end_hides_earlier_records_in_any_range() {
        let mut page = filled(PageBuilder::new(&range(0, 300), 400).with_records_max(2));
        page.lose(310..320);
        page.push(350, Content::End(EndCode::Gone));
        let page = page.finish(256);
        assert!(page.records.is_empty() && page.pauses.is_empty() && page.is_whole, "{page:?}");
        assert_eq!((page.holes.len(), page.newest, page.stored_from), (0, 350, 351));
    }

    #[test]
    fn the_newest_record_is_the_last_one_from_an_offset_on() {
        let page = filled(PageBuilder::newest(&range(0, 0), 300)).finish(256);
        assert_eq!((offsets(&page), page.is_whole), (vec![283], true));
        let page = filled(PageBuilder::newest(&range(290, 0), 300)).finish(256);
        assert!(page.records.is_empty());
    }
}
