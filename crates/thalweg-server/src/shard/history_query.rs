//! Reads without a subscription: a topic's history, and the list of topics.

use std::{
    cell::RefCell,
    fmt::Display,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde::{Serialize, Serializer};
use thalweg_wire::{Before, Envelope, Epoch, GapReason, Offset, Position, StartAt, Topic};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};

use super::{Handle, topics::Topics};
use crate::{
    answers::AnswerAccount,
    backend::{Read, ReadReply, Reader, Unreadable, offset_of},
    clock::now_us,
    config::HISTORY_PAGE_BYTES,
    home::home_of,
    refusal::Refusal,
    stream::{Batch, Feed, FeedKind, HistoryBounds, Offsets, Slice, Start},
    transport::Client,
};

/// While a history query waits: time between two checks whether an idle one can be ended.
const QUEUE_POLL: Duration = Duration::from_millis(20);

/// Which topics to list.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) after: String,
    pub(crate) prefix: String,
    pub(crate) limit: usize,
}

/// The list of topics, as the JSON of docs/wire.md, "Reading".
#[derive(Serialize)]
struct List {
    topics: Vec<Listed>,
}

/// One topic as a shard knows it.
#[derive(Serialize)]
struct Listed {
    topic: Text<Topic>,
    /// Position of its newest event. Only its home knows it.
    position: Option<Text<Position>>,
    /// Number of events retained there.
    events: u64,
    /// Number of subscribers on this shard.
    subscribers: u64,
}

/// A value that is serialised to JSON as its text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A topic's history from a cursor on, as the JSON of docs/wire.md, "Reading": the part before
/// its events, the events, and the part after them.
struct PageParts {
    before: Vec<u8>,
    events: Slice,
    after: Vec<u8>,
}

/// What a topic's history is read from.
enum History {
    Here(PageParts),
    Away(Away),
}

/// A part of a topic's history that is not here, and can be read from its stream.
struct Away {
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

/// The words for the refusal when no history query ends in time.
const HISTORIES: &str = "histories that are sent";

/// A page while it is sent.
pub(crate) struct HistoryPage {
    pub(crate) before: Bytes,
    /// Shared with the shard, which checks how much memory only this slice keeps.
    pub(crate) events: Rc<RefCell<Slice>>,
    pub(crate) after: Bytes,
    _slot: SendSlot,
}

/// One of the histories that may be sent at the same time.
struct SendSlot(Rc<Handle>);

impl Drop for SendSlot {
    fn drop(&mut self) {
        self.0.read_queue.is_sent.notify_waiters();
    }
}

/// A history that is being sent.
pub(super) struct HistoryQuery {
    pub(super) client: Client,
    pub(super) account: Arc<AnswerAccount>,
    pub(super) events: Weak<RefCell<Slice>>,
    /// Bytes that its client had read when it was last found to make progress, and the time of
    /// that.
    taken: usize,
    since_us: u64,
}

/// Why a history query must wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Full {
    /// Its client has as many as one client may have.
    OfClient(Client),
    /// All clients together have as many as are allowed.
    OfAll,
}

impl HistoryPage {
    /// Bytes that are left.
    pub(crate) fn bytes(&self) -> usize {
        self.before.len() + self.events.borrow().bytes() + self.after.len()
    }
}

impl HistoryQuery {
    /// Whether it is still being sent.
    pub(super) fn is_sent(&self) -> bool {
        self.events.strong_count() > 0
    }

    /// The time since when its client reads nothing. Checks for progress first.
    pub(super) fn idle_since(&mut self, now_us: u64) -> u64 {
        if self.account.taken() != self.taken {
            (self.taken, self.since_us) = (self.account.taken(), now_us);
        }
        self.since_us
    }
}

impl Handle {
    /// A topic's history from a cursor on, to be sent by the connection of `account`. If too
    /// many are being sent, it waits until one has ended.
    ///
    /// # Errors
    /// `NoSuchTopic`; `Busy` as in [`Self::may_read_more`], or when none ends in time.
    pub(crate) async fn read(
        self: &Rc<Self>,
        client: Client,
        account: &Arc<AnswerAccount>,
        topic: &Topic,
        start: StartAt,
        limit: usize,
    ) -> Result<HistoryPage, Refusal> {
        self.may_read_more(client)?;
        let deadline = Instant::now() + self.common.config.limits.stall;
        let first = timeout_at(deadline, self.read_queue.first_of(client)).await;
        let _first = first.map_err(|_| Refusal::busy(HISTORIES))?;
        self.room_to_send(client, deadline).await?;
        let turn = self.read_queue.turn().await;
        let home = home_of(topic, self.common.peers.len());
        let wanted = topic.clone();
        let history =
            self.look(home, move |topics| topics.read_history(&wanted, start, limit)).await?;
        // Others need not wait for a stream.
        drop(turn);
        let PageParts { before, events, after } =
            match history.ok_or_else(|| Refusal::no_such_topic(topic))? {
                History::Here(parts) => parts,
                History::Away(away) => self.read_back(topic, away, limit, deadline).await?,
            };
        let events = Rc::new(RefCell::new(events));
        self.shard.borrow_mut().subscribers.history_queries.push(HistoryQuery {
            client,
            account: Arc::clone(account),
            events: Rc::downgrade(&events),
            taken: account.taken(),
            since_us: now_us(),
        });
        let (before, after) = (before.into(), after.into());
        Ok(HistoryPage { before, events, after, _slot: SendSlot(Rc::clone(self)) })
    }

    /// A part of a history that is not here.
    ///
    /// # Errors
    /// `Unavailable` if the stream cannot be read now; `NoSuchTopic` if it is not there either.
    async fn read_back(
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
        for (sequence, payloads) in page.messages {
            let (start, first) = (feed.head(), offset_of(sequence, 0));
            let batch = Batch::seal(start.min(first), first, payloads, now_us());
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

    /// Waits until a client's history may be sent. While it waits, a connection that reads
    /// nothing of its history is ended.
    async fn room_to_send(&self, client: Client, deadline: Instant) -> Result<(), Refusal> {
        loop {
            let is_sent = self.read_queue.is_sent.notified();
            let Some(full) = self.shard.borrow().subscribers.history_query_limit(client) else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(Refusal::busy(HISTORIES));
            }
            if timeout(QUEUE_POLL, is_sent).await.is_err() {
                self.with_shard(|shard| {
                    shard.subscribers.end_idle_history_query(&mut shard.topics, full);
                });
            }
        }
    }

    /// The topics of all shards, as the JSON of docs/wire.md, "Reading".
    pub(crate) async fn list(&self, listing: Listing) -> Result<Vec<u8>, Refusal> {
        let _turn = self.read_queue.turn().await;
        let mut all: Vec<Listed> = Vec::new();
        for shard in 0..self.common.peers.len() {
            let wanted = listing.clone();
            all.extend(self.look(shard, move |topics| topics.list(&wanted)).await?);
        }
        all.sort_unstable_by(|a, b| a.topic.0.cmp(&b.topic.0));
        let list = List { topics: merged(all).take(listing.limit).collect() };
        // It contains nothing that JSON cannot represent.
        Ok(serde_json::to_vec(&list).unwrap_or_default())
    }
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
        Some(History::Here(page(feed?, start, limit)))
    }

    /// What of a fed topic's history from `start` on is older than what is here.
    fn away(&self, stream: usize, feed: Option<&Feed>, start: StartAt) -> Option<Away> {
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

    /// At most `limit` topics after the given one, by name. Two shards may list the same topic:
    /// its home and a shard that has a copy.
    fn list(&self, listing: &Listing) -> Vec<Listed> {
        let next = self.feeds.named(&listing.after, &listing.prefix).take(listing.limit);
        next.map(|local| {
            let feed = local.home.is_some().then_some(local.feed.as_ref()).flatten();
            Listed {
                topic: Text(local.topic.clone()),
                position: feed.map(|feed| Text(feed.position_before(feed.head()))),
                events: feed.map_or(0, |feed| feed.retained_events() as u64),
                subscribers: local.subscribers.len() as u64,
            }
        })
        .collect()
    }
}

/// Merges sorted entries: one entry for each topic.
fn merged(all: Vec<Listed>) -> impl Iterator<Item = Listed> {
    let mut rest = all.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut first = rest.next()?;
        while let Some(same) = rest.next_if(|next| next.topic.0 == first.topic.0) {
            first.position = first.position.or(same.position);
            first.events += same.events;
            first.subscribers += same.subscribers;
        }
        Some(first)
    })
}

fn page(feed: &Feed, start: StartAt, limit: usize) -> PageParts {
    let (from, gap) = match feed.start(start) {
        // A cursor ahead of the head is answered with the head: a client that reads on stops
        // there.
        Start::At(cursor) => (cursor.next().max(feed.first_readable()).min(feed.head()), None),
        Start::OtherEpoch(cursor) => (cursor.next(), Some((None, GapReason::Epoch))),
        // A reader wants all events that are retained.
        Start::Lost(lost) => {
            let oldest = feed.first_retained();
            (oldest, Some((lost.missed(oldest), GapReason::Trimmed)))
        }
    };
    page_of(feed, from, gap, limit, from, feed.head())
}

/// At most `limit` events from `from` on. Without events the page ends at `reached`.
fn page_of(
    feed: &Feed,
    from: Offset,
    gap: Option<(Option<Offset>, GapReason)>,
    limit: usize,
    reached: Offset,
    head: Offset,
) -> PageParts {
    let events = Slice::new(feed, from, limit, HISTORY_PAGE_BYTES);
    let offsets = events.offsets();
    let end = if events.first().is_none() { reached } else { events.end() };
    let envelope = Envelope {
        topic: feed.topic(),
        epoch: feed.epoch(),
        first: events.first().unwrap_or(end),
        last: end.saturating_sub(1),
        before: match feed {
            Feed::Log(_) => events.before(),
            Feed::Value(_) => Before::Adjacent,
        },
        offsets: offsets.as_deref(),
        events: &[],
    };
    let mut before = Vec::new();
    let events_at = envelope.write_around(&mut before);
    before.truncate(events_at);
    let head = feed.position_before(head);
    // A final line break, so that the shell's prompt after curl begins on a new line.
    let after = format!("],\"head\":\"{head}\",\"gap\":{}}}\n", gap_json(gap));
    PageParts { before, events, after: after.into() }
}

fn gap_json(gap: Option<(Option<Offset>, GapReason)>) -> String {
    let Some((missed, reason)) = gap else { return "null".into() };
    let missed = missed.map_or("null".into(), |missed| missed.to_string());
    format!(r#"{{"missed":{missed},"reason":"{}"}}"#, reason.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Payloads;

    #[test]
    fn a_page_names_offsets_that_are_not_consecutive() {
        let bounds = HistoryBounds { events_max: 99, bytes_max: 1 << 20, age_us_max: u64::MAX };
        let (topic, epoch) = ("cars".parse().unwrap(), "9f".parse().unwrap());
        let mut feed = Feed::new(FeedKind::Log, topic, epoch, 1, Offsets::Sparse, bounds);
        let mut push = |start, first, events: &[&str]| {
            let mut payloads = Payloads::default();
            for event in events {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(event.as_bytes());
                    Ok::<_, ()>(())
                };
                payloads.push(write).unwrap();
            }
            feed.push(Arc::new(Batch::seal(start, first, payloads, 1)), 1);
        };
        push(1, 256, &["1", "2"]);
        push(258, 1024, &["3", "4"]);
        let json = |cursor: &str, limit| {
            let PageParts { before, mut events, after } =
                page(&feed, cursor.parse().unwrap(), limit);
            let events = events.next_piece(99).unwrap_or_default();
            String::from_utf8([&before, &*events, &after].concat()).unwrap()
        };
        let end = "],\"head\":\"9f.1025\",\"gap\":null}\n";
        let head = |position: &str| format!(r#"{{"topic":"cars","position":"9f.{position}","#);
        let rest = r#""first":256,"after":0,"offsets":[256,257,1024],"events":[1,2,3"#;
        assert_eq!(json("earliest", 3), head("1024") + rest + end);
        let rest = r#""first":257,"offsets":[257,1024,1025],"events":[2,3,4"#;
        assert_eq!(json("9f.256", 9), head("1025") + rest + end);
        let rest = r#""first":1024,"after":700,"events":[3"#;
        assert_eq!(json("9f.700", 1), head("1024") + rest + end);
        assert_eq!(json("9f.1025", 1), head("1025") + r#""first":1026,"events":["# + end);
    }
}
