use thalweg_wire::{GapReason, Offset, close};

use super::{
    Budget, FeedKey, Feeds, ResponseMode, Sink, Subscriber,
    control::CONTROL_BYTES_MAX,
    framing::OwnFrames as _,
    ids::Ids,
    subscription::{AnnouncedGap, Begun, Subscription, write_end},
    transmit::{Interrupted, Interruption, PlanSummary, SendBuffers, Transmit},
};
use crate::stream::{ColumnCounts, Feed as _, Lost};

/// Why a visit to a subscriber ended, and when the next visit is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The subscriber has everything that is due. Visit it again when one of its feeds gets a batch, when it
    /// gets a control message, when its client acks, at the given time in µs, at which an interval ends, or at [`Subscriber::tells_us`].
    CaughtUp(Option<u64>),
    /// The budget is spent, and more is due now. Visit the subscriber again after the others.
    More,
    /// The sink is full. Visit the subscriber again when the sink has room. Batches of a partly sent frame are pinned until then.
    Full,
    /// The close, or the whole response to a long poll, is sent. Shut the connection down after
    /// [`Subscriber::leave`].
    Closed,
    /// The peer is gone. Drop the connection, after [`Subscriber::leave`].
    Gone,
}

/// Memory that all visits of a shard reuse, and the shard's counts of gaps and of columns.
#[derive(Debug, Default)]
pub struct Scratch {
    buffers: SendBuffers,
    gaps: [u64; GapReason::ALL.len()],
    columns: ColumnCounts,
}

impl Scratch {
    /// Takes the backfills (feed, offset) that subscribers have requested since the last call.
    pub fn take_backfills(&mut self) -> std::vec::Drain<'_, (FeedKey, Offset)> {
        self.buffers.backfills.drain(..)
    }

    /// Returns the number of gaps announced since the start for one reason.
    pub fn gaps(&self, reason: GapReason) -> u64 {
        self.gaps[reason as usize]
    }

    /// Returns the counts of frames of columns since the start.
    pub fn columns(&self) -> ColumnCounts {
        self.columns
    }
}

impl Subscriber {
    /// Sends the bytes that are due, as far as sink and budget allow: the rest of a partly sent frame, then
    /// frames that only this subscriber gets, then the events after its cursors. Cursors move only by the
    /// bytes that the sink took.
    ///
    /// `now_us` must not go back from visit to visit. After [`Delivered::Closed`] and [`Delivered::Gone`] there is
    /// no further visit.
    pub fn deliver(
        &mut self,
        feeds: &mut impl Feeds,
        sink: &mut impl Sink,
        now_us: u64,
        budget: Budget,
        scratch: &mut Scratch,
    ) -> Delivered {
        let mut spent = 0;
        let mut has_made = false;
        loop {
            self.begin(feeds, now_us, scratch);
            if self.tells_us <= now_us {
                self.tell(feeds, now_us);
            }
            if self.has_ends {
                self.say_end(feeds);
            }
            let mut interrupted = None;
            let plan = Transmit::plan(self, feeds, now_us, &mut scratch.buffers);
            let plan = plan.map_err(|why| interrupted = Some(why)).ok();
            let Some(planned) = plan.filter(|plan| !plan.has_skips()) else {
                self.skip(feeds, &mut scratch.buffers, now_us);
                let is_unmade = interrupted.as_ref().is_some_and(Interrupted::is_unmade);
                if is_unmade && std::mem::replace(&mut has_made, true) {
                    // A visit makes shared frames at most once, so that other subscribers get their turn.
                    return match self.ends_poll(feeds, now_us) {
                        true => Delivered::Closed,
                        false => Delivered::More,
                    };
                }
                if let Some(interrupted) = interrupted {
                    self.interrupted(feeds, interrupted, now_us, scratch);
                }
                continue;
            };
            let PlanSummary { bytes, is_complete, wake_us, is_costly } = planned.summary;
            if bytes == 0 {
                if self.is_ending() || self.ends_poll(feeds, now_us) {
                    return Delivered::Closed;
                }
                if self.control.is_empty() {
                    return self.caught_up(feeds, wake_us);
                }
                continue;
            }
            let Some(accepted) = planned.send(self, sink) else { return Delivered::Gone };
            let sent = accepted.bytes;
            accepted.commit(self, feeds, now_us);
            spent += sent;
            if is_costly {
                spent = spent.max(budget.socket_bytes);
            }
            let pauses = is_complete || sent < bytes || spent >= budget.socket_bytes;
            if pauses && self.ends_poll(feeds, now_us) {
                return Delivered::Closed;
            }
            if sent < bytes {
                return Delivered::Full;
            }
            if is_complete && !self.is_ending() && self.control.is_empty() {
                return self.caught_up(feeds, wake_us);
            }
            if spent >= budget.socket_bytes {
                return Delivered::More;
            }
        }
    }

    fn interrupted(
        &mut self,
        feeds: &mut impl Feeds,
        Interrupted { index, why }: Interrupted,
        now_us: u64,
        scratch: &mut Scratch,
    ) {
        match why {
            Interruption::Unmade => scratch.columns += self.make_frames(feeds, index, now_us),
            Interruption::OtherColumns => self.change_columns(feeds, index),
            Interruption::Lost(_)
                if self.framing.ends_at_gaps() && self.subscriptions[index].allows_gaps() =>
            {
                // A response of columns cannot carry a gap, so it ends. The header of the next response
                // reports the gap.
                self.close(close::RELOAD);
            }
            Interruption::Unknown(cursor) => {
                let subscription = &mut self.subscriptions[index];
                let key = subscription.feed;
                let Some(feed) = feeds.feed(key) else { return };
                let control = self.control.frames();
                let gap = subscription.announce_unknown(feed, cursor, control);
                if self.format.has_trailer() {
                    self.end_control(feeds, Ids::default(), 0);
                }
                self.has_delivered = true;
                scratch.gaps[gap.reason as usize] += 1;
                feeds.gap(key);
            }
            Interruption::Lost(lost) => {
                let reason = if lost.is_expired { GapReason::Trimmed } else { GapReason::Slow };
                let key = self.subscriptions[index].feed;
                self.jump(feeds, index, lost, reason);
                scratch.gaps[reason as usize] += 1;
                feeds.gap(key);
            }
        }
    }

    /// Moves the subscriptions that have skipped events.
    fn skip(&mut self, feeds: &impl Feeds, buffers: &mut SendBuffers, now_us: u64) {
        for (index, after) in buffers.skips.drain(..) {
            let subscription = &mut self.subscriptions[usize::from(index)];
            let Some(feed) = feeds.feed(subscription.feed) else { continue };
            subscription.skip(feed, after, now_us);
            let tells_us = subscription.tells_us(feed).unwrap_or(u64::MAX);
            self.tells_us = self.tells_us.min(tells_us);
        }
    }

    /// Tells the client the positions that it must learn now.
    fn tell(&mut self, feeds: &impl Feeds, now_us: u64) {
        // The trailer of a partly sent frame would name the new positions.
        if self.is_ending() || (self.format.has_trailer() && self.in_frame.is_some()) {
            return;
        }
        self.tells_us = u64::MAX;
        for index in 0..self.subscriptions.len() {
            let subscription = &mut self.subscriptions[index];
            let Some(feed) = feeds.feed(subscription.feed) else { continue };
            let Some(tells_us) = subscription.tells_us(feed) else { continue };
            if tells_us > now_us || self.control.unsent().len() >= CONTROL_BYTES_MAX {
                self.tells_us = self.tells_us.min(tells_us);
                continue;
            }
            let before = self.control.frames().len();
            subscription.tell(feed, now_us, self.control.frames());
            if self.format.has_trailer() {
                let frame_bytes = self.control.frames().len() - before;
                self.end_control(feeds, self.ids, frame_bytes);
            }
            self.has_delivered = true;
        }
    }

    /// Begins subscriptions whose feed now exists. If a partly sent frame has a trailer, the frame is finished
    /// first, because its trailer would name the new subscriptions.
    fn begin(&mut self, feeds: &mut impl Feeds, now_us: u64, scratch: &mut Scratch) {
        let Scratch { buffers, gaps, .. } = scratch;
        if self.format.has_trailer() && self.in_frame.is_some() {
            return;
        }
        let mut is_named = false;
        for index in 0..self.subscriptions.len() {
            let subscription = &self.subscriptions[index];
            if subscription.cursor().is_some() || subscription.is_held {
                continue;
            }
            let key = self.subscriptions[index].feed;
            let Some(feed) = feeds.feed(key) else { continue };
            if let Some(from) = self.subscriptions[index].backfill_before(feed) {
                buffers.backfills.push((key, from));
                continue;
            }
            if self.is_ending() || self.control.unsent().len() >= CONTROL_BYTES_MAX {
                return;
            }
            let before = self.control.frames().len();
            let is_resuming = self.subscriptions[index].asks_for_position();
            let subscription = &mut self.subscriptions[index];
            let control = self.control.frames();
            let is_poll = self.mode == ResponseMode::Once;
            let begun = subscription.begin(feed, is_poll, now_us, control);
            self.framing.begun(feed, subscription, is_resuming, begun, control);
            if self.format.has_trailer()
                && let Begun::Exact | Begun::Gap(_) = begun
            {
                // The id of the first confirmation has the start positions of all new subscriptions, so that
                // a client that is disconnected between confirmations can resume all of them.
                let is_due = begun != Begun::Exact || !std::mem::replace(&mut is_named, true);
                let ids = if is_due { Ids::default() } else { self.ids };
                let frame_bytes = self.control.frames().len() - before;
                self.end_control(feeds, ids, frame_bytes);
            }
            match begun {
                Begun::NotYet | Begun::Exact => {}
                Begun::Gap(AnnouncedGap { reason, .. }) => {
                    gaps[reason as usize] += 1;
                    feeds.gap(key);
                    self.has_delivered = true;
                }
                Begun::End(_) => {
                    gaps[GapReason::Trimmed as usize] += 1;
                    feeds.gap(key);
                    self.has_ends = true;
                }
            }
        }
    }

    /// Sends the end of a topic that has ended, if the subscriber has received all of it, and leaves the topic.
    /// A call ends at most one topic, because [`Subscriber::take_left`] returns one feed.
    fn say_end(&mut self, feeds: &impl Feeds) {
        let waits = self.left.is_some()
            || self.leaving.is_some()
            || self.is_ending()
            || self.control.unsent().len() >= CONTROL_BYTES_MAX
            // The trailer of a partly sent frame would show the topic as ended too early.
            || (self.format.has_trailer() && self.in_frame.is_some());
        let Some(index) = self.finished(feeds).filter(|_| !waits) else { return };
        let subscription = &mut self.subscriptions[usize::from(index)];
        let (Some(feed), Some(cursor), Some(code)) =
            (feeds.feed(subscription.feed), subscription.cursor(), subscription.end)
        else {
            return;
        };
        let position = write_end(feed, &cursor, code, subscription.format, self.control.frames());
        if self.framing.keeps_ended() {
            self.left = Some(subscription.leave_ended(position));
        } else {
            self.remove_at(index);
        }
        if self.format.has_trailer() {
            self.end_control(feeds, Ids::default(), 0);
        }
        self.has_delivered = true;
        self.has_ends = self.subscriptions.iter().any(|other| other.end.is_some());
        let has_none = self.subscriptions.iter().all(Subscription::has_ended);
        if has_none && !self.format.takes_commands() {
            self.close_ended(close::ENDED, Some(code));
        }
    }

    /// Returns a subscription that has received all of a topic that has ended.
    fn finished(&self, feeds: &impl Feeds) -> Option<u16> {
        let mut indexed = (0..).zip(&self.subscriptions);
        let found = indexed.find(|(index, subscription)| {
            subscription.end.is_some()
                && self.in_frame != Some(*index)
                && feeds.feed(subscription.feed).is_some_and(|feed| subscription.has_all(feed))
        });
        found.map(|(index, _)| index)
    }

    /// Returns the result of a visit that has sent everything except the ends of topics.
    fn caught_up(&self, feeds: &impl Feeds, wake_us: Option<u64>) -> Delivered {
        match self.has_ends && self.finished(feeds).is_some() {
            true => Delivered::More,
            false => Delivered::CaughtUp(wake_us),
        }
    }

    /// Returns whether a long poll ends now. Before that, it tells its client the positions of topics of which it has sent nothing, because
    /// their filters have skipped events: the next poll need not look at these events again.
    fn ends_poll(&mut self, feeds: &impl Feeds, now_us: u64) -> bool {
        if !self.is_poll_complete(feeds) {
            return false;
        }
        if self.subscriptions.iter().any(Subscription::is_told_at_end) {
            self.tell_positions();
            self.tell(feeds, now_us);
        }
        self.control.is_empty()
    }

    /// Returns whether a long poll has sent something and is between frames. An end that is due must be in the
    /// same response, because the client may not poll again.
    fn is_poll_complete(&self, feeds: &impl Feeds) -> bool {
        self.mode == ResponseMode::Once
            && self.has_delivered
            && !(self.has_ends && self.finished(feeds).is_some())
            && self.in_frame.is_none()
            && self.control.is_empty()
    }

    fn make_frames(&self, feeds: &mut impl Feeds, index: usize, now_us: u64) -> ColumnCounts {
        let subscription = &self.subscriptions[index];
        let (Some(feed), Some(cursor)) = (feeds.feed_mut(subscription.feed), subscription.cursor())
        else {
            return ColumnCounts::default();
        };
        feed.make_frames(&cursor, subscription.encoding(), now_us)
    }

    /// Ends a response of columns that already has a schema, because the next rows have another schema. If the
    /// response has none yet, sends the schema.
    fn change_columns(&mut self, feeds: &impl Feeds, index: usize) {
        let subscription = &mut self.subscriptions[index];
        if subscription.columns().is_some() {
            return self.close(close::RELOAD);
        }
        if let Some(feed) = feeds.feed(subscription.feed) {
            subscription.begin_columns(feed, self.control.frames());
        }
    }

    fn jump(&mut self, feeds: &impl Feeds, index: usize, lost: Lost, reason: GapReason) {
        let subscription = &mut self.subscriptions[index];
        let Some(feed) = feeds.feed(subscription.feed) else { return };
        let control = self.control.frames();
        match subscription.jump(feed, lost, reason, control) {
            Begun::End(_) => self.has_ends = true,
            _ if self.format.has_trailer() => self.end_control(feeds, Ids::default(), 0),
            _ => {}
        }
        self.has_delivered = true;
    }
}
