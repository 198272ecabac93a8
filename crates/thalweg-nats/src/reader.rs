//! A stream as it is read: its messages are passed on to the server, each once and in order.
//!
//! A consumer brings them, or direct reads as long as none can be made.

use std::{sync::Arc, time::Duration};

use async_nats::Message;
use serde_json::Value;
use thalweg_server::{LogThrottle, now_us};
use tokio::time::Instant;

use crate::{
    api::Api,
    connection::Connection,
    counts::{Counts, add},
    end::Target,
    incarnation::Suspicion,
    message,
    sequence::{Sequence, Step},
    stream_state::StreamState,
};

/// Reads a stream.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    /// The index of the stream.
    pub(crate) index: usize,
    pub(crate) state: Arc<StreamState>,
    /// As it is created.
    pub(crate) config: Value,
    /// How far back a stream is read that has become another one.
    pub(crate) warm: Duration,
    /// Bytes that an event of others may have.
    pub(crate) event_bytes_max: usize,
    pub(crate) api: Api,
    pub(crate) connection: Connection,
    pub(crate) target: T,
    pub(crate) counts: Arc<Counts>,
    pub(crate) notes: Notes,
    pub(crate) sequence: Sequence,
}

/// What a reader has to remember beside.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) suspicion: Suspicion,
    /// Looks in a row that have found no stream.
    pub(crate) missing: u32,
    pub(crate) skipped: LogThrottle,
    pub(crate) failed: LogThrottle,
    /// Whether the stream was read without a consumer since the last one.
    pub(crate) is_direct: bool,
}

/// A message of the stream, by a consumer or without one.
pub(crate) struct Came<'a> {
    pub(crate) message: &'a Message,
    pub(crate) subject: &'a str,
    pub(crate) sequence: u64,
    /// When it was stored, in ns since the Unix epoch.
    pub(crate) time_ns: u64,
    /// Messages that come after it.
    pub(crate) pending: u64,
}

/// Why a consumer is not followed any more.
#[derive(Debug)]
pub(crate) enum Lost {
    Connection,
    Silence,
    Hole,
    /// JetStream says that it ended.
    Ended,
    /// The stream has become another one.
    Changed,
}

impl<T: Target> Reader<T> {
    /// Takes a message that is so to the ones before.
    pub(crate) async fn take_step(&mut self, step: Step, came: Came<'_>) -> Result<(), Lost> {
        let Came { message, subject, sequence, .. } = came;
        match step {
            Step::Next => {}
            Step::Old => return Ok(()),
            Step::Hole => return Err(Lost::Hole),
            // Of value topics only the newest message is kept.
            Step::Removed(_) if self.state.has_values => {}
            Step::Removed(messages) => self.take_removed(messages, sequence).await?,
        }
        add(&self.counts.messages);
        let (headers, body) = (message.headers.as_ref(), &message.payload);
        match message::read(subject, sequence, headers, body, self.event_bytes_max) {
            Ok((topic, content)) => {
                let content = content.stored_at(came.time_ns);
                self.target.message(self.index, sequence, topic, content).await;
            }
            Err(why) => {
                add(&self.counts.skipped);
                if let Some(times) = self.notes.skipped.take(1, now_us()) {
                    let stream = &self.state.name;
                    tracing::warn!(stream, subject, sequence, times, "skipped a message: {why}");
                }
            }
        }
        self.state.set_next(self.sequence.stream_next());
        let (mut health, now) = (self.state.health(), Instant::now());
        health.heard(now);
        health.read(came.time_ns);
        health.pending(came.pending, now);
        Ok(())
    }

    /// So many messages before `sequence` were removed before they were read. If the stream begins
    /// after them, it has dropped its oldest, which other servers may have read: subscribers are told
    /// of a gap. If it begins before them, somebody has removed just these: those of a topic that has
    /// ended, or what is not to be read by anybody.
    async fn take_removed(&mut self, messages: u64, sequence: u64) -> Result<(), Lost> {
        let stream = &self.state.name;
        let Ok(info) = self.api.stream_info(stream).await else {
            // The next consumer begins before them again.
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
        self.target.restarted(self.index, self.state.epoch(), sequence).await;
        Ok(())
    }
}
