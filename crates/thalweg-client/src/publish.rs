//! Publishes one event idempotently, or a stream of lines.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    Method,
    body::{Body, Frame},
    header::{CONTENT_TYPE, HeaderName},
};
use serde::Deserialize;
use thalweg_wire::{Topic, event::push_text};
use tokio::{
    sync::mpsc::Receiver,
    time::{Instant, sleep},
};

use crate::{
    Client, Error, Published,
    backoff::Backoff,
    exchange::{Ask, success},
    limits::{MESSAGE_BYTES_MAX, PUBLISH_WAIT},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: &str = "idempotency-replayed";

/// Returns a text as a JSON string for [`Client::publish`].
pub fn text_event(text: &str) -> String {
    let mut out = Vec::new();
    // The client has no limit of its own here: the server's applies.
    match push_text(text.as_bytes(), MESSAGE_BYTES_MAX, &mut out) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

impl Client {
    /// Publishes one event, a JSON value ([`text_event`] makes one from a text). The client sends it with an idempotency
    /// key and retries for up to four minutes, through disconnections and restarts of the server. A server appends it
    /// once; a server that has lost its memory in between may append it again.
    ///
    /// # Errors
    /// A refusal that a retry cannot change, or [`Error::Unanswered`].
    pub async fn publish(
        &self,
        topic: &Topic,
        event: impl Into<Bytes>,
    ) -> Result<Published, Error> {
        self.publish_notify(topic, event, |_, _| {}).await
    }

    /// Publishes like [`Self::publish`]. `on_retry` receives the error of each attempt, and the wait before the next one.
    ///
    /// # Errors
    /// Those of [`Self::publish`].
    pub async fn publish_notify(
        &self,
        topic: &Topic,
        event: impl Into<Bytes>,
        mut on_retry: impl FnMut(&Error, Duration),
    ) -> Result<Published, Error> {
        let path = self.exchange.server.topic_path(topic);
        let mut ask = Ask::post(path, "application/json", event.into());
        ask.headers.push((IDEMPOTENCY_KEY, self.keys.next()));
        ask.is_repeatable = true;
        let deadline = Instant::now() + PUBLISH_WAIT;
        let mut backoff = Backoff::default();
        for attempts in 1.. {
            let error = match self.exchange.ask(&ask).await {
                Ok((headers, body)) => {
                    let mut published: Published = answer(&body)?;
                    published.is_replayed = headers.contains_key(IDEMPOTENCY_REPLAYED);
                    return Ok(published);
                }
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            let delay = backoff.next(Duration::ZERO, error.retry_after(), fastrand::f64());
            if Instant::now() + delay > deadline {
                return Err(Error::Unanswered { attempts, last: Box::new(error) });
            }
            on_retry(&error, delay);
            sleep(delay).await;
        }
        Err(Error::Ended)
    }

    /// Publishes lines on one long request until all senders of `lines` are dropped. Each piece is one or several whole
    /// lines with their line breaks, each line a JSON value. This is fast but not idempotent: after a disconnection the
    /// client does not know which of the last lines were appended.
    ///
    /// ```no_run
    /// # async fn example(client: thalweg_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let (sender, lines) = tokio::sync::mpsc::channel(16);
    /// tokio::spawn(async move {
    ///     for row in 0..1000 {
    ///         // Waits while the server is slower, and fails after the end of the request.
    ///         if sender.send(format!("{{\"row\":{row}}}\n").into()).await.is_err() {
    ///             return;
    ///         }
    ///     }
    /// });
    /// let published = client.publish_lines(&"rows".parse()?, lines).await?;
    /// println!("{} rows", published.count);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A refusal, whose [`crate::Refusal::published`] has the events appended before it, or the end of the connection.
    pub async fn publish_lines(
        &self,
        topic: &Topic,
        lines: Receiver<Bytes>,
    ) -> Result<Published, Error> {
        let exchange = &self.exchange;
        let headers = [(CONTENT_TYPE, "application/x-ndjson".to_owned())];
        let body = PublishedLines(lines).boxed_unsync();
        let path = exchange.server.topic_path(topic);
        let request = exchange.request(Method::POST, &path, &headers, body)?;
        let mut link = exchange.open(None).await?;
        let response = success(link.send(&exchange.server, request).await?).await?;
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| Error::connection("the answer was cut", error))?;
        answer(&body.to_bytes())
    }
}

pub(crate) fn answer<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::InvalidAnswer(format!("the answer is invalid ({error})")))
}

/// A body that continues while lines come.
#[derive(Debug)]
struct PublishedLines(Receiver<Bytes>);

impl Body for PublishedLines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|lines| lines.map(|lines| Ok(Frame::data(lines))))
    }
}
