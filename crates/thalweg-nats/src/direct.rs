//! Direct gets: any replica of a stream answers them, from what it has stored.
//!
//! A replica has messages in the order of the stream, but may lack the newest.

use async_nats::{HeaderName, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::{api::ApiError, connection::Connection};

/// The status of the answer after the last message of a batch.
const END_OF_BATCH: u16 = 204;

const SEQUENCE: HeaderName = HeaderName::from_static("Nats-Sequence");

/// Answers to a request for several messages.
pub(crate) struct Batch(Subscriber);

impl Batch {
    /// Asks for the messages that `request` means.
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

    /// The next message. `None` after the last, or if there is none.
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

/// The number of a message that a direct get brought.
pub(crate) fn sequence_of(message: &Message) -> Option<u64> {
    header(message, SEQUENCE)?.parse().ok()
}

/// The server's headers come after those of whoever stored the message.
fn header(message: &Message, name: HeaderName) -> Option<&str> {
    Some(message.headers.as_ref()?.get_last(name)?.as_str())
}

fn unreadable(why: &dyn std::fmt::Display) -> ApiError {
    ApiError::Unreadable(why.to_string())
}
