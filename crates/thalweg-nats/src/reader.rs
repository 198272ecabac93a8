//! Reading a stream: its messages are delivered to the server, each once and in order. They come from a consumer, or from direct
//! gets while no consumer can be created.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_nats::Message;
use serde_json::Value;
use thalweg_broker::{Content, Delivery, Follower, LogThrottle};
use tokio::time::Instant;

use crate::{
    api::Api,
    connection::Connection,
    counts::{Counts, add},
    incarnation::Suspicion,
    message, now_us,
    offsets::offset_of,
    sequence::{Sequence, Step},
    settings::{is_part, topic_of, topic_of_index},
    stored_state::StateIndex,
    stream_state::StreamState,
    tallies::{self, Tallies},
};

#[derive(Debug)]
pub(crate) struct Reader<F> {
    pub(crate) index: usize,
    pub(crate) state: Arc<StreamState>,
    /// The configuration with which the stream is created again.
    pub(crate) config: Value,
    /// The age from which on a stream with a new epoch is read.
    pub(crate) warm: Duration,
    /// Maximum size of an event from other publishers.
    pub(crate) event_bytes_max: usize,
    pub(crate) api: Api,
    pub(crate) connection: Connection,
    pub(crate) follower: F,
    pub(crate) counts: Arc<Counts>,
    pub(crate) notes: Notes,
    pub(crate) sequence: Sequence,
    /// For each stream.
    pub(crate) tallies: Arc<[Mutex<Tallies>]>,
}

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) suspicion: Suspicion,
    /// Consecutive checks that have found no stream.
    pub(crate) missing: u32,
    pub(crate) skipped: LogThrottle,
    pub(crate) failed: LogThrottle,
    /// Whether the stream was read without a consumer since the last consumer.
    pub(crate) is_direct: bool,
}

/// A message of the stream, from a consumer or a direct get.
pub(crate) struct Received<'a> {
    pub(crate) message: &'a Message,
    pub(crate) subject: &'a str,
    pub(crate) sequence: u64,
    /// When the message was stored, in ns since 1970.
    pub(crate) time_ns: u64,
    pub(crate) pending: u64,
}

#[derive(Debug)]
pub(crate) enum Lost {
    Connection,
    Silence,
    Hole,
    Ended,
    Changed,
}

impl<F: Follower> Reader<F> {
    /// Delivers a message, unless it is old or follows a hole.
    pub(crate) async fn take_step(
        &mut self,
        step: Step,
        received: Received<'_>,
    ) -> Result<(), Lost> {
        let Received { message, subject, sequence, .. } = received;
        match step {
            Step::Next => {}
            Step::Old => return Ok(()),
            Step::Hole => return Err(Lost::Hole),
            // The stream keeps only the newest message of a value topic.
            Step::Removed(_) if self.state.kind.has_versions() => {}
            Step::Removed(messages) if self.state.kind.has_keys() => {
                return self.skip_removed(messages, sequence).await;
            }
            Step::Removed(messages) => self.take_removed(messages, sequence).await?,
        }
        add(&self.counts.messages);
        let (headers, body) = (message.headers.as_ref(), &message.payload);
        let (stream, first) = (self.index, offset_of(sequence));
        let kind = self.state.kind;
        match message::read((kind, subject), sequence, headers, body, self.event_bytes_max) {
            _ if kind.has_keys() && self.take_state(subject, body) => {}
            Ok((topic, content)) => {
                let content = content.stored_at(received.time_ns);
                if kind.has_keys() {
                    let mut tallies = tallies::lock(&self.tallies[stream]);
                    tallies.has_message(&topic, body.len(), Instant::now());
                }
                self.follower.deliver(Delivery { stream, first, topic, content }).await;
            }
            Err(why) => {
                add(&self.counts.skipped);
                if let Some(times) = self.notes.skipped.take(1, now_us()) {
                    let stream = &self.state.name;
                    tracing::warn!(stream, subject, sequence, times, "skipped a message: {why}");
                }
                // A condition depends on the newest message, readable or not.
                if kind.has_keys()
                    && let Ok(topic) = topic_of(subject)
                {
                    let content = Content::Paused(0);
                    self.follower.deliver(Delivery { stream, first, topic, content }).await;
                }
            }
        }
        self.state.set_next(self.sequence.stream_next());
        let (mut health, now) = (self.state.health(), Instant::now());
        health.received(now);
        health.read(received.time_ns);
        health.pending(received.pending, now);
        Ok(())
    }

    /// Takes a message of a topic's stored state, and returns whether it is one. States are read when they are needed.
    fn take_state(&self, subject: &str, body: &[u8]) -> bool {
        let Some(topic) = topic_of_index(subject) else { return is_part(subject) };
        if let Some(index) = StateIndex::from_body(body) {
            tallies::lock(&self.tallies[self.index]).has_state(&topic, index.bytes);
        }
        true
    }

    /// Skips messages of keyed topics, some of which were removed before they were read. The newest events of their keys may be among
    /// them, so the states of all topics are read again.
    async fn skip_removed(&mut self, messages: u64, sequence: u64) -> Result<(), Lost> {
        let stream = &self.state.name;
        let Ok(info) = self.api.stream_info(stream).await else {
            // The next consumer begins before them.
            self.sequence.take_back(sequence - messages);
            return Err(Lost::Hole);
        };
        let next = info.state.last_seq.max(sequence) + 1;
        add(&self.counts.removed);
        tracing::warn!(
            stream,
            messages,
            next,
            "messages with keys were removed before they were read"
        );
        self.sequence.take_back(next);
        self.state.set_next(next);
        self.follower.restarted(self.index, self.state.epoch(), offset_of(next)).await;
        Err(Lost::Hole)
    }

    /// Handles messages before `sequence` that were removed before they were read. If the stream begins after them, it
    /// has trimmed its oldest messages, which other servers may have read, so subscribers get a gap. If it begins before
    /// them, only these were removed: messages of an ended topic, or messages that an operator removed.
    async fn take_removed(&mut self, messages: u64, sequence: u64) -> Result<(), Lost> {
        let stream = &self.state.name;
        let Ok(info) = self.api.stream_info(stream).await else {
            // The next consumer begins before them.
            self.sequence.take_back(sequence - messages);
            return Err(Lost::Hole);
        };
        if info.state.first_seq < sequence - messages {
            add(&self.counts.removed);
            tracing::info!(stream, messages, sequence, "messages were removed in the middle");
            return Ok(());
        }
        add(&self.counts.restarts);
        tracing::error!(stream, messages, sequence, "messages were removed before they were read");
        let from = offset_of(sequence);
        self.follower.restarted(self.index, self.state.epoch(), from).await;
        Ok(())
    }
}
