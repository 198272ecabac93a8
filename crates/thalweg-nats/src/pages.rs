//! Older messages of one topic, a page at a time. Any replica can answer a direct get. A replica has the
//! messages in order, but may lack the newest ones. A page therefore has no holes up to its last message, and
//! the leader tells whether the range has more.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;
use thalweg_broker::{
    Content, LogThrottle, OFFSET_FIRST, PageBuilder, ReadPage, ReadRange, Unreadable,
};
use thalweg_wire::Topic;
use tokio::time::Instant;

use crate::{
    api::{Api, ApiError},
    connection::Connection,
    counts::{Counts, add},
    direct::{self, Batch, time_ns_of},
    message, now_us,
    offsets::{EVENTS_MAX, offset_of, sequence_of},
    settings::{index_subject_of, part_subject_of, subject_of},
    setup,
    stored_state::{StateIndex, read_part},
    stream_state::StreamState,
    tallies::{self, Tallies},
};

/// Limits of a page. A subscriber takes about this much while the next page is read.
const PAGE_MESSAGES: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

const PAGE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct PageReader {
    pub(crate) streams: Arc<[Arc<StreamState>]>,
    pub(crate) connection: Connection,
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
    pub(crate) event_bytes_max: usize,
    pub(crate) failures: Mutex<LogThrottle>,
    /// For each stream.
    pub(crate) tallies: Arc<[Mutex<Tallies>]>,
}

#[derive(Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    More,
    /// The topic has ended after this range. The value is the sequence number of its end message; messages
    /// before it may be removed.
    Ended(u64),
}

impl PageReader {
    /// Reads a page of a range, or of the newest message.
    pub(crate) async fn read(
        &self,
        range: ReadRange,
        is_newest: bool,
    ) -> Result<ReadPage, Unreadable> {
        add(&self.counts.pages);
        self.page(&range, is_newest).await.map_err(|error| {
            add(&self.counts.pages_failed);
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(times) = failures.take(1, now_us()) {
                tracing::warn!(topic = %range.topic, times, "cannot read older events: {error}");
            }
            Unreadable
        })
    }

    pub(crate) async fn page(
        &self,
        range: &ReadRange,
        is_newest: bool,
    ) -> Result<ReadPage, ApiError> {
        let unreadable = |why: &str| ApiError::Unreadable(why.to_owned());
        let state = self.streams.get(range.stream).ok_or_else(|| unreadable("no such stream"))?;
        let info = self.api.stream_info(&state.name).await?;
        if setup::epoch(&info) != Some(range.epoch) {
            state.suspect.notify_one();
            return Err(unreadable("the epoch of the stream is changing"));
        }
        let until = range.until.div_ceil(EVENTS_MAX as u64);
        if info.state.last_seq + 1 < until
            || info.may_lack(sequence_of(range.from.saturating_sub(1)))
        {
            return Err(unreadable("the leader of the stream lacks messages"));
        }
        let head = offset_of(info.state.last_seq + 1);
        let mut first_sequence = info.state.first_seq.max(1);
        let mut from = sequence_of(range.from).max(first_sequence);
        let has_keys = state.kind.has_keys();
        let index = if has_keys { self.state_index(state, &range.topic).await? } else { None };
        if let Some((_, index)) = &index {
            if let Some(page) = self.part_page(state, range, index, head).await? {
                return Ok(page);
            }
            from = from.max(index.base);
        }
        let deadline = Instant::now() + PAGE_TIMEOUT;
        let is_empty = range.from > range.until && !is_newest;
        let (until, mut page) = match is_newest {
            true => (u64::MAX, PageBuilder::newest(range, head)),
            false => (until, PageBuilder::new(range, head)),
        };
        // Continue if a page has only messages that no server can read: they may fill many pages.
        while from < until && !is_empty {
            let last = self.messages(state, range, from..until, deadline, &mut page).await?;
            let next = last.map_or(from, |last| last + 1);
            let rest = self.rest(state, range, next..until).await?;
            if let Rest::Ended(at) = rest {
                page.end(offset_of(at));
            }
            if state.epoch() != range.epoch {
                return Err(unreadable("the epoch of the stream has changed"));
            }
            if rest != Rest::More || (!page.is_empty() && !is_newest) {
                if rest == Rest::More {
                    page.leave_out();
                }
                // The stream may have trimmed its oldest messages before these were read.
                let now = self.api.stream_info(&state.name).await?;
                first_sequence = first_sequence.max(now.state.first_seq);
                break;
            }
            if last.is_none() {
                return Err(unreadable("the replica lacks messages"));
            }
            from = next;
        }
        if !has_keys {
            return Ok(page.finish(offset_of(first_sequence)));
        }
        // Messages are removed after another index is stored.
        let now = self.state_index(state, &range.topic).await?.map(|(sequence, _)| sequence);
        if now != index.as_ref().map(|(sequence, _)| *sequence) {
            return Err(unreadable("the state of the topic was stored meanwhile"));
        }
        let compacted = index.map_or(0, |(_, index)| index.compacted);
        // Older records were not trimmed: their keys have newer events, or are in the state.
        Ok(ReadPage { compacted, ..page.finish(OFFSET_FIRST) })
    }

    /// Asks the leader for the index of a topic's stored state. Returns its sequence number, too; `None` if there is none.
    async fn state_index(
        &self,
        state: &StreamState,
        topic: &Topic,
    ) -> Result<Option<(u64, StateIndex)>, ApiError> {
        let found = self.api.last_message(&state.name, &index_subject_of(topic)).await?;
        let Some((sequence, body)) = found else { return Ok(None) };
        let unknown = || ApiError::Unreadable("the stored state has no readable index".to_owned());
        Ok(Some((sequence, StateIndex::from_body(&body).ok_or_else(unknown)?)))
    }

    /// Reads the events of a range that are in the next part of a stored state. `None` if no part has any.
    async fn part_page(
        &self,
        state: &StreamState,
        range: &ReadRange,
        index: &StateIndex,
        head: u64,
    ) -> Result<Option<ReadPage>, ApiError> {
        let unreadable = |why: &str| ApiError::Unreadable(why.to_owned());
        let parts = if range.from < range.until { index.parts_from(range.from) } else { &[] };
        for part in parts {
            let Some(message) = self.api.message(&state.name, part.sequence).await? else {
                let subject = part_subject_of(&range.topic);
                let next = self.api.next_message(&state.name, part.sequence, &subject).await?;
                if next.is_some_and(|(at, _)| at == part.sequence) {
                    return Err(unreadable("the replica lacks a part of the state"));
                }
                // The topic has ended since, and its parts were removed. The messages from the base on have the end.
                return Ok(None);
            };
            let records = read_part(&message.payload);
            let records = records.ok_or_else(|| unreadable("a part of the state is damaged"))?;
            let mut page = PageBuilder::new(range, head).with_records_max(records.len());
            for (first, payloads) in records {
                page.push(first, Content::Events(payloads));
            }
            if !page.is_empty() {
                page.leave_out();
                let page = page.finish(OFFSET_FIRST);
                return Ok(Some(ReadPage { compacted: index.compacted, ..page }));
            }
            if part.last >= range.until {
                break;
            }
        }
        Ok(None)
    }

    /// Adds the first messages of a range to a page. Returns the sequence number of the last one, readable or not.
    async fn messages(
        &self,
        state: &StreamState,
        range: &ReadRange,
        sequences: Range<u64>,
        deadline: Instant,
        page: &mut PageBuilder,
    ) -> Result<Option<u64>, ApiError> {
        let subject = subject_of(&range.topic);
        let request = json!({
            "seq": sequences.start,
            "next_by_subj": subject,
            "batch": PAGE_MESSAGES,
            "max_bytes": PAGE_BYTES,
        });
        let mut batch = Batch::ask(&self.connection, &state.name, &request).await?;
        let mut last = None;
        loop {
            let Some(message) = batch.next(deadline).await? else { return Ok(last) };
            let (Some(sequence), Some(time_ns)) =
                (direct::sequence_of(&message), time_ns_of(&message))
            else {
                continue;
            };
            if sequence >= sequences.end {
                return Ok(last);
            }
            last = Some(sequence);
            let (headers, body) = (message.headers.as_ref(), &message.payload);
            if state.kind.has_keys() {
                let mut tallies = tallies::lock(&self.tallies[range.stream]);
                tallies.has_message(&range.topic, body.len(), Instant::now());
            }
            let subject = (state.kind, subject.as_str());
            match message::read(subject, sequence, headers, body, self.event_bytes_max) {
                Ok((_, content)) => page.push(offset_of(sequence), content.stored_at(time_ns)),
                // A condition depends on the newest message, readable or not.
                Err(_) if state.kind.has_keys() => {
                    page.push(offset_of(sequence), Content::Paused(0));
                }
                // All servers skip a message that cannot be read.
                Err(_) => {}
            }
        }
    }

    /// Asks the leader which messages the topic has in a range.
    async fn rest(
        &self,
        state: &StreamState,
        range: &ReadRange,
        sequences: Range<u64>,
    ) -> Result<Rest, ApiError> {
        if sequences.is_empty() {
            return Ok(Rest::Nothing);
        }
        let subject = subject_of(&range.topic);
        Ok(match self.api.next_message(&state.name, sequences.start, &subject).await? {
            Some((at, _)) if at < sequences.end => Rest::More,
            Some((at, true)) => Rest::Ended(at),
            Some(_) | None => Rest::Nothing,
        })
    }
}
