use smallvec::SmallVec;
use thalweg_wire::{Close, Framing};

use super::{FeedKey, Feeds, Subscribe, own::Own, subscription::Subscription};

/// One connection's subscriptions, and the frames that are for it alone.
#[derive(Debug)]
pub struct Subscriber {
    pub(super) framing: Framing,
    pub(super) subscriptions: SmallVec<[Subscription; 1]>,
    pub(super) own: Own,
    /// The subscription whose frame is partly sent.
    pub(super) in_frame: Option<u16>,
    /// The subscription that a visit begins with.
    pub(super) first: u16,
    /// Whether its close is among its own frames: nothing comes after it.
    pub(super) ending: bool,
}

impl Subscriber {
    /// A subscriber that starts with `head` (a response head, or nothing).
    pub fn new(framing: Framing, head: &[u8], subscribe: &[Subscribe]) -> Self {
        let mut own = Own::default();
        own.frames().extend_from_slice(head);
        Self {
            framing,
            subscriptions: subscribe.iter().copied().map(Subscription::new).collect(),
            own,
            in_frame: None,
            first: 0,
            ending: false,
        }
    }

    /// How its frames are framed.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The feeds it reads.
    pub fn feeds(&self) -> impl Iterator<Item = FeedKey> {
        self.subscriptions.iter().map(|subscription| subscription.feed)
    }

    /// Where to append whole frames for it alone.
    pub fn own_frames(&mut self) -> &mut Vec<u8> {
        self.own.frames()
    }

    /// Bytes of its own frames not yet sent.
    pub fn own_bytes(&self) -> usize {
        self.own.unsent().len()
    }

    /// Says good-bye after what is begun; then [`super::Delivered::Closed`].
    pub fn close(&mut self, close: Close) {
        if !self.ending {
            self.framing.close(close, self.own.frames());
            self.ending = true;
        }
    }

    /// Whether it is on its way out.
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether a shared frame is partly sent to it.
    pub fn is_in_frame(&self) -> bool {
        self.in_frame.is_some()
    }

    /// Whether it holds more than its place: a frame partly sent to it, or frames
    /// of its own.
    pub fn holds_memory(&self) -> bool {
        self.is_in_frame() || !self.own.is_empty()
    }

    /// Lets go of what it holds in the feeds. Call it when the connection ends.
    pub fn leave(&mut self, feeds: &mut impl Feeds) {
        let Some(index) = self.in_frame.take() else { return };
        let subscription = &self.subscriptions[usize::from(index)];
        if let (Some(log), Some(cursor)) =
            (feeds.feed_mut(subscription.feed), subscription.cursor())
        {
            log.unpin(&cursor);
        }
    }
}
