use std::{collections::VecDeque, rc::Rc, sync::Arc};

use thalweg_core::{
    fanout::Policy,
    stream::{Batch, Feed, FeedKind, HistoryBounds, Offsets, Page},
};
use thalweg_wire::{Epoch, GapReason, Offset, StartAt};

/// A simple model of a log's history.
pub(super) struct History {
    bounds: HistoryBounds,
    is_value: bool,
    is_keyed: bool,
    offsets: Offsets,
    /// Older events from this offset on can be backfilled. `None`: none can.
    stored_from: Option<Offset>,
    /// Whether a version may come from a backfill, while none is here.
    is_elsewhere: bool,
    batches: VecDeque<Arc<Batch>>,
    head: Offset,
    /// The end of the newest batch that came and is no longer retained.
    whole_from: Offset,
    /// Where a reader of lost events may go on: after each hole that a backfill has had, with the end of the events before it.
    holes: Vec<(Offset, Offset)>,
    now: Rc<Retained>,
}

/// The history at one moment: where each batch starts and ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Retained {
    is_value: bool,
    offsets: Offsets,
    stored_from: Option<Offset>,
    is_elsewhere: bool,
    batches: Vec<(Offset, Offset)>,
    whole_from: Offset,
    holes: Vec<(Offset, Offset)>,
    pub(super) head: Offset,
    pub(super) keyed: Option<KeyedHistory>,
}

/// The removals that a keyed feed remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyedHistory {
    /// No removal from this offset on is forgotten.
    pub(super) complete_from: Offset,
    /// Whether parts of the state are still to come.
    pub(super) is_partial: bool,
    /// Whether the feed is that of the owner shard.
    pub(super) is_owner: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    Confirmed { next: Offset },
    Gap { next: Offset, missed: Option<Offset>, reason: GapReason },
    Refused,
}

impl History {
    pub(super) fn new(
        head: Offset,
        bounds: HistoryBounds,
        kind: FeedKind,
        offsets: Offsets,
        stored_from: Option<Offset>,
    ) -> Self {
        let (is_value, is_keyed) = (kind == FeedKind::Value, kind == FeedKind::Keyed);
        let (is_elsewhere, batches) = (stored_from.is_some(), Vec::new());
        let whole_from = head;
        let holes = Vec::new();
        let now = Retained {
            is_value,
            offsets,
            stored_from,
            is_elsewhere,
            batches,
            whole_from,
            holes: holes.clone(),
            head,
            keyed: None,
        };
        let (batches, now) = (VecDeque::new(), Rc::new(now));
        Self {
            bounds,
            is_value,
            is_keyed,
            offsets,
            stored_from,
            is_elsewhere,
            batches,
            head,
            whole_from,
            holes,
            now,
        }
    }

    pub(super) fn push(&mut self, batch: Arc<Batch>) {
        if self.is_keyed || self.is_value && batch.end() <= self.head {
            return;
        }
        self.head = batch.end();
        self.batches.push_back(batch);
        while self.batches.len() > 1 && self.is_too_much() {
            self.batches.pop_front();
        }
        self.settle();
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        let bounds = self.bounds;
        let is_kept = |batch: &Arc<Batch>| batch.sealed_us() + bounds.age_us_max >= now_us;
        self.batches.retain(|batch| self.is_value || is_kept(batch));
        self.settle();
    }

    /// Frees about `bytes`, but never the newest batch. Returns the bytes freed.
    pub(super) fn trim_bytes(&mut self, bytes: usize) -> usize {
        let mut freed = 0;
        while freed < bytes && self.batches.len() > 1 {
            freed += self.batches.pop_front().map_or(0, |batch| batch.memory_bytes());
        }
        self.settle();
        freed
    }

    /// A backfill has come, and no stored event is older than `stored_from`. Without batches the head may go back.
    pub(super) fn backfilled(&mut self, stored_from: Offset, head: Offset) {
        self.stored_from = self.stored_from.map(|before| before.max(stored_from));
        assert!(head <= self.head && self.batches.back().is_none_or(|batch| batch.end() <= head));
        self.head = head;
        self.settle();
    }

    /// A backfill has come. Its holes begin with the end of the events before them.
    pub(super) fn holes_found(&mut self, page: &Page) {
        for hole in &page.holes {
            let ends = page.messages.iter().map(|(first, it)| first + it.count() as Offset);
            let before = ends.filter(|end| *end <= hole.start).max().unwrap_or(0);
            let hole = (before.max(page.from), hole.end);
            if !self.holes.contains(&hole) {
                self.holes.push(hole);
            }
        }
    }

    /// The newest version, if there is one, has come by a backfill that began while the head was at `head`.
    pub(super) fn version_backfilled(&mut self, version: Option<Arc<Batch>>, head: Offset) {
        if self.batches.is_empty() && head == self.head {
            self.is_elsewhere = false;
            self.head = version.as_ref().map_or(self.head, |batch| batch.end());
            self.batches.extend(version);
        }
        self.settle();
    }

    pub(super) fn clear(&mut self) {
        self.is_elsewhere |= self.stored_from.is_some() && !self.batches.is_empty();
        self.batches.clear();
        self.settle();
    }

    /// Takes the head of a keyed feed, and what it says about its state.
    pub(super) fn note(&mut self, head: Offset, keyed: KeyedHistory) {
        assert!(head >= self.head, "the head goes back from {} to {head}", self.head);
        if (self.head, self.now.keyed) != (head, Some(keyed)) {
            self.head = head;
            self.settle();
            let now = Rc::get_mut(&mut self.now).expect("made just now");
            now.keyed = Some(keyed);
        }
    }

    pub(super) fn now(&self) -> &Rc<Retained> {
        &self.now
    }

    pub(super) fn check(&self, feed: &impl Feed) {
        let batches = feed.batches_from(0).map(|batch| (batch.start(), batch.end())).collect();
        let Self { is_value, offsets, stored_from, is_elsewhere, whole_from, .. } = *self;
        let (head, holes) = (feed.head(), self.holes.clone());
        let found = Retained {
            is_value,
            offsets,
            stored_from,
            is_elsewhere,
            batches,
            whole_from,
            holes,
            head,
            keyed: None,
        };
        assert_eq!(found, *self.now);
        let readable = if is_value { self.batches.len() } else { self.events() };
        assert_eq!(feed.retained_events(), readable);
        assert_eq!(feed.first_retained(), self.now.first());
        assert_eq!(feed.history_bytes(), self.bytes());
    }

    fn events(&self) -> usize {
        self.batches.iter().map(|batch| batch.count()).sum()
    }

    fn bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.memory_bytes()).sum()
    }

    fn is_too_much(&self) -> bool {
        self.is_value
            || self.events() > self.bounds.events_max
            || self.bytes() > self.bounds.bytes_max
    }

    fn settle(&mut self) {
        let batches: Vec<(Offset, Offset)> =
            self.batches.iter().map(|batch| (batch.start(), batch.end())).collect();
        let gone = self.now.batches.iter().filter(|batch| !batches.contains(batch));
        let gone_to = gone.map(|(_, end)| *end).max().unwrap_or_default();
        self.whole_from = self.whole_from.max(gone_to);
        let Self { is_value, offsets, stored_from, is_elsewhere, whole_from, head, .. } = *self;
        self.now = Rc::new(Retained {
            is_value,
            offsets,
            stored_from,
            is_elsewhere,
            batches,
            whole_from,
            holes: self.holes.clone(),
            head,
            keyed: self.now.keyed,
        });
    }
}

/// A value whose newest version is not here.
const UNKNOWN: Beginning = Beginning::Gap { next: 1, missed: None, reason: GapReason::Unknown };

impl Retained {
    pub(super) fn first(&self) -> Offset {
        self.batches.first().map_or(self.head, |(start, _)| *start)
    }

    pub(super) fn newest(&self) -> Option<Offset> {
        self.batches.last().map(|(_, end)| end - 1)
    }

    /// Whether no bytes are due, wherever the head is: a value without a version.
    pub(super) fn owes_nothing(&self) -> bool {
        self.is_value && self.newest().is_none()
    }

    /// Whether the event at `next` was there and is gone. A version is never lost.
    pub(super) fn is_lost(&self, next: Offset) -> bool {
        self.is_not_here(next) && !self.is_stored(next)
    }

    /// Whether a reader at `next` may lose events.
    pub(super) fn may_lose(&self, next: Offset) -> bool {
        self.is_lost(next) || !self.hole_ends(next).is_empty()
    }

    /// Whether the event at `next` was never there, and those after it are.
    pub(super) fn is_hole(&self, next: Offset) -> bool {
        self.offsets == Offsets::Derived && next >= self.whole_from && self.is_lost(next)
    }

    /// Returns where a reader at `next` may go on, because backfills have said that the events in between are lost. A feed may
    /// have forgotten some of them.
    pub(super) fn hole_ends(&self, next: Offset) -> Vec<Offset> {
        let mut ends = vec![next];
        let mut checked = 0;
        while let Some(at) = ends.get(checked).copied().filter(|at| self.is_not_here(*at)) {
            let its = self.holes.iter().filter(|(from, until)| (*from..*until).contains(&at));
            let its = its.map(|(_, until)| (*until).min(self.head));
            let new: Vec<_> = its.filter(|until| !ends.contains(until)).collect();
            ends.extend(new);
            checked += 1;
        }
        ends.retain(|end| *end > next && self.is_stored(next));
        ends
    }

    /// Whether the event at `next` may need a backfill.
    pub(super) fn needs_backfill(&self, next: Offset) -> bool {
        match self.is_value {
            false => self.is_not_here(next) && self.is_stored(next),
            true => self.is_elsewhere && self.owes_nothing() && next < self.head,
        }
    }

    /// Whether a subscription at `at` may have to wait for the broker.
    pub(super) fn may_look(&self, at: StartAt, epoch: Epoch) -> bool {
        let is_log = !self.is_value;
        let is_unsure = match at {
            StartAt::Latest | StartAt::Newest(_) => false,
            StartAt::Earliest | StartAt::Since(_) | StartAt::Within(..) => is_log,
            StartAt::After(position) if position.epoch == epoch => position.offset + 1 > self.head,
            StartAt::After(position) => is_log || (position.offset > 0 && self.needs_backfill(0)),
        };
        is_unsure && self.stored_from.is_some()
    }

    /// Whether the newest version is lost to a subscriber who has the one before `next`, or none.
    pub(super) fn has_lost_version(&self, next: Offset) -> bool {
        let may_expect_one = next > 1 || self.offsets == Offsets::Consecutive;
        may_expect_one && next < self.head && self.owes_nothing() && !self.needs_backfill(next)
    }

    fn is_stored(&self, next: Offset) -> bool {
        self.stored_from.is_some_and(|stored_from| next >= stored_from)
    }

    fn is_not_here(&self, next: Offset) -> bool {
        !self.is_value
            && self.keyed.is_none()
            && next < self.head
            && !self.batches.iter().any(|(start, end)| (*start..*end).contains(&next))
    }

    pub(super) fn is_within_batch(&self, next: Offset) -> bool {
        self.batches.iter().any(|(start, end)| (start + 1..*end).contains(&next))
    }

    /// Returns where a subscriber goes on whose `next` event is lost.
    pub(super) fn jump(&self, next: Offset, policy: Policy) -> Option<Offset> {
        let starts: Vec<_> = self.batches.iter().map(|(start, _)| *start).collect();
        if self.is_hole(next) && policy != Policy::Close {
            return Some(starts.into_iter().find(|start| *start >= next).unwrap_or(self.head));
        }
        let target = match policy {
            Policy::Skip => starts.get(starts.len() / 2),
            Policy::Latest => starts.last(),
            Policy::Close => return None,
        };
        let target = target.copied().unwrap_or(self.head);
        let stored = self.stored_from.filter(|from| policy == Policy::Skip && *from >= next);
        let forward = starts.into_iter().find(|start| *start >= next).unwrap_or(self.head);
        let jumped = target.max(forward);
        self.is_lost(next).then(|| stored.filter(|from| *from < jumped).unwrap_or(jumped))
    }

    pub(super) fn missed(&self, from: Offset, to: Offset) -> Option<Offset> {
        (self.offsets == Offsets::Consecutive).then_some(to - from)
    }

    /// Returns how a subscription at `at` begins after the broker's answer. `has_given` says whether an offset is
    /// one of the stream.
    pub(super) fn beginning_stored(
        &self,
        at: StartAt,
        epoch: Epoch,
        has_given: impl Fn(Offset) -> bool,
    ) -> Vec<Beginning> {
        // It is unknown before a backfill.
        let oldest = self.stored_from.filter(|from| *from > 0);
        let lost = |next| Beginning::Gap { next, missed: None, reason: GapReason::Epoch };
        let lost = match self.is_value {
            false => oldest.map(lost),
            true if self.owes_nothing() => Some(UNKNOWN),
            true => Some(Beginning::Confirmed { next: 1 }),
        };
        let its = match at {
            StartAt::After(position) if position.epoch == epoch => {
                // It may have been given since the broker answered.
                let next = position.offset + 1;
                let confirmed = has_given(position.offset).then_some(Beginning::Confirmed { next });
                [lost, confirmed]
            }
            StartAt::After(_) => [lost, None],
            StartAt::Latest
            | StartAt::Earliest
            | StartAt::Newest(_)
            | StartAt::Since(_)
            | StartAt::Within(..) => [oldest.map(|next| Beginning::Confirmed { next }), None],
        };
        its.into_iter().flatten().collect()
    }

    /// Returns how a subscription at `at` begins.
    pub(super) fn beginning(&self, at: StartAt, epoch: Epoch, policy: Policy) -> Beginning {
        if self.is_value {
            let (had, had_other) = match at {
                StartAt::After(position) if position.epoch == epoch => (position.offset, false),
                StartAt::After(position) => (0, position.offset > 0),
                StartAt::Latest
                | StartAt::Earliest
                | StartAt::Newest(_)
                | StartAt::Since(_)
                | StartAt::Within(..) => (0, false),
            };
            let knows = matches!(at, StartAt::After(position) if position.offset == 0);
            let is_lost = !knows && self.has_lost_version(had + 1);
            let is_unknown = had_other && self.owes_nothing() || is_lost;
            return if is_unknown { UNKNOWN } else { Beginning::Confirmed { next: had + 1 } };
        }
        if let Some(keyed) = &self.keyed {
            return keyed.beginning(at, epoch);
        }
        let position = match at {
            StartAt::Latest => return Beginning::Confirmed { next: self.head },
            StartAt::Earliest | StartAt::Since(_) | StartAt::Within(..) => {
                return Beginning::Confirmed { next: self.first() };
            }
            // Offsets are consecutive here.
            StartAt::Newest(count) => {
                let next = self.head.saturating_sub(count.into()).max(self.first());
                return Beginning::Confirmed { next };
            }
            StartAt::After(position) => position,
        };
        if position.epoch != epoch {
            let (missed, reason) = (None, GapReason::Epoch);
            return Beginning::Gap { next: self.first(), missed, reason };
        }
        let asked = position.offset + 1;
        let is_there = asked >= self.first() && !self.is_hole(asked);
        if is_there || self.is_stored(asked) {
            return Beginning::Confirmed { next: asked };
        }
        match self.jump(asked, policy) {
            Some(next) => {
                let missed = self.missed(asked, next);
                Beginning::Gap { next, missed, reason: GapReason::Trimmed }
            }
            None => Beginning::Refused,
        }
    }
}

impl KeyedHistory {
    fn beginning(&self, at: StartAt, epoch: Epoch) -> Beginning {
        let all_after = |reason| Beginning::Gap { next: 1, missed: None, reason };
        match at {
            StartAt::After(position) if position.offset == 0 => Beginning::Confirmed { next: 1 },
            StartAt::After(position) if position.epoch != epoch => all_after(GapReason::Epoch),
            StartAt::After(position) if position.offset + 1 < self.complete_from => {
                all_after(GapReason::Trimmed)
            }
            StartAt::After(position) => Beginning::Confirmed { next: position.offset + 1 },
            StartAt::Latest
            | StartAt::Earliest
            | StartAt::Newest(_)
            | StartAt::Since(_)
            | StartAt::Within(..) => Beginning::Confirmed { next: 1 },
        }
    }
}
