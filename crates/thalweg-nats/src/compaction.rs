//! Stores the states of keyed topics, and removes the messages that these replace.
//!
//! Any server does this. It reads a topic up to its newest message, stores the newest event of each key in parts, and then the index of the
//! parts on the condition that no other server has stored an index meanwhile. Only then, and after a delay, it removes the
//! older messages. The newest message of a topic always stays, because conditions name it.

use std::{
    sync::{Arc, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_nats::HeaderMap;
use bytes::Bytes;
use thalweg_broker::{LogThrottle, ReadRange};
use thalweg_wire::{Epoch, Topic};
use tokio::time::Instant;

use crate::{
    ack::Ack,
    api::{Api, ApiError},
    counts::{Counts, add},
    message::{MARK, MARK_VALUE},
    now_us,
    offsets::offset_of,
    pages::PageReader,
    requests::Requests,
    settings::{index_subject_of, part_subject_of, subject_of},
    store::{EXPECTED_LAST, EXPECTED_STREAM, PURGE_DELAY},
    stored_state::{MergedState, PartEntry, StateIndex},
    stream_state::StreamState,
    tallies::{self, Tallies},
};

/// The interval of looks for states to store.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The timeout of the stream's answer to a part or an index.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Removals that are older than this are left out: servers do not remember them longer either.
const REMOVAL_LIFE: Duration = Duration::from_secs(600);

/// The largest state that is stored. A server would not have the memory for a larger one.
const STATE_BYTES_MAX: usize = 256 << 20;

/// The part that stores the states of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// The index of the stream.
    pub(crate) stream: usize,
    pub(crate) state: Arc<StreamState>,
    pub(crate) requests: Requests,
    pub(crate) api: Api,
    pub(crate) page_reader: Arc<PageReader>,
    pub(crate) counts: Arc<Counts>,
}

/// The messages that a stored state replaces: for each subject, those before a sequence number.
type Replaced = [(String, u64); 3];

impl Compaction {
    /// Stores states when they are due. Never returns.
    pub(crate) async fn run(self) {
        let mut throttle = LogThrottle::default();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            while let Some(topic) = self.take_due() {
                match self.compact(&topic).await {
                    Ok(Some(replaced)) => {
                        self.tallies().stored(&topic);
                        self.purge_later(replaced);
                    }
                    Ok(None) => self.tallies().remove(&topic),
                    Err(error) => {
                        add(&self.counts.states_failed);
                        self.tallies().failed(&topic, Instant::now());
                        if let Some(times) = throttle.take(1, now_us()) {
                            tracing::warn!(%topic, times, "cannot store the state of a topic's keys: {error}");
                        }
                    }
                }
            }
        }
    }

    /// Stores the state of a topic and removes the replaced messages at once.
    pub(crate) async fn compact_now(&self, topic: &Topic) -> Result<(), ApiError> {
        match self.compact(topic).await? {
            Some(replaced) => purge(&self.api, &self.state.name, replaced).await,
            None => Ok(()),
        }
    }

    fn take_due(&self) -> Option<Topic> {
        self.tallies().take_due(Instant::now())
    }

    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        tallies::lock(&self.page_reader.tallies[self.stream])
    }

    /// Stores the state of a topic. Returns what it replaces; `None` if the topic has ended or is unknown.
    async fn compact(&self, topic: &Topic) -> Result<Option<Replaced>, ApiError> {
        let (stream, epoch) = (&self.state.name, self.state.epoch());
        let [index_subject, part_subject] = [index_subject_of(topic), part_subject_of(topic)];
        let before = self.api.last_message(stream, &index_subject).await?;
        let subject = subject_of(topic);
        let newest = self.api.last_message(stream, &subject).await?;
        let is_ended = self.api.is_ended(stream, &subject).await?;
        let Some((base, _)) = newest.filter(|_| is_ended == Some(false)) else { return Ok(None) };
        let merged = self.read(topic, epoch, offset_of(base)).await?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let removed_ms = since.saturating_sub(REMOVAL_LIFE).as_millis() as i64;
        // A large state takes long, and this thread serves all topics.
        let made = tokio::task::spawn_blocking(move || merged.into_parts(removed_ms)).await;
        let (bodies, compacted) = made.map_err(|error| ApiError::Unreadable(error.to_string()))?;
        let (mut parts, mut bytes) = (Vec::with_capacity(bodies.len()), 0);
        for (last, body) in bodies {
            bytes += body.len() as u64;
            let sequence = self.store(&part_subject, body, None).await?;
            parts.push(PartEntry { last, sequence });
        }
        let first_part = parts.first().map(|part| part.sequence);
        let index = StateIndex { base, compacted, bytes, parts };
        let expected = before.map_or(0, |(sequence, _)| sequence);
        let sequence = self.store(&index_subject, index.to_body(), Some(expected)).await?;
        if self.state.epoch() != epoch {
            return Err(ApiError::Unreadable("the epoch of the stream has changed".to_owned()));
        }
        add(&self.counts.states);
        let first_part = first_part.unwrap_or(sequence);
        Ok(Some([(subject, base), (part_subject, first_part), (index_subject, sequence)]))
    }

    /// Reads the state of a topic before an offset.
    async fn read(&self, topic: &Topic, epoch: Epoch, until: u64) -> Result<MergedState, ApiError> {
        let (mut merged, mut from) = (MergedState::default(), 1);
        loop {
            let (stream, topic) = (self.stream, topic.clone());
            let range = ReadRange { stream, topic, epoch, from, until };
            let page = self.page_reader.page(&range, false).await?;
            merged.take(&page);
            if merged.bytes() > STATE_BYTES_MAX {
                let why = format!("its keys have more than {STATE_BYTES_MAX} bytes");
                return Err(ApiError::Unreadable(why));
            }
            match page.end() {
                Some(end) if !page.is_whole => from = end,
                _ => return Ok(merged),
            }
        }
    }

    /// Stores a message, if `expected` is the newest one of its subject. Returns its sequence number.
    async fn store(
        &self,
        subject: &str,
        body: Vec<u8>,
        expected: Option<u64>,
    ) -> Result<u64, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(MARK, MARK_VALUE);
        headers.insert(EXPECTED_STREAM, self.state.name.as_str());
        if let Some(expected) = expected {
            headers.insert(EXPECTED_LAST, expected.to_string());
        }
        let sent = self.requests.send(subject.to_owned(), headers, Bytes::from(body), ACK_TIMEOUT);
        match Ack::read(&sent.await.map_err(ApiError::Unanswered)?.payload) {
            Ack::Stored { sequence, .. } => Ok(sequence),
            Ack::Refused(why) => Err(ApiError::Unreadable(why)),
            Ack::Outdated => {
                Err(ApiError::Unreadable("another server has stored the state".to_owned()))
            }
            Ack::NotNow | Ack::InProcess | Ack::Unreadable => {
                Err(ApiError::Unreadable("the stream does not store it now".to_owned()))
            }
        }
    }

    fn purge_later(&self, replaced: Replaced) {
        let (api, stream) = (self.api.clone(), self.state.name.clone());
        let counts = Arc::clone(&self.counts);
        tokio::spawn(async move {
            // In the meantime, servers that are a little behind can read these messages.
            tokio::time::sleep(PURGE_DELAY).await;
            // If this fails, the next state replaces these messages, too.
            if let Err(error) = purge(&api, &stream, replaced).await {
                add(&counts.purges_omitted);
                tracing::debug!(stream, "cannot remove replaced messages: {error}");
            }
        });
    }
}

async fn purge(api: &Api, stream: &str, replaced: Replaced) -> Result<(), ApiError> {
    for (subject, before) in replaced {
        api.purge(stream, &subject, before).await?;
    }
    Ok(())
}
