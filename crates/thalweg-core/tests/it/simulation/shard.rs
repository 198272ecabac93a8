use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

use fastrand::Rng;
use thalweg_core::{
    fanout::{FeedKey, Feeds},
    stream::{Batch, ColumnMemory, Cursor, Feed, FeedKind, Frames, Next, Offsets},
};
use thalweg_wire::{Format, Offset};

use super::{
    conditions::Conditions,
    published::Published,
    retained::{History, Retained},
};

/// A shard's feeds, one for each topic: its own, or copies of another shard's
/// that come late, arrive in bursts and may have holes.
pub(super) struct Shard {
    topics: Vec<LocalTopic>,
    column_memory: ColumnMemory,
}

#[derive(Default)]
struct LocalTopic {
    copy: Option<(Feed, History)>,
    arriving: VecDeque<Arc<Batch>>,
    /// Where the next batch starts, if it is another server's, which has not seen those before.
    next: Option<Offset>,
    /// What its readers want to be read back.
    wanted: BTreeSet<Offset>,
    /// What is being read back: from where, and where what is retained begins.
    reading: Option<(Offset, Offset)>,
}

impl Shard {
    pub(super) fn new(conditions: &Conditions) -> Self {
        let topics = std::iter::repeat_with(LocalTopic::default).take(conditions.topics);
        let column_memory = ColumnMemory::new(conditions.column_bytes_max);
        Self { topics: topics.collect(), column_memory }
    }

    /// Begins to read a topic, with nothing before `next`.
    pub(super) fn open(
        &mut self,
        topic: usize,
        published: &Published,
        next: Offset,
        conditions: &Conditions,
    ) {
        let (kind, offsets, history) = (published.kind(), published.offsets(), conditions.history);
        let (topic_name, epoch) = (published.topic.clone(), published.epoch);
        let mut feed = Feed::new(kind, topic_name, epoch, next, offsets, history);
        if let Feed::Log(log) = feed {
            let log = log.with_tail_bytes(conditions.tail_bytes);
            feed = Feed::Log(log.with_columns(None, self.column_memory.clone()));
        }
        let stored_from = (offsets == Offsets::Stored).then_some(0);
        let history = History::new(next, history, kind, offsets, stored_from);
        self.topics[topic].copy = Some((feed, history));
    }

    pub(super) fn is_open(&self, topic: usize) -> bool {
        self.topics[topic].copy.is_some()
    }

    /// What the topic's feed retains; `None` while there is no feed.
    pub(super) fn retained(&self, topic: usize) -> Option<&Rc<Retained>> {
        self.topics[topic].copy.as_ref().map(|(_, history)| history.now())
    }

    pub(super) fn post(&mut self, topic: usize, batch: &Arc<Batch>) {
        if !self.is_open(topic) {
            return;
        }
        let local = &mut self.topics[topic];
        let batch = match &mut local.next {
            Some(next) => {
                let start = std::mem::replace(next, batch.end());
                Arc::new(batch.starting_at(start))
            }
            None => Arc::clone(batch),
        };
        local.arriving.push_back(batch);
    }

    /// Loses some of the batches under way to a topic's feed; how many.
    pub(super) fn lose(&mut self, topic: usize, rng: &mut Rng) -> u64 {
        let LocalTopic { arriving, next: None, .. } = &mut self.topics[topic] else { return 0 };
        let before = arriving.len();
        arriving.retain(|_| rng.u8(0..4) > 0);
        (before - arriving.len()) as u64
    }

    /// Appends what has arrived for a topic; whether there was anything.
    /// A patch may not be made `in_time`.
    pub(super) fn absorb(&mut self, topic: usize, now_us: u64, in_time: bool) -> bool {
        let LocalTopic { copy: Some((feed, history)), arriving, .. } = &mut self.topics[topic]
        else {
            return false;
        };
        let any = !arriving.is_empty();
        for batch in arriving.drain(..) {
            history.push(Arc::clone(&batch));
            // Before it is begun there is still time.
            let mut is_begun = false;
            feed.make_patch(&batch, || std::mem::replace(&mut is_begun, true) && !in_time);
            feed.push(batch, now_us);
            history.check(feed);
        }
        any
    }

    /// It is another server, which has got nothing before `next`.
    pub(super) fn begin_at(&mut self, topic: usize, next: Offset) {
        self.topics[topic].next = Some(next);
    }

    /// A reader waits for what comes from `from` on.
    pub(super) fn want(&mut self, topic: usize, from: Offset) {
        self.topics[topic].wanted.insert(from);
    }

    /// Begins or ends to read back what is wanted; whether something has come, or was tried in
    /// vain: then readers must be asked again.
    pub(super) fn recall(
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
            local.reading = from.map(|from| (from, feed.here_from(from)));
            return false;
        };
        if rng.u8(0..8) == 0 {
            return true;
        }
        if from > until {
            feed.look_beyond(from, published.has_given(from - 1), now_us);
        } else if published.kind() == FeedKind::Value {
            let page = published.version(until);
            let version = page.messages.last().cloned();
            let version = version.map(|(first, it)| Batch::seal(first, first, it, now_us));
            history.version_recalled(version.map(Arc::new), until);
            feed.recall(page, now_us);
        } else {
            let page = published.page(from, until, rng);
            let stored_from = page.stored_from;
            feed.recall(page, now_us);
            history.recalled(stored_from, feed.head());
        }
        history.check(feed);
        if let Some(next) = local.next.as_mut().filter(|_| local.arriving.is_empty()) {
            *next = feed.head();
        }
        if rng.u8(0..8) == 0 {
            feed.forget_recalled();
        }
        true
    }

    /// Whether something is to be read back.
    pub(super) fn is_recalling(&self) -> bool {
        self.topics.iter().any(|local| local.reading.is_some() || !local.wanted.is_empty())
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        for (feed, history) in self.topics.iter_mut().filter_map(|topic| topic.copy.as_mut()) {
            history.sweep(now_us);
            feed.sweep(now_us);
            history.check(feed);
        }
    }

    /// Frees memory of a topic's history; whether it could.
    pub(super) fn trim_bytes(&mut self, topic: usize, bytes: usize) -> bool {
        let Some((feed, history)) = &mut self.topics[topic].copy else { return false };
        let freed = history.trim_bytes(bytes);
        assert_eq!(feed.trim_bytes(bytes), freed);
        history.check(feed);
        freed > 0
    }

    /// Bytes of the frame that begins with the event at `next`; `None` if that is
    /// lost.
    pub(super) fn frame_bytes(&self, topic: usize, next: Offset, format: Format) -> Option<u64> {
        let mut cold = Vec::new();
        let frames = Frames::of(self.topic(topic)?, format.into());
        match frames.next(&Cursor::before(next), true, &mut cold) {
            Next::Hot(bytes, _) => Some(bytes.len() as u64),
            Next::Cold { events, .. } => Some((cold.len() + events.len()) as u64),
            Next::Lost(_)
            | Next::Unknown(_)
            | Next::OtherColumns
            | Next::Unmade
            | Next::Away(_)
            | Next::Nothing => None,
        }
    }

    /// Opens the hot tail of a format that is used, closes one that is not.
    pub(super) fn tend_tail(&mut self, topic: usize, format: Format, is_used: bool) {
        let Some((feed, _)) = &mut self.topics[topic].copy else { return };
        if feed.kind() == FeedKind::Value && format.has_columns() {
            return;
        }
        let format = feed.kind().format(format);
        if is_used {
            feed.open_tail(format);
        } else {
            feed.close_tail(format);
        }
    }

    /// Lets go of everything that a topic retains.
    pub(super) fn clear(&mut self, topic: usize) {
        if let Some((feed, history)) = &mut self.topics[topic].copy {
            feed.trim_all(usize::MAX, u64::MAX);
            feed.forget_recalled();
            history.clear();
        }
    }

    /// Memory that frames partly sent hold beyond the topic's history, in bytes.
    pub(super) fn pinned_bytes(&self, topic: usize) -> usize {
        self.topics[topic].copy.as_ref().map_or(0, |(feed, _)| feed.pinned_bytes())
    }

    /// Memory of the topic's hot tails, in bytes.
    pub(super) fn tail_bytes(&self, topic: usize) -> usize {
        self.topics[topic].copy.as_ref().map_or(0, |(feed, _)| feed.tail_bytes())
    }

    /// The topic's feed for a shard that begins to read it.
    pub(super) fn topic(&self, topic: usize) -> Option<&Feed> {
        self.topics.get(topic)?.copy.as_ref().map(|(feed, _)| feed)
    }
}

impl Feeds for Shard {
    fn feed(&self, key: FeedKey) -> Option<&Feed> {
        self.topic(key as usize)
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Feed> {
        self.topics.get_mut(key as usize)?.copy.as_mut().map(|(feed, _)| feed)
    }
}
