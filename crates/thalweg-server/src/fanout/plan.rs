use std::{io::IoSlice, ops::Range};

use smallvec::SmallVec;
use thalweg_wire::Offset;

use super::{Feeds, Sent, Sink, Subscriber, ids::Ids, own::OWN_BYTES_MAX};
use crate::stream::{Cursor, Frames, Log, Lost, Next};

/// Slices in one send, about; more topics than that take a second one.
const SLICES_MAX: usize = 64;

/// Cold bytes are made for one subscriber alone: one send's worth at a time.
const COLD_BYTES_MAX: usize = 64 << 10;

/// Bytes in one send, about: no socket takes more.
const SEND_BYTES_MAX: usize = 1 << 20;

/// A part of a send and what it means when it is sent.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) owner: Owner,
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) enum Owner {
    /// The subscriber's own frames.
    Own,
    /// A subscription, with its cursor before and after.
    Subscription { index: u16, before: Cursor, after: Cursor },
    /// What ends the frame before it, where that is the connection's own: where it
    /// is in the scratch, and when an id is due after it.
    Ending(Range<usize>, Ids),
}

/// Where a slice's bytes are.
pub(super) enum Source<'a> {
    Own,
    /// Of a hot tail, or of a batch.
    Hot(&'a [u8]),
    /// In the scratch.
    Cold(Range<usize>),
}

/// What one send is made of.
pub(super) struct Plan<'a> {
    pub(super) pieces: &'a mut Vec<Piece>,
    pub(super) sources: SmallVec<[Source<'a>; 2]>,
    pub(super) bytes: usize,
    /// Where each subscription will be, where frames must say so.
    reached: &'a mut Vec<Option<Offset>>,
    /// When the next of them is due.
    ids: Ids,
    /// Whether everything that is due is in it.
    pub(super) complete: bool,
    /// When something becomes due that is not yet, in µs.
    pub(super) wake_us: Option<u64>,
    /// Whether a frame of it was made for this subscriber alone, and not by copying.
    pub(super) is_costly: bool,
}

/// Why a plan cannot be finished as it is.
pub(super) struct Interrupted {
    pub(super) index: usize,
    pub(super) lost: Lost,
}

impl Subscriber {
    /// The order of a send: the rest of a frame that is begun; what is for this
    /// subscriber alone; then each subscription's due, from a rotating start.
    pub(super) fn plan<'a, F: Feeds>(
        &self,
        plan: &mut Plan<'a>,
        feeds: &'a F,
        now_us: u64,
        cold: &mut Vec<u8>,
    ) -> Result<(), Interrupted> {
        let mut resumed = None;
        let has_own_ending = self.format.has_own_ending();
        if let Some(index) = self.in_frame
            && (!self.own.is_empty() || self.leaving.is_some() || has_own_ending)
        {
            let rest = self.plan_one(plan, feeds, index, None, true, cold)?;
            if has_own_ending {
                // It names where all the others are now: nobody moves before.
                plan.complete = false;
                return Ok(());
            }
            resumed = Some((index, rest));
        }
        if !self.own.is_empty() {
            plan.piece(Owner::Own, self.own.unsent().len());
            plan.source(Source::Own);
        }
        if self.is_ending() {
            return Ok(());
        }
        if self.own.unsent().len() >= OWN_BYTES_MAX {
            // What is planned may make more of them.
            plan.complete = false;
            return Ok(());
        }
        let count = self.subscriptions.len();
        let start = usize::from(self.in_frame.unwrap_or(self.first));
        for turn in 0..count {
            let index = (start + turn) % count;
            let due_us = self.subscriptions[index].due_us();
            if due_us > now_us {
                plan.wake_us = Some(plan.wake_us.map_or(due_us, |wake_us| wake_us.min(due_us)));
                continue;
            }
            let index = index as u16;
            if self.leaving == Some(index) {
                continue;
            }
            let from = resumed.filter(|(resumed, _)| *resumed == index).map(|(_, rest)| rest);
            if from.is_some() && self.subscriptions[usize::from(index)].window.is_some() {
                // Its window counts from what is sent: in the next send.
                plan.complete = false;
                continue;
            }
            self.plan_one(plan, feeds, index, from, false, cold)?;
        }
        Ok(())
    }

    /// Plans what a subscription is due from `from` (its cursor, if `None`);
    /// returns the cursor after that.
    fn plan_one<'a, F: Feeds>(
        &self,
        plan: &mut Plan<'a>,
        feeds: &'a F,
        index: u16,
        from: Option<Cursor>,
        one_frame: bool,
        cold: &mut Vec<u8>,
    ) -> Result<Cursor, Interrupted> {
        let subscription = &self.subscriptions[usize::from(index)];
        let (Some(mut cursor), Some(log)) =
            (from.or(subscription.cursor()), feeds.feed(subscription.feed))
        else {
            return Ok(Cursor::before(0));
        };
        let window = subscription.window.as_deref();
        if window.is_some_and(|window| !window.is_open(cursor.next())) && !cursor.in_frame() {
            return Ok(cursor);
        }
        let has_own_ending = self.format.has_own_ending();
        let alone = one_frame || has_own_ending || window.is_some();
        let frames = Frames::of(log, self.format);
        let mut planned = 0;
        loop {
            if plan.sources.len() >= SLICES_MAX
                || cold.len() >= COLD_BYTES_MAX
                || plan.bytes >= SEND_BYTES_MAX
            {
                plan.complete = false;
                return Ok(cursor);
            }
            let cold_before = cold.len();
            let next = frames.next(&cursor, alone, cold);
            let (bytes, after) = match &next {
                Next::Hot(bytes, after) => (bytes.len(), *after),
                Next::Cold { events, after, .. } => {
                    (cold.len() - cold_before + events.len(), *after)
                }
                // A gap is told once everything before it is sent.
                Next::Lost(_) if subscription.cursor() != Some(cursor) => {
                    plan.complete = false;
                    return Ok(cursor);
                }
                Next::Lost(lost) => return Err(Interrupted { index: index.into(), lost: *lost }),
                Next::Nothing => return Ok(cursor),
            };
            if window.is_some_and(|window| {
                !cursor.in_frame() && !window.admits(cursor.next(), planned, bytes as u64)
            }) {
                cold.truncate(cold_before);
                return Ok(cursor);
            }
            let is_cold = matches!(next, Next::Cold { .. });
            planned += bytes as u64;
            let frame_bytes = cursor.sent() + bytes;
            plan.piece(Owner::Subscription { index, before: cursor, after }, bytes);
            match next {
                Next::Hot(bytes, _) => plan.source(Source::Hot(bytes)),
                Next::Cold { before, events, .. } => {
                    let events_at = cold_before + before;
                    plan.source(Source::Cold(cold_before..events_at));
                    plan.source(Source::Hot(events));
                    plan.source(Source::Cold(events_at..cold.len()));
                }
                Next::Lost(_) | Next::Nothing => {}
            }
            cursor = after;
            if has_own_ending {
                plan.reach(index, &cursor);
                let before = cold.len();
                plan.ids = self.write_ending(feeds, plan.reached, plan.ids, frame_bytes, cold);
                let ending = before..cold.len();
                plan.piece(Owner::Ending(ending.clone(), plan.ids), ending.len());
                plan.source(Source::Cold(ending));
            }
            // No more of that in this visit.
            let is_costly = is_cold && !self.format.keeps_events();
            plan.is_costly |= is_costly;
            if one_frame || is_at_head(log, &cursor) {
                return Ok(cursor);
            }
            if is_costly {
                plan.complete = false;
                return Ok(cursor);
            }
        }
    }

    pub(super) fn send(&self, sources: &[Source<'_>], cold: &[u8], sink: &mut impl Sink) -> Sent {
        match sources {
            [one] => sink.send(&[one.slice(self.own.unsent(), cold)]),
            many => {
                let slices = many.iter().map(|source| source.slice(self.own.unsent(), cold));
                sink.send(&slices.collect::<SmallVec<[IoSlice<'_>; 8]>>())
            }
        }
    }
}

impl<'a> Source<'a> {
    fn slice(&self, own: &'a [u8], cold: &'a [u8]) -> IoSlice<'a> {
        IoSlice::new(match self {
            Self::Own => own,
            Self::Hot(bytes) => bytes,
            Self::Cold(range) => &cold[range.clone()],
        })
    }
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        pieces: &'a mut Vec<Piece>,
        reached: &'a mut Vec<Option<Offset>>,
        ids: Ids,
    ) -> Self {
        pieces.clear();
        reached.clear();
        let (sources, complete, wake_us) = (SmallVec::new(), true, None);
        Self { pieces, sources, bytes: 0, reached, ids, complete, wake_us, is_costly: false }
    }

    fn reach(&mut self, index: u16, cursor: &Cursor) {
        let index = usize::from(index);
        if self.reached.len() <= index {
            self.reached.resize(index + 1, None);
        }
        self.reached[index] = Some(cursor.next());
    }

    /// What the next sources mean when they are sent.
    fn piece(&mut self, owner: Owner, bytes: usize) {
        self.pieces.push(Piece { owner, bytes });
        self.bytes += bytes;
    }

    fn source(&mut self, source: Source<'a>) {
        match (self.sources.last_mut(), source) {
            // A part that is sent already.
            (_, Source::Hot([])) => {}
            (_, Source::Cold(range)) if range.is_empty() => {}
            (Some(Source::Cold(last)), Source::Cold(next)) if last.end == next.start => {
                last.end = next.end;
            }
            (_, source) => self.sources.push(source),
        }
    }
}

pub(super) fn is_at_head(log: &Log, cursor: &Cursor) -> bool {
    !cursor.in_frame() && cursor.next() == log.head()
}
