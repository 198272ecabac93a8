//! Reads that do not subscribe: a topic's history, and the list of topics.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use serde::Serialize;
use thalweg_wire::{GapReason, Offset, Position, StartAt, Topic};
use tokio::{
    sync::{SemaphorePermit, oneshot},
    task::yield_now,
};

use super::{Handle, Mail, Shard, home_of};
use crate::{
    refusal::Refusal,
    stream::{Log, Start},
};

/// Memory of one answer, about: one batch more may be in it.
const READ_BYTES: usize = 4 << 20;

/// Memory of a shard's answers that are not taken yet; one more may be in it.
const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// An answer, counted for as long as it is held.
struct Held {
    bytes: Vec<u8>,
    all: Arc<AtomicUsize>,
}

impl Held {
    fn new(bytes: Vec<u8>, all: Arc<AtomicUsize>) -> Self {
        all.fetch_add(bytes.len(), Relaxed);
        Self { bytes, all }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Relaxed);
    }
}

/// One topic as a shard knows it.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) topic: Topic,
    /// Of its newest event; only its home knows.
    pub(crate) position: Option<Position>,
    /// How many are retained there.
    pub(crate) events: u64,
    /// How many subscribe to it here.
    pub(crate) subscribers: u64,
}

/// Which topics to list.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) after: String,
    pub(crate) prefix: String,
    pub(crate) limit: usize,
}

impl Handle {
    /// A topic's history from a cursor on, as the JSON of docs/wire.md, "Reading".
    ///
    /// # Errors
    /// `Busy` while answers that nobody takes hold all the memory that they may.
    pub(super) async fn read(
        &self,
        topic: &Topic,
        start: StartAt,
        limit: usize,
    ) -> Result<Bytes, Refusal> {
        let _one = self.one_read().await?;
        self.has_room_to_answer()?;
        let mut read = self.read_home(topic, start, limit).await?;
        // curl leaves the prompt where it belongs.
        read.push(b'\n');
        Ok(self.hold(read))
    }

    /// Whether there is memory for one more answer.
    ///
    /// # Errors
    /// `Busy` while answers that nobody takes hold all that they may.
    pub(super) fn has_room_to_answer(&self) -> Result<(), Refusal> {
        if self.answered.load(Relaxed) > ANSWERS_BYTES_MAX {
            return Err(Refusal::busy("answers that are not read"));
        }
        Ok(())
    }

    /// An answer, counted until it is taken.
    pub(super) fn hold(&self, answer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Held::new(answer, Arc::clone(&self.answered)))
    }

    /// Reads come one after the other, with turns between: each takes as long as many
    /// visits.
    async fn one_read(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        let one = self.reading.acquire().await.map_err(|_| Refusal::draining())?;
        yield_now().await;
        Ok(one)
    }

    async fn read_home(
        &self,
        topic: &Topic,
        start: StartAt,
        limit: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let home = home_of(topic, self.common.peers.len());
        let read = if home == self.id {
            self.shard.borrow().read_history(topic, start, limit)
        } else {
            let (answer, read) = oneshot::channel();
            let letter = Mail::Read { topic: topic.clone(), start, limit, answer };
            let mail = &self.common.peers[home].publishes;
            mail.send(letter).await.map_err(|_| Refusal::draining())?;
            read.await.map_err(|_| Refusal::draining())?
        };
        read.ok_or_else(|| Refusal::no_such_topic(topic))
    }

    /// The topics of all shards, as the JSON of docs/wire.md, "Reading".
    pub(super) async fn list(&self, listing: Listing) -> Result<Vec<u8>, Refusal> {
        let _one = self.one_read().await?;
        let mut all: Vec<Listed> = Vec::new();
        for (shard, peer) in self.common.peers.iter().enumerate() {
            if shard == self.id {
                all.extend(self.shard.borrow().list_topics(&listing));
                continue;
            }
            let (answer, listed) = oneshot::channel();
            let letter = Mail::List { listing: listing.clone(), answer };
            peer.publishes.send(letter).await.map_err(|_| Refusal::draining())?;
            all.extend(listed.await.map_err(|_| Refusal::draining())?);
        }
        all.sort_unstable_by(|a, b| a.topic.as_str().cmp(b.topic.as_str()));
        Ok(listed_json(merged(all).take(listing.limit)))
    }
}

impl Shard {
    pub(super) fn read_history(
        &self,
        topic: &Topic,
        start: StartAt,
        limit: usize,
    ) -> Option<Vec<u8>> {
        let log = self.feeds.get(self.feeds.find(topic)?)?.log.as_ref()?;
        Some(history_json(log, start, limit))
    }

    /// At most `limit` of the topics that come next, by name. One may be listed by two
    /// shards: its home and one that reads along.
    pub(super) fn list_topics(&self, listing: &Listing) -> Vec<Listed> {
        let next = self.feeds.named(&listing.after, &listing.prefix).take(listing.limit);
        next.map(|feed| {
            let log = feed.home.is_some().then_some(feed.log.as_ref()).flatten();
            Listed {
                topic: feed.topic.clone(),
                position: log.map(|log| log.position_before(log.head())),
                events: log.map_or(0, |log| log.head() - log.first_retained()),
                subscribers: feed.subscribers.len() as u64,
            }
        })
        .collect()
    }
}

/// One entry for each topic, of sorted ones.
fn merged(all: Vec<Listed>) -> impl Iterator<Item = Listed> {
    let mut rest = all.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut first = rest.next()?;
        while let Some(same) = rest.next_if(|next| next.topic == first.topic) {
            first.position = first.position.or(same.position);
            first.events += same.events;
            first.subscribers += same.subscribers;
        }
        Some(first)
    })
}

#[derive(Serialize)]
struct TopicJson<'a> {
    topic: &'a str,
    position: Option<String>,
    events: u64,
    subscribers: u64,
}

fn listed_json(listed: impl Iterator<Item = Listed>) -> Vec<u8> {
    let mut out = br#"{"topics":["#.to_vec();
    for (index, listed) in listed.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let json = TopicJson {
            topic: listed.topic.as_str(),
            position: listed.position.map(|position| position.to_string()),
            events: listed.events,
            subscribers: listed.subscribers,
        };
        // Nothing in it that JSON cannot say, and a Vec takes everything.
        let _ = serde_json::to_writer(&mut out, &json);
    }
    out.extend_from_slice(b"]}");
    out
}

fn history_json(log: &Log, start: StartAt, limit: usize) -> Vec<u8> {
    let (from, gap) = match log.start(start) {
        // One ahead of the head is told where that is: whoever reads on stops there.
        Start::At(cursor) => (cursor.next().min(log.head()), None),
        Start::OtherEpoch(cursor) => (cursor.next(), Some((None, GapReason::Epoch))),
        // Whoever reads wants all there is.
        Start::Lost(lost) => {
            let oldest = log.first_retained();
            (oldest, Some((Some(oldest - lost.expected), GapReason::Trimmed)))
        }
    };
    let mut events = Vec::new();
    let mut next = from;
    for batch in log.batches_from(from) {
        let taken = batch.write_events(next, limit - (next - from) as usize, &mut events);
        next += taken;
        if (next - from) as usize >= limit || events.len() >= READ_BYTES {
            break;
        }
    }
    let position = log.position_before(next);
    let mut out =
        format!(r#"{{"topic":"{}","position":"{position}","first":{from},"events":["#, log.topic())
            .into_bytes();
    out.extend_from_slice(&events);
    let head = log.position_before(log.head());
    out.extend_from_slice(format!(r#"],"head":"{head}","gap":"#).as_bytes());
    out.extend_from_slice(gap_json(gap).as_bytes());
    out.push(b'}');
    out
}

fn gap_json(gap: Option<(Option<Offset>, GapReason)>) -> String {
    let Some((missed, reason)) = gap else { return "null".into() };
    let missed = missed.map_or("null".into(), |missed| missed.to_string());
    format!(r#"{{"missed":{missed},"reason":"{}"}}"#, reason.name())
}
