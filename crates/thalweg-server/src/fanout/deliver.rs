use std::{io::IoSlice, ops::Range};

use smallvec::SmallVec;
use thalweg_wire::{Close, GapReason, Offset};

use super::{Budget, Feeds, Life, Sent, Sink, Subscriber};
use crate::stream::{Cursor, Log, Lost, Next};

/// How a visit to a subscriber ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It has everything that is due; more becomes due at this time, in µs.
    CaughtUp(Option<u64>),
    /// Its budget is spent; more is due now.
    More,
    /// The sink is full; go on when it drains.
    Full,
    /// Its close is sent.
    Closed,
    /// The peer is gone.
    Gone,
}

/// Memory reused from visit to visit.
#[derive(Debug, Default)]
pub struct Scratch {
    cold: Vec<u8>,
    pieces: Vec<Piece>,
    reached: Vec<Option<Offset>>,
    gaps: [u64; GapReason::ALL.len()],
}

impl Scratch {
    /// How many gaps were told since the beginning, for a reason.
    pub fn gaps(&self, reason: GapReason) -> u64 {
        self.gaps[reason as usize]
    }
}

/// Slices in one send; more topics than that take a second one.
const SLICES_MAX: usize = 64;

/// Cold bytes are made for one subscriber alone: one send's worth at a time.
const COLD_BYTES_MAX: usize = 64 << 10;

/// A scratch that one large event has blown up is given back beyond this.
const SCRATCH_BYTES_KEPT: usize = 2 << 20;

/// One slice of a send and what it means when it is sent.
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
    /// What ends the frame before it, where that is the connection's own; here
    /// in the scratch.
    Ending(Range<usize>),
}

/// Where a slice's bytes are.
enum Source<'a> {
    Own,
    Hot(&'a [u8]),
    Cold(Range<usize>),
}

/// What one send is made of.
struct Plan<'a> {
    pieces: &'a mut Vec<Piece>,
    sources: SmallVec<[Source<'a>; 2]>,
    bytes: usize,
    /// Where each subscription will be, where frames must say so.
    reached: &'a mut Vec<Option<Offset>>,
    /// Whether everything that is due is in it.
    complete: bool,
    /// When something becomes due that is not yet, in µs.
    wake_us: Option<u64>,
}

/// Why a plan cannot be finished as it is.
struct Interrupted {
    index: usize,
    lost: Lost,
}

impl Subscriber {
    /// Sends what is due, as far as sink and budget allow.
    pub fn deliver(
        &mut self,
        feeds: &mut impl Feeds,
        sink: &mut impl Sink,
        now_us: u64,
        budget: Budget,
        scratch: &mut Scratch,
    ) -> Delivered {
        let mut spent = 0;
        loop {
            let Scratch { cold, pieces, reached, gaps } = scratch;
            self.begin(feeds, gaps);
            let mut plan = Plan::new(pieces, reached);
            cold.clear();
            if let Err(Interrupted { index, lost }) = self.plan(&mut plan, feeds, now_us, cold) {
                self.jump(feeds, index, lost);
                gaps[GapReason::Slow as usize] += 1;
                continue;
            }
            let Plan { bytes, complete, wake_us, .. } = plan;
            if bytes == 0 {
                return if self.is_ending() || self.has_said_its_piece() {
                    Delivered::Closed
                } else {
                    Delivered::CaughtUp(wake_us)
                };
            }
            let sent = self.send(&plan.sources, cold, sink);
            drop(plan);
            let Sent::Bytes(sent) = sent else { return Delivered::Gone };
            self.account(feeds, pieces, cold, sent, now_us);
            scratch.cold.shrink_to(SCRATCH_BYTES_KEPT);
            spent += sent;
            let pauses = complete || sent < bytes || spent >= budget.socket_bytes;
            if pauses && self.has_said_its_piece() {
                return Delivered::Closed;
            }
            if sent < bytes {
                return Delivered::Full;
            }
            if complete && !self.is_ending() {
                return Delivered::CaughtUp(wake_us);
            }
            if spent >= budget.socket_bytes {
                return Delivered::More;
            }
        }
    }

    /// Begins subscriptions whose log has come; after a frame whose ending would
    /// say so too early.
    fn begin(&mut self, feeds: &impl Feeds, gaps: &mut [u64; GapReason::ALL.len()]) {
        if self.framing.has_own_ending() && self.in_frame.is_some() {
            return;
        }
        for index in 0..self.subscriptions.len() {
            let is_ending = self.is_ending();
            let subscription = &mut self.subscriptions[index];
            if subscription.cursor().is_some() || is_ending {
                continue;
            }
            let Some(log) = feeds.feed(subscription.feed) else { continue };
            let framing = self.framing;
            let begun = subscription.begin(log, framing, self.own.frames());
            if begun.is_ok() && framing.has_own_ending() {
                let mut ending = Vec::new();
                self.write_ending(feeds, &[], &mut ending);
                self.own.frames().extend_from_slice(&ending);
            }
            if let Ok(Some(reason)) = begun {
                gaps[reason as usize] += 1;
                self.spoken = true;
            }
            self.end_if_refused(begun.map(|_| ()));
        }
    }

    /// A long poll that was told something and is between frames.
    fn has_said_its_piece(&self) -> bool {
        self.life == Life::Once && self.spoken && self.in_frame.is_none() && self.own.is_empty()
    }

    fn jump(&mut self, feeds: &impl Feeds, index: usize, lost: Lost) {
        let subscription = &mut self.subscriptions[index];
        let Some(log) = feeds.feed(subscription.feed) else { return };
        let mut gap = Vec::new();
        let jumped = subscription.jump(log, lost, GapReason::Slow, self.framing, &mut gap);
        if !gap.is_empty() {
            self.tell(|_, own| own.extend_from_slice(&gap));
        }
        self.spoken = true;
        self.end_if_refused(jumped);
    }

    fn end_if_refused(&mut self, done: Result<(), Close>) {
        if let Err(close) = done {
            self.close(close);
        }
    }

    /// The order of a send: the rest of a frame that is begun; what is for this
    /// subscriber alone; then each subscription's due, from a rotating start.
    fn plan<'a, F: Feeds>(
        &self,
        plan: &mut Plan<'a>,
        feeds: &'a F,
        now_us: u64,
        cold: &mut Vec<u8>,
    ) -> Result<(), Interrupted> {
        let mut resumed = None;
        let has_own_ending = self.framing.has_own_ending();
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
            plan.push(Owner::Own, self.own.unsent().len(), Source::Own);
        }
        if self.is_ending() {
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
        let has_own_ending = self.framing.has_own_ending();
        let alone = one_frame || has_own_ending || window.is_some();
        let mut planned = 0;
        loop {
            if plan.pieces.len() >= SLICES_MAX || cold.len() >= COLD_BYTES_MAX {
                plan.complete = false;
                return Ok(cursor);
            }
            let cold_before = cold.len();
            let (bytes, source, after) = match log.next(&cursor, self.framing, alone, cold) {
                Next::Hot(bytes, after) => (bytes.len(), Source::Hot(bytes), after),
                Next::Cold(after) => {
                    let range = cold_before..cold.len();
                    (range.len(), Source::Cold(range), after)
                }
                // A gap is told once everything before it is sent.
                Next::Lost(_) if subscription.cursor() != Some(cursor) => {
                    plan.complete = false;
                    return Ok(cursor);
                }
                Next::Lost(lost) => return Err(Interrupted { index: index.into(), lost }),
                Next::Nothing => return Ok(cursor),
            };
            if let Some(window) = window.filter(|_| !cursor.in_frame())
                && !window.admits(cursor.next(), planned, bytes as u64)
            {
                cold.truncate(cold_before);
                return Ok(cursor);
            }
            planned += bytes as u64;
            plan.push(Owner::Subscription { index, before: cursor, after }, bytes, source);
            cursor = after;
            if has_own_ending {
                plan.reach(index, &cursor);
                let before = cold.len();
                self.write_ending(feeds, plan.reached, cold);
                let ending = before..cold.len();
                plan.push(Owner::Ending(ending.clone()), ending.len(), Source::Cold(ending));
            }
            if one_frame || is_at_head(log, &cursor) {
                return Ok(cursor);
            }
        }
    }

    fn send(&self, sources: &[Source<'_>], cold: &[u8], sink: &mut impl Sink) -> Sent {
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
    fn new(pieces: &'a mut Vec<Piece>, reached: &'a mut Vec<Option<Offset>>) -> Self {
        pieces.clear();
        reached.clear();
        let (sources, complete, wake_us) = (SmallVec::new(), true, None);
        Self { pieces, sources, bytes: 0, reached, complete, wake_us }
    }

    fn reach(&mut self, index: u16, cursor: &Cursor) {
        let index = usize::from(index);
        if self.reached.len() <= index {
            self.reached.resize(index + 1, None);
        }
        self.reached[index] = Some(cursor.next());
    }

    fn push(&mut self, owner: Owner, bytes: usize, source: Source<'a>) {
        self.pieces.push(Piece { owner, bytes });
        self.sources.push(source);
        self.bytes += bytes;
    }
}

pub(super) fn is_at_head(log: &Log, cursor: &Cursor) -> bool {
    !cursor.in_frame() && cursor.next() == log.head()
}
