//! What the readers of a shard want to be read back of streams, and whose turn it is. Pure.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use thalweg_wire::Offset;

use crate::config::{RECALL_OFFSETS_MAX, RECALLED_BYTES_MAX};
use thalweg_core::fanout::FeedKey;

/// What a shard reads back. Feeds come in turn, and so do the offsets of a feed: who wants the first one
/// again and again keeps nobody waiting.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    wanted: HashMap<FeedKey, Wanted>,
    /// Feeds of which something is wanted and no page is under way.
    queue: VecDeque<FeedKey>,
    /// Feeds that could not be read: they are tried again with the next sweep.
    failed: Vec<FeedKey>,
    under_way: usize,
}

/// What readers want of one feed.
#[derive(Debug, Default)]
struct Wanted {
    /// From which offset on, and the connections that wait for it.
    by_from: BTreeMap<Offset, HashSet<u32>>,
    /// The offset that was asked for last.
    last: Offset,
}

impl Recalls {
    /// A connection, if there is one, waits for what comes from `from` on.
    pub(super) fn want(&mut self, feed: FeedKey, from: Offset, connection: Option<u32>) {
        let Self { wanted, queue, .. } = self;
        let wanted = wanted.entry(feed).or_insert_with(|| {
            queue.push_back(feed);
            Wanted::default()
        });
        let is_full = wanted.by_from.len() >= RECALL_OFFSETS_MAX;
        // Whoever finds no room asks again when what is before it has come.
        let before = wanted.by_from.range(..=from).next_back().or(wanted.by_from.iter().next());
        let at = before.map(|(at, _)| *at).filter(|_| is_full).unwrap_or(from);
        wanted.by_from.entry(at).or_default().extend(connection);
    }

    /// Whether a page may be asked for, if `most` may be under way at a time.
    pub(super) fn is_due(&self, most: usize) -> bool {
        !self.queue.is_empty() && self.under_way < most
    }

    /// What is to be read next. It is under way from now on, until it [has come](Self::came).
    pub(super) fn next(&mut self) -> Option<(FeedKey, Offset)> {
        let feed = self.queue.pop_front()?;
        let wanted = self.wanted.get_mut(&feed)?;
        let later = wanted.by_from.range(wanted.last.saturating_add(1)..).next();
        let (from, _) = later.or(wanted.by_from.iter().next())?;
        wanted.last = *from;
        self.under_way += 1;
        Some((feed, wanted.last))
    }

    /// A page of a feed has come. Returns the connections whose offset is not `away` any more.
    pub(super) fn came(&mut self, feed: FeedKey, away: impl Fn(Offset) -> bool) -> Vec<u32> {
        self.under_way -= 1;
        let Some(wanted) = self.wanted.get_mut(&feed) else { return Vec::new() };
        let mut served = Vec::new();
        wanted.by_from.retain(|from, connections| {
            let is_away = away(*from);
            if !is_away {
                served.extend(connections.drain());
            }
            is_away
        });
        if wanted.by_from.is_empty() {
            self.wanted.remove(&feed);
        } else {
            self.queue.push_back(feed);
        }
        served
    }

    /// A page cannot be had now.
    pub(super) fn failed(&mut self, feed: FeedKey) {
        self.under_way -= 1;
        self.failed.push(feed);
    }

    /// A feed is not there any more.
    pub(super) fn gone(&mut self, feed: FeedKey) {
        self.under_way -= 1;
        self.wanted.remove(&feed);
    }

    /// What failed is tried again.
    pub(super) fn retry(&mut self) {
        self.queue.extend(self.failed.drain(..));
    }
}

/// Memory of what a shard has read back.
#[derive(Debug, Default)]
pub(super) struct RecalledMemory {
    bytes: usize,
    /// Feeds in the order in which pages of them came.
    pages: VecDeque<FeedKey>,
}

impl RecalledMemory {
    /// A page of a feed has come, which had `before` bytes and has `after`.
    pub(super) fn add(&mut self, feed: FeedKey, after: usize, before: usize) {
        self.bytes = (self.bytes + after).saturating_sub(before);
        if !self.pages.contains(&feed) {
            self.pages.push_back(feed);
        }
    }

    /// So many bytes are not there any more.
    pub(super) fn subtract(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The feed whose page came longest ago and is to go, if it is too much. Never `newest`.
    pub(super) fn over_limit(&mut self, newest: FeedKey) -> Option<FeedKey> {
        if self.bytes <= RECALLED_BYTES_MAX {
            return None;
        }
        let oldest = self.pages.iter().position(|feed| *feed != newest)?;
        self.pages.remove(oldest)
    }

    /// Takes in what there really is.
    pub(super) fn sweep(&mut self, bytes: usize, has_any: impl Fn(FeedKey) -> bool) {
        self.bytes = bytes;
        self.pages.retain(|feed| has_any(*feed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_and_offsets_come_in_turn() {
        let mut recalls = Recalls::default();
        for (feed, from, connection) in [(1, 10, 1), (1, 20, 2), (1, 20, 3), (2, 5, 4)] {
            recalls.want(feed, from, Some(connection));
        }
        assert_eq!((recalls.next(), recalls.next()), (Some((1, 10)), Some((2, 5))));
        assert!(!recalls.is_due(9), "one page of a feed at a time");
        // The same connection comes again with the same offset, before its page has come.
        recalls.want(1, 10, Some(1));
        assert_eq!(recalls.came(1, |from| from > 10), [1]);
        recalls.want(1, 10, Some(9));
        assert_eq!(recalls.next(), Some((1, 20)), "and not the first again");
        let mut served = recalls.came(1, |_| false);
        served.sort_unstable();
        assert_eq!(served, [2, 3, 9]);
        assert_eq!(recalls.came(2, |_| false), [4]);
        assert!(recalls.next().is_none() && recalls.wanted.is_empty() && recalls.under_way == 0);
    }

    #[test]
    fn what_fails_is_tried_again_and_what_is_gone_is_forgotten() {
        let mut recalls = Recalls::default();
        recalls.want(1, 10, Some(1));
        recalls.want(2, 10, Some(2));
        assert!(recalls.next().is_some() && recalls.next().is_some());
        recalls.failed(1);
        recalls.gone(2);
        recalls.want(1, 10, Some(3));
        assert!(!recalls.is_due(9));
        recalls.retry();
        assert_eq!(recalls.next(), Some((1, 10)));
        assert_eq!(recalls.came(1, |_| false).len(), 2);
        assert!(recalls.wanted.is_empty());
    }

    #[test]
    fn many_offsets_take_bounded_memory_and_nobody_is_forgotten() {
        let mut recalls = Recalls::default();
        let most = RECALL_OFFSETS_MAX as u64;
        (0..3 * most).for_each(|nth| recalls.want(1, 1000 + nth, Some(nth as u32)));
        recalls.want(1, 1, Some(u32::MAX));
        assert_eq!(recalls.wanted[&1].by_from.len(), RECALL_OFFSETS_MAX);
        let mut served = HashSet::new();
        while let Some((_, from)) = recalls.next() {
            served.extend(recalls.came(1, |other| other > from));
        }
        assert_eq!(served.len() as u64, 3 * most + 1);
    }

    #[test]
    fn the_oldest_pages_go_and_never_the_newest() {
        let mut memory = RecalledMemory::default();
        memory.add(1, RECALLED_BYTES_MAX, 0);
        assert_eq!(memory.over_limit(1), None);
        memory.add(2, 10, 0);
        assert_eq!(memory.over_limit(2), Some(1));
        memory.subtract(RECALLED_BYTES_MAX);
        assert_eq!(memory.over_limit(2), None);
        memory.add(2, RECALLED_BYTES_MAX + 10, 10);
        assert_eq!(memory.over_limit(2), None, "there is no other");
    }
}
