use std::{collections::VecDeque, rc::Rc, sync::Arc};

use fastrand::Rng;
use thalweg_server::{
    fanout::{FeedKey, Feeds},
    stream::{Batch, Cursor, Frames, Log, Next},
};
use thalweg_wire::{Format, Offset};

use super::{
    conditions::Conditions,
    published::Published,
    retained::{History, Retained},
};

/// A shard's logs, one for each topic: its own, or copies of another shard's
/// that come late, arrive in bursts and may have holes.
pub(super) struct Shard {
    feeds: Vec<Feed>,
}

#[derive(Default)]
struct Feed {
    copy: Option<(Log, History)>,
    arriving: VecDeque<Arc<Batch>>,
}

impl Shard {
    pub(super) fn new(topics: usize) -> Self {
        Self { feeds: std::iter::repeat_with(Feed::default).take(topics).collect() }
    }

    /// Begins to read a topic, with nothing before `next`.
    pub(super) fn open(
        &mut self,
        topic: usize,
        published: &Published,
        next: Offset,
        conditions: &Conditions,
    ) {
        let log = Log::new(published.topic.clone(), published.epoch, next, conditions.history)
            .with_tail_bytes(conditions.tail_bytes);
        let history = History::new(next, conditions.history);
        self.feeds[topic].copy = Some((log, history));
    }

    pub(super) fn is_open(&self, topic: usize) -> bool {
        self.feeds[topic].copy.is_some()
    }

    /// What the topic's log retains; `None` while there is no log.
    pub(super) fn retained(&self, topic: usize) -> Option<&Rc<Retained>> {
        self.feeds[topic].copy.as_ref().map(|(_, history)| history.now())
    }

    pub(super) fn post(&mut self, topic: usize, batch: &Arc<Batch>) {
        if self.is_open(topic) {
            self.feeds[topic].arriving.push_back(Arc::clone(batch));
        }
    }

    /// Loses some of the batches under way to a topic's log; how many.
    pub(super) fn lose(&mut self, topic: usize, rng: &mut Rng) -> u64 {
        let arriving = &mut self.feeds[topic].arriving;
        let before = arriving.len();
        arriving.retain(|_| rng.u8(0..4) > 0);
        (before - arriving.len()) as u64
    }

    /// Appends what has arrived for a topic; whether there was anything.
    pub(super) fn absorb(&mut self, topic: usize, now_us: u64) -> bool {
        let Feed { copy: Some((log, history)), arriving } = &mut self.feeds[topic] else {
            return false;
        };
        let any = !arriving.is_empty();
        for batch in arriving.drain(..) {
            history.push(Arc::clone(&batch));
            log.push(batch, now_us);
            history.check(log);
        }
        any
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        for (log, history) in self.feeds.iter_mut().filter_map(|feed| feed.copy.as_mut()) {
            history.sweep(now_us);
            log.sweep(now_us);
            history.check(log);
        }
    }

    /// Frees memory of a topic's history; whether it could.
    pub(super) fn trim_bytes(&mut self, topic: usize, bytes: usize) -> bool {
        let Some((log, history)) = &mut self.feeds[topic].copy else { return false };
        let freed = history.trim_bytes(bytes);
        assert_eq!(log.trim_bytes(bytes), freed);
        history.check(log);
        freed > 0
    }

    /// Bytes of the frame that begins with the event at `next`; `None` if that is
    /// lost.
    pub(super) fn frame_bytes(&self, topic: usize, next: Offset, format: Format) -> Option<u64> {
        let mut cold = Vec::new();
        let frames = Frames::of(self.log(topic)?, format);
        match frames.next(&Cursor::before(next), true, &mut cold) {
            Next::Hot(bytes, _) => Some(bytes.len() as u64),
            Next::Cold { events, .. } => Some((cold.len() + events.len()) as u64),
            Next::Lost(_) | Next::Nothing => None,
        }
    }

    /// Opens the hot tail of a format that is used, closes one that is not.
    pub(super) fn tend_tail(&mut self, topic: usize, format: Format, is_used: bool) {
        let Some((log, _)) = &mut self.feeds[topic].copy else { return };
        if is_used {
            log.open_tail(format);
        } else {
            log.close_tail(format);
        }
    }

    /// Memory that frames partly sent hold beyond the topic's history, in bytes.
    pub(super) fn pinned_bytes(&self, topic: usize) -> usize {
        self.feeds[topic].copy.as_ref().map_or(0, |(log, _)| log.pinned_bytes())
    }

    /// Memory of the topic's hot tails, in bytes.
    pub(super) fn tail_bytes(&self, topic: usize) -> usize {
        self.feeds[topic].copy.as_ref().map_or(0, |(log, _)| log.tail_bytes())
    }

    /// The topic's log for a shard that begins to read it.
    pub(super) fn log(&self, topic: usize) -> Option<&Log> {
        self.feeds[topic].copy.as_ref().map(|(log, _)| log)
    }
}

impl Feeds for Shard {
    fn feed(&self, key: FeedKey) -> Option<&Log> {
        self.log(key as usize)
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Log> {
        self.feeds[key as usize].copy.as_mut().map(|(log, _)| log)
    }
}
