use super::{Delivered, Feeds, ResponseMode, Sent, Subscriber, subscriber::is_at_head};
use crate::stream::{Cursor, Frames};

/// All that is due to a subscriber, as one piece of memory that it shares with others.
#[derive(Debug)]
pub struct AtOnce<'f> {
    /// What to send, without a copy; not empty.
    pub bytes: &'f [u8],
    /// Where that begins and ends in the feed.
    pub step: Step,
}

/// From one place in a feed to another.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    bytes: usize,
    before: Cursor,
    after: Cursor,
}

impl Subscriber {
    /// What is due to a subscriber of one topic that keeps up with it and has nothing else to be sent:
    /// as for most visits. `None` says nothing of what is due: [`Self::deliver`] finds that out.
    #[inline]
    pub fn due_at_once<'f>(&self, feeds: &'f impl Feeds, now_us: u64) -> Option<AtOnce<'f>> {
        let [subscription] = &*self.subscriptions else { return None };
        let has_more = !self.control.is_empty()
            | self.in_frame.is_some()
            | self.leaving.is_some()
            | self.close_code.is_some()
            | self.has_ends
            | self.format.has_trailer()
            | subscription.window.is_some()
            | (subscription.due_us > now_us);
        if has_more || !matches!(self.mode, ResponseMode::Endless) {
            return None;
        }
        let (before, feed) = (subscription.cursor()?, feeds.feed(subscription.feed)?);
        let frames = Frames::of(feed, subscription.encoding(self.format));
        let (bytes, after) = frames.kept(&before)?;
        let is_all = !bytes.is_empty() && is_at_head(feed, &after);
        is_all.then_some(AtOnce { bytes, step: Step { bytes: bytes.len(), before, after } })
    }

    /// Moves by what a sink did with the bytes of [`Self::due_at_once`], and by nothing else. Nothing
    /// else may have happened to the subscriber in between.
    #[inline]
    pub fn sent_at_once(
        &mut self,
        feeds: &mut impl Feeds,
        Step { bytes, before, after }: Step,
        sent: Sent,
        now_us: u64,
    ) -> Delivered {
        let Sent::Bytes(sent) = sent else { return Delivered::Gone };
        if sent < bytes {
            if sent > 0 {
                self.advance(feeds, 0, (&before, None), sent, now_us);
            }
            return Delivered::Full;
        }
        if let [subscription] = &mut *self.subscriptions {
            subscription.caught_up(now_us);
            subscription.set_cursor(after);
        }
        self.has_delivered = true;
        Delivered::CaughtUp(None)
    }
}
