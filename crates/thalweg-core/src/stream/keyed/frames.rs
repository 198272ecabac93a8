use std::sync::Arc;

use thalweg_wire::{Format, KeyFilter, Offset};

use super::{
    super::{Cursor, Encoding, Feed, Frames, LogFrames, Next},
    KeyedFeed, KeyedPage,
};

/// A keyed topic as subscribers of one encoding read it.
#[derive(Debug, Clone, Copy)]
pub struct KeyedFrames<'a, 'e> {
    feed: &'a KeyedFeed,
    log: LogFrames<'a, 'e>,
    format: Format,
    filter: Option<&'e Arc<KeyFilter>>,
    is_conflated: bool,
}

impl<'a, 'e> KeyedFrames<'a, 'e> {
    #[inline]
    pub(super) fn new(feed: &'a KeyedFeed, encoding: Encoding<'e>) -> Self {
        let encoding = encoding.without_patches();
        let (format, is_conflated) = (encoding.format(), encoding.is_conflated());
        let (log, filter) = (feed.log.frames(encoding), encoding.filter());
        Self { feed, log, format, filter, is_conflated }
    }

    /// Returns the events after a cursor that is between frames, from the log's tail, if the tail has all of them.
    fn live(&self, cursor: &Cursor, one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        // A new reader reads pages up to the head at which it began. From the tail it would also get removed keys,
        // whose removals might be forgotten before the reader gets to them.
        let is_new = match cursor.chain() {
            Some(head) => cursor.next < head,
            None => cursor.next <= 1 && cursor.next < self.feed.complete_from(),
        };
        if self.is_conflated || self.filter.is_some() || is_new {
            return None;
        }
        let live = self.log.kept(&cursor.without_chain(), one_frame);
        live.filter(|(bytes, _)| !bytes.is_empty())
    }

    /// Returns the page after a cursor that is between frames, if the page is made, and its serial number.
    fn made(&self, cursor: &Cursor) -> Option<(u32, &'a KeyedPage)> {
        let is_complete = self.feed.is_complete_after(cursor) && !self.feed.is_partial();
        let find = || self.feed.pages.find(self.format, self.filter, cursor.next);
        let found = is_complete.then(find).flatten();
        // A page without keys is of use only to a reader who waits for one.
        found.filter(|(_, page)| page.to > cursor.next || cursor.is_owed_page())
    }

    /// Returns the page that a reader gets after a cursor that is between frames, if the page is made.
    fn page(&self, cursor: &Cursor) -> Option<(u32, &'a KeyedPage)> {
        self.made(cursor).filter(|(_, page)| self.has_keys(page) || cursor.is_owed_page())
    }

    /// Returns the cursor of a reader that has skipped events, if the next events are known to be of keys that its filter does not select.
    fn skip(&self, cursor: &Cursor) -> Option<Cursor> {
        let filter = self.filter.filter(|_| !cursor.is_owed_page())?;
        let from = cursor.needed_from();
        let empty = self.made(cursor).filter(|(_, page)| page.is_empty && page.to > from);
        if let Some((_, page)) = empty {
            return Some(cursor.skipping_to(page.to));
        }
        let has_none = self.feed.table.has_none_from(from, filter);
        has_none.then(|| cursor.skipping_to(self.feed.head()))
    }

    fn is_at_head(&self, cursor: &Cursor) -> bool {
        cursor.needed_from() >= self.feed.head() && !cursor.is_owed_page()
    }

    /// Returns whether readers get a page: they skip one without keys, if they have a filter.
    fn has_keys(&self, page: &KeyedPage) -> bool {
        self.filter.is_none() || !page.is_empty
    }
}

impl<'a> Frames<'a> for KeyedFrames<'a, '_> {
    fn next(&self, cursor: &Cursor, one_frame: bool, scratch: &mut Vec<u8>) -> Next<'a> {
        match self.kept(cursor, one_frame) {
            Some(([], _)) => Next::Nothing,
            Some((bytes, after)) => Next::Hot(bytes, after),
            None if cursor.in_frame() => self.log.next(cursor, one_frame, scratch),
            None if self.feed.is_loading() => Next::Backfill(1),
            None if self.feed.is_partial() => Next::Nothing,
            None if self.is_at_head(cursor) => Next::Nothing,
            None if !self.feed.is_complete_after(cursor) => Next::Unknown(Cursor::before(1)),
            None => self.skip(cursor).map_or(Next::Unmade, Next::Skipped),
        }
    }

    #[inline]
    fn kept(&self, cursor: &Cursor, one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        if let Some(serial) = cursor.page() {
            let page = self.feed.pages.get(serial)?;
            let after = Cursor::after_page(page.to, cursor.chain());
            return Some((&page.bytes[cursor.sent()..], after));
        }
        if cursor.in_frame() {
            return self.log.kept(cursor, one_frame);
        }
        if self.feed.is_loading() {
            return None;
        }
        if self.is_at_head(cursor) {
            return Some((&[], *cursor));
        }
        self.live(cursor, one_frame).or_else(|| {
            let (_, page) = self.page(cursor)?;
            Some((&page.bytes, Cursor::after_page(page.to, chain_after(cursor, page))))
        })
    }

    fn advance(&self, cursor: &Cursor, sent: usize) -> Cursor {
        if cursor.page().is_some() {
            return Cursor { sent: cursor.sent + sent as u32, ..*cursor };
        }
        let is_live = cursor.in_frame() || self.live(cursor, false).is_some();
        match self.page(cursor).filter(|_| !is_live) {
            Some((serial, page)) => {
                Cursor::within_page(page.from, serial, sent, chain_after(cursor, page))
            }
            None => self.log.advance(&cursor.without_chain(), sent),
        }
    }
}

/// Returns [`Cursor::chain`] of a reader after a page.
fn chain_after(cursor: &Cursor, page: &KeyedPage) -> Option<Offset> {
    match page.from <= 1 {
        true => Some(page.head),
        false => cursor.chain().map(|head| head.min(page.head)),
    }
}
