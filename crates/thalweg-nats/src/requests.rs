//! Requests, each with a deadline. The client library's own requests keep memory for an answer that never comes, so publishers
//! that retry while no server answers would fill the memory. A request of this module frees its memory when it ends.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The request was not sent, because there is no connection.
    NotSent,
    /// The request was sent, and no server takes such requests now.
    NoResponders,
    /// The request was sent, and the connection has been lost since.
    Lost,
    /// The request was sent, and no answer came in time.
    Timeout,
    /// The request is larger than the server accepts.
    TooLarge,
}

#[derive(Debug, Clone)]
pub(crate) struct Requests {
    connection: Connection,
    inbox: Arc<str>,
    waiting: Arc<Waiting>,
}

/// The requests that wait for an answer, by the last token of its subject.
#[derive(Debug, Default)]
struct Waiting {
    next: AtomicU64,
    by_token: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
}

impl Requests {
    /// Subscribes to answers, and forwards them as long as there is a `Requests`. Fails without a connection.
    pub(crate) async fn new(connection: Connection) -> Result<Self, String> {
        let inbox: Arc<str> = connection.client.new_inbox().into();
        let answers = connection.client.subscribe(format!("{inbox}.*")).await;
        let answers = answers.map_err(|error| format!("cannot subscribe to answers: {error}"))?;
        let waiting = Arc::<Waiting>::default();
        tokio::spawn(forward(answers, connection.clone(), Arc::downgrade(&waiting)));
        Ok(Self { connection, inbox, waiting })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a request and waits for the answer, for `timeout` at most. Otherwise returns the reason why there is no answer.
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
        let pending = self.waiting.enter(sender);
        let reply = format!("{}.{}", self.inbox, pending.token);
        let client = &self.connection.client;
        let sent = client.publish_with_reply_and_headers(subject, reply, headers, body);
        match timeout_at(deadline, sent).await {
            // A message that waits for room in the client library is not sent.
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
        // The subject of a topic is valid, so only the connection can fail.
        PublishErrorKind::Send | PublishErrorKind::InvalidSubject => Unanswered::NotSent,
    }
}

/// Forwards answers to their requests. A lost connection ends all requests.
async fn forward(
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
            // The request may have ended.
            let _ = sender.send(answer);
        }
    }
}

impl Waiting {
    fn enter(self: &Arc<Self>, sender: oneshot::Sender<Message>) -> Pending {
        let token = self.next.fetch_add(1, Relaxed);
        self.lock().insert(token, sender);
        Pending { token, waiting: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Message>>> {
        // A panic leaves no change half done.
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits, until it is dropped.
struct Pending {
    token: u64,
    waiting: Arc<Waiting>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_ends_frees_its_memory() {
        let waiting = Arc::<Waiting>::default();
        let pending: Vec<_> = (0..3).map(|_| waiting.enter(oneshot::channel().0)).collect();
        assert_eq!(waiting.lock().len(), 3);
        drop(pending);
        assert!(waiting.lock().is_empty());
    }
}
