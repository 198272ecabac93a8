use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

use fastrand::Rng;
use thalweg_core::{
    fanout::{FeedKey, Feeds},
    stream::{
        AnyFeed, Batch, ColumnMemory, Cursor, Feed, FeedKind, Frames as _, KeyedFeed, Log, Next,
        Offsets, StatePart, Value,
    },
};
use thalweg_wire::{Format, Offset};

use super::{
    conditions::Conditions,
    published::Published,
    retained::{History, KeyedHistory, Retained},
};

/// A shard's feeds, one for each topic: its own, or copies of another shard's that come late, arrive in bursts and
/// may have holes.
pub(super) struct Shard<F> {
    topics: Vec<LocalTopic<F>>,
    column_memory: ColumnMemory,
}

struct LocalTopic<F> {
    copy: Option<(F, History)>,
    arriving: VecDeque<Arrival>,
    /// Its place in the owner's feed after the arriving messages, if the shard follows a keyed topic.
    follows: Option<Cursor>,
    /// Where the next batch starts, if this is another server, which has not seen those before.
    next: Option<Offset>,
    wanted: BTreeSet<Offset>,
    /// The backfill in flight: its first offset, and where the history begins.
    reading: Option<(Offset, Offset)>,
}

/// A message from the owner shard.
enum Arrival {
    Batch(Arc<Batch>),
    /// A part of the state, and the shard's place before it.
    State(StatePart, Cursor),
}

/// How a shard gets what it lacks of a keyed topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Followed {
    Nothing,
    Batches,
    State,
    /// The shard must begin again.
    Outdated,
}

/// The kind of a world's feeds.
pub(super) trait Feeding: Feed {
    fn make(
        published: &Published,
        next: Offset,
        conditions: &Conditions,
        memory: &ColumnMemory,
    ) -> Self;

    /// The offset from which on a keyed topic's removals are complete.
    fn complete_from(&self) -> Option<Offset> {
        None
    }

    /// Whether parts of a keyed topic's state are still to come.
    fn is_partial(&self) -> bool {
        false
    }

    /// Removes the conditions that such feeds do not support.
    fn limit(_conditions: &mut Conditions) {}
}

impl Feeding for AnyFeed {
    fn make(
        published: &Published,
        next: Offset,
        conditions: &Conditions,
        memory: &ColumnMemory,
    ) -> Self {
        let (topic, epoch, offsets) =
            (published.topic.clone(), published.epoch, published.offsets());
        if published.is_value() {
            return Self::Value(Value::new(topic, epoch, next, offsets));
        }
        if let (FeedKind::Keyed, Some(removals)) = (published.kind(), conditions.keyed) {
            let keyed = KeyedFeed::new(topic, epoch, next, offsets, conditions.history);
            let keyed = keyed.with_tail_bytes(conditions.tail_bytes).with_removals(removals);
            return Self::Keyed(Box::new(keyed));
        }
        let log = Log::new(topic, epoch, next, offsets, conditions.history);
        let log = log.with_tail_bytes(conditions.tail_bytes);
        Self::Log(log.with_columns(None, memory.clone()))
    }

    fn complete_from(&self) -> Option<Offset> {
        match self {
            Self::Keyed(keyed) => Some(keyed.complete_from()),
            Self::Log(_) | Self::Value(_) => None,
        }
    }

    fn is_partial(&self) -> bool {
        matches!(self, Self::Keyed(keyed) if keyed.is_partial())
    }
}

impl<F> LocalTopic<F> {
    fn new() -> Self {
        let (arriving, wanted) = (VecDeque::new(), BTreeSet::new());
        Self { copy: None, arriving, follows: None, next: None, wanted, reading: None }
    }
}

impl<F: Feeding> Shard<F> {
    pub(super) fn new(conditions: &Conditions) -> Self {
        let topics = std::iter::repeat_with(LocalTopic::new).take(conditions.topics);
        let column_memory = ColumnMemory::new(conditions.column_bytes_max);
        Self { topics: topics.collect(), column_memory }
    }

    pub(super) fn open(
        &mut self,
        topic: usize,
        published: &Published,
        next: Offset,
        conditions: &Conditions,
    ) {
        let feed = F::make(published, next, conditions, &self.column_memory);
        let offsets = published.offsets();
        let stored_from = (offsets == Offsets::Stored).then_some(0);
        let mut history =
            History::new(next, conditions.history, published.kind(), offsets, stored_from);
        check(&mut history, &feed, true);
        self.topics[topic].copy = Some((feed, history));
    }

    /// Begins to follow a keyed topic, without any part of its state.
    pub(super) fn open_follower(
        &mut self,
        topic: usize,
        published: &Published,
        conditions: &Conditions,
    ) {
        let before = self.topics[topic].copy.take();
        assert_eq!(before.map_or(0, |(feed, _)| feed.pinned_bytes()), 0, "pins leak");
        self.open(topic, published, 1, conditions);
        let local = &mut self.topics[topic];
        local.arriving.clear();
        local.follows = Some(Cursor::before(1));
        if let Some((feed, history)) = &mut local.copy {
            check(history, feed, false);
        }
    }

    /// Takes batches or a part of the state from the owner's feed.
    pub(super) fn follow(&mut self, topic: usize, owner: &F, rng: &mut Rng) -> Followed {
        let local = &mut self.topics[topic];
        let Some(cursor) = local.follows.filter(|cursor| cursor.next() < owner.head()) else {
            return Followed::Nothing;
        };
        let next = cursor.next();
        let is_covered = owner.batches_from(next).next().is_some_and(|it| it.start() <= next);
        if next > 1 && is_covered {
            for batch in owner.batches_from(next) {
                local.follows = Some(Cursor::before(batch.end()));
                local.arriving.push_back(Arrival::Batch(Arc::clone(batch)));
            }
            return Followed::Batches;
        }
        let part = owner.state_part(&cursor, 1 + rng.usize(0..=owner.retained_events()), None);
        let (part, after) = part.expect("of a keyed topic");
        if part.from < next {
            return Followed::Outdated;
        }
        local.follows = Some(after);
        local.arriving.push_back(Arrival::State(part, cursor));
        Followed::State
    }

    /// Whether a shard that follows a keyed topic has all of it, or will have when messages arrive.
    pub(super) fn has_all_of(&self, topic: usize, owner: &F) -> bool {
        self.topics[topic].follows.is_none_or(|cursor| cursor.next() >= owner.head())
    }

    pub(super) fn is_open(&self, topic: usize) -> bool {
        self.topics[topic].copy.is_some()
    }

    pub(super) fn retained(&self, topic: usize) -> Option<&Rc<Retained>> {
        self.topics[topic].copy.as_ref().map(|(_, history)| history.now())
    }

    pub(super) fn post(&mut self, topic: usize, batch: &Arc<Batch>) {
        if !self.is_open(topic) {
            return;
        }
        let local = &mut self.topics[topic];
        if let Some(cursor) = &mut local.follows {
            // The owner posts to shards that have everything before.
            if cursor.next() != batch.start() {
                return;
            }
            *cursor = Cursor::before(batch.end());
        }
        let batch = match &mut local.next {
            Some(next) => {
                let start = std::mem::replace(next, batch.end());
                Arc::new(batch.starting_at(start))
            }
            None => Arc::clone(batch),
        };
        local.arriving.push_back(Arrival::Batch(batch));
    }

    /// Loses some of the batches in flight to a topic's feed. Returns how many.
    pub(super) fn lose(&mut self, topic: usize, rng: &mut Rng) -> u64 {
        let LocalTopic { arriving, next: None, follows, .. } = &mut self.topics[topic] else {
            return 0;
        };
        let before = arriving.len();
        if let Some(cursor) = follows {
            // The owner has posted nothing after a message yet.
            let kept = rng.usize(0..=before);
            match arriving.get(kept) {
                Some(Arrival::Batch(batch)) => *cursor = Cursor::before(batch.start()),
                Some(Arrival::State(_, had)) => *cursor = *had,
                None => {}
            }
            arriving.truncate(kept);
            return 0;
        }
        arriving.retain(|_| rng.u8(0..4) > 0);
        (before - arriving.len()) as u64
    }

    /// Appends the batches that have arrived for a topic. Returns whether there were any. A patch may not be made `in_time`.
    pub(super) fn absorb(&mut self, topic: usize, now_us: u64, in_time: bool) -> bool {
        let LocalTopic { copy: Some((feed, history)), arriving, follows, .. } =
            &mut self.topics[topic]
        else {
            return false;
        };
        let any = !arriving.is_empty();
        for arrival in arriving.drain(..) {
            match arrival {
                Arrival::Batch(batch) => {
                    history.push(Arc::clone(&batch));
                    // There is still time before a patch begins.
                    let mut is_begun = false;
                    feed.make_patch(&batch, || std::mem::replace(&mut is_begun, true) && !in_time);
                    feed.push(batch, now_us);
                }
                Arrival::State(part, _) => feed.take_state(part, now_us),
            }
            check(history, feed, follows.is_none());
        }
        any
    }

    /// Returns how many batches are next whose first events came with a part of the state.
    pub(super) fn batches_in_state(&self, topic: usize) -> u64 {
        let local = &self.topics[topic];
        let head = local.copy.as_ref().map_or(0, |(feed, _)| feed.head());
        let is_begun = |batch: &Arc<Batch>| (batch.start() + 1..batch.end()).contains(&head);
        let next = local.arriving.front().filter(|_| local.follows.is_some());
        let is_in_state = |next: &Arrival| matches!(next, Arrival::Batch(batch) if is_begun(batch));
        next.is_some_and(is_in_state).into()
    }

    /// This is another server, which has no events before `next`.
    pub(super) fn begin_at(&mut self, topic: usize, next: Offset) {
        self.topics[topic].next = Some(next);
    }

    pub(super) fn want(&mut self, topic: usize, from: Offset) {
        self.topics[topic].wanted.insert(from);
    }

    /// Begins or ends a requested backfill. Returns whether a page came or the attempt failed: then readers must be asked again.
    pub(super) fn backfill(
        &mut self,
        topic: usize,
        published: &Published,
        now_us: u64,
        rng: &mut Rng,
    ) -> bool {
        let local = &mut self.topics[topic];
        let Some((feed, history)) = &mut local.copy else { return false };
        let Some((from, until)) = local.reading.take() else {
            let from = local.wanted.pop_first();
            local.wanted.clear();
            local.reading = from.map(|from| (from, feed.page_until(from.max(feed.stored_from()))));
            return false;
        };
        if rng.u8(0..8) == 0 {
            return true;
        }
        if from > until {
            feed.answer_ahead(from, published.has_given(from - 1), now_us);
        } else if published.is_value() {
            let page = published.version(until);
            let version = page.messages.last().cloned();
            let version = version.map(|(first, it)| Batch::seal(first, first, it, now_us));
            history.version_backfilled(version.map(Arc::new), until);
            feed.backfill(page, now_us);
        } else {
            let page = published.page(from, until, rng);
            history.holes_found(&page);
            let stored_from = page.stored_from;
            feed.backfill(page, now_us);
            history.backfilled(stored_from, feed.head());
        }
        check(history, feed, true);
        if let Some(next) = local.next.as_mut().filter(|_| local.arriving.is_empty()) {
            *next = feed.head();
        }
        match rng.u8(0..8) {
            0 => feed.drop_backfilled(),
            1 => feed.shrink_backfilled(rng.usize(0..2000)),
            _ => {}
        }
        true
    }

    pub(super) fn is_backfilling(&self) -> bool {
        self.topics.iter().any(|local| local.reading.is_some() || !local.wanted.is_empty())
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        for local in &mut self.topics {
            let Some((feed, history)) = &mut local.copy else { continue };
            history.sweep(now_us);
            feed.sweep(now_us);
            check(history, feed, local.follows.is_none());
        }
    }

    pub(super) fn trim_bytes(&mut self, topic: usize, bytes: usize) -> bool {
        let Some((feed, history)) = &mut self.topics[topic].copy else { return false };
        if feed.complete_from().is_some() {
            let all = bytes.is_multiple_of(2);
            let freed = if all { feed.trim_all(bytes, u64::MAX) } else { feed.trim_bytes(bytes) };
            return freed > 0;
        }
        let freed = history.trim_bytes(bytes);
        assert_eq!(feed.trim_bytes(bytes), freed);
        history.check(feed);
        freed > 0
    }

    /// The bytes of the frame that begins with the event at `next`. `None` if that is lost, or if it may be
    /// another frame for some readers.
    pub(super) fn frame_bytes(&self, topic: usize, next: Offset, format: Format) -> Option<u64> {
        let mut cold = Vec::new();
        let feed = self.topic(topic).filter(|feed| feed.complete_from().is_none())?;
        let frames = feed.frames(format.into());
        match frames.next(&Cursor::before(next), true, &mut cold) {
            Next::Hot(bytes, _) => Some(bytes.len() as u64),
            Next::Cold { events, .. } => Some((cold.len() + events.len()) as u64),
            Next::Lost(_)
            | Next::Unknown(_)
            | Next::OtherColumns
            | Next::Unmade
            | Next::Skipped(_)
            | Next::Backfill(_)
            | Next::Nothing => None,
        }
    }

    /// Opens the hot tail of a format in use, and closes that of an unused one.
    pub(super) fn tend_tail(&mut self, topic: usize, format: Format, used: &[Format]) {
        let Some((feed, _)) = &mut self.topics[topic].copy else { return };
        if feed.is_state() && format.has_columns() {
            return;
        }
        if used.iter().any(|used| feed.frame_format(*used) == feed.frame_format(format)) {
            feed.open_tail(format);
        } else {
            feed.close_tail(format);
        }
    }

    /// Checks that a keyed feed has the newest event of each key.
    pub(super) fn check_keys(&self, topic: usize, published: &Published) {
        let (Some(feed), Some(events)) = (self.topic(topic), published.keyed()) else { return };
        let state = events.state_at(published.sealed());
        let live: BTreeSet<Offset> = state.iter().copied().filter(|offset| *offset > 0).collect();
        assert_eq!(feed.retained_events(), live.len());
        let (all, _) =
            feed.state_part(&Cursor::before(1), usize::MAX, None).expect("a keyed topic");
        let all = all.events.iter().filter(|event| !event.is_removal());
        assert!(all.map(|event| event.offset()).eq(live), "not in the order of offsets");
        for (number, offset) in state.into_iter().enumerate() {
            let key = serde_json::to_vec(events.key(number)).expect("a string");
            let newest = feed.keyed_event(&key).filter(|event| !event.is_removal());
            assert_eq!(newest.map_or(0, |event| event.offset()), offset, "{}", events.key(number));
        }
    }

    pub(super) fn clear(&mut self, topic: usize) {
        if let Some((feed, history)) = &mut self.topics[topic].copy {
            feed.trim_all(usize::MAX, u64::MAX);
            feed.drop_backfilled();
            history.clear();
        }
    }

    pub(super) fn pinned_bytes(&self, topic: usize) -> usize {
        self.topics[topic].copy.as_ref().map_or(0, |(feed, _)| feed.pinned_bytes())
    }

    pub(super) fn tail_bytes(&self, topic: usize) -> usize {
        self.topics[topic].copy.as_ref().map_or(0, |(feed, _)| feed.tail_bytes())
    }

    /// The topic's feed for a shard that begins to follow it.
    pub(super) fn topic(&self, topic: usize) -> Option<&F> {
        self.topics.get(topic)?.copy.as_ref().map(|(feed, _)| feed)
    }
}

/// Compares a feed with its model. The state of a keyed topic has none here: its readers have.
fn check(history: &mut History, feed: &impl Feeding, is_owner: bool) {
    match feed.complete_from() {
        Some(complete_from) => {
            let is_partial = feed.is_partial();
            history.note(feed.head(), KeyedHistory { complete_from, is_partial, is_owner });
        }
        None => history.check(feed),
    }
}

impl<F: Feeding> Feeds for Shard<F> {
    type Feed = F;

    fn feed(&self, key: FeedKey) -> Option<&F> {
        self.topic(key as usize)
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut F> {
        self.topics.get_mut(key as usize)?.copy.as_mut().map(|(feed, _)| feed)
    }
}
