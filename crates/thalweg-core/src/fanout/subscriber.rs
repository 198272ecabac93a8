use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_wire::{Close, EndCode, Format, KeyFilter, Offset, Position, signalr::StreamId};

use super::{
    FeedKey, Feeds, Subscribe,
    control::Control,
    framing::{ConnectionFraming, OwnFrames as _},
    ids::Ids,
    subscription::{Left, Subscription},
};
use crate::stream::{Cursor, Feed, Frames as _, Pinning as _};

/// The subscriptions of a connection, and the frames that only this connection gets.
///
/// All methods except [`Self::deliver`] only change what the next visit sends: visit the subscriber after
/// them. Call [`Self::leave`] before you drop a subscriber, otherwise a batch stays pinned.
#[derive(Debug)]
pub struct Subscriber {
    pub(super) format: Format,
    pub(super) subscriptions: SmallVec<[Subscription; 1]>,
    pub(super) control: Control,
    /// The subscription whose frame is partly sent.
    pub(super) in_frame: Option<u16>,
    /// The subscription that the next visit begins with.
    pub(super) first: u16,
    /// The code of the close, if the control messages contain a close. No message follows a close.
    pub(super) close_code: Option<u16>,
    /// The subscription that is removed when its frame is finished.
    pub(super) leaving: Option<u16>,
    pub(super) has_ends: bool,
    /// When a client must learn a position that it has reached without an event, in µs. It may be too early. `u64::MAX`: never.
    pub(super) tells_us: u64,
    /// A feed that the subscriber has left since the last `take_left`.
    pub(super) left: Option<Left>,
    /// Whether frames other than confirmations and heartbeats were sent.
    pub(super) has_delivered: bool,
    pub(super) mode: ResponseMode,
    pub(super) framing: ConnectionFraming,
    pub(super) ids: Ids,
}

/// The rule for when a subscriber ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMode {
    /// The subscriber ends only when its framing says so.
    Endless,
    /// A long poll ends at the first frame boundary after an event, a gap or a close. Heartbeats and
    /// confirmations do not count. A poll whose time is over is ended by [`Subscriber::close`] or dropped.
    Once,
}

impl Subscriber {
    /// Creates a subscriber that is sent `head` (a response head, or no bytes) first.
    pub fn new(
        format: Format,
        head: &[u8],
        subscribe: &[Subscribe],
        mode: ResponseMode,
        mut framing: ConnectionFraming,
    ) -> Self {
        let mut control = Control::default();
        *control.frames() = framing.hold_head(head.to_vec());
        let subscriptions = subscribe.iter().map(|subscribe| Subscription::new(*subscribe, format));
        Self {
            format,
            subscriptions: subscriptions.collect(),
            control,
            in_frame: None,
            first: 0,
            close_code: None,
            leaving: None,
            has_ends: false,
            tells_us: u64::MAX,
            left: None,
            has_delivered: false,
            mode,
            framing,
            ids: Ids::default(),
        }
    }

    /// Returns the format of the frames.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns whether its response ends with the first events, as the answer to a poll does.
    pub fn is_of_poll(&self) -> bool {
        self.mode == ResponseMode::Once
    }

    /// Returns the feeds that the subscriber reads.
    pub fn feeds(&self) -> impl Iterator<Item = FeedKey> {
        self.subscriptions.iter().map(|subscription| subscription.feed)
    }

    /// Returns whether the subscriber reads a feed and is not leaving it.
    pub fn reads(&self, feed: FeedKey) -> bool {
        self.index_of(feed).is_some()
    }

    /// Adds a feed, which the subscriber must not read yet.
    pub fn subscribe(&mut self, subscribe: Subscribe) {
        self.subscriptions.push(Subscription::new(subscribe, self.format));
        self.lose_context();
    }

    /// Sets the filter of keys of a feed, which the subscriber has just subscribed to.
    pub fn set_filter(&mut self, key: FeedKey, filter: Arc<KeyFilter>) {
        if let Some(index) = self.index_of(key) {
            self.subscriptions[usize::from(index)].set_filter(filter);
        }
    }

    /// Returns the filter of keys of a feed, if its subscription has one.
    pub fn filter_of(&self, key: FeedKey) -> Option<&Arc<KeyFilter>> {
        let index = self.index_of(key).map(usize::from)?;
        self.subscriptions[index].filter()
    }

    /// Returns when the subscriber must be visited, in µs, because its client learns a position without an event then.
    pub fn tells_us(&self) -> Option<u64> {
        (self.tells_us != u64::MAX).then_some(self.tells_us)
    }

    /// Lets the next visit tell the client the positions that it has reached without an event. Call this when the time of a long poll is
    /// over. Returns `false` if no subscription has a filter.
    pub fn tell_positions(&mut self) -> bool {
        self.subscriptions.iter_mut().for_each(Subscription::waits_for_position);
        self.tells_us = 0;
        self.subscriptions.iter().any(|subscription| subscription.filter().is_some())
    }

    /// Holds a subscription back until [`Self::settle_start`].
    pub fn hold(&mut self, key: FeedKey) {
        if let Some(index) = self.index_of(key) {
            self.subscriptions[usize::from(index)].is_held = true;
        }
    }

    /// Lets a held subscription begin. A subscription from `latest` begins after the event that is the newest
    /// at this moment.
    pub fn settle_start(&mut self, feeds: &impl Feeds, key: FeedKey) {
        if let Some(index) = self.index_of(key) {
            self.subscriptions[usize::from(index)].settle_start(feeds.feed(key));
        }
    }

    /// Notes that other text is sent to the client: from then on, no frame may refer to earlier frames.
    pub(super) fn lose_context(&mut self) {
        if self.format.has_context() {
            self.subscriptions.iter_mut().for_each(Subscription::lose_context);
        }
    }

    /// Returns the feed that the client receives as `stream`, unless the subscriber is leaving this feed.
    pub fn feed_of_stream(&self, stream: StreamId) -> Option<FeedKey> {
        let mut indexed = (0..).zip(&self.subscriptions);
        let found = indexed.find(|(index, subscription)| {
            subscription.format.stream() == Some(stream) && self.leaving != Some(*index)
        });
        found.map(|(_, subscription)| subscription.feed)
    }

    /// Returns the stream as which the client receives a feed.
    pub fn stream_of_feed(&self, feed: FeedKey) -> Option<StreamId> {
        let index = self.index_of(feed)?;
        self.subscriptions[usize::from(index)].format.stream()
    }

    /// Returns the format of the frames of a feed that the subscriber reads and is not leaving.
    pub fn format_of_feed(&self, feed: FeedKey) -> Format {
        let index = self.index_of(feed).map(usize::from);
        index.map_or(self.format, |index| self.subscriptions[index].format)
    }

    /// Stops reading a feed: no further frame of this feed begins. [`Self::take_left`] returns the feed when
    /// the subscriber has left it.
    pub fn unsubscribe(&mut self, feed: FeedKey) {
        let Some(index) = self.index_of(feed) else { return };
        if self.in_frame == Some(index) {
            self.leaving = Some(index);
        } else {
            self.remove_at(index);
        }
    }

    /// Notes that the topic of a feed has ended: no more batches will be pushed. The client gets the rest of
    /// the topic, without waiting for acks or an interval, then the end. Then the subscriber leaves the feed,
    /// as after [`Self::unsubscribe`]. A one-way connection without topics closes.
    pub fn end_topic(&mut self, feed: FeedKey, code: EndCode) {
        if let Some(index) = self.index_of(feed) {
            self.subscriptions[usize::from(index)].will_end(code);
            self.has_ends = true;
        }
    }

    /// Takes a feed that the subscriber has left since the last call. Call this method after
    /// [`Self::unsubscribe`] and after each visit: if a frame of the feed was partly sent, the subscriber
    /// leaves the feed when the frame is finished.
    pub fn take_left(&mut self) -> Option<Left> {
        self.left.take()
    }

    /// Sets the subscriber's place in the list of a feed that the subscriber reads and is not leaving.
    pub fn listed(&mut self, feed: FeedKey, place: u32) {
        if let Some(index) = self.index_of(feed) {
            self.subscriptions[usize::from(index)].place = place;
        }
    }

    /// Notes that the subscriber's place in a feed's list has changed.
    pub fn moved(&mut self, feed: FeedKey, from: u32, to: u32) {
        // Find the subscription by its index, because there may be two subscriptions to the feed: a new one,
        // and one that is leaving.
        let mut all = self.subscriptions.iter_mut();
        if let Some(moved) = all.find(|s| (s.feed, s.place) == (feed, from)) {
            moved.place = to;
        }
    }

    /// Notes that the client has processed the events of a feed up to `position`.
    pub fn ack(&mut self, feeds: &impl Feeds, feed: FeedKey, position: Position) {
        if let Some(index) = self.index_of(feed)
            && let Some(feed) = feeds.feed(feed)
        {
            self.subscriptions[usize::from(index)].ack(feed, position);
        }
    }

    /// Appends complete frames that only this client gets, made by `write` in the client's format. They are
    /// sent before events, at the next frame boundary.
    pub fn send_control(&mut self, write: impl FnOnce(Format, &mut Vec<u8>)) {
        let frames = self.control.frames();
        write(self.format, frames);
        self.framing.end_own(self.format, frames);
    }

    /// Sends a heartbeat, if the connection may have one, and returns whether it was sent. A long poll needs
    /// none, no message may follow a close, and a stream of columns can have none before its schema.
    pub fn heartbeat(&mut self) -> bool {
        let wants = self.mode != ResponseMode::Once && !self.is_ending();
        let Self { framing, format, subscriptions, control, .. } = self;
        wants && framing.heartbeat(*format, subscriptions, control.frames())
    }

    /// Returns the number of unsent bytes of control messages.
    pub fn control_bytes(&self) -> usize {
        self.control.unsent().len()
    }

    /// Returns the memory of the control messages, in bytes.
    pub fn control_memory_bytes(&self) -> usize {
        self.control.memory_bytes()
    }

    /// Returns the approximate number of bytes that this subscriber keeps in memory: control messages, and the
    /// rest of a partly sent shared frame.
    pub fn held_bytes(&self, feeds: &impl Feeds) -> usize {
        let rest = || {
            let subscription = &self.subscriptions[usize::from(self.in_frame?)];
            let feed = feeds.feed(subscription.feed)?;
            feed.rest_of_frame(&subscription.cursor()?, subscription.format)
        };
        self.control_bytes() + rest().unwrap_or(0)
    }

    /// Closes the connection. The close is sent after a partly sent frame and the control messages, and no
    /// message follows it. The visit that has sent the whole close ends with [`super::Delivered::Closed`].
    /// Only the first close counts.
    pub fn close(&mut self, close: Close) {
        self.close_ended(close, None);
    }

    /// Closes the connection. `ended` is the reason why the topic of a stream of columns has ended, if it
    /// has.
    pub(super) fn close_ended(&mut self, close: Close, ended: Option<EndCode>) {
        if self.close_code.is_none() {
            let Self { framing, format, subscriptions, control, .. } = self;
            framing.close(*format, subscriptions, close, ended, control.frames());
            self.close_code = Some(close.code);
            self.has_delivered = true;
        }
    }

    /// Returns whether all subscriptions have begun and their confirmations are sent.
    pub fn has_begun(&self) -> bool {
        self.control.is_empty() && self.subscriptions.iter().all(Subscription::has_begun)
    }

    /// Returns whether the subscriber was closed.
    pub fn is_ending(&self) -> bool {
        self.close_code.is_some()
    }

    /// Returns whether the subscriber was closed and everything was sent.
    pub fn is_close_sent(&self) -> bool {
        self.is_ending() && self.control.is_empty() && !self.is_in_frame()
    }

    /// Returns the code of the close.
    pub fn close_code(&self) -> Option<u16> {
        self.close_code
    }

    /// Returns whether a shared frame is partly sent.
    pub fn is_in_frame(&self) -> bool {
        self.in_frame.is_some()
    }

    /// Returns whether the subscriber holds additional memory: a partly sent frame, or control messages.
    pub fn holds_memory(&self) -> bool {
        self.is_in_frame() || !self.control.is_empty()
    }

    /// Returns how many events the subscriber lags on the feed on which it lags most ([`Feed::events_from`]).
    pub fn lag(&self, feeds: &impl Feeds) -> Offset {
        let behind = self.subscriptions.iter().filter_map(|subscription| {
            Some(feeds.feed(subscription.feed)?.events_from(subscription.cursor()?.needed_from()))
        });
        behind.max().unwrap_or(0)
    }

    /// Returns how many events the subscriber lags on a feed ([`Feed::events_from`]).
    pub fn lag_on(&self, feeds: &impl Feeds, key: FeedKey) -> Offset {
        let found = self.index_of(key).map(|index| &self.subscriptions[usize::from(index)]);
        let from = found.and_then(|subscription| Some(subscription.cursor()?.needed_from()));
        feeds.feed(key).zip(from).map_or(0, |(feed, from)| feed.events_from(from))
    }

    /// Releases the subscriber's pins in the feeds. Call this method when the connection ends, then
    /// [`Self::pop`] until it returns `None`.
    pub fn leave(&mut self, feeds: &mut impl Feeds) {
        let Some(index) = self.in_frame.take() else { return };
        let subscription = &self.subscriptions[usize::from(index)];
        if let (Some(feed), Some(cursor)) =
            (feeds.feed_mut(subscription.feed), subscription.cursor())
        {
            feed.unpin(&cursor);
        }
    }

    /// Removes one of the subscriptions.
    pub fn pop(&mut self) -> Option<Left> {
        self.subscriptions.pop().map(|subscription| subscription.left())
    }

    /// Moves a subscription by the `taken` bytes that were sent, from `before` to `after` or to a place
    /// within a frame. Returns the pin of `before` if the pin is no longer needed.
    pub(super) fn advance(
        &mut self,
        feeds: &mut impl Feeds,
        index: u16,
        (before, after): (&Cursor, Option<Cursor>),
        taken: usize,
        now_us: u64,
    ) -> Option<(FeedKey, Cursor)> {
        // Frames of several topics interleave, so no frame may refer to an earlier one of its topic.
        let has_others = self.subscriptions.len() > 1;
        let subscription = &mut self.subscriptions[usize::from(index)];
        let feed = feeds.feed_mut(subscription.feed)?;
        let mut after =
            after.unwrap_or_else(|| feed.frames(subscription.encoding()).advance(before, taken));
        if has_others && subscription.format.has_context() {
            after = after.without_context();
        }
        let age_us =
            (!after.in_frame()).then(|| subscription.age_us(feed, before, now_us)).flatten();
        if is_at_head(feed, &after) {
            subscription.caught_up(feed, now_us);
        }
        if after.in_frame() {
            feed.pin(&after, subscription.format);
        } else {
            subscription.told(feed, &after, now_us);
        }
        if let Some(age_us) = age_us {
            feeds.sent(age_us);
        }
        self.in_frame = after.in_frame().then_some(index);
        subscription.set_cursor(after);
        if let Some(window) = &mut subscription.window {
            window.count(taken, (!after.in_frame()).then(|| after.next()));
        }
        self.has_delivered = true;
        before.in_frame().then_some((subscription.feed, *before))
    }

    /// Appends the trailer of a frame of `frame_bytes`. `reached` has the new offset of each subscription that has
    /// moved. `ids` decides whether the trailer has an id. Returns the next state of `ids`.
    pub(super) fn write_trailer(
        &self,
        feeds: &impl Feeds,
        reached: &[Option<Offset>],
        ids: Ids,
        frame_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Ids {
        let resume_at = |(index, subscription): (usize, &Subscription)| {
            let reached = reached.get(index).copied().flatten();
            subscription.resume_at(feeds.feed(subscription.feed), reached)
        };
        let cursors = self.subscriptions.iter().enumerate().map(resume_at);
        self.framing.trailer(self.format, ids, frame_bytes, cursors, out)
    }

    /// Ends a control frame of `frame_bytes`. `ids` decides whether there is an id.
    pub(super) fn end_control(&mut self, feeds: &impl Feeds, ids: Ids, frame_bytes: usize) {
        let mut trailer = Vec::new();
        self.ids = self.write_trailer(feeds, &[], ids, frame_bytes, &mut trailer);
        self.control.frames().extend_from_slice(&trailer);
    }

    pub(super) fn remove_finished(&mut self) {
        if let Some(index) = self.leaving.filter(|index| self.in_frame != Some(*index)) {
            self.leaving = None;
            self.remove_at(index);
        }
    }

    pub(super) fn remove_at(&mut self, index: u16) {
        let left = self.subscriptions.swap_remove(usize::from(index));
        self.left = Some(left.left());
        // `swap_remove` has moved the last subscription to this index.
        let last = self.subscriptions.len() as u16;
        for place in [&mut self.in_frame, &mut self.leaving] {
            if *place == Some(last) {
                *place = Some(index);
            }
        }
        if self.first >= last {
            self.first = 0;
        }
    }

    pub(super) fn ends_after_frame(&self, index: u16) -> bool {
        self.leaving == Some(index) || self.subscriptions[usize::from(index)].ends_alone()
    }

    fn index_of(&self, feed: FeedKey) -> Option<u16> {
        let mut indexed = (0..).zip(&self.subscriptions);
        indexed.find(|(index, s)| s.feed == feed && self.leaving != Some(*index)).map(|(i, _)| i)
    }
}

pub(super) fn is_at_head(feed: &impl Feed, cursor: &Cursor) -> bool {
    !cursor.in_frame() && cursor.next() == feed.head()
}
