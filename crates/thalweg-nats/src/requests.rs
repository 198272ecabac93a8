//! Requests, each with a deadline.
//!
//! The client library's own requests keep a place for an answer that never comes, for ever. While
//! nothing answers, publishers that go on trying would fill the memory. Here a request that ends for
//! whatever reason leaves nothing behind.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_nats::{HeaderMap, Message, PublishErrorKind, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::connection::Connection;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It was not sent, because there is no connection.
    NotSent,
    /// It was sent, and nobody takes such requests now.
    NoResponders,
    /// It was sent, and the connection was lost since.
    Lost,
    /// It was sent, and no answer came in time.
    Timeout,
    /// It is larger than the server takes.
    TooLarge,
}

/// Sends requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    connection: Connection,
    inbox: Arc<str>,
    waiting: Arc<Waiting>,
}

/// Who waits for an answer, by the last token of its subject.
#[derive(Debug, Default)]
struct Waiting {
    next: AtomicU64,
    by_token: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
}

impl Requests {
    /// Subscribes to answers, and passes them on as long as there is a `Requests`.
    ///
    /// # Errors
    /// When there is no connection any more.
    pub(crate) async fn new(connection: Connection) -> Result<Self, String> {
        let inbox: Arc<str> = connection.client.new_inbox().into();
        let answers = connection.client.subscribe(format!("{inbox}.*")).await;
        let answers = answers.map_err(|error| format!("cannot subscribe to answers: {error}"))?;
        let waiting = Arc::<Waiting>::default();
        tokio::spawn(pass_on(answers, connection.clone(), Arc::downgrade(&waiting)));
        Ok(Self { connection, inbox, waiting })
    }

    /// The connection they take.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a request and waits for the answer, for `timeout` at most.
    ///
    /// # Errors
    /// When there is none. Whether the request was sent, [`Unanswered`] says.
    pub(crate) async fn send(
        &self,
        subject: String,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Message, Unanswered> {
        if !self.connection.is_up() {
            return Err(Unanswered::NotSent);
        }
        let deadline = Instant::now() + timeout;
        let (sender, receiver) = oneshot::channel();
        let place = self.waiting.enter(sender);
        let reply = format!("{}.{}", self.inbox, place.token);
        let client = &self.connection.client;
        let sent = client.publish_with_reply_and_headers(subject, reply, headers, body);
        match timeout_at(deadline, sent).await {
            // What waits for room with the client library is not with it.
            Err(_) => return Err(Unanswered::NotSent),
            Ok(Err(error)) => return Err(not_sent(error.kind())),
            Ok(Ok(())) => {}
        }
        match timeout_at(deadline, receiver).await {
            Err(_) => Err(Unanswered::Timeout),
            Ok(Err(_)) => Err(Unanswered::Lost),
            Ok(Ok(answer)) if answer.status == Some(StatusCode::NO_RESPONDERS) => {
                Err(Unanswered::NoResponders)
            }
            Ok(Ok(answer)) => Ok(answer),
        }
    }
}

fn not_sent(kind: PublishErrorKind) -> Unanswered {
    match kind {
        PublishErrorKind::MaxPayloadExceeded => Unanswered::TooLarge,
        // A topic makes no invalid subject, so that only the connection is left.
        PublishErrorKind::Send | PublishErrorKind::InvalidSubject => Unanswered::NotSent,
    }
}

/// Passes answers to whom they are for. A lost connection ends all waiting.
async fn pass_on(
    mut answers: Subscriber,
    connection: Connection,
    waiting: std::sync::Weak<Waiting>,
) {
    let mut losses = connection.losses();
    loop {
        let answer = tokio::select! {
            biased;
            answer = answers.next() => answer,
            Ok(()) = losses.changed() => {
                let Some(waiting) = waiting.upgrade() else { return };
                waiting.lock().clear();
                continue;
            }
        };
        let (Some(answer), Some(waiting)) = (answer, waiting.upgrade()) else { return };
        let token = answer.subject.rsplit('.').next().and_then(|token| token.parse().ok());
        if let Some(sender) = token.and_then(|token: u64| waiting.lock().remove(&token)) {
            // Who does not wait any more needs no answer.
            let _ = sender.send(answer);
        }
    }
}

impl Waiting {
    fn enter(self: &Arc<Self>, sender: oneshot::Sender<Message>) -> Place {
        let token = self.next.fetch_add(1, Relaxed);
        self.lock().insert(token, sender);
        Place { token, waiting: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Message>>> {
        // Nothing that is done with it can be left half done.
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who wait, left when it is dropped.
struct Place {
    token: u64,
    waiting: Arc<Waiting>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_wait_any_more_leaves_nothing() {
        let waiting = Arc::<Waiting>::default();
        let places: Vec<_> = (0..3).map(|_| waiting.enter(oneshot::channel().0)).collect();
        assert_eq!(waiting.lock().len(), 3);
        drop(places);
        assert!(waiting.lock().is_empty());
    }
}
