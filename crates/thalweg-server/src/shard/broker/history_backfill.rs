//! A history query over events that are stored in a stream and not retained here.

use std::sync::Arc;

use thalweg_broker::{ReadPage, ReadRange};
use thalweg_core::stream::{AnyFeed, Backfill as _, Batch, Feed as _};
use thalweg_wire::{Epoch, GapReason, Offset, StartAt, Topic};

use super::{backfills::page_of, order::BrokerStreams};
use crate::{
    broker::{BrokerReply, BrokerStream, Read, ReadCaller},
    clock::now_us,
    config::HISTORY_PAGE_BYTES,
    refusal::Refusal,
    shard::page::{self, PageParts},
};

/// A history query whose events the broker must read first.
pub(crate) struct HistoryBackfill {
    /// The indices of the broker, and of the stream in the broker.
    pub(in crate::shard) broker: usize,
    stream: usize,
    /// An empty feed that the page goes into.
    page: AnyFeed,
    epoch: Epoch,
    start: StartAt,
    from: Offset,
    until: Offset,
    head: Offset,
    /// The retained batches after the page, up to the size of an answer.
    retained: Vec<Arc<Batch>>,
    /// Whether this shard has the topic.
    is_known: bool,
}

impl HistoryBackfill {
    /// Returns the backfill that a history query from `start` on needs. `None` if this shard has all of it.
    pub(in crate::shard) fn new(
        streams: &BrokerStreams,
        stream: usize,
        feed: Option<&AnyFeed>,
        page: AnyFeed,
        start: StartAt,
    ) -> Option<Self> {
        let epoch = streams.epoch(stream);
        let known_from = streams.known_from(stream);
        let from = match start {
            _ if page.is_state() => 1,
            // The newest events are in the history. A stream cannot be read backwards.
            StartAt::Latest | StartAt::Newest(_) => return None,
            StartAt::After(position) if position.epoch == epoch => position.offset + 1,
            StartAt::Earliest | StartAt::After(_) => 1,
        };
        let (until, head) = match feed {
            Some(feed) => (feed.backfill_until(from), feed.head()),
            None => (known_from.max(from), known_from.max(from)),
        };
        if feed.is_some_and(|feed| feed.holds_from(from)) {
            return None;
        }
        let mut room = HISTORY_PAGE_BYTES;
        let fits = |batch: &&Arc<Batch>| {
            let has_room = room > 0;
            room = room.saturating_sub(batch.memory_bytes());
            has_room
        };
        let retained = feed.into_iter().flat_map(|feed| feed.batches_from(until)).take_while(fits);
        let (retained, is_known) = (retained.cloned().collect(), feed.is_some());
        let &BrokerStream { broker, index: stream, .. } = streams.get(stream);
        Some(Self { broker, stream, page, epoch, start, from, until, head, retained, is_known })
    }

    /// Returns the request to the broker.
    pub(in crate::shard) fn read(&self, topic: &Topic, reply: BrokerReply<ReadCaller>) -> Read {
        let &Self { stream, epoch, from, until, .. } = self;
        let range = ReadRange { stream, topic: topic.clone(), epoch, from, until };
        Read { range, is_value: self.page.is_state(), reply }
    }

    /// Returns whether the query names a position that the stream has not given yet.
    pub(in crate::shard) fn is_beyond(&self, page: &ReadPage) -> bool {
        let has_position = matches!(self.start, StartAt::After(_)) && !self.page.is_state();
        has_position && page.head < self.from
    }

    /// Builds the answer from the broker's page and the retained events. `is_beyond`: the stream has never given the requested
    /// position. Fails with `NoSuchTopic`.
    pub(in crate::shard) fn page(
        self,
        topic: &Topic,
        page: ReadPage,
        limit: usize,
        is_beyond: bool,
    ) -> Result<PageParts, Refusal> {
        if !self.page.is_state() {
            return log_page(topic, self, page, is_beyond, limit);
        }
        if !self.is_known && page.records.is_empty() {
            return Err(Refusal::no_such_topic(topic));
        }
        let mut feed = self.page;
        feed.skip_to(self.until);
        feed.backfill(page_of(page, self.from, self.until), now_us());
        Ok(page::page(&feed, self.start, limit))
    }
}

fn log_page(
    topic: &Topic,
    backfill: HistoryBackfill,
    page: ReadPage,
    is_beyond: bool,
    limit: usize,
) -> Result<PageParts, Refusal> {
    let HistoryBackfill { page: mut feed, epoch, start, from, until, head, is_known, .. } =
        backfill;
    // Retained events count as available, even if the stream has dropped them.
    let stored_from = page.stored_from.min(if is_known { until } else { Offset::MAX });
    let is_other = matches!(start, StartAt::After(position) if position.epoch != epoch);
    // The whole stream was read and has no event of the topic.
    if !is_known && from == 1 && page.records.is_empty() && page.is_whole {
        return Err(Refusal::no_such_topic(topic));
    }
    let gap = match from {
        _ if is_beyond || is_other => Some((None, GapReason::Epoch)),
        // A read from the beginning has no gap.
        1 => None,
        from => (from < stored_from).then_some((None, GapReason::Trimmed)),
    };
    let from = from.max(stored_from);
    feed.skip_to(from);
    for batch in Batch::seal_messages(from, page.records, now_us()) {
        feed.push(Arc::new(batch), now_us());
    }
    let (mut reached, mut head) = (feed.head(), head);
    if page.is_whole && !is_known {
        // The page has all events of the topic.
        head = reached;
    } else if page.is_whole {
        reached = until;
        for batch in backfill.retained {
            let start = batch.start().min(feed.head());
            let is_same = start == batch.start();
            let batch = if is_same { batch } else { Arc::new(batch.starting_at(start)) };
            feed.push(batch, now_us());
        }
    }
    Ok(page::page_of(&feed, from, gap, limit, reached.max(feed.head()), head))
}
