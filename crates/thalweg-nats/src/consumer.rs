//! A stream's consumer: made, followed, and made again whenever it may have lost something.
//!
//! It is an ephemeral push consumer without a filter: JetStream sends messages as they come, and reads
//! each once for this server, whatever topics there are.
//!
//! Consumers are made by the meta leader, and a stream may have all it needs while there is none. So
//! as long as no consumer can be made, the stream is read by direct get.

use std::time::Duration;

use async_nats::{HeaderName, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use thalweg_server::now_us;
use tokio::{sync::watch, time::Instant};

use crate::{
    api::{Api, ApiError, RETRY_PAUSE},
    counts::add,
    end::Target,
    reader::{Came, Lost, Reader},
    reply::place_of,
    setup,
};

/// How often a consumer that has nothing to send says so.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// A consumer that says nothing for so long is lost: three heartbeats.
const SILENCE: Duration = Duration::from_millis(750);

/// How long JetStream keeps a consumer that nobody listens to.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(30);

/// How long JetStream may take to answer the first attempt to make a consumer: a server that has just
/// gone takes what it was sent with it. Later attempts have the usual time.
const FIRST_TIMEOUT: Duration = Duration::from_millis(250);

const LAST_CONSUMER: HeaderName = HeaderName::from_static("Nats-Last-Consumer");
const CONSUMER_STALLED: HeaderName = HeaderName::from_static("Nats-Consumer-Stalled");

struct Consumer {
    name: String,
    messages: Subscriber,
    losses: watch::Receiver<u64>,
}

impl<T: Target> Reader<T> {
    /// Reads, for ever.
    pub(crate) async fn run(mut self) {
        loop {
            let consumer = self.consumer().await;
            let (name, made) = (consumer.name.clone(), Instant::now());
            let lost = self.follow(consumer).await;
            add(&self.counts.recreations);
            tracing::warn!(
                stream = self.state.name,
                next = self.sequence.stream_next(),
                "lost the consumer of a stream ({lost:?}): making another"
            );
            self.delete(name);
            if made.elapsed() < HEARTBEAT {
                // Whatever ends them at once must not have them made without a pause.
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Has a consumer deleted. Best effort: JetStream forgets it by itself.
    fn delete(&self, name: String) {
        let (api, stream) = (self.api.clone(), self.state.name.clone());
        tokio::spawn(async move { api.delete_consumer(&stream, &name).await });
    }

    /// Makes a consumer, with as many attempts as it takes.
    async fn consumer(&mut self) -> Consumer {
        let mut api = self.api.with_timeout(FIRST_TIMEOUT);
        loop {
            let error = match self.try_consumer(&api).await {
                Ok(Some(consumer)) => {
                    if std::mem::take(&mut self.notes.is_direct) {
                        let (stream, next) = (&self.state.name, self.sequence.stream_next());
                        tracing::info!(
                            stream,
                            next,
                            "a stream that was read without a consumer has one"
                        );
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
                tracing::warn!(stream, times, "cannot make a consumer: {error}; trying on");
            }
            self.read_until(tokio::time::sleep(RETRY_PAUSE)).await;
        }
    }

    /// `None` if the stream must be looked at again before.
    async fn try_consumer(&mut self, api: &Api) -> Result<Option<Consumer>, ApiError> {
        // Losses from here on end the consumer.
        let losses = self.connection.losses();
        let stream = self.state.name.clone();
        let looked = api.stream_info(&stream).await;
        if looked.as_ref().is_err_and(ApiError::is_not_found) {
            self.make_again().await?;
        }
        let info = looked?;
        self.notes.missing = 0;
        if !self.take_look(&info).await? {
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
        // It may begin before what is read meanwhile, which is old then.
        let made = self.read_until(api.create_consumer(&stream, &name, &config)).await;
        let info = match made {
            Ok(info) => info,
            Err(error) => {
                if matches!(error, ApiError::Unanswered(_)) {
                    // It may be made yet.
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

    /// Takes a heartbeat or a request of flow control.
    async fn take_control(&mut self, message: &Message) -> Result<(), Lost> {
        self.state.health().heard(Instant::now());
        let header = |name| message.headers.as_ref().and_then(|headers| headers.get(name));
        let stalled = header(CONSUMER_STALLED).map(|reply| reply.as_str().to_owned());
        let flow = message.reply.as_ref().map(ToString::to_string);
        if let Some(last) = header(LAST_CONSUMER) {
            let is_whole = last.as_str().parse().is_ok_and(|last| self.sequence.agrees(last));
            if !is_whole {
                return Err(Lost::Hole);
            }
            if stalled.is_none() {
                // It has nothing to send.
                self.state.health().pending(0, Instant::now());
            }
        }
        // The answer asks for more: all messages before this one were taken.
        if let Some(reply) = flow.or(stalled) {
            let answered = self.connection.client.publish(reply, Bytes::new()).await;
            return answered.map_err(|_| Lost::Connection);
        }
        Ok(())
    }

    async fn take(&mut self, message: &Message) -> Result<(), Lost> {
        // A message without a consumer's numbers is not of this stream.
        let Some(place) = message.reply.as_deref().and_then(place_of) else { return Ok(()) };
        let step = self.sequence.take(place.stream_sequence, place.consumer_sequence);
        let came = Came {
            message,
            subject: &message.subject,
            sequence: place.stream_sequence,
            time_ns: place.time_ns,
            pending: place.pending,
        };
        self.take_step(step, came).await
    }
}
