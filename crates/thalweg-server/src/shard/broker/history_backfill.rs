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
    /// Returns the backfill that a history query from `start` on needs. `None` if this shard has all its events.
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
            // A search has replaced `newest.N` beyond the history with a position.
            StartAt::Latest | StartAt::Newest(_) => return None,
            StartAt::After(position) | StartAt::Within(position, _) if position.epoch == epoch => {
                position.offset + 1
            }
            StartAt::Earliest | StartAt::Since(_) | StartAt::After(_) | StartAt::Within(..) => 1,
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

    /// Returns whether the query names a position that the stream has not assigned yet.
    pub(in crate::shard) fn is_beyond(&self, page: &ReadPage) -> bool {
        let has_position =
            matches!(self.start.without_until(), StartAt::After(_)) && !self.page.is_state();
        has_position && page.head < self.from
    }

    /// Builds the answer from the broker's page and the retained events. `is_beyond`: the stream never assigned the requested
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
        Ok(page::page(&feed, None, self.start, limit))
    }
}

fn log_page(
    topic: &Topic,
    backfill: HistoryBackfill,
    mut page: ReadPage,
    is_beyond: bool,
    limit: usize,
) -> Result<PageParts, Refusal> {
    let HistoryBackfill { page: mut feed, epoch, start, from, until, head, is_known, .. } =
        backfill;
    // Retained events count as available, even if the stream has dropped them.
    let stored_from = page.stored_from.min(if is_known { until } else { Offset::MAX });
    let is_other =
        matches!(start.without_until(), StartAt::After(position) if position.epoch != epoch);
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
    let (mut from, mut gap) = (from.max(stored_from), gap);
    if let Some(until) = cut_at_hole(&mut page) {
        from = from.max(until);
        gap = gap.or(Some((None, GapReason::Trimmed)));
    }
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

/// Cuts a page at its first hole after a record, because an answer announces a gap only before its events. Returns the end of
/// the holes before the first record.
fn cut_at_hole(page: &mut ReadPage) -> Option<Offset> {
    let first = page.records.first().map_or(Offset::MAX, |(first, _)| *first);
    let later = page.holes.partition_point(|hole| hole.start < first);
    if let Some(hole) = page.holes.get(later) {
        page.records.retain(|(first, _)| *first < hole.start);
        page.is_whole = false;
    }
    page.holes[..later].last().map(|hole| hole.end)
}

#[cfg(test)]
mod tests {
    use thalweg_core::stream::Payloads;

    use super::*;

    #[test]
    fn an_answer_ends_before_a_loss_and_the_next_one_begins_after_it() {
        let page = |firsts: &[Offset]| ReadPage {
            records: firsts
                .iter()
                .map(|first| (*first, Payloads::from_lines(b"1".to_vec()).expect("an event")))
                .collect(),
            holes: vec![10..20, 30..40],
            pauses: Vec::new(),
            is_whole: true,
            stored_from: 1,
            newest: 0,
            head: 50,
            compacted: 0,
        };
        let cases: [(&[Offset], _, _, _); 4] = [
            (&[5, 25, 45], None, 1, false),
            (&[25, 45], Some(20), 1, false),
            (&[45], Some(40), 1, true),
            (&[], Some(40), 0, true),
        ];
        for (firsts, until, kept, is_whole) in cases {
            let mut page = page(firsts);
            assert_eq!(cut_at_hole(&mut page), until, "{firsts:?}");
            assert_eq!((page.records.len(), page.is_whole), (kept, is_whole), "{firsts:?}");
        }
    }
}
