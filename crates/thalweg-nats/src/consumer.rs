//! A stream's consumer, which is created again whenever messages may have been lost.
//!
//! It is an ephemeral push consumer without a filter: JetStream pushes each stored message once to this
//! server, for all topics. Only the meta leader can create consumers. While there is none, the server reads
//! an available stream with direct gets.

use std::time::Duration;

use async_nats::{HeaderName, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use thalweg_broker::Follower;
use tokio::{sync::watch, time::Instant};

use crate::{
    api::{Api, ApiError, RETRY_PAUSE},
    counts::add,
    now_us,
    reader::{Lost, Reader, Received},
    reply::parse_reply,
    setup,
};

const HEARTBEAT: Duration = Duration::from_millis(250);

/// A consumer that sends nothing for this time, three heartbeats, is lost.
const SILENCE: Duration = Duration::from_millis(750);

/// The time for which JetStream keeps a consumer without a subscriber.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(30);

/// The timeout of the first attempt to create a consumer. It is short, because a server that has just failed
/// may lose the request. Later attempts have the usual timeout.
const FIRST_TIMEOUT: Duration = Duration::from_millis(250);

const LAST_CONSUMER: HeaderName = HeaderName::from_static("Nats-Last-Consumer");
const CONSUMER_STALLED: HeaderName = HeaderName::from_static("Nats-Consumer-Stalled");

struct Consumer {
    name: String,
    messages: Subscriber,
    losses: watch::Receiver<u64>,
}

impl<F: Follower> Reader<F> {
    /// Reads the stream. Never returns.
    pub(crate) async fn run(mut self) {
        loop {
            let consumer = self.consumer().await;
            let (name, made) = (consumer.name.clone(), Instant::now());
            let lost = self.follow(consumer).await;
            add(&self.counts.recreations);
            tracing::warn!(
                stream = self.state.name,
                next = self.sequence.stream_next(),
                "lost the consumer of a stream ({lost:?}): creating another"
            );
            self.delete(name);
            if made.elapsed() < HEARTBEAT {
                // Do not create consumers that end at once in a tight loop.
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Deletes a consumer. Best effort: JetStream removes it by itself later.
    fn delete(&self, name: String) {
        let (api, stream) = (self.api.clone(), self.state.name.clone());
        tokio::spawn(async move { api.delete_consumer(&stream, &name).await });
    }

    /// Creates a consumer, with as many attempts as necessary.
    async fn consumer(&mut self) -> Consumer {
        let mut api = self.api.with_timeout(FIRST_TIMEOUT);
        loop {
            let error = match self.try_consumer(&api).await {
                Ok(Some(consumer)) => {
                    if std::mem::take(&mut self.notes.is_direct) {
                        let (stream, next) = (&self.state.name, self.sequence.stream_next());
                        tracing::info!(stream, next, "the stream is read by a consumer now");
                    }
                    return consumer;
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            api = self.api.clone();
            if let Some(error) = error
                && let Some(times) = self.notes.failed.take(1, now_us())
            {
                let stream = &self.state.name;
                tracing::warn!(stream, times, "cannot create a consumer: {error}; retrying");
            }
            self.read_until(tokio::time::sleep(RETRY_PAUSE)).await;
        }
    }

    /// Tries to create a consumer. Returns `None` if the stream must be checked again first.
    async fn try_consumer(&mut self, api: &Api) -> Result<Option<Consumer>, ApiError> {
        // If the connection loses messages from here on, the consumer ends.
        let losses = self.connection.losses();
        let stream = self.state.name.clone();
        let info = api.stream_info(&stream).await;
        if info.as_ref().is_err_and(ApiError::is_not_found) {
            self.create_again().await?;
        }
        let info = info?;
        self.notes.missing = 0;
        if !self.check_epoch(&info).await? {
            return Ok(None);
        }
        let name = format!("thalweg-{:016x}", fastrand::u64(..));
        let inbox = self.connection.client.new_inbox();
        let messages = self.connection.client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|error| ApiError::Unreadable(error.to_string()))?;
        let config = json!({
            "name": name,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.sequence.stream_next(),
            "ack_policy": "none",
            "replay_policy": "instant",
            "idle_heartbeat": setup::nanos(HEARTBEAT),
            "flow_control": true,
            "inactive_threshold": setup::nanos(INACTIVE_THRESHOLD),
            "mem_storage": true,
            "num_replicas": 1,
        });
        // While the consumer is created, the server reads on with direct gets. If the consumer sends these
        // messages again, they are ignored as old.
        let made = self.read_until(api.create_consumer(&stream, &name, &config)).await;
        let info = match made {
            Ok(info) => info,
            Err(error) => {
                if matches!(error, ApiError::Unanswered(_)) {
                    // JetStream may still create the consumer.
                    self.delete(name);
                }
                return Err(error);
            }
        };
        self.sequence.restart_consumer();
        self.state.health().pending(info.num_pending, Instant::now());
        Ok(Some(Consumer { name, messages, losses }))
    }

    async fn follow(&mut self, mut consumer: Consumer) -> Lost {
        loop {
            let ready = consumer.messages.next().now_or_never();
            let message = match ready {
                Some(message) => message,
                None => tokio::select! {
                    biased;
                    message = consumer.messages.next() => message,
                    _ = consumer.losses.changed() => return Lost::Connection,
                    () = self.state.changed.notified() => return Lost::Changed,
                    () = tokio::time::sleep(SILENCE) => return Lost::Silence,
                },
            };
            let Some(message) = message else { return Lost::Connection };
            let taken = match message.status {
                Some(StatusCode::IDLE_HEARTBEAT) => self.take_control(&message).await,
                Some(_) => Err(Lost::Ended),
                None => self.take(&message).await,
            };
            if let Err(lost) = taken {
                return lost;
            }
        }
    }

    async fn take_control(&mut self, message: &Message) -> Result<(), Lost> {
        self.state.health().received(Instant::now());
        let header = |name| message.headers.as_ref().and_then(|headers| headers.get(name));
        let stalled = header(CONSUMER_STALLED).map(|reply| reply.as_str().to_owned());
        let flow = message.reply.as_ref().map(ToString::to_string);
        if let Some(last) = header(LAST_CONSUMER) {
            let is_whole = last.as_str().parse().is_ok_and(|last| self.sequence.agrees(last));
            if !is_whole {
                return Err(Lost::Hole);
            }
            if stalled.is_none() {
                // The consumer has delivered all messages.
                self.state.health().pending(0, Instant::now());
            }
        }
        // The answer confirms all messages before this one, and JetStream sends more.
        if let Some(reply) = flow.or(stalled) {
            let answered = self.connection.client.publish(reply, Bytes::new()).await;
            return answered.map_err(|_| Lost::Connection);
        }
        Ok(())
    }

    async fn take(&mut self, message: &Message) -> Result<(), Lost> {
        // A message without a consumer's sequence numbers is not from this stream.
        let Some(reply) = message.reply.as_deref().and_then(parse_reply) else { return Ok(()) };
        let step = self.sequence.take(reply.stream_sequence, reply.consumer_sequence);
        let received = Received {
            message,
            subject: &message.subject,
            sequence: reply.stream_sequence,
            time_ns: reply.time_ns,
            pending: reply.pending,
        };
        self.take_step(step, received).await
    }
}
