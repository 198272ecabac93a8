//! Checks with subscriptions: whether a transport opens, whether each message arrives at once, and whether a stream without
//! events stays open.
//!
//! The server confirms a subscription at once, and sends a heartbeat when there is nothing else to send. Both reveal a path
//! that holds data back to a client that may not publish.

use std::time::Duration;

use thalweg_client::{Client, Error, Refusal, Subscribe, Subscription, Topic, Transport, Update};
use tokio::time::{Instant, timeout, timeout_at};

use super::remedies::{BUFFERED, COMPRESSED, ENDED, IDLE, SILENT, UPGRADE};

/// Events that are published one after the other, each when the one before has arrived.
const EVENTS: u32 = 3;

/// A stream that is silent for `idle` has ended before this has passed, too.
const SLACK: Duration = Duration::from_secs(1);

/// The checks of one transport.
#[derive(Debug)]
pub(super) struct StreamCheck {
    pub(super) client: Client,
    pub(super) topic: Topic,
    pub(super) transport: Transport,
    /// A message that takes longer is late.
    pub(super) wait: Duration,
    /// Whether to publish to the topic.
    pub(super) publishes: bool,
}

#[derive(Debug)]
pub(super) enum Trouble {
    /// This did not arrive in time.
    Late(&'static str),
    /// The answer to a publish did not arrive in time, after any retries.
    LatePublish,
    /// Late if the client accepts compressed responses, and on time otherwise.
    Compressed,
    /// The handshake of a WebSocket got this status.
    NoUpgrade(u16),
    Refused(Box<Refusal>),
    Invalid(String),
    Cut(String),
    /// The stream ended after this time, with events.
    CutEarly(Duration, String),
    /// The stream ended after this time without data.
    CutIdle(Duration, String),
    /// Not even a heartbeat came in this time.
    Silent(Duration),
}

impl StreamCheck {
    /// Subscribes, and publishes some events if that is allowed. Returns the longest wait for a message.
    pub(super) async fn carry(&self) -> Result<Duration, Trouble> {
        let carried = self.carry_with(true).await;
        let is_streamed = matches!(self.transport, Transport::Sse | Transport::HttpStreaming);
        match carried {
            Err(Trouble::Late(_)) if is_streamed && self.carry_with(false).await.is_ok() => {
                Err(Trouble::Compressed)
            }
            carried => carried,
        }
    }

    /// Does the same as [`Self::carry`] once. `compress`: accept compressed responses, as browsers do.
    async fn carry_with(&self, compress: bool) -> Result<Duration, Trouble> {
        let begun = Instant::now();
        let mut subscription = self.open(&self.client, compress).await?;
        let mut slowest = begun.elapsed();
        let events = if self.publishes { EVENTS } else { 0 };
        for number in 1..=events {
            let event = format!("\"{number}, compress {compress}\"");
            let is_it = |update: &Update| match update {
                Update::Events(events) => events.iter().any(|(_, text)| text == event),
                _ => false,
            };
            let begun = Instant::now();
            // A poll has begun when the event is published.
            let (received, published) = tokio::join!(
                self.until(&mut subscription, "an event", is_it),
                timeout(self.wait, self.client.publish(&self.topic, event.clone())),
            );
            published.map_err(|_| Trouble::LatePublish)??;
            received?;
            slowest = slowest.max(begun.elapsed());
        }
        subscription.close().await;
        Ok(slowest)
    }

    /// Returns a confirmed subscription.
    async fn open(&self, client: &Client, compress: bool) -> Result<Subscription, Trouble> {
        let subscribe =
            Subscribe { transport: Some(self.transport), compress, ..Subscribe::default() };
        let mut subscription = client.subscribe(vec![self.topic.clone()], subscribe)?;
        let is_it = |update: &Update| matches!(update, Update::Connected(_));
        self.until(&mut subscription, "the confirmation of a subscription", is_it).await?;
        Ok(subscription)
    }

    /// Waits for an update.
    async fn until(
        &self,
        subscription: &mut Subscription,
        name: &'static str,
        is_it: impl Fn(&Update) -> bool,
    ) -> Result<(), Trouble> {
        let waiting = async {
            loop {
                let update = subscription.next().await?;
                if is_it(&update) {
                    return Ok(());
                }
                if let Some(why) = ends(&update) {
                    return Err(Trouble::Cut(why));
                }
            }
        };
        timeout(self.wait, waiting).await.unwrap_or(Err(Trouble::Late(name)))
    }

    /// Keeps a stream open for `idle`. `client` takes a connection that is silent for this long for dead. Returns whether
    /// the stream carried events, so that it was not idle.
    pub(super) async fn rest(&self, client: &Client, idle: Duration) -> Result<bool, Trouble> {
        let mut subscription = self.open(client, true).await?;
        let begun = Instant::now();
        let mut has_events = false;
        while let Ok(update) = timeout_at(begun + idle + SLACK, subscription.next()).await {
            let update = update?;
            has_events |= matches!(update, Update::Events(_));
            if let Some(why) = ends(&update) {
                let lived = begun.elapsed();
                return Err(match lived >= idle {
                    true => Trouble::Silent(idle),
                    false if has_events => Trouble::CutEarly(lived, why),
                    false => Trouble::CutIdle(lived, why),
                });
            }
        }
        subscription.close().await;
        Ok(has_events)
    }
}

impl Trouble {
    /// Returns one sentence about a transport, and the remedy.
    pub(super) fn explain(&self, transport: Transport, wait: Duration) -> (String, &'static str) {
        let is_socket = transport == Transport::WebSocket;
        match self {
            Self::Late(name) if is_socket => {
                (format!("{name} does not arrive within {wait:?}"), UPGRADE)
            }
            Self::Late(name) => (
                format!("the path holds data back: {name} does not arrive within {wait:?}"),
                BUFFERED,
            ),
            Self::LatePublish => (format!("a publish is not answered within {wait:?}"), ENDED),
            Self::Compressed => {
                let sentence = format!(
                    "a proxy compresses the stream and holds data back: messages arrive within {wait:?} only without Accept-Encoding"
                );
                (sentence, COMPRESSED)
            }
            Self::NoUpgrade(status) => {
                (format!("the path strips the upgrade to a WebSocket (status {status})"), UPGRADE)
            }
            Self::Refused(refusal) => (refusal.to_string(), ""),
            Self::Invalid(why) => (why.clone(), ""),
            Self::Cut(why) => (format!("the connection ends at once: {why}"), ENDED),
            Self::CutEarly(lived, why) => {
                let seconds = lived.as_secs_f64();
                (format!("a stream ends after {seconds:.1} s: {why}"), ENDED)
            }
            Self::CutIdle(lived, why) => {
                let seconds = lived.as_secs_f64();
                (format!("a stream without events ends after {seconds:.1} s: {why}"), IDLE)
            }
            Self::Silent(idle) => (format!("no heartbeat arrives within {idle:?}"), SILENT),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::NoWebSocket(status) => Self::NoUpgrade(status),
            Error::Refused(refusal) => Self::Refused(refusal),
            Error::Connection(why) => Self::Cut(why),
            error => Self::Invalid(error.to_string()),
        }
    }
}

/// Returns why the connection of a subscription has ended.
fn ends(update: &Update) -> Option<String> {
    match update {
        Update::Disconnected(end) => Some(end.why.clone()),
        Update::Closed(closed) => Some(format!("{} ({})", closed.reason, closed.code)),
        Update::Ended(end) => Some(format!("the topic has ended: {}", end.reason)),
        _ => None,
    }
}
