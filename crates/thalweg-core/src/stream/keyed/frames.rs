use thalweg_wire::{Format, Offset};

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
    is_conflated: bool,
}

impl<'a, 'e> KeyedFrames<'a, 'e> {
    #[inline]
    pub(super) fn new(feed: &'a KeyedFeed, encoding: Encoding<'e>) -> Self {
        let encoding = encoding.without_patches();
        let (format, is_conflated) = (encoding.format(), encoding.is_conflated());
        Self { feed, log: feed.log.frames(encoding), format, is_conflated }
    }

    /// Returns the events after a cursor that is between frames, from the log's tail, if the tail has all of them.
    fn live(&self, cursor: &Cursor, one_frame: bool) -> Option<(&'a [u8], Cursor)> {
        // A new reader reads pages up to the head at which it began. From the tail it would also get removed keys,
        // whose removals might be forgotten before the reader gets to them.
        let is_new = match cursor.chain() {
            Some(head) => cursor.next < head,
            None => cursor.next <= 1 && cursor.next < self.feed.complete_from(),
        };
        if self.is_conflated || is_new {
            return None;
        }
        let live = self.log.kept(&cursor.without_chain(), one_frame);
        live.filter(|(bytes, _)| !bytes.is_empty())
    }

    /// Returns the page after a cursor that is between frames, if the page is made, and its serial number.
    fn page(&self, cursor: &Cursor) -> Option<(u32, &'a KeyedPage)> {
        let is_complete = self.feed.is_complete_after(cursor) && !self.feed.is_partial();
        let found = is_complete.then(|| self.feed.pages.find(self.format, cursor.next)).flatten();
        // A page without keys is of use only to a reader who waits for one.
        found.filter(|(_, page)| page.to > cursor.next || cursor.is_owed_page())
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
            None if cursor.next >= self.feed.head() && !cursor.is_owed_page() => Next::Nothing,
            None if !self.feed.is_complete_after(cursor) => Next::Unknown(Cursor::before(1)),
            None => Next::Unmade,
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
        if cursor.next == self.feed.head() && !cursor.is_owed_page() {
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
