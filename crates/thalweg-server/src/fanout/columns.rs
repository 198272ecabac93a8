//! Streams of columns: one topic, and a schema that does not change. Where another schema would be
//! needed, or events are missing, the stream ends; whoever reads it comes again, and is told why in the
//! head of the next response.

use thalweg_wire::{Resume, StreamStart, close};

use super::{Feeds, ResponseMode, Subscriber, subscription::AnnouncedGap};
use crate::stream::ColumnCounts;

impl Subscriber {
    /// A subscription to columns has begun: ends the head of the response, and begins the stream if
    /// there is a schema. `is_asked`: at a position that its client named.
    pub(super) fn begin_stream(
        &mut self,
        feeds: &impl Feeds,
        index: usize,
        is_asked: bool,
        gap: Option<AnnouncedGap>,
    ) {
        let subscription = &mut self.subscriptions[index];
        let (Some(feed), Some(cursor)) = (feeds.feed(subscription.feed), subscription.cursor())
        else {
            return;
        };
        let resume = match gap {
            Some(AnnouncedGap { missed, reason }) => Resume::Gap { missed, reason },
            None if feed.columns_change_at(&cursor) => Resume::Schema,
            None => Resume::Exact,
        };
        let position = feed.position_before(cursor.next());
        let begun = StreamStart { position, resume: is_asked.then_some(resume) };
        if let ResponseMode::Columns { is_head_open, start } = &mut self.mode {
            if std::mem::take(is_head_open) {
                end_head(Some(&begun), self.control.frames());
            }
            start.get_or_init(|| begun);
        }
        subscription.begin_columns(feed, self.format, self.control.frames());
    }

    /// Has the frames made that come next.
    pub(super) fn make_columns(
        &mut self,
        feeds: &mut impl Feeds,
        index: usize,
        now_us: u64,
    ) -> ColumnCounts {
        let subscription = &self.subscriptions[index];
        let (Some(feed), Some(cursor)) = (feeds.feed_mut(subscription.feed), subscription.cursor())
        else {
            return ColumnCounts::default();
        };
        feed.make_column_frames(&cursor, subscription.columns(), now_us)
    }

    /// The rows that come next have another schema than the stream: it ends, or, if it has none yet,
    /// begins.
    pub(super) fn change_columns(&mut self, feeds: &impl Feeds, index: usize) {
        let subscription = &mut self.subscriptions[index];
        if subscription.columns().is_some() {
            return self.close(close::RELOAD);
        }
        if let Some(feed) = feeds.feed(subscription.feed) {
            subscription.begin_columns(feed, self.format, self.control.frames());
        }
    }

    /// Ends the head of the response, if it is still open: the stream ends before it has begun.
    pub(super) fn end_open_head(&mut self) {
        if let ResponseMode::Columns { is_head_open, .. } = &mut self.mode
            && std::mem::take(is_head_open)
        {
            end_head(None, self.control.frames());
        }
    }
}

/// Appends the last fields of a head of HTTP/1.1 (RFC 9112 §2.1), and its end.
fn end_head(begun: Option<&StreamStart>, out: &mut Vec<u8>) {
    for (name, value) in begun.into_iter().flat_map(StreamStart::fields) {
        for part in [name, ": ", &value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}
