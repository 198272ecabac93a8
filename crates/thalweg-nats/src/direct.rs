//! Direct gets: any replica of a stream answers them, from its stored messages. A replica has messages in the order of the stream,
//! but may lack the newest. Direct gets need no consumer, so they read a stream while none can be created.

use std::time::{Duration, UNIX_EPOCH};

use async_nats::{HeaderName, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::{
    api::{Api, ApiError},
    connection::Connection,
    setup,
    stream_state::StreamState,
};

/// Limits of a page. Forty pages a second have more messages than a stream usually gets.
const PAGE_MESSAGES: usize = 1024;
const PAGE_BYTES: usize = 1 << 20;

/// The timeout of each answer that a page needs. A server that is up answers within a few milliseconds; the next
/// attempt may reach another server.
const DIRECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The time for which a page that has messages is filled. The page is complete before the next attempt to create a
/// consumer drops it, even if the leader must be asked often.
const FILL: Duration = Duration::from_millis(100);

/// The status of the answer after the last message of a batch.
const END_OF_BATCH: u16 = 204;

const SEQUENCE: HeaderName = HeaderName::from_static("Nats-Sequence");
const SUBJECT: HeaderName = HeaderName::from_static("Nats-Subject");
const TIME: HeaderName = HeaderName::from_static("Nats-Time-Stamp");

pub(crate) struct Batch(Subscriber);

impl Batch {
    pub(crate) async fn ask(
        connection: &Connection,
        stream: &str,
        request: &Value,
    ) -> Result<Self, ApiError> {
        let client = &connection.client;
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let answers = answers.map_err(|error| unreadable(&error))?;
        let (subject, body) = (format!("$JS.API.DIRECT.GET.{stream}"), request.to_string());
        let sent = client.publish_with_reply(subject, inbox, body.into()).await;
        sent.map_err(|error| unreadable(&error))?;
        Ok(Self(answers))
    }

    /// Returns the next message; `None` after the last one.
    pub(crate) async fn next(&mut self, deadline: Instant) -> Result<Option<Message>, ApiError> {
        let answer = timeout_at(deadline, self.0.next()).await;
        let message = answer.map_err(|_| unreadable(&"no answer came in time"))?;
        let message = message.ok_or_else(|| unreadable(&"the connection has ended"))?;
        match message.status {
            None => Ok(Some(message)),
            Some(StatusCode::NOT_FOUND) => Ok(None),
            Some(status) if status.as_u16() == END_OF_BATCH => Ok(None),
            Some(status) => Err(unreadable(&format!("status {status}"))),
        }
    }
}

/// Returns the sequence number of a message from a direct get.
pub(crate) fn sequence_of(message: &Message) -> Option<u64> {
    header(message, SEQUENCE)?.parse().ok()
}

/// Returns when a message from a direct get was stored, in ns since 1970.
pub(crate) fn time_ns_of(message: &Message) -> Option<u64> {
    let time = humantime::parse_rfc3339(header(message, TIME)?).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Messages of all subjects without a hole.
pub(crate) struct Page {
    pub(crate) messages: Vec<DirectMessage>,
    /// The last sequence number of the stream, from its leader.
    pub(crate) last_sequence: u64,
}

pub(crate) struct DirectMessage {
    pub(crate) subject: String,
    pub(crate) sequence: u64,
    pub(crate) time_ns: u64,
    pub(crate) message: Message,
}

/// Reads a stream from `next` on, as far as the replica that answers has it. Fails if the messages cannot be read, or the leader
/// does not confirm afterwards that the stream is still the same.
pub(crate) async fn page(
    connection: &Connection,
    api: &Api,
    state: &StreamState,
    next: u64,
) -> Result<Page, ApiError> {
    if !connection.is_up() {
        return Err(unreadable(&"there is no connection"));
    }
    let api = api.with_timeout(DIRECT_TIMEOUT);
    let messages = messages(connection, &api, &state.name, next).await?;
    let info = api.stream_info(&state.name).await?;
    if setup::epoch(&info) != Some(state.epoch()) {
        state.suspect.notify_one();
        return Err(unreadable(&"the stream has another epoch"));
    }
    let read_to = messages.last().map_or(next, |last| last.sequence + 1);
    let last_sequence = info.state.last_seq;
    if last_sequence + 1 < read_to {
        return Err(unreadable(&"the leader of the stream lacks messages"));
    }
    Ok(Page { messages, last_sequence })
}

async fn messages(
    connection: &Connection,
    api: &Api,
    stream: &str,
    mut next: u64,
) -> Result<Vec<DirectMessage>, ApiError> {
    // Without a subject, the answer has messages of all subjects.
    let request = json!({ "seq": next, "batch": PAGE_MESSAGES, "max_bytes": PAGE_BYTES });
    let mut batch = Batch::ask(connection, stream, &request).await?;
    let (begun, mut deadline) = (Instant::now(), Instant::now() + DIRECT_TIMEOUT);
    let mut messages = Vec::new();
    while begun.elapsed() < FILL || messages.is_empty() {
        let message = match batch.next(deadline).await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(messages),
            Err(error) if messages.is_empty() => return Err(error),
            // The messages so far are valid.
            Err(_) => return Ok(messages),
        };
        let Some(found) = found(message) else { return Ok(messages) };
        let sequence = found.sequence;
        let is_next = sequence == next
            || (sequence > next && is_removed(api, stream, next, sequence).await?);
        if !is_next {
            return Ok(messages);
        }
        next = sequence + 1;
        messages.push(found);
        deadline = begun + FILL;
    }
    Ok(messages)
}

/// Asks the leader whether the stream has no messages from `next` up to `sequence`. Otherwise the replica lacks them, or
/// they were lost on the way.
async fn is_removed(api: &Api, stream: &str, next: u64, sequence: u64) -> Result<bool, ApiError> {
    let found = api.next_message(stream, next, ">").await?.map(|(sequence, _)| sequence);
    Ok(found.is_some_and(|found| found >= sequence))
}

fn found(message: Message) -> Option<DirectMessage> {
    let sequence = sequence_of(&message)?;
    let subject = header(&message, SUBJECT)?.to_owned();
    let time_ns = time_ns_of(&message)?;
    Some(DirectMessage { subject, sequence, time_ns, message })
}

/// Returns a header of the NATS server, which comes after those of the publisher.
fn header(message: &Message, name: HeaderName) -> Option<&str> {
    Some(message.headers.as_ref()?.get_last(name)?.as_str())
}

fn unreadable(why: &dyn std::fmt::Display) -> ApiError {
    ApiError::Unreadable(why.to_string())
}
