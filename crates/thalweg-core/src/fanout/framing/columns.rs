//! A stream of columns: one topic, and a schema that does not change. The stream ends when another schema is
//! needed or events are missing. The client then sends another request, and the head of its response has the
//! reason.

use std::sync::{Arc, OnceLock};

use thalweg_wire::{
    Close, EndCode, ErrorCode, Format, Resume, StreamStart, answer::refusal, close,
};

use super::{
    super::subscription::{AnnouncedGap, Begun, Subscription},
    own_frames::OwnFrames,
};
use crate::stream::Feed;

/// A connection whose response header names the position at which the stream begins.
#[derive(Debug, Clone, Default)]
pub struct ColumnStream {
    /// The head of a response over HTTP/1.1 without its end, until the start of the stream is known.
    head: Option<Box<[u8]>>,
    start: Arc<OnceLock<StreamStart>>,
}

/// The end of a head (RFC 9112 §2.1).
const HEAD_END: &[u8] = b"\r\n";

impl OwnFrames for ColumnStream {
    fn hold_head(&mut self, head: Vec<u8>) -> Vec<u8> {
        let Some(open) = head.strip_suffix(HEAD_END) else { return head };
        self.head = Some(open.into());
        Vec::new()
    }

    fn stream_start(&self) -> Option<Option<StreamStart>> {
        Some(self.start.get().copied())
    }

    // The stream begins if there is a schema.
    fn begun(
        &mut self,
        feed: &impl Feed,
        subscription: &mut Subscription,
        is_resuming: bool,
        begun: Begun,
        out: &mut Vec<u8>,
    ) {
        let Some(cursor) = subscription.cursor() else { return };
        let resume = match begun {
            Begun::NotYet => return,
            Begun::Gap(AnnouncedGap { missed, reason }) => Resume::Gap { missed, reason },
            Begun::End(code) => Resume::End { code },
            Begun::Exact if feed.columns_change_at(&cursor) => Resume::Schema,
            Begun::Exact => Resume::Exact,
        };
        let position = feed.position_before(cursor.next());
        let start = StreamStart { position, resume: is_resuming.then_some(resume) };
        if let Some(head) = self.head.take() {
            write_head(&head, &start, out);
        }
        self.start.get_or_init(|| start);
        if !matches!(begun, Begun::End(_)) {
            subscription.begin_columns(feed, out);
        }
    }

    fn ends_at_gaps(&self) -> bool {
        true
    }

    // The close needs the schema.
    fn keeps_ended(&self) -> bool {
        true
    }

    // A heartbeat needs the schema.
    fn heartbeat(&self, _: Format, all: &[Subscription], out: &mut Vec<u8>) -> bool {
        let begun = all.iter().find(|subscription| subscription.columns().is_some());
        begun.map(|subscription| subscription.encoding().heartbeat(out)).is_some()
    }

    fn close(
        &mut self,
        format: Format,
        all: &[Subscription],
        close: Close,
        ended: Option<EndCode>,
        out: &mut Vec<u8>,
    ) {
        // A response with a stream must name a position. This stream has not begun and has none, so send an error.
        if self.head.take().is_some() {
            return write_refusal(close, out);
        }
        if let Some(subscription) = all.first() {
            subscription.encoding().close(close, ended, out);
        }
        format.end(out);
    }
}

/// Appends an HTTP/1.1 head (RFC 9112 §2.1): `head`, the fields of the stream's start, and the end of the head.
fn write_head(head: &[u8], begun: &StreamStart, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    for (name, value) in begun.fields() {
        for part in [name, ": ", &value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(HEAD_END);
}

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
