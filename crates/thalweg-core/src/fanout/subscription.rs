use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{
    Before, End, EndCode, Envelope, Format, Gap, GapReason, KeyFilter, Keyed, Offset, Position,
    StartAt, signalr::StreamId,
};

use super::{FeedKey, filtered::Filtered, window::Window};
use crate::stream::{Cursor, Encoding, Feed, Lost, Start};

/// The policy for a subscription that falls behind the history, or begins behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The gap is announced, and the subscription continues in the middle of the history. From the start of the
    /// history, the subscriber would soon fall behind again.
    #[default]
    Skip,
    /// The gap is announced, and the subscription continues with the newest batch.
    Latest,
    /// The subscription ends. If it is the last one of a one-way connection, the connection ends, too.
    Close,
}

/// A request to subscribe.
#[derive(Debug, Clone, Copy)]
pub struct Subscribe {
    /// The feed.
    pub feed: FeedKey,
    /// The start. The subscription is confirmed, or a gap is announced, when the feed exists.
    pub start: StartAt,
    /// The terms.
    pub terms: Terms,
}

/// The terms of a subscription.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// The policy for gaps.
    pub policy: Policy,
    /// The minimum time between catching up and the next send, in µs. 0: none.
    pub interval_us: u64,
    /// Maximum number of bytes that are sent and not acked ([`super::Subscriber::ack`]). One frame may always
    /// be sent. `None`: no window.
    pub window_bytes: Option<u64>,
    /// In formats that have streams (SignalR): the id of the client's stream whose items are the frames.
    pub stream: Option<StreamId>,
}

/// A subscription that has left a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The feed.
    pub feed: FeedKey,
    /// The subscription's index in the feed's list.
    pub place: u32,
    /// The format of its frames.
    pub format: Format,
}

/// From this interval (in µs) on, a reader of a keyed topic gets each key once per interval. Shorter intervals only reduce sends.
const CONFLATED_INTERVAL_US: u64 = 10_000;

impl Left {
    /// Returns whether the subscription was in the feed's list.
    pub fn was_listed(&self) -> bool {
        self.place != u32::MAX && self.feed != NO_FEED
    }
}

/// The feed of a subscription whose topic has ended: no feed has this key.
const NO_FEED: FeedKey = FeedKey::MAX;

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) feed: FeedKey,
    /// The index in the feed's list, set by the owner of the list.
    pub(super) place: u32,
    /// The format of the frames: that of the connection, with the id of the client's stream, if there is one.
    pub(super) format: Format,
    policy: Policy,
    interval_us: u64,
    /// No frame is sent before this time, in µs. While a frame is partly sent, this time is always in the
    /// past, because an interval begins only between frames, when the subscription is at the head.
    pub(super) due_us: u64,
    progress: Progress,
    /// Whether the subscription must not begin yet.
    pub(super) is_held: bool,
    /// Whether the subscription has ever reached the newest event.
    is_live: bool,
    /// Set if the topic has ended. The subscription leaves the topic when it has received all events.
    pub(super) end: Option<EndCode>,
    pub(super) window: Option<Box<Window>>,
    /// The schema with which the stream of columns began.
    columns: Option<Arc<Columns>>,
    filtered: Option<Box<Filtered>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnnouncedGap {
    pub(super) missed: Option<Offset>,
    pub(super) reason: GapReason,
}

/// The result of beginning a subscription, or of continuing it after missing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// The subscription does not begin now: its feed needs a backfill, or it has begun before.
    NotYet,
    Exact,
    Gap(AnnouncedGap),
    /// The subscription ends, because its policy allows no gap.
    End(EndCode),
}

#[derive(Debug, Clone, Copy)]
enum Progress {
    /// The subscription waits for its feed.
    Starting(StartAt),
    At(Cursor),
    /// The subscription has ended. The entry stays, with this cursor, so that the order of the connection's
    /// cursors does not change.
    Ended(StartAt),
}

impl Subscription {
    pub(super) fn new(subscribe: Subscribe, format: Format) -> Self {
        Self {
            feed: subscribe.feed,
            place: u32::MAX,
            format: format.for_stream(subscribe.terms.stream),
            policy: subscribe.terms.policy,
            interval_us: subscribe.terms.interval_us,
            due_us: 0,
            progress: Progress::Starting(subscribe.start),
            is_held: false,
            is_live: false,
            end: None,
            window: subscribe.terms.window_bytes.map(|bytes| Box::new(Window::new(bytes))),
            columns: None,
            filtered: None,
        }
    }

    /// Sets the filter of keys. Call this before the subscription begins.
    pub(super) fn set_filter(&mut self, filter: Arc<KeyFilter>) {
        self.filtered = Some(Box::new(Filtered::new(filter)));
    }

    #[inline]
    pub(super) fn filter(&self) -> Option<&Arc<KeyFilter>> {
        self.filtered.as_ref().map(|filtered| &filtered.filter)
    }

    /// Takes a cursor that has skipped events.
    pub(super) fn skip(&mut self, feed: &impl Feed, after: Cursor, now_us: u64) {
        self.set_cursor(after);
        if feed.has_all(&after) {
            self.caught_up(feed, now_us);
        }
    }

    /// Returns when the client must learn a position that it has reached without an event, in µs. `None` if there is no such position.
    pub(super) fn tells_us(&self, feed: &impl Feed) -> Option<u64> {
        let (filtered, cursor) = (self.filtered.as_ref()?, self.cursor()?);
        let is_news = cursor.needed_from() > cursor.next() && feed.has_all(&cursor);
        (is_news && !self.ends_alone()).then_some(filtered.tells_us)
    }

    /// Returns whether the client of a poll learns a position only when the poll ends.
    pub(super) fn is_told_at_end(&self) -> bool {
        self.filtered.as_ref().is_some_and(|filtered| filtered.tells_us == u64::MAX)
    }

    /// Notes that the client must learn its position now, if it does not know it.
    pub(super) fn waits_for_position(&mut self) {
        if let Some(filtered) = &mut self.filtered {
            filtered.waits();
        }
    }

    /// Writes an envelope without events to `control`, which tells the client that it has everything.
    pub(super) fn tell(&mut self, feed: &impl Feed, now_us: u64, control: &mut Vec<u8>) {
        let (Some(cursor), head) = (self.cursor(), feed.head()) else { return };
        let before = Before::Event(cursor.next().saturating_sub(1));
        let keyed = Some(Keyed { keys: &[], until: None });
        write_empty(feed, head, (before, keyed), self.format, control);
        let after = Cursor::before(head);
        self.told(feed, &after, now_us);
        self.set_cursor(after);
    }

    /// Notes that the client has the frame before `after`.
    #[inline]
    pub(super) fn told(&mut self, feed: &impl Feed, after: &Cursor, now_us: u64) {
        if let Some(filtered) = &mut self.filtered {
            filtered.told(after.next(), feed.head(), now_us);
        }
    }

    #[inline]
    pub(super) fn encoding(&self) -> Encoding<'_> {
        let is_conflated = self.interval_us >= CONFLATED_INTERVAL_US;
        let encoding = Encoding::new(self.format, self.columns.as_ref());
        encoding.conflated(is_conflated).filtered(self.filter())
    }

    pub(super) fn columns(&self) -> Option<&Arc<Columns>> {
        self.columns.as_ref()
    }

    /// Writes the schema to `control`, if the subscription has begun without one and that of the next rows is
    /// known.
    pub(super) fn begin_columns(&mut self, feed: &impl Feed, control: &mut Vec<u8>) {
        let columns = self.cursor().and_then(|cursor| feed.columns_at(&cursor));
        let Some(columns) = columns.filter(|_| self.columns.is_none()) else { return };
        self.columns = Some(Arc::clone(columns));
        self.encoding().begin(feed.topic(), feed.epoch(), control);
    }

    pub(super) fn asks_for_position(&self) -> bool {
        matches!(self.progress, Progress::Starting(StartAt::After(_) | StartAt::Within(..)))
    }

    /// Lets a held subscription begin. A reader of a state gets the newest version anyway.
    pub(super) fn settle_start(&mut self, feed: Option<&impl Feed>) {
        self.is_held = false;
        if let Some(feed) = feed.filter(|feed| !feed.is_state())
            && matches!(self.progress, Progress::Starting(StartAt::Latest))
        {
            let newest = feed.position_before(feed.head());
            self.progress = Progress::Starting(StartAt::After(newest));
        }
    }

    pub(super) fn cursor(&self) -> Option<Cursor> {
        match self.progress {
            Progress::Starting(_) | Progress::Ended(_) => None,
            Progress::At(cursor) => Some(cursor),
        }
    }

    /// Returns where a reconnect would resume: at the cursor, or, if the subscription has not begun, at the
    /// requested start.
    pub(super) fn resume_at(&self, feed: Option<&impl Feed>, reached: Option<Offset>) -> StartAt {
        let next = reached.or(self.cursor().map(|cursor| cursor.next()));
        match (self.progress, feed, next) {
            (Progress::At(_), Some(feed), Some(next)) => StartAt::After(feed.position_before(next)),
            (Progress::Starting(start), Some(feed), _) => match feed.start(start) {
                Start::At(cursor) => StartAt::After(feed.position_before(cursor.next())),
                Start::Lost(_) | Start::OtherEpoch(_) | Start::Unknown(_) | Start::Backfill(_) => {
                    start
                }
            },
            (Progress::Starting(start), None, _) => start,
            (Progress::Ended(at), ..) => at,
            // A feed is never removed while it has subscribers.
            (Progress::At(_), ..) => StartAt::Latest,
        }
    }

    /// Returns whether the subscription was confirmed, or has ended.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.progress, Progress::Starting(_)) && !self.ends_alone()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.progress, Progress::Ended(_))
    }

    /// Records that the topic has ended. The rest is due at once: interval and window no longer apply, so
    /// that a slow client does not hold the topic.
    pub(super) fn will_end(&mut self, code: EndCode) {
        // If only this subscription ends, it keeps that reason, even if the topic ends later.
        if !self.ends_alone() {
            self.end = Some(code);
        }
        self.window = None;
        self.interval_us = 0;
        self.due_us = 0;
    }

    /// Leaves the topic, and keeps the entry among the connection's cursors. If the topic is gone, the cursor
    /// becomes `latest`. If only this subscription has ended, the cursor stays at the last position, so that a
    /// client that reconnects there gets a gap, and not later events without notice.
    pub(super) fn leave_ended(&mut self, at: Position) -> Left {
        let is_own = self.ends_alone();
        self.progress = Progress::Ended(if is_own { StartAt::After(at) } else { StartAt::Latest });
        self.end = None;
        self.window = None;
        Left { feed: std::mem::replace(&mut self.feed, NO_FEED), ..self.left() }
    }

    pub(super) fn left(&self) -> Left {
        Left { feed: self.feed, place: self.place, format: self.format }
    }

    /// Returns whether only this subscription ends, in which case no new frame begins.
    pub(super) fn ends_alone(&self) -> bool {
        self.end.is_some_and(EndCode::is_own)
    }

    pub(super) fn has_all(&self, feed: &impl Feed) -> bool {
        if self.ends_alone() {
            return self.cursor().is_some_and(|cursor| !cursor.in_frame());
        }
        self.cursor().is_some_and(|cursor| feed.has_all(&cursor))
    }

    /// Records that the client has processed everything up to `position`. Ignores a position of another
    /// epoch.
    pub(super) fn ack(&mut self, feed: &impl Feed, position: Position) {
        if let Some(window) = &mut self.window
            && position.epoch == feed.epoch()
        {
            window.ack(position.offset);
        }
    }

    pub(super) fn lose_context(&mut self) {
        if let Progress::At(cursor) = &mut self.progress {
            *cursor = cursor.without_context();
        }
    }

    pub(super) fn set_cursor(&mut self, cursor: Cursor) {
        self.progress = Progress::At(cursor);
    }

    /// Returns the age, in µs, of the oldest event of a send that began at `before`. `None` if the
    /// subscription had not caught up before, or has an interval.
    pub(super) fn age_us(&self, feed: &impl Feed, before: &Cursor, now_us: u64) -> Option<u64> {
        let is_waited_for = self.is_live && self.interval_us == 0;
        let published_us = is_waited_for.then(|| feed.published_us(before.needed_from()))??;
        Some(now_us.saturating_sub(published_us))
    }

    /// Records that the subscription has the newest event, and begins the interval. A send that the socket or a
    /// budget has cut short continues as soon as possible, without an interval.
    pub(super) fn caught_up(&mut self, feed: &impl Feed, now_us: u64) {
        self.is_live = true;
        if self.interval_us > 0 {
            let is_aligned = self.interval_us >= CONFLATED_INTERVAL_US && feed.conflates();
            // Readers with similar intervals share pages, if their intervals end together.
            let aligned_us = self
                .interval_us
                .div_ceil(CONFLATED_INTERVAL_US)
                .saturating_mul(CONFLATED_INTERVAL_US);
            self.due_us = match is_aligned {
                true => (now_us - now_us % aligned_us).saturating_add(aligned_us),
                false => now_us.saturating_add(self.interval_us),
            };
        }
    }

    /// Returns the offset from which the subscription needs a backfill before it can begin.
    pub(super) fn backfill_before(&self, feed: &impl Feed) -> Option<Offset> {
        match self.progress {
            Progress::Starting(at) => match feed.start(at) {
                Start::Backfill(from) => Some(from),
                Start::At(_) | Start::Lost(_) | Start::OtherEpoch(_) | Start::Unknown(_) => None,
            },
            Progress::At(_) | Progress::Ended(_) => None,
        }
    }

    /// Begins and confirms the subscription in `control`, unless it has begun or needs a [backfill](Self::backfill_before).
    pub(super) fn begin(
        &mut self,
        feed: &impl Feed,
        is_poll: bool,
        now_us: u64,
        control: &mut Vec<u8>,
    ) -> Begun {
        let Progress::Starting(at) = self.progress else { return Begun::NotYet };
        let is_resuming = self.asks_for_position();
        let format = self.format;
        match feed.start(at) {
            Start::At(cursor) => {
                let keyed = feed.confirmed_keys(&cursor, self.filter().map(|filter| &**filter));
                if let Some(filtered) = &mut self.filtered {
                    let until = keyed.and_then(|keyed| keyed.until);
                    filtered.confirmed(until, is_resuming, is_poll, now_us);
                }
                let confirmed = (feed.confirmed_after(&cursor), keyed);
                write_empty(feed, cursor.next(), confirmed, format, control);
                self.set_cursor(cursor);
                self.is_live = cursor.next() == feed.head();
                Begun::Exact
            }
            Start::OtherEpoch(cursor) => {
                let gap = AnnouncedGap { missed: None, reason: GapReason::Epoch };
                write_gap(feed, cursor.next(), gap, format, control);
                self.begin_again(cursor);
                Begun::Gap(gap)
            }
            Start::Lost(lost) => self.jump(feed, lost, GapReason::Trimmed, control),
            Start::Unknown(cursor) => Begun::Gap(self.announce_unknown(feed, cursor, control)),
            Start::Backfill(_) => Begun::NotYet,
        }
    }

    /// Announces in `control`, under any policy, that a part of the state is gone. From `cursor` on, the state
    /// is sent whole.
    pub(super) fn announce_unknown(
        &mut self,
        feed: &impl Feed,
        cursor: Cursor,
        control: &mut Vec<u8>,
    ) -> AnnouncedGap {
        let gap = AnnouncedGap { missed: None, reason: feed.unknown_reason() };
        write_gap(feed, cursor.next(), gap, self.format, control);
        self.begin_again(cursor);
        if let Some(window) = &mut self.window {
            window.begin_again(cursor.next());
        }
        gap
    }

    /// Continues at `cursor`, after a gap.
    fn begin_again(&mut self, cursor: Cursor) {
        self.waits_for_position();
        self.set_cursor(cursor);
    }

    /// Continues where the policy says and announces the gap in `control`. With [`Policy::Close`], ends the
    /// subscription instead.
    pub(super) fn jump(
        &mut self,
        feed: &impl Feed,
        lost: Lost,
        reason: GapReason,
        control: &mut Vec<u8>,
    ) -> Begun {
        let next = match self.policy {
            Policy::Skip => lost.middle,
            Policy::Latest => lost.newest,
            Policy::Close => return Begun::End(self.end_for(lost, reason)),
        };
        let gap = AnnouncedGap { missed: lost.missed(next), reason };
        write_gap(feed, next, gap, self.format, control);
        self.set_cursor(Cursor::before(next));
        Begun::Gap(gap)
    }

    fn end_for(&mut self, lost: Lost, reason: GapReason) -> EndCode {
        let code = match reason {
            GapReason::Slow => EndCode::Slow,
            GapReason::Trimmed | GapReason::Epoch | GapReason::Unknown => EndCode::Trimmed,
        };
        self.set_cursor(Cursor::before(lost.expected));
        self.will_end(code);
        code
    }

    pub(super) fn allows_gaps(&self) -> bool {
        self.policy != Policy::Close
    }
}

/// Writes the end of a topic to `control`, for a subscriber at `cursor`. Returns the subscriber's position.
pub(super) fn write_end(
    feed: &impl Feed,
    cursor: &Cursor,
    code: EndCode,
    format: Format,
    control: &mut Vec<u8>,
) -> Position {
    let position = feed.position_before(cursor.next());
    format.topic_end(&End { topic: feed.topic(), position, code }, control);
    position
}

/// Writes an envelope without events, after which the client is before `next`: the confirmation of a subscription, for example.
fn write_empty(
    feed: &impl Feed,
    next: Offset,
    (before, keyed): (Before, Option<Keyed<'_>>),
    format: Format,
    control: &mut Vec<u8>,
) {
    let envelope = Envelope {
        topic: feed.topic(),
        epoch: feed.epoch(),
        first: next.max(1),
        last: next.saturating_sub(1),
        before,
        offsets: None,
        keyed,
        events: &[],
    };
    format.batch(&envelope, control);
}

fn write_gap(
    feed: &impl Feed,
    next: Offset,
    AnnouncedGap { missed, reason }: AnnouncedGap,
    format: Format,
    control: &mut Vec<u8>,
) {
    let gap = Gap { topic: feed.topic(), position: feed.position_before(next), missed, reason };
    format.gap(&gap, control);
}

#[cfg(test)]
mod tests {
    use thalweg_wire::Epoch;

    use super::*;
    use crate::stream::{HistoryBounds, Log, Offsets};

    #[test]
    fn an_interval_beyond_all_time_does_not_overflow() {
        let terms = Terms { interval_us: u64::MAX, ..Terms::default() };
        let subscribe = Subscribe { feed: 0, start: StartAt::Latest, terms };
        let mut subscription = Subscription::new(subscribe, Format::NDJSON);
        let bounds = HistoryBounds { events_max: 1, bytes_max: 1, age_us_max: 1 };
        let epoch = Epoch::new(1).expect("an epoch");
        let feed = Log::new("t".parse().expect("a topic"), epoch, 1, Offsets::Consecutive, bounds);
        subscription.caught_up(&feed, 1);
        assert_eq!(subscription.due_us, u64::MAX);
    }
}
