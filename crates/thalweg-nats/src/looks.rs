//! Whether a stream is still the one that is read: it is looked at before each consumer is made, and from time to time.

use std::{sync::Arc, time::Duration};

use async_nats::Subscriber;
use futures_util::StreamExt;
use thalweg_wire::Epoch;
use tokio::time::Instant;

use crate::{
    api::{Api, ApiError, StreamInfo},
    connection::Connection,
    counts::add,
    direct,
    end::Target,
    incarnation::{Stall, Verdict, judge},
    reader::Reader,
    sequence::Sequence,
    setup::{self, LOOK_INTERVAL, MISSING_LOOKS},
    stream_state::StreamState,
};

/// How often it is looked whether messages do not come.
const STALL_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Under which JetStream says that the configuration of a stream was changed.
const ADVISORIES: &str = "$JS.EVENT.ADVISORY.STREAM.UPDATED";

impl<T: Target> Reader<T> {
    /// The stream is not there: makes it again, empty, if that stays so. The next look finds that it is another one.
    pub(crate) async fn make_again(&mut self) -> Result<(), ApiError> {
        self.notes.missing += 1;
        if self.notes.missing < MISSING_LOOKS {
            return Ok(());
        }
        let stream = &self.state.name;
        // If that fails, later attempts are logged as failures, now and then.
        if self.notes.missing == MISSING_LOOKS {
            tracing::error!(
                stream,
                "the stream was deleted: making it again, empty. Its subscribers are told of a gap. To restore a backup stop all nodes before"
            );
        }
        self.api.create_stream(stream, &self.config).await?;
        self.notes.missing = 0;
        Ok(())
    }

    /// Compares a stream with the one that was read. Says whether it is that one now.
    pub(crate) async fn take_look(&mut self, info: &StreamInfo) -> Result<bool, ApiError> {
        let found = epoch_of(info)?;
        let (next, last) = (self.sequence.stream_next(), info.state.last_seq);
        let mut verdict = judge(self.state.epoch(), next, found, last);
        if verdict == Verdict::WentBack && self.is_kept(next - 1).await {
            // A former leader has answered, which does not know that there is another.
            tracing::debug!(stream = self.state.name, last, next, "an old leader has answered");
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
                    "the stream has lost messages that were read already: it begins a new epoch"
                );
                // If somebody else has raised it since, it is raised twice, which does no harm.
                if let Some(config) = setup::with_next_generation(info.config.clone()) {
                    self.api.update_stream(stream, &config).await?;
                }
                Ok(false)
            }
            Verdict::WentBack => Ok(false),
        }
    }

    /// Whether a replica has the message that was read last, as it was read.
    async fn is_kept(&self, sequence: u64) -> bool {
        let Ok(Some(message)) = self.api.message(&self.state.name, sequence).await else {
            return false;
        };
        direct::time_ns_of(&message) == Some(self.state.health().newest_ns())
    }

    /// It is another stream from now on.
    async fn restart(&mut self, found: Epoch, info: &StreamInfo) -> Result<(), ApiError> {
        let stream = &self.state.name;
        let from = setup::sequence_ago(&self.api, stream, info, self.warm).await?;
        add(&self.counts.restarts);
        tracing::error!(stream, epoch = %found, from, "the stream is another one from now on");
        self.sequence = Sequence::new(from);
        self.state.restart(found, from);
        self.target.restarted(self.index, found, from).await;
        Ok(())
    }
}

fn epoch_of(info: &StreamInfo) -> Result<Epoch, ApiError> {
    let missing = || ApiError::Unreadable("the stream has lost its metadata".to_owned());
    setup::epoch(info).ok_or_else(missing)
}

/// Looks whether a replica has messages that do not come: a consumer may be on a server that has fallen out of its
/// cluster, and still says that it has nothing to send. For ever.
pub(crate) async fn watch_for_stalls(api: Api, state: Arc<StreamState>) {
    let mut stall = Stall::default();
    loop {
        tokio::time::sleep(STALL_LOOK_INTERVAL).await;
        let next = state.next();
        let is_heard = state.health().is_heard(Instant::now());
        if !stall.may_be(next) || !is_heard {
            // Something has come since the last look, or nobody listens now: that is noticed otherwise.
            continue;
        }
        let is_ahead = matches!(api.has_after(&state.name, next).await, Ok(true));
        if next == state.next() && stall.is_confirmed(is_ahead) {
            tracing::warn!(stream = state.name, next, "messages are stored and do not come");
            state.health().stalled();
            state.changed.notify_one();
        } else if stall.is_over() {
            state.health().has_all();
        }
    }
}

/// Looks at a stream when JetStream says that it was changed, when it is suspect, and from time to time:
/// a consumer does not always end when its stream becomes another one. For ever.
pub(crate) async fn watch(api: Api, connection: Connection, state: Arc<StreamState>) {
    let subject = format!("{ADVISORIES}.{}", state.name);
    // A server may not be allowed to hear them, and messages of NATS's core may be lost.
    let mut advisories = connection.client.subscribe(subject).await.ok();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = state.suspect.notified() => {}
            () = next(&mut advisories) => {}
        }
        // Noted before the question: the node may read on while the answer comes, and the stream would seem to have gone back.
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

/// Waits for the next message; for ever if there is none.
async fn next(messages: &mut Option<Subscriber>) {
    if let Some(subscriber) = messages {
        if subscriber.next().await.is_some() {
            return;
        }
        *messages = None;
    }
    std::future::pending::<()>().await;
}
