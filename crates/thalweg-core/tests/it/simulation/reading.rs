mod keyed;

use std::rc::Rc;

use thalweg_core::{
    fanout::{Policy, Subscribe},
    stream::Offsets,
};
use thalweg_wire::{EndCode, Epoch, GapReason, Offset, Position, StartAt, incoming::GapFields};

use super::{
    keyed_reading::{KeyedReading, KeyedState},
    published::Published,
    retained::{Beginning, Retained},
    tally::{Situation, Tally},
    windows::Window,
};

/// The expected frames of one subscription.
pub(super) struct Reading {
    pub(super) subscribe: Subscribe,
    progress: Progress,
    /// The client's state of a keyed topic when it subscribed, if it is not the whole state at its position.
    had: Option<Rc<KeyedState>>,
    /// Set when it has begun to read a keyed topic.
    keyed: Option<KeyedReading>,
    /// Whether it has received events.
    pub(super) is_fed: bool,
    /// The log's history at each visit that a gap not yet received may be from.
    visits: Vec<Rc<Retained>>,
    caught_up_us: Option<u64>,
    pub(super) window: Option<Window>,
    pub(super) end: TopicEnd,
    /// Whether it knows that its value is unknown, and got none since then.
    is_told_unknown: bool,
    /// Where it ended, if its policy allows no gap and there was one.
    pub(super) lost_at: Option<Position>,
    /// The bytes that the connection had taken when it was told to leave.
    pub(super) left_at: Option<u64>,
    /// When, and at which of the visits, the current frame was sent whole but for the connection's trailer.
    shared_part: Option<(u64, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TopicEnd {
    #[default]
    None,
    /// It ends when all of it is sent.
    Due,
    /// It is left, and its end may be in flight.
    Left,
    Received,
}

#[derive(Clone, Copy)]
pub(super) struct Sent {
    /// The byte of the connection where it begins.
    pub(super) begun: u64,
    pub(super) begun_us: u64,
    pub(super) bytes: u64,
    pub(super) now_us: u64,
    pub(super) is_compressed: bool,
}

pub(super) enum Content<'a> {
    Document(&'a str),
    Patch(&'a str),
}

enum Progress {
    Waiting,
    /// Its possible beginnings, by visit.
    Beginning {
        candidates: Vec<Beginning>,
        is_settled: bool,
    },
    At(Offset),
}

impl Reading {
    pub(super) fn new(subscribe: Subscribe, had: Option<Rc<KeyedState>>) -> Self {
        Self {
            subscribe,
            progress: Progress::Waiting,
            had,
            keyed: None,
            is_fed: false,
            visits: Vec::new(),
            caught_up_us: None,
            window: subscribe.terms.window_bytes.map(Window::new),
            end: TopicEnd::default(),
            is_told_unknown: false,
            lost_at: None,
            left_at: None,
            shared_part: None,
        }
    }

    /// Its topic has ended, and the rest is due at once.
    pub(super) fn will_end(&mut self) {
        self.end = TopicEnd::Due;
        self.window = None;
        self.caught_up_us = None;
        self.subscribe.terms.interval_us = 0;
    }

    pub(super) fn goes_on(&self) -> bool {
        self.left_at.is_none() && matches!(self.end, TopicEnd::None | TopicEnd::Due)
    }

    /// Whether it has all of a topic whose end it has not received.
    pub(super) fn is_owed_end(&self) -> bool {
        let is_end_due = self.left_at.is_none() && self.end == TopicEnd::Due;
        is_end_due && self.visits.last().is_some_and(|last| self.has_everything(last))
    }

    fn has_everything(&self, retained: &Retained) -> bool {
        self.next().is_some_and(|next| next >= retained.head || retained.owes_nothing())
    }

    pub(super) fn topic_end(&mut self, position: Position, published: &Published) {
        let topic = &published.topic;
        assert!(matches!(self.end, TopicEnd::Due | TopicEnd::Left), "{topic}: has not ended");
        let had_everything = self.visits.iter().any(|visit| self.has_everything(visit));
        assert!(had_everything, "{topic}: ends at {position}, with more to come");
        let at = self.next().map(|next| Position { epoch: published.epoch, offset: next - 1 });
        assert_eq!(at, Some(position), "{topic}: ends elsewhere");
        self.end = TopicEnd::Received;
    }

    pub(super) fn lost_end(&mut self, position: Position, code: EndCode, published: &Published) {
        let topic = &published.topic;
        assert!(self.may_be_refused(), "{topic}: ends at {position}, and nothing is missing");
        let (at, is_beginning) = match self.progress {
            Progress::At(next) => (Position { epoch: published.epoch, offset: next - 1 }, false),
            _ => match self.subscribe.start {
                StartAt::After(position) => (position, true),
                other => panic!("{topic}: nothing is missing after {other:?}"),
            },
        };
        assert_eq!(position, at, "{topic}: ends elsewhere");
        assert!(matches!(code, EndCode::Slow | EndCode::Trimmed), "{topic}: {code:?}");
        assert!(!is_beginning || code == EndCode::Trimmed, "{topic}: {code:?}");
        (self.end, self.lost_at) = (TopicEnd::Received, Some(position));
    }

    /// A visit begins. The subscription begins at once, unless it must wait for the end of a frame, or for control messages.
    pub(super) fn visit(&mut self, retained: &Rc<Retained>, published: &Published, may_wait: bool) {
        if let Progress::Waiting = self.progress {
            self.progress = Progress::Beginning { candidates: Vec::new(), is_settled: false };
        }
        if let Progress::Beginning { candidates, is_settled } = &mut self.progress
            && !*is_settled
        {
            let (Subscribe { start, terms, .. }, epoch) = (self.subscribe, published.epoch);
            if retained.may_look(start, epoch) {
                let has_given = |offset| published.has_given(offset);
                candidates.extend(retained.beginning_stored(start, epoch, has_given));
            } else {
                candidates.push(retained.beginning(start, epoch, terms.policy));
                *is_settled = !may_wait;
            }
            if let StartAt::After(position) = start
                && position.epoch == epoch
            {
                let ends = retained.hole_ends(position.offset + 1).into_iter();
                candidates.extend(ends.map(|next| match terms.policy {
                    Policy::Close => Beginning::Refused,
                    Policy::Skip | Policy::Latest => {
                        Beginning::Gap { next, missed: None, reason: GapReason::Trimmed }
                    }
                }));
            }
        }
        self.visits.push(Rc::clone(retained));
    }

    /// A version: a document, or the operations from the version before.
    pub(super) fn version(
        &mut self,
        position: Position,
        previous: Offset,
        content: &Content<'_>,
        published: &Published,
        sent: Sent,
        tally: &mut Tally,
    ) {
        let topic = &published.topic;
        let Progress::At(next) = self.progress else {
            panic!("{topic}: a version at {position} before a confirmation");
        };
        assert_eq!(previous + 1, next, "{topic}: of another version");
        let offset = position.offset;
        assert!(offset > previous, "{topic}: an older version");
        let is_newest = |visit: &Rc<Retained>| visit.newest() == Some(offset);
        assert!(self.visits.iter().any(is_newest), "{topic}: {offset} was not the newest");
        match content {
            Content::Document(document) => {
                assert!(*document == published.payload(offset), "{topic}: {offset} is damaged");
                tally.count(Situation::Version, 1);
            }
            Content::Patch(operations) => {
                let mut document = json(published.payload(previous));
                let patch: json_patch::Patch = serde_json::from_str(operations).expect("a patch");
                json_patch::patch(&mut document, &patch).expect("a patch of this document");
                assert_eq!(document, json(published.payload(offset)), "{topic}: by {operations}");
                tally.count(Situation::Patch, 1);
            }
        }
        self.is_told_unknown = false;
        tally.saw_if(Situation::Conflated, previous > 0 && offset > next);
        self.moved(position, offset + 1, published, sent);
    }

    pub(super) fn confirmation(
        &mut self,
        position: Position,
        until: Option<Offset>,
        published: &Published,
        tally: &mut Tally,
    ) -> Offset {
        let next = position.offset + 1;
        assert!(
            self.is_candidate(Beginning::Confirmed { next }),
            "{}: a confirmation at {position} was not due",
            published.topic
        );
        assert_eq!(position.epoch, published.epoch);
        let is_lost = |visit: &Rc<Retained>| visit.has_lost_version(next);
        self.is_told_unknown = next == 1 && self.visits.iter().any(is_lost);
        self.progress = Progress::At(next);
        if published.keyed().is_some() {
            assert!(self.may_confirm(next, until, published.sealed()), "confirmed until {until:?}");
            let had = self.had.take();
            tally.saw_if(
                Situation::ResumedInPages,
                had.as_ref().is_some_and(|had| had.position == position.offset && !had.is_whole()),
            );
            self.keyed = Some(KeyedReading::new(position.offset, had.as_deref(), until));
        } else {
            assert_eq!(until, None);
        }
        next
    }

    fn is_candidate(&self, beginning: Beginning) -> bool {
        matches!(&self.progress, Progress::Beginning { candidates, .. }
            if candidates.contains(&beginning))
    }

    pub(super) fn events(
        &mut self,
        position: Position,
        after: Option<Offset>,
        events: &[(Offset, &str)],
        published: &Published,
        sent: Sent,
    ) {
        let topic = &published.topic;
        let Progress::At(mut next) = self.progress else {
            panic!("{topic}: events at {position} before a confirmation or a gap");
        };
        assert!(!published.is_value(), "{topic}: events without a version");
        let head = self.visits.last().expect("a visit").head;
        let first = published.event_from(next).expect("an event");
        let after = after.unwrap_or(first - 1);
        let is_after = published.event_before(first)..next;
        assert!(is_after.contains(&after), "{topic}: {after} is not what is before {first}");
        for (offset, payload) in events {
            assert_eq!(Some(*offset), published.event_from(next), "{topic}: not the next event");
            assert!(*offset < head, "{topic}: {offset} is ahead of the head");
            assert!(*payload == published.payload(*offset), "{topic}: event {offset} is damaged");
            next = offset + 1;
        }
        self.moved(position, next, published, sent);
    }

    fn moved(&mut self, position: Position, next: Offset, published: &Published, sent: Sent) {
        let Sent { begun, begun_us, bytes, now_us, .. } = sent;
        let topic = &published.topic;
        let is_left = self.left_at.is_some_and(|left_at| begun >= left_at);
        assert!(!is_left, "{topic}: begun after it was to be left");
        if let Some(caught_up_us) = self.caught_up_us {
            let due_us = self.due_us(caught_up_us);
            assert!(begun_us >= due_us, "{topic}: sent at {begun_us}, due at {due_us}");
        }
        assert_eq!(position, Position { epoch: published.epoch, offset: next - 1 });
        let (whole_us, visit) = self.shared_part.unwrap_or((now_us, self.visits.len() - 1));
        if next == self.visits[visit].head {
            self.caught_up_us = Some(whole_us);
        }
        if let Some(window) = &mut self.window {
            window.sent(next, bytes);
        }
        self.progress = Progress::At(next);
        self.is_fed = true;
        self.visits.drain(..visit);
        self.shared_part = None;
    }

    pub(super) fn gap(
        &mut self,
        position: Position,
        gap: GapFields,
        published: &Published,
        tally: &mut Tally,
    ) {
        assert_eq!(position.epoch, published.epoch);
        let is_value = published.is_value();
        assert_eq!(is_value, gap.reason == GapReason::Unknown, "of versions none is missed");
        let next = position.offset + 1;
        let GapFields { missed, reason } = gap;
        match self.progress {
            Progress::Waiting => panic!("{}: a gap without a log", published.topic),
            Progress::Beginning { .. } => {
                let gap = Beginning::Gap { next, missed, reason };
                assert!(self.is_candidate(gap), "{}: {gap:?} was not due", published.topic);
            }
            Progress::At(_) if published.keyed().is_some() => {
                let reading = self.keyed.as_ref().expect("begun");
                let is_due =
                    |visit: &Rc<Retained>| visit.keyed.is_some_and(|it| reading.is_due(&it));
                assert!(self.visits.iter().any(is_due), "{}: no gap is due", published.topic);
                assert_eq!((next, missed, reason), (1, None, GapReason::Trimmed));
            }
            Progress::At(before) if is_value => {
                let is_due = self.visits.iter().any(|visit| visit.has_lost_version(before));
                assert!(is_due, "{}: not unknown", published.topic);
                assert_eq!((next, missed), (1, None));
            }
            Progress::At(before) => {
                let policy = self.subscribe.terms.policy;
                let is_hole = policy != Policy::Close
                    && self.visits.iter().any(|visit| visit.hole_ends(before).contains(&next));
                if is_hole {
                    let topic = &published.topic;
                    let is_lost = published.has_lost_all(before, next);
                    assert!(is_lost, "{topic}: not all is lost from {before} to {next}");
                    assert_eq!((missed, reason), (None, GapReason::Trimmed));
                    tally.count(Situation::LostInBroker, 1);
                    self.progress = Progress::At(next);
                    return;
                }
                let is_right = |visit: &&Rc<Retained>| visit.jump(before, policy) == Some(next);
                let mut right = self.visits.iter().filter(is_right).peekable();
                assert!(
                    right.peek().is_some(),
                    "{}: no reason to jump from {before} to {next} under {policy:?}",
                    published.topic,
                );
                let due = |visit: &Rc<Retained>| {
                    let is_slow = match published.offsets() {
                        Offsets::Consecutive => true,
                        Offsets::Stored => false,
                        Offsets::Derived => !visit.is_hole(before),
                    };
                    let due = if is_slow { GapReason::Slow } else { GapReason::Trimmed };
                    (visit.missed(before, next), due)
                };
                // It may be from any of the visits.
                let is_due = right.any(|visit| due(visit) == (missed, reason));
                assert!(is_due, "{}: {missed:?} {reason:?}", published.topic);
            }
        }
        let situation = match reason {
            GapReason::Slow => Situation::Slow,
            GapReason::Trimmed => Situation::Trimmed,
            GapReason::Epoch => Situation::OtherEpoch,
            GapReason::Unknown => Situation::Unknown,
        };
        self.is_told_unknown = is_value;
        tally.count(situation, 1);
        if published.keyed().is_some() {
            tally.saw_if(Situation::RemovalsForgotten, reason == GapReason::Trimmed);
            self.keyed = Some(KeyedReading::new(0, None, None));
        }
        if published.kind().is_state() {
            self.window.iter_mut().for_each(Window::begin_again);
        }
        self.progress = Progress::At(next);
    }

    pub(super) fn allows_gaps(&self) -> bool {
        self.subscribe.terms.policy != Policy::Close
    }

    /// Whether it may end because events are missing.
    pub(super) fn may_be_refused(&self) -> bool {
        self.subscribe.terms.policy == Policy::Close
            && self.left_at.is_none()
            && match self.progress {
                Progress::Waiting => false,
                Progress::Beginning { .. } => self.is_candidate(Beginning::Refused),
                Progress::At(next) => self.visits.iter().any(|visit| visit.may_lose(next)),
            }
    }

    pub(super) fn may_be_lost(&self) -> bool {
        self.next().is_some_and(|next| self.visits.iter().any(|visit| visit.may_lose(next)))
    }

    /// The current frame is sent but for its trailer.
    pub(super) fn has_shared_part(&mut self, now_us: u64) {
        if let (None, Some(visit)) = (self.shared_part, self.visits.len().checked_sub(1)) {
            self.shared_part = Some((now_us, visit));
        }
    }

    pub(super) fn between_frames(&mut self) {
        self.shared_part = None;
        self.window.iter_mut().for_each(Window::between_frames);
    }

    /// Whether a client that has received this much may resume so: none of it comes again, and no later event is left out.
    pub(super) fn resumes_at(&self, start: StartAt, published: &Published) -> bool {
        let after = |next: Offset| {
            start == StartAt::After(Position { epoch: published.epoch, offset: next - 1 })
        };
        match &self.progress {
            Progress::At(next) => after(*next),
            Progress::Waiting => start == self.subscribe.start,
            // A confirmation or a gap comes next.
            Progress::Beginning { candidates, .. } => {
                let is_its = |candidate: &Beginning| matches!(candidate, Beginning::Confirmed { next } if after(*next));
                start == self.subscribe.start || candidates.iter().any(is_its)
            }
        }
    }

    /// Checks that no bytes are due now, and that later ones have a timer. `frame` returns the length of the next
    /// frame, if there is one.
    pub(super) fn check_is_content(
        &self,
        epoch: Epoch,
        now_us: u64,
        wake_us: Option<u64>,
        frame: impl FnOnce(Offset) -> Option<u64>,
        tally: &mut Tally,
    ) {
        let retained = self.visits.last();
        if self.next().is_none()
            && retained.is_some_and(|retained| retained.may_look(self.subscribe.start, epoch))
        {
            return tally.count(Situation::LooksFirst, 1);
        }
        let (Some(next), Some(retained)) = (self.next(), retained) else {
            panic!("feed {} has not begun", self.subscribe.feed);
        };
        if retained.needs_backfill(next) {
            return tally.count(Situation::Backfill, 1);
        }
        let is_lost = retained.has_lost_version(next) && !self.is_told_unknown;
        if retained.keyed.is_some_and(|keyed| keyed.is_partial) {
            return tally.count(Situation::AwaitsState, 1);
        }
        if next >= retained.head || (retained.owes_nothing() && !is_lost) {
            return;
        }
        if self.window.as_ref().is_some_and(|window| !window.must_admit(frame(next))) {
            return tally.count(Situation::WindowShut, 1);
        }
        let due_us = self.due_us(self.caught_up_us.unwrap_or(0));
        assert!(due_us > now_us, "feed {}: {next} is due and not sent", self.subscribe.feed);
        assert!(
            wake_us.is_some_and(|wake_us| wake_us <= due_us),
            "feed {}: {next} is due at {due_us}, a visit promised at {wake_us:?}",
            self.subscribe.feed,
        );
    }

    pub(super) fn next(&self) -> Option<Offset> {
        match self.progress {
            Progress::At(next) => Some(next),
            _ => None,
        }
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}
