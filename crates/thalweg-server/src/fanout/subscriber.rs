use smallvec::SmallVec;
use thalweg_wire::{
    Close, Format, Offset, Position,
    format::{forever_frame_opening, sse_ids},
};

use super::{FeedKey, Feeds, Subscribe, control::Control, ids::Ids, subscription::Subscription};
use crate::stream::{Cursor, Frames, Log};

/// One connection's subscriptions, and the frames that are for it alone.
///
/// It knows of no socket: [`Self::deliver`] is given a [`super::Sink`]. What else is done to
/// it (telling, subscribing, acking, closing) only changes what the next visit sends, so
/// visit it then. Before it is dropped [`Self::leave`] must be called, otherwise a batch stays
/// pinned.
#[derive(Debug)]
pub struct Subscriber {
    pub(super) format: Format,
    pub(super) subscriptions: SmallVec<[Subscription; 1]>,
    pub(super) control: Control,
    /// The subscription whose frame is partly sent.
    pub(super) in_frame: Option<u16>,
    /// The subscription that a visit begins with.
    pub(super) first: u16,
    /// The code of its close, if that is among its control messages: nothing comes
    /// after it.
    pub(super) close_code: Option<u16>,
    /// The subscription that goes when its frame is finished.
    pub(super) leaving: Option<u16>,
    /// A feed that it has left since it was asked last, and where that listed it.
    left: Option<(FeedKey, u32)>,
    /// Whether it was told anything but confirmations and heartbeats.
    pub(super) spoken: bool,
    pub(super) mode: ResponseMode,
    /// When a frame ends with the cursors of all topics, where that is so.
    pub(super) ids: Ids,
}

/// When a subscriber ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseMode {
    /// Never: a WebSocket, SSE, HTTP streaming.
    Endless,
    /// Between frames, once it was sent an event, a gap or a close: a long poll. Heartbeats
    /// and confirmations do not count. A poll whose time is over is ended by
    /// [`Subscriber::close`] or dropped.
    Once,
    /// After so many bytes it is told to load again (close `4003`): a forever frame.
    Document {
        /// Of the scripts.
        nonce: Box<str>,
        /// Until it is told to load again.
        bytes_left: u64,
    },
}

impl Subscriber {
    /// A subscriber that is sent `head` (a response head, or nothing) before anything else.
    pub fn new(format: Format, head: &[u8], subscribe: &[Subscribe], mode: ResponseMode) -> Self {
        let mut control = Control::default();
        control.frames().extend_from_slice(head);
        Self {
            format,
            subscriptions: subscribe.iter().copied().map(Subscription::new).collect(),
            control,
            in_frame: None,
            first: 0,
            close_code: None,
            leaving: None,
            left: None,
            spoken: false,
            mode,
            ids: Ids::default(),
        }
    }

    /// What its frames are.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The feeds it reads.
    pub fn feeds(&self) -> impl Iterator<Item = FeedKey> {
        self.subscriptions.iter().map(|subscription| subscription.feed)
    }

    /// Whether it reads a feed and goes on doing so.
    pub fn reads(&self, feed: FeedKey) -> bool {
        self.index_of(feed).is_some()
    }

    /// Reads one more feed, which it must not read already.
    pub fn subscribe(&mut self, subscribe: Subscribe) {
        self.subscriptions.push(Subscription::new(subscribe));
    }

    /// Reads a feed no more: from now on nothing of it is begun. It has left
    /// when [`Self::take_left`] says so.
    pub fn unsubscribe(&mut self, feed: FeedKey) {
        let Some(index) = self.index_of(feed) else { return };
        if self.in_frame == Some(index) {
            self.leaving = Some(index);
        } else {
            self.remove_at(index);
        }
    }

    /// A feed that it has left since this was called last, and where that lists it. Call it after
    /// [`Self::unsubscribe`] and after each visit: if a frame of that feed was partly sent,
    /// the feed is left only when the frame is finished.
    pub fn take_left(&mut self) -> Option<(FeedKey, u32)> {
        self.left.take()
    }

    /// A feed that it reads and goes on reading lists it at `place`.
    pub fn listed(&mut self, feed: FeedKey, place: u32) {
        if let Some(index) = self.index_of(feed) {
            self.subscriptions[usize::from(index)].place = place;
        }
    }

    /// A feed lists it at `to`, no more at `from`.
    pub fn moved(&mut self, feed: FeedKey, from: u32, to: u32) {
        // By place, because one that it leaves may be there beside one of the same feed.
        let mut all = self.subscriptions.iter_mut();
        if let Some(moved) = all.find(|s| (s.feed, s.place) == (feed, from)) {
            moved.place = to;
        }
    }

    /// Its client has processed a feed's events up to `position`.
    pub fn ack(&mut self, feeds: &impl Feeds, feed: FeedKey, position: Position) {
        if let Some(index) = self.index_of(feed)
            && let Some(log) = feeds.feed(feed)
        {
            self.subscriptions[usize::from(index)].ack(log, position);
        }
    }

    /// Appends whole frames for it alone, which `write` makes in its format. They go out
    /// ahead of events, at the next frame boundary.
    pub fn send_control(&mut self, write: impl FnOnce(Format, &mut Vec<u8>)) {
        let frames = self.control.frames();
        write(self.format, frames);
        if let ResponseMode::Document { nonce, .. } = &self.mode {
            self.format.own(frames, |out| forever_frame_opening(nonce, out));
        }
    }

    /// Shows that the connection lives; a long poll's answer needs no such thing, and
    /// after a good-bye nothing may come.
    /// `false` if nothing is to be sent.
    pub fn heartbeat(&mut self) -> bool {
        let wants = self.mode != ResponseMode::Once && !self.is_ending();
        if wants {
            self.send_control(Format::heartbeat);
        }
        wants
    }

    /// Bytes of its control messages not yet sent.
    pub fn control_bytes(&self) -> usize {
        self.control.unsent().len()
    }

    /// The memory of its control messages, in bytes.
    pub fn control_memory_bytes(&self) -> usize {
        self.control.memory_bytes()
    }

    /// Bytes that it holds memory for: those of its control messages, and about the rest of a
    /// shared one that is partly sent.
    pub fn held_bytes(&self, feeds: &impl Feeds) -> usize {
        let rest = || {
            let subscription = &self.subscriptions[usize::from(self.in_frame?)];
            let cursor = subscription.cursor()?;
            let batch = feeds.feed(subscription.feed)?.batch_at(cursor.next())?;
            Some(batch.event_bytes(cursor.next()).saturating_sub(cursor.sent()))
        };
        self.control_bytes() + rest().unwrap_or(0)
    }

    /// Says good-bye: the close is sent after the frame that is begun and its control messages, and
    /// nothing after it. The visit that has sent it whole ends with
    /// [`super::Delivered::Closed`]. The first close counts.
    pub fn close(&mut self, close: Close) {
        if self.close_code.is_none() {
            self.send_control(|format, out| format.close(close, out));
            self.format.end(self.control.frames());
            self.close_code = Some(close.code);
            self.spoken = true;
        }
    }

    /// Whether it has begun all its subscriptions and was told so.
    pub fn has_begun(&self) -> bool {
        self.control.is_empty() && self.subscriptions.iter().all(|s| s.cursor().is_some())
    }

    /// Whether it is on its way out.
    pub fn is_ending(&self) -> bool {
        self.close_code.is_some()
    }

    /// Whether it is on its way out, and everything was sent to it.
    pub fn has_said_goodbye(&self) -> bool {
        self.is_ending() && self.control.is_empty() && !self.is_in_frame()
    }

    /// The code that it was closed with.
    pub fn close_code(&self) -> Option<u16> {
        self.close_code
    }

    /// Whether a shared frame is partly sent to it.
    pub fn is_in_frame(&self) -> bool {
        self.in_frame.is_some()
    }

    /// Whether it holds more than its place: a frame partly sent to it, or frames
    /// of its own.
    pub fn holds_memory(&self) -> bool {
        self.is_in_frame() || !self.control.is_empty()
    }

    /// How many events it is behind, at most, over its feeds.
    pub fn lag(&self, feeds: &impl Feeds) -> Offset {
        let behind = self.subscriptions.iter().filter_map(|subscription| {
            let head = feeds.feed(subscription.feed)?.head();
            Some(head.saturating_sub(subscription.cursor()?.next()))
        });
        behind.max().unwrap_or(0)
    }

    /// Lets go of what it holds in the feeds. Call it when the connection ends, and take
    /// its subscriptions then.
    pub fn leave(&mut self, feeds: &mut impl Feeds) {
        let Some(index) = self.in_frame.take() else { return };
        let subscription = &self.subscriptions[usize::from(index)];
        if let (Some(log), Some(cursor)) =
            (feeds.feed_mut(subscription.feed), subscription.cursor())
        {
            log.unpin(&cursor);
        }
    }

    /// Takes one of its subscriptions away: its feed, and where that lists it.
    pub fn pop(&mut self) -> Option<(FeedKey, u32)> {
        self.subscriptions.pop().map(|subscription| (subscription.feed, subscription.place))
    }

    /// Moves a subscription by `taken` bytes that were sent of it: from `before` to `after`,
    /// or to somewhere in a frame. Says what was pinned for `before` and is not needed for it
    /// any more.
    pub(super) fn advance(
        &mut self,
        feeds: &mut impl Feeds,
        index: u16,
        (before, after): (&Cursor, Option<Cursor>),
        taken: usize,
        now_us: u64,
    ) -> Option<(FeedKey, Cursor)> {
        let subscription = &mut self.subscriptions[usize::from(index)];
        let log = feeds.feed_mut(subscription.feed)?;
        let after = after.unwrap_or_else(|| Frames::of(log, self.format).advance(before, taken));
        if is_at_head(log, &after) {
            subscription.caught_up(now_us);
        }
        if after.in_frame() {
            log.pin(&after);
        }
        self.in_frame = after.in_frame().then_some(index);
        subscription.set_cursor(after);
        if let Some(window) = &mut subscription.window {
            window.count(taken, (!after.in_frame()).then(|| after.next()));
        }
        self.spoken = true;
        before.in_frame().then_some((subscription.feed, *before))
    }

    /// Appends what ends a frame of so many bytes on this connection, as if it had
    /// reached the offsets in `reached`, one for each subscription that has moved.
    /// Returns when the next id is due, if this one was due by `ids`.
    pub(super) fn write_trailer(
        &self,
        feeds: &impl Feeds,
        reached: &[Option<Offset>],
        ids: Ids,
        frame_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Ids {
        if let ResponseMode::Document { nonce, .. } = &self.mode {
            self.format.own(out, |out| forever_frame_opening(nonce, out));
            return ids;
        }
        if !ids.is_due(frame_bytes) {
            self.format.own(out, |out| out.push(b'\n'));
            return ids.after_frame(frame_bytes);
        }
        let before = out.len();
        let resume_at = |(index, subscription): (usize, &Subscription)| {
            let reached = reached.get(index).copied().flatten();
            subscription.resume_at(feeds.feed(subscription.feed), reached)
        };
        let cursors = self.subscriptions.iter().enumerate().map(resume_at);
        self.format.own(out, |out| sse_ids(cursors, out));
        Ids::after_id(out.len() - before)
    }

    /// Ends a frame of so many bytes that is among its own, or sets the id if there is
    /// none; with an id if that is due by `ids`.
    pub(super) fn end_control(&mut self, feeds: &impl Feeds, ids: Ids, frame_bytes: usize) {
        let mut trailer = Vec::new();
        self.ids = self.write_trailer(feeds, &[], ids, frame_bytes, &mut trailer);
        self.control.frames().extend_from_slice(&trailer);
    }

    /// Lets the subscription go that waited for the end of its frame, if that
    /// has come.
    pub(super) fn let_go(&mut self) {
        if let Some(index) = self.leaving.filter(|index| self.in_frame != Some(*index)) {
            self.leaving = None;
            self.remove_at(index);
        }
    }

    fn remove_at(&mut self, index: u16) {
        let left = self.subscriptions.swap_remove(usize::from(index));
        self.left = Some((left.feed, left.place));
        // The last one has taken its place.
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

    /// Where it reads a feed and goes on doing so.
    fn index_of(&self, feed: FeedKey) -> Option<u16> {
        let mut indexed = (0..).zip(&self.subscriptions);
        indexed.find(|(index, s)| s.feed == feed && self.leaving != Some(*index)).map(|(i, _)| i)
    }
}

/// Whether a cursor has everything that there is.
pub(super) fn is_at_head(log: &Log, cursor: &Cursor) -> bool {
    !cursor.in_frame() && cursor.next() == log.head()
}
