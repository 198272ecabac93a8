//! A part of a fed topic's history that is not here, read back from its stream for one query.

use std::sync::Arc;

use thalweg_wire::{Epoch, GapReason, Offset, StartAt, Topic};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Handle,
    page_parts::{PageParts, page_of},
    topics::Topics,
};
use crate::{
    backend::{Read, ReadReply, Reader, Unreadable, offset_of},
    clock::now_us,
    config::HISTORY_PAGE_BYTES,
    refusal::Refusal,
    stream::{Batch, Feed, FeedKind, HistoryBounds, Offsets},
};

/// The words for the refusal when no history query ends in time.
pub(super) const HISTORIES: &str = "histories that are sent";

/// A part of a topic's history that is not here, and can be read from its stream.
pub(super) struct Away {
    stream: usize,
    epoch: Epoch,
    from: Offset,
    until: Offset,
    head: Offset,
    /// What is here after that, as far as a page has room.
    here: Vec<Arc<Batch>>,
    /// Whether what was asked for is of another epoch.
    is_other: bool,
    /// Whether the topic is here.
    is_known: bool,
}

impl Handle {
    /// A part of a history that is not here.
    ///
    /// # Errors
    /// `Unavailable` if the stream cannot be read now; `NoSuchTopic` if it is not there either.
    pub(super) async fn read_back(
        &self,
        topic: &Topic,
        away: Away,
        limit: usize,
        deadline: Instant,
    ) -> Result<PageParts, Refusal> {
        let Away { stream, epoch, from, until, head, here, is_other, is_known } = away;
        let reads = self.common.reads.as_ref().ok_or_else(Refusal::draining)?;
        let (answer, page) = oneshot::channel();
        let (topic_read, reply) = (topic.clone(), ReadReply(Reader::Once(answer)));
        let read = Read { stream, topic: topic_read, epoch, from, until, reply };
        reads.send(read).await.map_err(|_| Refusal::draining())?;
        let page = timeout_at(deadline, page).await.map_err(|_| Refusal::busy(HISTORIES))?;
        let page = page.map_err(|_| Refusal::draining())?;
        let page = page.map_err(|Unreadable| Refusal::catching_up())?;
        let stored_from = offset_of(page.first_sequence, 0);
        // From the beginning, and there is nothing.
        if !is_known && from == 1 && page.messages.is_empty() && page.is_whole {
            return Err(Refusal::no_such_topic(topic));
        }
        let gap = match (is_other, from) {
            (true, _) => Some((None, GapReason::Epoch)),
            // From the beginning: whatever there is.
            (false, 1) => None,
            (false, from) => (from < stored_from).then_some((None, GapReason::Trimmed)),
        };
        let bounds = HistoryBounds { events_max: usize::MAX, bytes_max: usize::MAX, age_us_max: 0 };
        let from = from.max(stored_from);
        let mut feed =
            Feed::new(FeedKind::Log, topic.clone(), epoch, from, Offsets::Sparse, bounds);
        let numbered = page.messages.into_iter().map(|(sequence, it)| (offset_of(sequence, 0), it));
        for batch in Batch::seal_messages(from, numbered, now_us()) {
            feed.push(Arc::new(batch), now_us());
        }
        let (mut reached, mut head) = (feed.head(), head);
        if page.is_whole && !is_known {
            // Nothing of it is anywhere else.
            head = reached;
        } else if page.is_whole {
            reached = until;
            for batch in here {
                let start = batch.start().min(feed.head());
                let is_same = start == batch.start();
                let batch = if is_same { batch } else { Arc::new(batch.starting_at(start)) };
                feed.push(batch, now_us());
            }
        }
        Ok(page_of(&feed, from, gap, limit, reached.max(feed.head()), head))
    }
}

impl Topics {
    /// What of a fed topic's history from `start` on is older than what is here.
    pub(super) fn away(&self, stream: usize, feed: Option<&Feed>, start: StartAt) -> Option<Away> {
        let epoch = self.feeds.streams.epoch(stream);
        let known_from = self.feeds.streams.known_from(stream);
        let from = match start {
            StartAt::Latest => return None,
            StartAt::After(position) if position.epoch == epoch => position.offset + 1,
            StartAt::Earliest | StartAt::After(_) => 1,
        };
        let is_other = matches!(start, StartAt::After(position) if position.epoch != epoch);
        let (until, head) = match feed {
            Some(Feed::Value(_)) => return None,
            Some(feed) => (feed.here_from(from), feed.head()),
            None => (known_from.max(from), known_from.max(from)),
        };
        let mut room = HISTORY_PAGE_BYTES;
        let fits = |batch: &&Arc<Batch>| {
            let has_room = room > 0;
            room = room.saturating_sub(batch.memory_bytes());
            has_room
        };
        let here = feed.into_iter().flat_map(|feed| feed.batches_from(until)).take_while(fits);
        let here = here.cloned().collect();
        let is_known = feed.is_some();
        let away = Away { stream, epoch, from, until, head, here, is_other, is_known };
        (from < until || !is_known).then_some(away)
    }
}
