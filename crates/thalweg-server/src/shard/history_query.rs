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
use thalweg_wire::{Before, Envelope, GapReason, Offset, Position, StartAt, Topic};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Handle, topics::Topics};
use crate::{
    answers::AnswerAccount,
    clock::now_us,
    config::HISTORY_PAGE_BYTES,
    home::home_of,
    refusal::Refusal,
    stream::{Feed, Slice, Start},
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
        let _turn = self.read_queue.turn().await;
        let home = home_of(topic, self.common.peers.len());
        let wanted = topic.clone();
        let page =
            self.look(home, move |topics| topics.read_history(&wanted, start, limit)).await?;
        let PageParts { before, events, after } =
            page.ok_or_else(|| Refusal::no_such_topic(topic))?;
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
    fn read_history(&self, topic: &Topic, start: StartAt, limit: usize) -> Option<PageParts> {
        let feed = self.feeds.get(self.feeds.find(topic)?)?.feed.as_ref()?;
        Some(page(feed, start, limit))
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
    let events = Slice::new(feed, from, limit, HISTORY_PAGE_BYTES);
    let offsets = events.offsets();
    let envelope = Envelope {
        topic: feed.topic(),
        epoch: feed.epoch(),
        first: events.first().unwrap_or(from),
        last: events.end().saturating_sub(1),
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
    let head = feed.position_before(feed.head());
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
    use crate::stream::{Batch, FeedKind, HistoryBounds, Offsets, Payloads};

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
        let rest = r#""first":1024,"after":257,"events":[3"#;
        assert_eq!(json("9f.700", 1), head("1024") + rest + end);
        assert_eq!(json("9f.1025", 1), head("1025") + r#""first":1026,"events":["# + end);
    }
}
