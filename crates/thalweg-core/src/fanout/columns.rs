//! Streams of columns: one topic, and a schema that does not change. Where another schema would be
//! needed, or events are missing, the stream ends. Its client asks again, and the head of the next
//! response says why.

use thalweg_wire::{Close, ErrorCode, Resume, StreamStart, answer::refusal, close};

use super::{
    Feeds, ResponseMode, Subscriber,
    subscription::{AnnouncedGap, Begun},
};
use crate::stream::ColumnCounts;

impl Subscriber {
    /// A subscription to columns has begun: sends the head of the response, and begins the stream if
    /// there is a schema. `is_asked`: at a position that its client named.
    pub(super) fn begin_stream(
        &mut self,
        feeds: &impl Feeds,
        index: usize,
        is_asked: bool,
        begun: Begun,
    ) {
        let subscription = &mut self.subscriptions[index];
        let (Some(feed), Some(cursor)) = (feeds.feed(subscription.feed), subscription.cursor())
        else {
            return;
        };
        let resume = match begun {
            Begun::NotYet => return,
            Begun::Gap(AnnouncedGap { missed, reason }) => Resume::Gap { missed, reason },
            Begun::End(code) => Resume::End { code },
            Begun::Exact if feed.columns_change_at(&cursor) => Resume::Schema,
            Begun::Exact => Resume::Exact,
        };
        let position = feed.position_before(cursor.next());
        let start_here = StreamStart { position, resume: is_asked.then_some(resume) };
        if let ResponseMode::Columns { head, start } = &mut self.mode {
            if let Some(head) = head.take() {
                write_head(&head, &start_here, self.control.frames());
            }
            start.get_or_init(|| start_here);
        }
        if !matches!(begun, Begun::End(_)) {
            subscription.begin_columns(feed, self.format, self.control.frames());
        }
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

    /// Refuses the request instead of sending the head of a stream, if it is not sent yet: a stream
    /// that has not begun has no position, and each response with a stream names one. Returns whether
    /// it does.
    pub(super) fn refuse_unbegun(&mut self, close: Close) -> bool {
        let ResponseMode::Columns { head, .. } = &mut self.mode else { return false };
        let is_unbegun = head.take().is_some();
        if is_unbegun {
            write_refusal(close, self.control.frames());
        }
        is_unbegun
    }
}

/// Appends a head of HTTP/1.1 (RFC 9112 §2.1) and its end, with where the stream begins.
fn write_head(head: &[u8], begun: &StreamStart, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    for (name, value) in begun.fields() {
        for part in [name, ": ", &value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole response of HTTP/1.1 that refuses a request for the reason of a close.
fn write_refusal(close: Close, out: &mut Vec<u8>) {
    let code = match close {
        close::DRAINING => ErrorCode::Draining,
        close::EXPIRED => ErrorCode::Unauthorized,
        close::DISCONNECTED => ErrorCode::Forbidden,
        close::BUSY => ErrorCode::Busy,
        _ => ErrorCode::Unavailable,
    };
    let phrase = match code {
        ErrorCode::Unauthorized => "Unauthorized",
        ErrorCode::Forbidden => "Forbidden",
        _ => "Service Unavailable",
    };
    let message = format!("{}: the stream had not begun", close.reason);
    let body = refusal(code, &message, None, None);
    let again = if close.reconnect { "retry-after: 1\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         {again}connection: close\r\n\r\n",
        code.status(),
        body.len() + 1,
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&body);
    out.push(b'\n');
}
