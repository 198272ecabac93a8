//! Checks whether a stream still has its epoch, before each consumer and from time to time.

use std::{sync::Arc, time::Duration};

use async_nats::Subscriber;
use futures_util::StreamExt;
use thalweg_broker::Follower;
use thalweg_wire::Epoch;
use tokio::time::Instant;

use crate::{
    api::{Api, ApiError, StreamInfo},
    connection::Connection,
    counts::add,
    direct,
    incarnation::{Stall, Verdict, judge},
    offsets::offset_of,
    reader::Reader,
    sequence::Sequence,
    setup::{self, CHECK_INTERVAL, MISSING_CHECKS},
    stream_state::StreamState,
};

/// The interval of checks for stored messages that do not arrive.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The subject under which JetStream reports changes of a stream's configuration.
const ADVISORIES: &str = "$JS.EVENT.ADVISORY.STREAM.UPDATED";

impl<F: Follower> Reader<F> {
    /// Creates the stream again, empty, if it stays deleted. The next check finds that it has another epoch.
    pub(crate) async fn create_again(&mut self) -> Result<(), ApiError> {
        self.notes.missing += 1;
        if self.notes.missing < MISSING_CHECKS {
            return Ok(());
        }
        let stream = &self.state.name;
        // If this fails, the caller logs the failure.
        if self.notes.missing == MISSING_CHECKS {
            tracing::error!(
                stream,
                "the stream was deleted: creating it again, empty. Its subscribers get a gap. To restore a backup, stop all nodes first"
            );
        }
        self.api.create_stream(stream, &self.config).await?;
        self.notes.missing = 0;
        Ok(())
    }

    /// Compares a stream with the one that was read, and takes over a new epoch. Returns whether the reader can continue;
    /// otherwise the stream must be checked again.
    pub(crate) async fn check_epoch(&mut self, info: &StreamInfo) -> Result<bool, ApiError> {
        let found = epoch_of(info)?;
        let (next, last) = (self.sequence.stream_next(), info.state.last_seq);
        let mut verdict = judge(self.state.epoch(), next, found, last);
        if verdict == Verdict::WentBack && self.is_kept(next - 1).await {
            // A former leader, which does not know of the election yet, has answered.
            tracing::debug!(stream = self.state.name, last, next, "a former leader has answered");
            verdict = Verdict::Same;
        }
        let is_confirmed = self.notes.suspicion.is_confirmed(verdict);
        match verdict {
            Verdict::Same => Ok(true),
            Verdict::Other => {
                self.restart(found, info).await?;
                Ok(true)
            }
            Verdict::WentBack if is_confirmed => {
                add(&self.counts.regressions);
                let (stream, read) = (&self.state.name, next - 1);
                tracing::error!(
                    stream,
                    last,
                    read,
                    "the stream has lost messages that were read: it begins a new epoch"
                );
                // If another server has raised the generation since, it is raised twice, which does no harm.
                if let Some(config) = setup::with_next_generation(info.config.clone()) {
                    self.api.update_stream(stream, &config).await?;
                }
                Ok(false)
            }
            Verdict::WentBack => Ok(false),
        }
    }

    /// Returns whether a replica has the message that was read last.
    async fn is_kept(&self, sequence: u64) -> bool {
        let Ok(Some(message)) = self.api.message(&self.state.name, sequence).await else {
            return false;
        };
        direct::time_ns_of(&message) == Some(self.state.health().newest_ns())
    }

    async fn restart(&mut self, found: Epoch, info: &StreamInfo) -> Result<(), ApiError> {
        let stream = &self.state.name;
        let from =
            setup::first_sequence(&self.api, (stream, self.state.kind), info, self.warm).await?;
        add(&self.counts.restarts);
        tracing::error!(stream, epoch = %found, from, "the stream has a new epoch");
        self.sequence = Sequence::new(from);
        self.state.restart(found, from);
        self.follower.restarted(self.index, found, offset_of(from)).await;
        Ok(())
    }
}

fn epoch_of(info: &StreamInfo) -> Result<Epoch, ApiError> {
    let missing =
        || ApiError::Unreadable("the stream has no generation in its metadata".to_owned());
    setup::epoch(info).ok_or_else(missing)
}

/// Checks whether a replica has messages that do not arrive, because a consumer on a server that lost its cluster still
/// sends heartbeats. Never returns.
pub(crate) async fn watch_for_stalls(api: Api, state: Arc<StreamState>) {
    let mut stall = Stall::default();
    loop {
        tokio::time::sleep(STALL_CHECK_INTERVAL).await;
        let next = state.next();
        let is_receiving = state.health().is_receiving(Instant::now());
        if !stall.may_be(next) || !is_receiving {
            // A message has arrived since the last check, or the reader receives nothing, which it notices itself.
            continue;
        }
        let is_ahead = matches!(api.has_after(&state.name, next).await, Ok(true));
        if next == state.next() && stall.is_confirmed(is_ahead) {
            tracing::warn!(stream = state.name, next, "messages are stored, but do not arrive");
            state.health().stalled();
            state.changed.notify_one();
        } else if stall.is_over() {
            state.health().has_all();
        }
    }
}

/// Checks a stream when JetStream reports a change, when the stream is suspect, and from time to time, because a consumer
/// does not always end when its stream is created again. Never returns.
pub(crate) async fn watch(api: Api, connection: Connection, state: Arc<StreamState>) {
    let subject = format!("{ADVISORIES}.{}", state.name);
    // A server may not be allowed to subscribe to advisories, and they may be lost.
    let mut advisories = connection.client.subscribe(subject).await.ok();
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = state.suspect.notified() => {}
            () = next(&mut advisories) => {}
        }
        // Read these before the request. If the reader advanced in between, the stream would seem to have lost messages.
        let (reading, next) = (state.epoch(), state.next());
        if let Ok(info) = api.stream_info(&state.name).await
            && let Ok(found) = epoch_of(&info)
            && reading == state.epoch()
            && judge(reading, next, found, info.state.last_seq) != Verdict::Same
        {
            state.changed.notify_one();
        }
    }
}

/// Waits for the next message; never returns if there is none.
async fn next(messages: &mut Option<Subscriber>) {
    if let Some(subscriber) = messages {
        if subscriber.next().await.is_some() {
            return;
        }
        *messages = None;
    }
    std::future::pending::<()>().await;
}
