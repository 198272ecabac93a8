//! One send to a subscriber. It is planned, sent, and committed as far as the sink took it.

use std::{io::IoSlice, ops::Range};

use smallvec::SmallVec;
use thalweg_wire::{Offset, close};

use super::{
    FeedKey, Feeds, Sent, Sink, Subscriber, control::CONTROL_BYTES_MAX, framing::OwnFrames as _,
    ids::Ids, subscriber::is_at_head,
};
use crate::stream::{Cursor, Feed as _, Frames as _, Lost, Next, Pinning as _};

/// Approximate maximum of slices in one send. A subscriber of more topics needs several sends.
const SLICES_MAX: usize = 64;

/// Approximate maximum of cold bytes (bytes that are encoded for this subscriber only) in one send: about as
/// many as a socket takes at once.
const COLD_BYTES_MAX: usize = 64 << 10;

/// Approximate maximum of bytes in one send. Sockets hardly ever take more at once.
const SEND_BYTES_MAX: usize = 1 << 20;

/// After a large event, scratch memory above this is freed.
const SCRATCH_BYTES_KEPT: usize = 2 << 20;

/// A planned send. `'f` is the lifetime of the feeds that it reads, and `'s` that of the reused memory for
/// its parts.
pub(super) struct Transmit<'f, 's> {
    buffers: &'s mut SendBuffers,
    sources: SmallVec<[Source<'f>; 2]>,
    ids: Ids,
    pub(super) summary: PlanSummary,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PlanSummary {
    pub(super) bytes: usize,
    pub(super) is_complete: bool,
    pub(super) wake_us: Option<u64>,
    /// Whether the send contains a frame that was encoded, not only copied, for this subscriber alone.
    pub(super) is_costly: bool,
}

/// A send of which the sink took some bytes. Call `commit`.
pub(super) struct AcceptedSend<'s> {
    buffers: &'s mut SendBuffers,
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct SendBuffers {
    pieces: Vec<SendPiece>,
    /// Bytes made for this subscriber alone.
    cold: Vec<u8>,
    /// The offset that each subscription will reach. Trailers contain these offsets.
    reached: Vec<Option<Offset>>,
    pub(super) backfills: Vec<(FeedKey, Offset)>,
    /// The subscriptions that have skipped events, and their next cursors.
    pub(super) skips: Vec<(u16, Cursor)>,
}

#[derive(Debug)]
struct SendPiece {
    kind: PieceKind,
    bytes: usize,
}

#[derive(Debug)]
enum PieceKind {
    Control,
    Subscription {
        index: u16,
        before: Cursor,
        after: Cursor,
    },
    /// The trailer of the previous frame, if the frame has one: the trailer's range in the cold bytes, and
    /// the next state of ids.
    Trailer(Range<usize>, Ids),
}

/// The memory of a slice's bytes.
enum Source<'f> {
    Control,
    /// A hot tail, a kept frame, or a batch.
    Hot(&'f [u8]),
    Cold(Range<usize>),
}

/// A plan that stopped, because a subscription must be changed first. Plan again after the change.
pub(super) struct Interrupted {
    pub(super) index: usize,
    pub(super) why: Interruption,
}

pub(super) enum Interruption {
    Lost(Lost),
    /// The newest version of a value topic is lost. The subscription continues at this cursor.
    Unknown(Cursor),
    /// The next rows have another schema than the response of columns.
    OtherColumns,
    Unmade,
}

impl Interrupted {
    pub(super) fn is_unmade(&self) -> bool {
        matches!(self.why, Interruption::Unmade)
    }
}

impl<'f, 's> Transmit<'f, 's> {
    /// Plans a send in this order: the rest of a partly sent frame, the control messages, then what is due to
    /// each subscription. Consecutive sends begin with different subscriptions, in turn.
    #[inline]
    pub(super) fn plan<F: Feeds>(
        subscriber: &Subscriber,
        feeds: &'f F,
        now_us: u64,
        buffers: &'s mut SendBuffers,
    ) -> Result<Self, Interrupted> {
        buffers.pieces.clear();
        buffers.cold.clear();
        buffers.reached.clear();
        buffers.skips.clear();
        let summary = PlanSummary { bytes: 0, is_complete: true, wake_us: None, is_costly: false };
        let mut plan = Self { buffers, sources: SmallVec::new(), ids: subscriber.ids, summary };
        plan.all(subscriber, feeds, now_us)?;
        Ok(plan)
    }

    fn all<F: Feeds>(
        &mut self,
        subscriber: &Subscriber,
        feeds: &'f F,
        now_us: u64,
    ) -> Result<(), Interrupted> {
        let mut resumed = None;
        let has_trailer = subscriber.format.has_trailer();
        if let Some(index) = subscriber.in_frame
            && (!subscriber.control.is_empty() || subscriber.ends_after_frame(index) || has_trailer)
        {
            let rest = self.subscription(subscriber, feeds, index, None, true)?;
            if has_trailer {
                // The trailer contains the cursors of all subscriptions, so no other subscription may advance
                // before it is sent.
                self.summary.is_complete = false;
                return Ok(());
            }
            resumed = Some((index, rest));
        }
        if !subscriber.control.is_empty() {
            self.piece(PieceKind::Control, subscriber.control.unsent().len());
            self.source(Source::Control);
        }
        if subscriber.is_ending() {
            return Ok(());
        }
        if subscriber.control.unsent().len() >= CONTROL_BYTES_MAX {
            // Send the waiting control messages first, because planning can add more, for example gaps.
            self.summary.is_complete = false;
            return Ok(());
        }
        let count = subscriber.subscriptions.len();
        let start = usize::from(subscriber.in_frame.unwrap_or(subscriber.first));
        for turn in 0..count {
            let index = (start + turn) % count;
            let due_us = subscriber.subscriptions[index].due_us;
            if due_us > now_us {
                let wake_us = self.summary.wake_us;
                self.summary.wake_us = Some(wake_us.map_or(due_us, |wake_us| wake_us.min(due_us)));
                continue;
            }
            let index = index as u16;
            if subscriber.ends_after_frame(index) {
                continue;
            }
            let from = resumed.filter(|(resumed, _)| *resumed == index).map(|(_, rest)| rest);
            if from.is_some() && subscriber.subscriptions[usize::from(index)].window.is_some() {
                // The window counts only bytes that are already sent, so this subscription waits for the next
                // send.
                self.summary.is_complete = false;
                continue;
            }
            self.subscription(subscriber, feeds, index, from, false)?;
        }
        Ok(())
    }

    /// Plans the bytes that are due to a subscription from `from` on, or from its cursor. Returns the cursor
    /// after them.
    fn subscription<F: Feeds>(
        &mut self,
        subscriber: &Subscriber,
        feeds: &'f F,
        index: u16,
        from: Option<Cursor>,
        one_frame: bool,
    ) -> Result<Cursor, Interrupted> {
        let format = subscriber.format;
        let subscription = &subscriber.subscriptions[usize::from(index)];
        let (Some(mut cursor), Some(feed)) =
            (from.or(subscription.cursor()), feeds.feed(subscription.feed))
        else {
            return Ok(Cursor::before(0));
        };
        let window = subscription.window.as_deref();
        if window.is_some_and(|window| !window.is_open(feed.frame_after(&cursor)))
            && !cursor.in_frame()
        {
            return Ok(cursor);
        }
        let has_trailer = format.has_trailer();
        let alone = one_frame || has_trailer || window.is_some();
        let frames = feed.frames(subscription.encoding());
        let interrupted = |why| Interrupted { index: index.into(), why };
        let mut planned = 0;
        let has_other_text = format.own_messages_enter_context() && self.has_own_messages();
        loop {
            if has_other_text {
                cursor = cursor.without_context();
            }
            if self.is_full() {
                self.summary.is_complete = false;
                return Ok(cursor);
            }
            let cold_before = self.buffers.cold.len();
            let next = frames.next(&cursor, alone, &mut self.buffers.cold);
            let cold_after = self.buffers.cold.len();
            let (bytes, after) = match &next {
                Next::Hot(bytes, after) => (bytes.len(), *after),
                Next::Cold { events, after, .. } => {
                    (cold_after - cold_before + events.len(), *after)
                }
                // Send the planned bytes before making a gap, an end or a new frame.
                Next::Lost(_)
                | Next::Unknown(_)
                | Next::OtherColumns
                | Next::Unmade
                | Next::Skipped(_)
                    if planned > 0 || from.is_some() =>
                {
                    self.summary.is_complete = false;
                    return Ok(cursor);
                }
                // Planned frames of other topics do not wait until this frame is made.
                Next::Unmade if self.has_frames() => {
                    self.summary.is_complete = false;
                    return Ok(cursor);
                }
                Next::Lost(lost) => return Err(interrupted(Interruption::Lost(*lost))),
                Next::Unknown(cursor) => return Err(interrupted(Interruption::Unknown(*cursor))),
                Next::OtherColumns => return Err(interrupted(Interruption::OtherColumns)),
                Next::Unmade => return Err(interrupted(Interruption::Unmade)),
                Next::Skipped(after) => {
                    self.buffers.skips.push((index, *after));
                    return Ok(cursor);
                }
                Next::Backfill(from) => {
                    self.buffers.backfills.push((subscription.feed, *from));
                    return Ok(cursor);
                }
                Next::Nothing => return Ok(cursor),
            };
            if window.is_some_and(|window| {
                let frame = feed.frame_after(&cursor);
                !cursor.in_frame() && !window.admits(frame, planned, bytes as u64)
            }) {
                self.buffers.cold.truncate(cold_before);
                return Ok(cursor);
            }
            let is_cold = matches!(next, Next::Cold { .. });
            planned += bytes as u64;
            let frame_bytes = cursor.sent() + bytes;
            self.piece(PieceKind::Subscription { index, before: cursor, after }, bytes);
            match next {
                Next::Hot(bytes, _) => self.source(Source::Hot(bytes)),
                Next::Cold { before, events, .. } => {
                    let events_at = cold_before + before;
                    self.source(Source::Cold(cold_before..events_at));
                    self.source(Source::Hot(events));
                    self.source(Source::Cold(events_at..cold_after));
                }
                Next::Lost(_)
                | Next::Unknown(_)
                | Next::OtherColumns
                | Next::Unmade
                | Next::Skipped(_)
                | Next::Backfill(_)
                | Next::Nothing => {}
            }
            cursor = after;
            if has_trailer {
                self.trailer(subscriber, feeds, index, &cursor, frame_bytes);
            }
            // A visit makes only one frame that no other subscriber can use.
            let is_costly = is_cold && !format.keeps_events();
            self.summary.is_costly |= is_costly;
            if one_frame || is_at_head(feed, &cursor) {
                return Ok(cursor);
            }
            if is_costly {
                self.summary.is_complete = false;
                return Ok(cursor);
            }
        }
    }

    /// Returns whether subscriptions must move because they have skipped events. Plan again after that.
    pub(super) fn has_skips(&self) -> bool {
        !self.buffers.skips.is_empty()
    }

    /// Returns whether the send has messages that only this connection gets.
    fn has_own_messages(&self) -> bool {
        self.buffers.pieces.iter().any(|piece| matches!(piece.kind, PieceKind::Control))
    }

    /// Returns whether the send has bytes of a topic.
    fn has_frames(&self) -> bool {
        let mut pieces = self.buffers.pieces.iter();
        pieces.any(|piece| matches!(piece.kind, PieceKind::Subscription { .. }))
    }

    fn is_full(&self) -> bool {
        self.sources.len() >= SLICES_MAX
            || self.buffers.cold.len() >= COLD_BYTES_MAX
            || self.summary.bytes >= SEND_BYTES_MAX
    }

    /// Plans the trailer of a frame of `frame_bytes`. After the frame, the subscription is at `cursor`.
    fn trailer<F: Feeds>(
        &mut self,
        subscriber: &Subscriber,
        feeds: &F,
        index: u16,
        cursor: &Cursor,
        frame_bytes: usize,
    ) {
        let SendBuffers { cold, reached, .. } = &mut *self.buffers;
        let index = usize::from(index);
        if reached.len() <= index {
            reached.resize(index + 1, None);
        }
        reached[index] = Some(cursor.next());
        let before = cold.len();
        self.ids = subscriber.write_trailer(feeds, reached, self.ids, frame_bytes, cold);
        let trailer = before..cold.len();
        self.piece(PieceKind::Trailer(trailer.clone(), self.ids), trailer.len());
        self.source(Source::Cold(trailer));
    }

    /// Adds a piece. Its bytes are the sources that the caller adds next.
    fn piece(&mut self, kind: PieceKind, bytes: usize) {
        self.buffers.pieces.push(SendPiece { kind, bytes });
        self.summary.bytes += bytes;
    }

    fn source(&mut self, source: Source<'f>) {
        match (self.sources.last_mut(), source) {
            // The slice is empty, because this part was sent before.
            (_, Source::Hot([])) => {}
            (_, Source::Cold(range)) if range.is_empty() => {}
            (Some(Source::Cold(last)), Source::Cold(next)) if last.end == next.start => {
                last.end = next.end;
            }
            (_, source) => self.sources.push(source),
        }
    }

    /// Sends the plan. Returns `None` if the peer is gone.
    #[inline]
    pub(super) fn send(
        self,
        subscriber: &Subscriber,
        sink: &mut impl Sink,
    ) -> Option<AcceptedSend<'s>> {
        let (control, cold) = (subscriber.control.unsent(), &*self.buffers.cold);
        let sent = match &*self.sources {
            [one] => sink.send(&[one.slice(control, cold)]),
            many => {
                let slices = many.iter().map(|source| source.slice(control, cold));
                sink.send(&slices.collect::<SmallVec<[IoSlice<'_>; 8]>>())
            }
        };
        match sent {
            Sent::Bytes(bytes) => Some(AcceptedSend { buffers: self.buffers, bytes }),
            Sent::Gone => None,
        }
    }
}

impl Source<'_> {
    fn slice<'a>(&'a self, control: &'a [u8], cold: &'a [u8]) -> IoSlice<'a> {
        IoSlice::new(match self {
            Self::Control => control,
            Self::Hot(bytes) => bytes,
            Self::Cold(range) => &cold[range.clone()],
        })
    }
}

impl AcceptedSend<'_> {
    /// Moves the subscriber by the bytes that were taken. The rest of a partly sent trailer comes first in the next send.
    #[inline]
    pub(super) fn commit(self, subscriber: &mut Subscriber, feeds: &mut impl Feeds, now_us: u64) {
        let SendBuffers { pieces, cold, .. } = self.buffers;
        let mut left = self.bytes;
        let mut whole = false;
        let mut finished = None;
        for piece in &*pieces {
            if left == 0 && !whole {
                break;
            }
            let taken = piece.bytes.min(left);
            left -= taken;
            // `true` if the previous piece was a complete frame, whose trailer must be sent, too.
            let was_whole = std::mem::replace(&mut whole, false);
            match &piece.kind {
                PieceKind::Control => {
                    subscriber.control.advance(taken);
                    if subscriber.format.own_messages_enter_context() {
                        subscriber.lose_context();
                    }
                }
                PieceKind::Trailer(range, ids) if was_whole => {
                    subscriber.control.put_back(&cold[range.clone()][taken..]);
                    subscriber.ids = *ids;
                }
                PieceKind::Trailer(..) => {}
                PieceKind::Subscription { .. } if taken == 0 => {}
                PieceKind::Subscription { index, before, after } => {
                    whole = taken == piece.bytes;
                    let cursors = (before, whole.then_some(*after));
                    let unpinned = subscriber.advance(feeds, *index, cursors, taken, now_us);
                    finished = unpinned.or(finished);
                }
            }
        }
        // Unpin last: the frame that was begun above may be in the same batch (after a new subscription to
        // the same topic), and the old pin may be the batch's only one.
        if let Some((feed, before)) = finished
            && let Some(feed) = feeds.feed_mut(feed)
        {
            feed.unpin(&before);
        }
        cold.shrink_to(SCRATCH_BYTES_KEPT);
        subscriber.remove_finished();
        if subscriber.framing.is_full_after(self.bytes) {
            subscriber.close(close::RELOAD);
        }
        let count = subscriber.subscriptions.len() as u16;
        subscriber.first = if count > 1 { (subscriber.first + 1) % count } else { 0 };
    }
}
