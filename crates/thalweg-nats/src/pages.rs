//! Reading older messages of one topic again, a page at a time.
//!
//! Any replica may be asked for messages (direct get). It has them in the order of the stream, but the
//! newest may not be there yet. So the page it gives is complete up to its last message, and whether there are
//! more before the number that was named, the leader is asked.

use std::{ops::Range, sync::Arc, time::Duration};

use serde_json::json;
use thalweg_core::stream::Payloads;
use thalweg_server::{
    LogThrottle,
    backend::{Content, EVENTS_MAX, ReadPage, Unreadable, offset_of},
    now_us,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

use crate::{
    api::{Api, ApiError},
    connection::Connection,
    counts::{Counts, add},
    direct::{Batch, sequence_of, time_ns_of},
    end::{PageAnswer, Wanted},
    message,
    settings::subject_of,
    setup,
    stream_state::StreamState,
};

/// What a page has at most: about what a subscriber takes while the next one is read.
const PAGE_MESSAGES: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// Pages being read at once, of all topics: each is up to a megabyte on its way here.
const PAGES_MAX: usize = 16;

/// How long a page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(3);

/// What reading takes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) streams: Arc<[Arc<StreamState>]>,
    pub(crate) connection: Connection,
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
    /// Bytes that an event of others may have.
    pub(crate) event_bytes_max: usize,
}

/// What an answer to a direct get has.
struct Messages {
    messages: Vec<(u64, Payloads)>,
    pauses: Vec<(u64, u64)>,
    /// The number of the last one, those included that nobody can read.
    last: Option<u64>,
    /// The number of the last one that says that the topic has ended.
    ended_at: Option<u64>,
}

/// What comes after the messages that were read, up to where others are asked for.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    More,
    /// The topic ended later, in this message. Those before may be removed.
    Ended(u64),
}

/// Reads what is asked for, until nothing more can be.
pub(crate) async fn run<R, A: PageAnswer>(
    reading: Reading,
    mut reads: mpsc::Receiver<R>,
    split: impl Fn(R) -> (Wanted, A),
) {
    let mut under_way = JoinSet::new();
    let mut failed = LogThrottle::default();
    loop {
        tokio::select! {
            read = reads.recv(), if under_way.len() < PAGES_MAX => {
                let Some(read) = read else { break };
                let (wanted, answer) = split(read);
                let reading = reading.clone();
                under_way.spawn(async move {
                    add(&reading.counts.pages);
                    let page = reading.page(&wanted).await;
                    let failed = page.as_ref().err().map(|error| (wanted.topic, error.clone()));
                    answer.send(page.map_err(|_| Unreadable));
                    failed
                });
            }
            Some(read) = under_way.join_next() => {
                if let Ok(Some((topic, error))) = read {
                    add(&reading.counts.pages_failed);
                    if let Some(times) = failed.take(1, now_us()) {
                        tracing::warn!(%topic, times, "cannot read older events: {error}");
                    }
                }
            }
        }
    }
}

impl Reading {
    async fn page(&self, wanted: &Wanted) -> Result<ReadPage, ApiError> {
        let unreadable = |why: &str| ApiError::Unreadable(why.to_owned());
        let state = self.streams.get(wanted.stream).ok_or_else(|| unreadable("no such stream"))?;
        let info = self.api.stream_info(&state.name).await?;
        if setup::epoch(&info) != Some(wanted.epoch) {
            state.suspect.notify_one();
            return Err(unreadable("the stream is becoming another one"));
        }
        let until = wanted.until.div_ceil(EVENTS_MAX as u64);
        let position = wanted.from.saturating_sub(1) / EVENTS_MAX as u64;
        if info.state.last_seq + 1 < until || info.may_lack(position) {
            return Err(unreadable("whoever leads the stream has not got it all"));
        }
        let last_sequence = info.state.last_seq;
        let mut first_sequence = info.state.first_seq.max(1);
        let (mut ended_at, mut pauses) = (None, Vec::new());
        let mut from = (wanted.from / EVENTS_MAX as u64).max(first_sequence);
        let deadline = Instant::now() + PAGE_TIMEOUT;
        let (is_wanted, has_values) = (wanted.from <= wanted.until, state.has_values);
        let until = if has_values { u64::MAX } else { until };
        // Messages that nobody can read may fill many pages.
        while from < until && is_wanted {
            let read = self.messages(state, wanted, from..until, deadline).await?;
            let next = read.last.map_or(from, |last| last + 1);
            ended_at = read.ended_at.or(ended_at);
            let rest = self.rest(state, wanted, next..until).await?;
            let is_whole = rest != Rest::More;
            let mut messages = read.messages;
            pauses.extend(read.pauses);
            if let Rest::Ended(at) = rest {
                messages.clear();
                pauses.clear();
                ended_at = Some(at);
            }
            if state.epoch() != wanted.epoch {
                return Err(unreadable("the stream has become another one"));
            }
            if is_whole || (!messages.is_empty() && !has_values) {
                // The oldest messages may have gone before these were read.
                let now = self.api.stream_info(&state.name).await?;
                first_sequence = first_sequence.max(now.state.first_seq);
                return Ok(ReadPage {
                    messages,
                    pauses,
                    is_whole,
                    first_sequence,
                    ended_at,
                    last_sequence,
                });
            }
            if read.last.is_none() {
                return Err(unreadable("whoever was asked has not got it yet"));
            }
            from = next;
        }
        let messages = Vec::new();
        Ok(ReadPage { messages, pauses, is_whole: true, first_sequence, ended_at, last_sequence })
    }

    /// The first messages of a range, with at least one event that is wanted.
    async fn messages(
        &self,
        state: &StreamState,
        wanted: &Wanted,
        range: Range<u64>,
        deadline: Instant,
    ) -> Result<Messages, ApiError> {
        let request = json!({
            "seq": range.start,
            "next_by_subj": subject_of(&wanted.topic),
            "batch": PAGE_MESSAGES,
            "max_bytes": PAGE_BYTES,
        });
        let mut batch = Batch::ask(&self.connection, &state.name, &request).await?;
        let mut read =
            Messages { messages: Vec::new(), pauses: Vec::new(), last: None, ended_at: None };
        loop {
            let Some(message) = batch.next(deadline).await? else { return Ok(read) };
            let (Some(sequence), Some(time_ns)) = (sequence_of(&message), time_ns_of(&message))
            else {
                continue;
            };
            if sequence >= range.end {
                return Ok(read);
            }
            read.last = Some(sequence);
            let (headers, body) = (message.headers.as_ref(), &message.payload);
            let subject = subject_of(&wanted.topic);
            let is_its = message::read(&subject, sequence, headers, body, self.event_bytes_max);
            match is_its.map(|(_, content)| content.stored_at(time_ns)) {
                // The first may be one whose events the reader has.
                Ok(Content::Events(payloads)) => {
                    if offset_of(sequence, payloads.count()) > wanted.from {
                        read.messages.push((sequence, payloads));
                    }
                }
                Ok(Content::Paused(ms)) => read.pauses.push((sequence, ms)),
                Ok(Content::End(_)) => {
                    read.messages.clear();
                    read.pauses.clear();
                    read.ended_at = Some(sequence);
                }
                // All servers skipped it.
                Err(_) => {}
            }
        }
    }

    /// What the topic has in a range: as the leader knows.
    async fn rest(
        &self,
        state: &StreamState,
        wanted: &Wanted,
        range: Range<u64>,
    ) -> Result<Rest, ApiError> {
        if range.is_empty() {
            return Ok(Rest::Nothing);
        }
        let subject = subject_of(&wanted.topic);
        Ok(match self.api.next_message(&state.name, range.start, &subject).await? {
            Some((at, _)) if at < range.end => Rest::More,
            Some((at, true)) => Rest::Ended(at),
            Some(_) | None => Rest::Nothing,
        })
    }
}
