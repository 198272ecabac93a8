//! Pages of a keyed topic that readers share.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use slab::Slab;
use thalweg_wire::{Format, KeyFilter, Offset};

use super::super::{ColumnMemory, FormatMap};

/// One event of each key that changed between two offsets, as a finished frame. After the page, a reader with everything before
/// `from` has everything before `to`. A page stays valid when keys change later, because these keys are sent again.
#[derive(Debug)]
pub(super) struct KeyedPage {
    pub(super) from: Offset,
    pub(super) to: Offset,
    /// The head when the page was made. Keys that changed between `to` and this offset may be missing.
    pub(super) head: Offset,
    pub(super) bytes: Box<[u8]>,
    /// Whether the page has no keys.
    pub(super) is_empty: bool,
    format: Format,
    filter: Option<Arc<KeyFilter>>,
    made_us: u64,
    /// The connections that are within the page.
    holders: u32,
    /// Whether the page is kept for other readers.
    is_kept: bool,
}

/// The kept pages of one filter, or of all keys, by format and first offset.
type ByFrom = FormatMap<BTreeMap<Offset, u32>>;

/// The pages of a topic, by filter, format and first offset.
#[derive(Debug, Default)]
pub(super) struct Pages {
    all: Slab<KeyedPage>,
    by_from: ByFrom,
    filtered: HashMap<Arc<KeyFilter>, ByFrom>,
    /// The kept pages, the oldest first. Some may have been dropped since.
    order: VecDeque<u32>,
    bytes: usize,
    memory: ColumnMemory,
}

/// How long a page is kept for other readers, in µs. Later readers get newer events of its keys instead.
const KEPT_US: u64 = 2_000_000;

/// Maximum bytes of kept pages of one topic. A page that was dropped is made again for the next reader.
pub(super) const PAGE_BYTES_MAX: usize = 16 << 20;

impl KeyedPage {
    pub(super) fn new(
        (from, to, head): (Offset, Offset, Offset),
        (format, filter): (Format, Option<Arc<KeyFilter>>),
        (bytes, is_empty): (Vec<u8>, bool),
        now_us: u64,
    ) -> Self {
        Self {
            from,
            to,
            head,
            bytes: bytes.into_boxed_slice(),
            is_empty,
            format,
            filter,
            made_us: now_us,
            holders: 0,
            is_kept: true,
        }
    }

    fn memory_bytes(&self) -> usize {
        const OVERHEAD: usize = size_of::<KeyedPage>() + 64;
        self.bytes.len() + OVERHEAD
    }
}

impl Pages {
    /// Counts the kept pages in an account that all topics share.
    pub(super) fn counted_in(memory: ColumnMemory) -> Self {
        let mut pages = Self::default();
        pages.memory = memory;
        pages
    }

    /// Returns the kept page of a format and a filter that begins at `from`.
    pub(super) fn find(
        &self,
        format: Format,
        filter: Option<&Arc<KeyFilter>>,
        from: Offset,
    ) -> Option<(u32, &KeyedPage)> {
        let by_from = match filter {
            None => &self.by_from,
            Some(filter) => self.filtered.get(filter)?,
        };
        let serial = *by_from.get(format)?.get(&from)?;
        Some((serial, self.all.get(serial as usize)?))
    }

    pub(super) fn get(&self, serial: u32) -> Option<&KeyedPage> {
        self.all.get(serial as usize)
    }

    /// Keeps a page. Drops older ones if there are too many.
    pub(super) fn keep(&mut self, page: KeyedPage) {
        self.bytes += page.memory_bytes();
        self.memory.add(page.memory_bytes());
        let (format, from) = (page.format, page.from);
        let by_from = match &page.filter {
            None => &mut self.by_from,
            Some(filter) => self.filtered.entry(Arc::clone(filter)).or_default(),
        };
        let by_from = by_from.get_or_insert_with(format, BTreeMap::new);
        // The page of readers that skip events is made again at the same place. It keeps its entry in `order`.
        let is_free =
            |serial: &u32| self.all.get(*serial as usize).is_some_and(|page| page.holders == 0);
        let serial = match by_from.get(&from).copied().filter(is_free) {
            Some(serial) => {
                let before = std::mem::replace(&mut self.all[serial as usize], page);
                self.bytes -= before.memory_bytes();
                self.memory.subtract(before.memory_bytes());
                serial
            }
            None => {
                let serial = self.all.insert(page) as u32;
                self.order.push_back(serial);
                serial
            }
        };
        if let Some(before) = by_from.insert(from, serial).filter(|before| *before != serial) {
            self.drop_page(before);
        }
        // The new page may have entries at the front, too: it was made again, or has the serial number of a dropped one.
        let mut own_entries = 0;
        while (self.bytes > PAGE_BYTES_MAX || self.memory.over() > 0)
            && own_entries < self.order.len()
            && let Some(oldest) = self.order.pop_front()
        {
            if oldest == serial {
                self.order.push_back(oldest);
                own_entries += 1;
            } else {
                self.unlink(oldest);
            }
        }
    }

    /// Drops pages that were made too long ago, and those after which a reader would lack removals before `complete_from`.
    pub(super) fn sweep(&mut self, now_us: u64, complete_from: Offset) {
        let is_over =
            |page: &KeyedPage| page.made_us + KEPT_US <= now_us || page.head < complete_from;
        let mut over = std::mem::take(&mut self.order);
        over.retain(|serial| {
            let page = self.all.get(*serial as usize).filter(|page| page.is_kept);
            let stays = page.is_some_and(|page| !is_over(page));
            if stays {
                self.order.push_back(*serial);
            }
            page.is_some() && !stays
        });
        over.into_iter().for_each(|serial| self.unlink(serial));
        // Some formats and filters have only one reader, so empty maps would pile up.
        self.by_from.retain(|pages| !pages.is_empty());
        self.filtered.retain(|_, by_from| {
            by_from.retain(|pages| !pages.is_empty());
            !by_from.is_empty()
        });
    }

    /// Drops the pages of formats without readers.
    pub(super) fn close(&mut self, format: Format) {
        let mut dropped = Vec::new();
        for by_from in std::iter::once(&mut self.by_from).chain(self.filtered.values_mut()) {
            if let Some(pages) = by_from.get_mut(format) {
                dropped.extend(std::mem::take(pages).into_values());
            }
            by_from.remove(format);
        }
        dropped.into_iter().for_each(|serial| self.drop_page(serial));
    }

    /// Keeps a page for a connection that is within it.
    pub(super) fn hold(&mut self, serial: u32) {
        if let Some(page) = self.all.get_mut(serial as usize) {
            page.holders += 1;
        }
    }

    /// Undoes one call of [`Self::hold`].
    pub(super) fn release(&mut self, serial: u32) {
        let Some(page) = self.all.get_mut(serial as usize) else { return };
        page.holders -= 1;
        if page.holders == 0 && !page.is_kept {
            self.all.remove(serial as usize);
        }
    }

    /// Returns the memory of kept pages.
    pub(super) fn kept_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the memory of pages that are kept only for connections within them.
    pub(super) fn held_bytes(&self) -> usize {
        let held = self.all.iter().filter(|(_, page)| !page.is_kept);
        held.map(|(_, page)| page.memory_bytes()).sum()
    }

    fn unlink(&mut self, serial: u32) {
        let Some(page) = self.all.get(serial as usize).filter(|page| page.is_kept) else { return };
        let by_from = match &page.filter {
            None => Some(&mut self.by_from),
            Some(filter) => self.filtered.get_mut(filter),
        };
        if let Some(pages) = by_from.and_then(|by_from| by_from.get_mut(page.format)) {
            pages.remove(&page.from);
        }
        self.drop_page(serial);
    }

    fn drop_page(&mut self, serial: u32) {
        let Some(page) = self.all.get_mut(serial as usize) else { return };
        self.bytes -= page.memory_bytes();
        self.memory.subtract(page.memory_bytes());
        page.is_kept = false;
        if page.holders == 0 {
            self.all.remove(serial as usize);
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.memory.subtract(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: usize = PAGE_BYTES_MAX / 2;

    fn keep(pages: &mut Pages, from: Offset, bytes: usize) {
        let kind = (Format::NDJSON, None);
        pages.keep(KeyedPage::new((from, from + 1, 10), kind, (vec![b' '; bytes], false), 1));
    }

    fn serial_at(pages: &Pages, from: Offset) -> Option<u32> {
        pages.find(Format::NDJSON, None, from).map(|(serial, _)| serial)
    }

    #[test]
    fn the_oldest_page_that_is_made_again_takes_the_room_of_others() {
        let mut pages = Pages::default();
        keep(&mut pages, 1, 1000);
        keep(&mut pages, 2, HALF);
        keep(&mut pages, 1, HALF);
        assert!(pages.kept_bytes() <= PAGE_BYTES_MAX);
        assert!(serial_at(&pages, 1).is_some() && serial_at(&pages, 2).is_none());
    }

    #[test]
    fn a_page_with_the_serial_number_of_a_dropped_one_takes_the_room_of_others() {
        let mut pages = Pages::default();
        keep(&mut pages, 1, 1000);
        keep(&mut pages, 2, HALF);
        let dropped = serial_at(&pages, 1).expect("a page");
        pages.hold(dropped);
        keep(&mut pages, 1, 1000);
        pages.release(dropped);
        keep(&mut pages, 3, HALF);
        assert_eq!(serial_at(&pages, 3), Some(dropped));
        assert!(pages.kept_bytes() <= PAGE_BYTES_MAX);
        assert!(serial_at(&pages, 1).is_some() && serial_at(&pages, 2).is_none());
    }
}
