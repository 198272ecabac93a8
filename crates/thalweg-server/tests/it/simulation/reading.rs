use std::rc::Rc;

use thalweg_server::fanout::{Policy, Subscribe};
use thalweg_wire::{Epoch, GapReason, Offset, Position, incoming::GapFields};

use super::{
    published::Published,
    retained::{Beginning, Retained},
    tally::{Situation, Tally},
};

/// What one subscription must hear next.
pub(super) struct Reading {
    pub(super) subscribe: Subscribe,
    progress: Progress,
    /// What the log retained at each visit that a gap not yet heard may be
    /// from.
    visits: Vec<Rc<Retained>>,
    /// When it last had everything there was.
    caught_up_us: Option<u64>,
}

enum Progress {
    /// The log is not there.
    Waiting,
    Beginning(Beginning),
    At(Offset),
}

impl Reading {
    pub(super) fn new(subscribe: Subscribe) -> Self {
        Self { subscribe, progress: Progress::Waiting, visits: Vec::new(), caught_up_us: None }
    }

    /// The subscriber is about to be visited.
    pub(super) fn visit(&mut self, retained: &Rc<Retained>, epoch: Epoch) {
        if let Progress::Waiting = self.progress {
            let Subscribe { start, policy, .. } = self.subscribe;
            self.progress = Progress::Beginning(retained.beginning(start, epoch, policy));
        }
        self.visits.push(Rc::clone(retained));
    }

    /// An envelope without events.
    pub(super) fn confirmation(&mut self, position: Position, published: &Published) -> Offset {
        let Progress::Beginning(Beginning::Confirmed { next }) = self.progress else {
            panic!("{}: a confirmation at {position} was not due", published.topic);
        };
        assert_eq!(position, Position { epoch: published.epoch, offset: next - 1 });
        self.progress = Progress::At(next);
        next
    }

    /// An envelope with events, its frame begun at `begun_us`.
    pub(super) fn events(
        &mut self,
        position: Position,
        events: &[(Offset, &str)],
        published: &Published,
        begun_us: u64,
        now_us: u64,
    ) {
        let topic = &published.topic;
        let Progress::At(mut next) = self.progress else {
            panic!("{topic}: events at {position} before a confirmation or a gap");
        };
        let retained = self.visits.last().expect("a visit");
        if let Some(caught_up_us) = self.caught_up_us {
            let due_us = caught_up_us + self.subscribe.interval_us;
            assert!(begun_us >= due_us, "{topic}: sent at {begun_us}, due at {due_us}");
        }
        for (offset, payload) in events {
            assert_eq!(*offset, next, "{topic}: not the next event");
            assert!(*offset < retained.head, "{topic}: {offset} is ahead of the head");
            assert!(*payload == published.payload(*offset), "{topic}: event {offset} is damaged");
            next += 1;
        }
        assert_eq!(position, Position { epoch: published.epoch, offset: next - 1 });
        if next == retained.head {
            self.caught_up_us = Some(now_us);
        }
        self.progress = Progress::At(next);
        self.visits.drain(..self.visits.len() - 1);
    }

    pub(super) fn gap(
        &mut self,
        position: Position,
        gap: GapFields,
        published: &Published,
        tally: &mut Tally,
    ) {
        assert_eq!(position.epoch, published.epoch);
        let next = position.offset + 1;
        let GapFields { missed, reason } = gap;
        match self.progress {
            Progress::Waiting => panic!("{}: a gap without a log", published.topic),
            Progress::Beginning(beginning) => {
                assert_eq!(Beginning::Gap { next, missed, reason }, beginning);
            }
            Progress::At(before) => {
                let policy = self.subscribe.policy;
                let is_right = |visit: &Rc<Retained>| visit.jump(before, policy) == Some(next);
                assert!(
                    self.visits.iter().any(is_right),
                    "{}: no reason to jump from {before} to {next} under {policy:?}",
                    published.topic,
                );
                assert_eq!((missed, reason), (Some(next - before), GapReason::Slow));
            }
        }
        let situation = match reason {
            GapReason::Slow => Situation::Slow,
            GapReason::Trimmed => Situation::Trimmed,
            GapReason::Epoch => Situation::OtherEpoch,
        };
        tally.count(situation, 1);
        self.progress = Progress::At(next);
    }

    /// Whether the connection may be closed for being slow.
    pub(super) fn may_be_refused(&self) -> bool {
        self.subscribe.policy == Policy::Close
            && match self.progress {
                Progress::Waiting => false,
                Progress::Beginning(beginning) => beginning == Beginning::Refused,
                Progress::At(next) => self.visits.iter().any(|visit| visit.is_lost(next)),
            }
    }

    /// That nothing is owed now, and that what is owed later is promised.
    pub(super) fn check_is_content(&self, now_us: u64, wake_us: Option<u64>) {
        let (Some(next), Some(retained)) = (self.next(), self.visits.last()) else {
            panic!("feed {} has not begun", self.subscribe.feed);
        };
        if next >= retained.head {
            return;
        }
        let due_us = self.caught_up_us.unwrap_or(0) + self.subscribe.interval_us;
        assert!(due_us > now_us, "feed {}: {next} is due and not sent", self.subscribe.feed);
        assert!(
            wake_us.is_some_and(|wake_us| wake_us <= due_us),
            "feed {}: {next} is due at {due_us}, a visit promised at {wake_us:?}",
            self.subscribe.feed,
        );
    }

    /// The next event, once begun.
    pub(super) fn next(&self) -> Option<Offset> {
        match self.progress {
            Progress::At(next) => Some(next),
            _ => None,
        }
    }
}
