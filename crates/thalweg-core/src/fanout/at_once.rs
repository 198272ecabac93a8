use super::{Delivered, Feeds, ResponseMode, Sent, Subscriber, subscriber::is_at_head};
use crate::stream::{Cursor, Feed as _, Frames as _};

/// All bytes that a subscriber gets next, in one piece of memory that is shared with other subscribers.
#[derive(Debug)]
pub struct AtOnce<'f> {
    /// The bytes to send, without a copy. They are not empty.
    pub bytes: &'f [u8],
    /// The move of the subscriber's cursor.
    pub step: Step,
}

/// A subscription's move from one place in its feed to another.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    index: u16,
    bytes: usize,
    before: Cursor,
    after: Cursor,
}

impl Subscriber {
    /// Returns the bytes that are due, in the most common case: one topic, and a subscriber that keeps up. If
    /// the result is `None`, call [`Self::deliver`].
    #[inline]
    pub fn due_at_once<'f>(&self, feeds: &'f impl Feeds, now_us: u64) -> Option<AtOnce<'f>> {
        let has_more = !self.control.is_empty()
            | self.in_frame.is_some()
            | self.leaving.is_some()
            | self.close_code.is_some()
            | self.has_ends
            | self.format.has_trailer();
        if has_more || !matches!(self.mode, ResponseMode::Endless) {
            return None;
        }
        let mut due = None;
        for (index, subscription) in (0..).zip(&self.subscriptions) {
            let (before, feed) = (subscription.cursor()?, feeds.feed(subscription.feed)?);
            let window = subscription.window.as_deref();
            let frames = feed.frames(subscription.encoding());
            let (bytes, after) = frames.kept(&before, window.is_some())?;
            if !is_at_head(feed, &after) {
                return None;
            }
            if bytes.is_empty() {
                continue;
            }
            let is_admitted = subscription.due_us <= now_us
                && window.is_none_or(|window| {
                    let frame = feed.frame_after(&before);
                    window.is_open(frame) && window.admits(frame, 0, bytes.len() as u64)
                });
            if due.is_some() || !is_admitted {
                return None;
            }
            due = Some(AtOnce { bytes, step: Step { index, bytes: bytes.len(), before, after } });
        }
        due
    }

    /// Moves the cursor by the bytes of [`Self::due_at_once`] that a sink took. The subscriber must not have changed in between.
    #[inline]
    pub fn sent_at_once(
        &mut self,
        feeds: &mut impl Feeds,
        Step { index, bytes, before, after }: Step,
        sent: Sent,
        now_us: u64,
    ) -> Delivered {
        let Sent::Bytes(sent) = sent else { return Delivered::Gone };
        let is_all = sent == bytes;
        if sent > 0 {
            let cursors = (&before, is_all.then_some(after));
            self.advance(feeds, index, cursors, sent, now_us);
        }
        if is_all { Delivered::CaughtUp(None) } else { Delivered::Full }
    }
}
