//! A part of a fed topic's history that is not here, read back from its stream for one query.

use std::sync::Arc;

use thalweg_wire::{Epoch, GapReason, Offset, StartAt, Topic};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Handle,
    page_parts::{PageParts, page as parts, page_of as page_from},
    recall::page_of,
    topics::Topics,
};
use crate::{
    backend::{Read, ReadPage, ReadReply, Reader, Unreadable, offset_of},
    clock::now_us,
    config::HISTORY_PAGE_BYTES,
    home::home_of,
    refusal::Refusal,
    transport::SubscribeRequest,
};
use thalweg_core::{
    fanout::Policy,
    stream::{Batch, Feed, FeedKind, HistoryBounds, Offsets},
};

/// The words for the refusal when no history query ends in time.
pub(super) const HISTORIES: &str = "histories that are sent";

/// What a topic's history is read from.
enum History {
    Here(PageParts),
    Away(Away),
}

/// A part of a topic's history that is not here, and can be read from its stream.
struct Away {
    stream: usize,
    kind: FeedKind,
    epoch: Epoch,
    start: StartAt,
    from: Offset,
    until: Offset,
    head: Offset,
    /// What is here after that, as far as a page has room.
    here: Vec<Arc<Batch>>,
    /// Whether the topic is here.
    is_known: bool,
}

impl Handle {
    /// A topic's history from where a reader starts, wherever it is.
    ///
    /// # Errors
    /// `NoSuchTopic`; `Unavailable` if its stream cannot be read now; `Busy` after `deadline`.
    pub(super) async fn page(
        &self,
        topic: &Topic,
        start: StartAt,
        limit: usize,
        deadline: Instant,
    ) -> Result<PageParts, Refusal> {
        let (mut start, mut is_beyond) = (start, false);
        loop {
            let turn = self.read_queue.turn().await;
            let (home, wanted) = (home_of(topic, self.common.peers.len()), topic.clone());
            let history =
                self.look(home, move |topics| topics.read_history(&wanted, start, limit)).await?;
            // Others need not wait for a stream.
            drop(turn);
            let away = match history.ok_or_else(|| Refusal::no_such_topic(topic))? {
                History::Here(parts) => return Ok(parts),
                History::Away(away) => away,
            };
            let (from, until) = (away.from, away.until);
            let page = self.read_page(topic, &away, deadline).await?;
            // A position that the stream has never given.
            if matches!(away.start, StartAt::After(_)) && !page.has_given(from - 1) {
                (start, is_beyond) = (StartAt::Earliest, true);
                continue;
            }
            return match away.kind {
                FeedKind::Log => log_page(topic, away, page, is_beyond, limit),
                FeedKind::Value if !away.is_known && page.messages.is_empty() => {
                    Err(Refusal::no_such_topic(topic))
                }
                FeedKind::Value => {
                    let mut feed = empty_feed(topic, &away, until);
                    feed.recall(page_of(page, from, until), now_us());
                    Ok(parts(&feed, start, limit))
                }
            };
        }
    }

    /// Whether each topic of a subscription whose policy is to end at a gap begins with one: events
    /// after its position are gone.
    pub(crate) async fn has_lost_all(&self, request: &SubscribeRequest) -> bool {
        if request.terms.policy != Policy::Close {
            return false;
        }
        let deadline = Instant::now() + self.common.config.limits.stall;
        for (topic, start) in &request.topics {
            let page = self.page(topic, *start, 1, deadline).await;
            if !matches!(page, Ok(PageParts { gap: Some((_, GapReason::Trimmed)), .. })) {
                return false;
            }
        }
        true
    }

    async fn read_page(
        &self,
        topic: &Topic,
        away: &Away,
        deadline: Instant,
    ) -> Result<ReadPage, Refusal> {
        let &Away { stream, epoch, from, until, .. } = away;
        let reads = self.common.reads.as_ref().ok_or_else(Refusal::draining)?;
        let (answer, page) = oneshot::channel();
        let (topic, reply) = (topic.clone(), ReadReply::new(Reader::Once(answer)));
        let read = Read { stream, topic, epoch, from, until, reply };
        let answered = timeout_at(deadline, async {
            let _place = self.read_queue.pages.acquire().await;
            reads.send(read).await.map_err(|_| Refusal::draining())?;
            page.await.map_err(|_| Refusal::draining())
        });
        let page = answered.await.map_err(|_| Refusal::busy(HISTORIES))??;
        page.map_err(|Unreadable| Refusal::catching_up())
    }

    /// Whether a fed topic is there: here, or in its stream.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub(super) async fn check_stored(&self, topic: &Topic) -> Result<(), Refusal> {
        let deadline = Instant::now() + self.common.config.limits.stall;
        self.page(topic, StartAt::Earliest, 1, deadline).await.map(drop)
    }
}

fn empty_feed(topic: &Topic, away: &Away, next: Offset) -> Feed {
    let bounds = HistoryBounds { events_max: usize::MAX, bytes_max: usize::MAX, age_us_max: 0 };
    Feed::new(away.kind, topic.clone(), away.epoch, next, Offsets::Stored, bounds)
}

/// Events that were read back, and those here after them.
fn log_page(
    topic: &Topic,
    away: Away,
    page: ReadPage,
    is_beyond: bool,
    limit: usize,
) -> Result<PageParts, Refusal> {
    let Away { epoch, start, from, until, head, is_known, .. } = away;
    // What is here is there, whatever the stream still has.
    let stored_from = page.stored_from().min(if is_known { until } else { Offset::MAX });
    let is_other = matches!(start, StartAt::After(position) if position.epoch != epoch);
    // From the beginning, and there is nothing.
    if !is_known && from == 1 && page.messages.is_empty() && page.is_whole {
        return Err(Refusal::no_such_topic(topic));
    }
    let gap = match from {
        _ if is_beyond || is_other => Some((None, GapReason::Epoch)),
        // From the beginning: whatever there is.
        1 => None,
        from => (from < stored_from).then_some((None, GapReason::Trimmed)),
    };
    let from = from.max(stored_from);
    let mut feed = empty_feed(topic, &away, from);
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
        for batch in away.here {
            let start = batch.start().min(feed.head());
            let is_same = start == batch.start();
            let batch = if is_same { batch } else { Arc::new(batch.starting_at(start)) };
            feed.push(batch, now_us());
        }
    }
    Ok(page_from(&feed, from, gap, limit, reached.max(feed.head()), head))
}

impl Topics {
    fn read_history(&self, topic: &Topic, start: StartAt, limit: usize) -> Option<History> {
        let local = self.feeds.find(topic).and_then(|key| self.feeds.get(key));
        let feed = local.and_then(|local| local.feed.as_ref());
        if let Some(stream) = self.feeds.streams.of(topic)
            && let Some(away) = self.away(stream, feed, start)
        {
            return Some(History::Away(away));
        }
        Some(History::Here(parts(feed?, start, limit)))
    }

    /// What of a fed topic's history from `start` on is not here: what is older, whatever a value topic
    /// has, or whether there is such a position.
    fn away(&self, stream: usize, feed: Option<&Feed>, start: StartAt) -> Option<Away> {
        let epoch = self.feeds.streams.epoch(stream);
        let known_from = self.feeds.streams.known_from(stream);
        let has_values = self.feeds.streams.has_values(stream);
        let from = match start {
            _ if has_values => 1,
            // The newest events are those of the history: a stream is not read backwards.
            StartAt::Latest | StartAt::Newest(_) => return None,
            StartAt::After(position) if position.epoch == epoch => position.offset + 1,
            StartAt::Earliest | StartAt::After(_) => 1,
        };
        let start = if has_values { StartAt::Earliest } else { start };
        let (until, head) = match feed {
            Some(feed) => (feed.here_from(from), feed.head()),
            None => (known_from.max(from), known_from.max(from)),
        };
        let is_here = match feed {
            Some(feed @ Feed::Value(_)) => !feed.is_away(0),
            Some(Feed::Log(_)) => from >= until && from <= head,
            None => false,
        };
        if is_here {
            return None;
        }
        let mut room = HISTORY_PAGE_BYTES;
        let fits = |batch: &&Arc<Batch>| {
            let has_room = room > 0;
            room = room.saturating_sub(batch.memory_bytes());
            has_room
        };
        let here = feed.into_iter().flat_map(|feed| feed.batches_from(until)).take_while(fits);
        let here = here.cloned().collect();
        let (kind, is_known) =
            (if has_values { FeedKind::Value } else { FeedKind::Log }, feed.is_some());
        Some(Away { stream, kind, epoch, start, from, until, head, here, is_known })
    }
}
