use thalweg_wire::close;

use super::{
    Feeds, Life, Subscriber,
    plan::{Owner, Piece, is_at_head},
};
use crate::stream::{Frames, Log};

impl Subscriber {
    /// Moves on by the first `sent` bytes of `pieces`; what is begun of an ending
    /// (in `cold`) is to be finished first.
    pub(super) fn account(
        &mut self,
        feeds: &mut impl Feeds,
        pieces: &[Piece],
        cold: &[u8],
        sent: usize,
        now_us: u64,
    ) {
        let mut left = sent;
        let mut whole = false;
        let mut finished = None;
        for piece in pieces {
            if left == 0 && !whole {
                break;
            }
            let taken = piece.bytes.min(left);
            left -= taken;
            // Of a subscription's piece before: its ending must be sent too.
            let was_whole = std::mem::replace(&mut whole, false);
            match &piece.owner {
                Owner::Own => self.own.advance(taken),
                Owner::Ending(range, ids) if was_whole => {
                    self.own.put_back(&cold[range.clone()][taken..]);
                    self.ids = *ids;
                }
                Owner::Ending(..) => {}
                Owner::Subscription { .. } if taken == 0 => {}
                Owner::Subscription { index, before, after } => {
                    whole = taken == piece.bytes;
                    let reached = |log: &Log| {
                        if whole {
                            *after
                        } else {
                            Frames::of(log, self.format).advance(before, taken)
                        }
                    };
                    let subscription = &mut self.subscriptions[usize::from(*index)];
                    let Some(log) = feeds.feed_mut(subscription.feed) else { continue };
                    let cursor = reached(log);
                    if is_at_head(log, &cursor) {
                        subscription.caught_up(now_us);
                    }
                    if cursor.in_frame() {
                        log.pin(&cursor);
                    }
                    if before.in_frame() {
                        finished = Some((subscription.feed, *before));
                    }
                    self.in_frame = cursor.in_frame().then_some(*index);
                    subscription.set_cursor(cursor);
                    if let Some(window) = &mut subscription.window {
                        window.count(taken, (!cursor.in_frame()).then(|| cursor.next()));
                    }
                    self.spoken = true;
                }
            }
        }
        // Last: what is begun may be the same frame, for whoever subscribed to the
        // topic again, and this the last pin.
        if let Some((feed, before)) = finished
            && let Some(log) = feeds.feed_mut(feed)
        {
            log.unpin(&before);
        }
        self.let_go();
        if let Life::Document { bytes_left, .. } = &mut self.life {
            *bytes_left = bytes_left.saturating_sub(sent as u64);
            if *bytes_left == 0 {
                self.close(close::RELOAD);
            }
        }
        let count = self.subscriptions.len() as u16;
        self.first = if count > 1 { (self.first + 1) % count } else { 0 };
    }
}
