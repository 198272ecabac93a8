//! Backfills: pages of a broker topic that are older than its history. One page serves all subscribers that wait for it.

#[cfg(test)]
mod sharing;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use thalweg_broker::{ReadPage, ReadRange};
use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Backfill as _, Feed as _, Page},
};
use thalweg_wire::{Offset, Topic};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{
    broker::{BackfillId, BrokerReply, BrokerStream, FromBroker, Read, ReadCaller},
    clock::unix_ms,
    config::{BACKFILL_BYTES_MAX, BACKFILL_FEED_BYTES, BACKFILL_OFFSETS_MAX, READS_PER_SHARD},
};

/// A shard's backfills from one broker. Feeds take turns, and so do the offsets of a feed, so a reader that
/// repeats its request delays no other.
#[derive(Debug, Default)]
pub(in crate::shard) struct Backfills {
    wanted: HashMap<FeedKey, FeedRequests>,
    /// Feeds with a request and without a page in flight.
    queue: VecDeque<FeedKey>,
    /// Feeds whose read failed. The next sweep tries again.
    failed: Vec<FeedKey>,
    under_way: usize,
}

#[derive(Debug, Default)]
struct FeedRequests {
    /// The requested offsets, and the connections that wait for each.
    by_from: BTreeMap<Offset, HashSet<u32>>,
    /// The offset of the last page that was requested.
    last: Offset,
}

impl Backfills {
    /// Adds a request for the events from `from` on, for a connection if one waits.
    pub(in crate::shard) fn want(&mut self, feed: FeedKey, from: Offset, connection: Option<u32>) {
        let Self { wanted, queue, .. } = self;
        let wanted = wanted.entry(feed).or_insert_with(|| {
            queue.push_back(feed);
            FeedRequests::default()
        });
        let is_full = wanted.by_from.len() >= BACKFILL_OFFSETS_MAX;
        // Without room, the reader joins an earlier offset, and asks again when that page has come.
        let before = wanted.by_from.range(..=from).next_back().or(wanted.by_from.iter().next());
        let at = before.map(|(at, _)| *at).filter(|_| is_full).unwrap_or(from);
        wanted.by_from.entry(at).or_default().extend(connection);
    }

    /// Returns whether a page may be requested now.
    pub(in crate::shard) fn is_due(&self) -> bool {
        !self.queue.is_empty() && self.under_way < READS_PER_SHARD
    }

    /// Requests pages. Returns `false` if the broker's queue is full. `find` returns a topic with the number
    /// of its opening, its feed and its stream.
    pub(in crate::shard) fn post<'a>(
        &mut self,
        reads: &mpsc::Sender<Read>,
        answers: &mpsc::UnboundedSender<FromBroker>,
        find: impl Fn(FeedKey) -> Option<((&'a Topic, u64), &'a AnyFeed, &'a BrokerStream)>,
    ) -> bool {
        // A page that comes makes room for the next request.
        while self.is_due() {
            let place = match reads.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(())) => return false,
                // The broker has ended. Requests that stay due would keep the event loop busy.
                Err(TrySendError::Closed(())) => {
                    self.failed.extend(self.queue.drain(..));
                    return true;
                }
            };
            let Some((key, from)) = self.next() else { continue };
            let Some(((topic, serial), feed, stream)) = find(key) else {
                self.gone(key);
                continue;
            };
            let (topic, epoch) = (topic.clone(), feed.epoch());
            // The stream does not have the events before `stored_from` any more.
            let is_ahead = from > feed.backfill_until(from);
            let begin = if is_ahead { from } else { from.max(feed.stored_from()) };
            let until = feed.page_until(begin);
            let (broker, is_value) = (stream.broker, stream.stream.kind.has_versions());
            let stream = stream.index;
            let id = BackfillId { broker, key, topic: topic.clone(), serial, epoch, from, until };
            let from = if is_ahead { from } else { begin.min(until) };
            let reply = BrokerReply::new(ReadCaller::Shard(id, answers.clone()));
            let range = ReadRange { stream, topic, epoch, from, until };
            place.send(Read { range, is_value, reply });
        }
        true
    }

    /// Takes the next request. Its page is in flight until [`Self::take_served`] or [`Self::failed`].
    fn next(&mut self) -> Option<(FeedKey, Offset)> {
        let feed = self.queue.pop_front()?;
        let wanted = self.wanted.get_mut(&feed)?;
        let later = wanted.by_from.range(wanted.last.saturating_add(1)..).next();
        let (from, _) = later.or(wanted.by_from.iter().next())?;
        wanted.last = *from;
        self.under_way += 1;
        Some((feed, wanted.last))
    }

    /// Notes that a page of a feed has come. Returns the connections whose offset needs no page any more, as `needs_more` says.
    pub(in crate::shard) fn take_served(
        &mut self,
        feed: FeedKey,
        needs_more: impl Fn(Offset) -> bool,
    ) -> Vec<u32> {
        self.under_way -= 1;
        let Some(wanted) = self.wanted.get_mut(&feed) else { return Vec::new() };
        let mut served = Vec::new();
        wanted.by_from.retain(|from, connections| {
            let is_waiting = needs_more(*from);
            if !is_waiting {
                served.extend(connections.drain());
            }
            is_waiting
        });
        if wanted.by_from.is_empty() {
            self.wanted.remove(&feed);
        } else {
            self.queue.push_back(feed);
        }
        served
    }

    /// Notes that the broker could not read a page.
    pub(in crate::shard) fn failed(&mut self, feed: FeedKey) {
        self.under_way -= 1;
        self.failed.push(feed);
    }

    /// Forgets a feed that no longer exists.
    fn gone(&mut self, feed: FeedKey) {
        self.under_way -= 1;
        self.wanted.remove(&feed);
    }

    /// Drops the requests of a feed that has no page in flight.
    pub(in crate::shard) fn forget(&mut self, feed: FeedKey) {
        self.wanted.remove(&feed);
        self.queue.retain(|queued| *queued != feed);
    }

    /// Queues the failed requests again.
    pub(in crate::shard) fn retry(&mut self) {
        self.queue.extend(self.failed.drain(..));
    }
}

/// The memory of a shard's backfills.
#[derive(Debug, Default)]
pub(in crate::shard) struct BackfillMemory {
    bytes: usize,
    /// Feeds in the order in which their pages came.
    pages: VecDeque<FeedKey>,
}

impl BackfillMemory {
    /// Counts a page of a feed, whose backfills had `before` bytes and have `after` now.
    pub(in crate::shard) fn add(&mut self, feed: FeedKey, after: usize, before: usize) {
        self.bytes = (self.bytes + after).saturating_sub(before);
        if !self.pages.contains(&feed) {
            self.pages.push_back(feed);
        }
    }

    /// Returns how many bytes of backfills a feed that gets a page may keep.
    pub(in crate::shard) fn share(&self) -> usize {
        (BACKFILL_BYTES_MAX / self.pages.len().max(1)).max(BACKFILL_FEED_BYTES)
    }

    pub(in crate::shard) fn subtract(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Removes and returns the feed with the oldest page, except `newest`, if all pages together exceed the limit.
    pub(in crate::shard) fn over_limit(&mut self, newest: FeedKey) -> Option<FeedKey> {
        if self.bytes <= BACKFILL_BYTES_MAX {
            return None;
        }
        let oldest = self.pages.iter().position(|feed| *feed != newest)?;
        self.pages.remove(oldest)
    }

    /// Corrects the count.
    pub(in crate::shard) fn sweep(&mut self, bytes: usize, has_any: impl Fn(FeedKey) -> bool) {
        self.bytes = bytes;
        self.pages.retain(|feed| has_any(*feed));
    }
}

/// Converts a broker's page for the feed that requested it.
pub(in crate::shard) fn page_of(page: ReadPage, from: Offset, until: Offset) -> Page {
    let ReadPage { records, holes, stored_from, compacted, .. } = page;
    Page {
        from: from.max(stored_from),
        messages: records,
        holes,
        is_last_before: page.is_whole.then_some(until),
        stored_from,
        compacted,
        unix_ms: unix_ms(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_and_offsets_come_in_turn() {
        let mut pages = Backfills::default();
        for (feed, from, connection) in [(1, 10, 1), (1, 20, 2), (1, 20, 3), (2, 5, 4)] {
            pages.want(feed, from, Some(connection));
        }
        assert_eq!((pages.next(), pages.next()), (Some((1, 10)), Some((2, 5))));
        assert!(!pages.is_due(), "one page of a feed at a time");
        // The same connection requests the same offset again before its page has come.
        pages.want(1, 10, Some(1));
        assert_eq!(pages.take_served(1, |from| from > 10), [1]);
        pages.want(1, 10, Some(9));
        assert_eq!(pages.next(), Some((1, 20)), "and not the first again");
        let mut served = pages.take_served(1, |_| false);
        served.sort_unstable();
        assert_eq!(served, [2, 3, 9]);
        assert_eq!(pages.take_served(2, |_| false), [4]);
        assert!(pages.next().is_none() && pages.wanted.is_empty() && pages.under_way == 0);
    }

    #[test]
    fn failed_backfills_are_retried_and_gone_ones_are_forgotten() {
        let mut pages = Backfills::default();
        pages.want(1, 10, Some(1));
        pages.want(2, 10, Some(2));
        assert!(pages.next().is_some() && pages.next().is_some());
        pages.failed(1);
        pages.gone(2);
        pages.want(1, 10, Some(3));
        assert!(!pages.is_due());
        pages.retry();
        assert_eq!(pages.next(), Some((1, 10)));
        assert_eq!(pages.take_served(1, |_| false).len(), 2);
        assert!(pages.wanted.is_empty());
    }

    #[test]
    fn a_forgotten_request_is_not_sent_again() {
        let mut pages = Backfills::default();
        pages.want(1, 1, None);
        assert_eq!(pages.next(), Some((1, 1)));
        pages.take_served(1, |_| true);
        pages.forget(1);
        assert!(!pages.is_due() && pages.wanted.is_empty());
        pages.want(1, 1, None);
        assert_eq!((pages.next(), pages.next()), (Some((1, 1)), None));
    }

    #[test]
    fn many_offsets_take_bounded_memory_and_nobody_is_forgotten() {
        let mut pages = Backfills::default();
        let most = BACKFILL_OFFSETS_MAX as u64;
        (0..3 * most).for_each(|nth| pages.want(1, 1000 + nth, Some(nth as u32)));
        pages.want(1, 1, Some(u32::MAX));
        assert_eq!(pages.wanted[&1].by_from.len(), BACKFILL_OFFSETS_MAX);
        let mut served = HashSet::new();
        while let Some((_, from)) = pages.next() {
            served.extend(pages.take_served(1, |other| other > from));
        }
        assert_eq!(served.len() as u64, 3 * most + 1);
    }

    #[test]
    fn the_oldest_pages_go_and_never_the_newest() {
        let mut memory = BackfillMemory::default();
        memory.add(1, BACKFILL_BYTES_MAX, 0);
        assert_eq!(memory.over_limit(1), None);
        memory.add(2, 10, 0);
        assert_eq!(memory.over_limit(2), Some(1));
        memory.subtract(BACKFILL_BYTES_MAX);
        assert_eq!(memory.over_limit(2), None);
        memory.add(2, BACKFILL_BYTES_MAX + 10, 10);
        assert_eq!(memory.over_limit(2), None, "there is no other");
    }
}
