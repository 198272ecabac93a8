//! Older messages of one topic, a page at a time. Any replica can answer a direct get. A replica has the
//! messages in order, but may lack the newest ones. A page therefore has no holes up to its last message, and
//! the leader tells whether the range has more.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;
use thalweg_broker::{LogThrottle, PageBuilder, ReadPage, ReadRange, Unreadable};
use tokio::time::Instant;

use crate::{
    api::{Api, ApiError},
    connection::Connection,
    counts::{Counts, add},
    direct::{self, Batch, time_ns_of},
    message, now_us,
    offsets::{EVENTS_MAX, offset_of, sequence_of},
    settings::subject_of,
    setup,
    stream_state::StreamState,
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

    async fn page(&self, range: &ReadRange, is_newest: bool) -> Result<ReadPage, ApiError> {
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
        Ok(page.finish(offset_of(first_sequence)))
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
            // All servers skip a message that cannot be read.
            if let Ok((_, content)) =
                message::read(&subject, sequence, headers, body, self.event_bytes_max)
            {
                page.push(offset_of(sequence), content.stored_at(time_ns));
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
