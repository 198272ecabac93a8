use thalweg_wire::{Close, Framing, GapReason, Offset};

use super::{
    Budget, Feeds, Life, Sent, Sink, Subscriber,
    ids::Ids,
    own::OWN_BYTES_MAX,
    plan::{Interrupted, Piece, Plan},
};
use crate::stream::Lost;

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

/// A scratch that one large event has blown up is given back beyond this.
const SCRATCH_BYTES_KEPT: usize = 2 << 20;

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
            let mut plan = Plan::new(pieces, reached, self.ids);
            cold.clear();
            if let Err(Interrupted { index, lost }) = self.plan(&mut plan, feeds, now_us, cold) {
                self.jump(feeds, index, lost);
                gaps[GapReason::Slow as usize] += 1;
                continue;
            }
            let Plan { bytes, complete, wake_us, is_costly, .. } = plan;
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
            if is_costly {
                spent = spent.max(budget.socket_bytes);
            }
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
        if self.format.has_own_ending() && self.in_frame.is_some() {
            return;
        }
        let mut is_named = self.format.framing() != Framing::SseMany;
        for index in 0..self.subscriptions.len() {
            if self.subscriptions[index].cursor().is_some() {
                continue;
            }
            let Some(log) = feeds.feed(self.subscriptions[index].feed) else { continue };
            if self.is_ending() || self.own.unsent().len() >= OWN_BYTES_MAX {
                return;
            }
            if !std::mem::replace(&mut is_named, true) {
                // Where all that begin now do: whoever is cut off among the confirmations
                // comes back to that.
                self.end_own(feeds, Ids::default(), 0);
            }
            let before = self.own.frames().len();
            let begun = self.subscriptions[index].begin(log, self.format, self.own.frames());
            if let Ok(reason) = begun
                && self.format.has_own_ending()
            {
                let ids = if reason.is_some() { Ids::default() } else { self.ids };
                let frame_bytes = self.own.frames().len() - before;
                self.end_own(feeds, ids, frame_bytes);
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
        let own = self.own.frames();
        let jumped = subscription.jump(log, lost, GapReason::Slow, self.format, own);
        if jumped.is_ok() && self.format.has_own_ending() {
            self.end_own(feeds, Ids::default(), 0);
        }
        self.spoken = true;
        self.end_if_refused(jumped);
    }

    fn end_if_refused(&mut self, done: Result<(), Close>) {
        if let Err(close) = done {
            self.close(close);
        }
    }
}
