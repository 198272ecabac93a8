//! A stream's consumer: made, followed, and made again whenever it may have lost something.
//!
//! It is an ephemeral push consumer without a filter: JetStream sends messages as they come, and reads
//! each once for this server, whatever topics there are.
//!
//! Consumers are made by the meta leader, and a stream may have all it needs while there is none. So
//! as long as no consumer can be made, the stream is read by direct get.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use async_nats::{HeaderName, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use thalweg_server::{LogThrottle, now_us};
use thalweg_wire::Epoch;
use tokio::{sync::watch, time::Instant};

use crate::{
    api::{Api, ApiError, RETRY_PAUSE, StreamInfo},
    connection::Connection,
    counts::{Counts, add},
    direct::{self, Page},
    end::Target,
    incarnation::{Stall, Suspicion, Verdict, judge},
    message,
    reply::place_of,
    sequence::{Sequence, Step},
    setup,
    stream_state::StreamState,
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

/// How long making a consumer may take before the stream is read without one: most take less.
const DIRECT_AFTER: Duration = Duration::from_millis(50);

/// Between two pages that are read without a consumer, and after one that brought nothing.
const DIRECT_PAUSE: Duration = Duration::from_millis(25);
const DIRECT_PAUSE_EMPTY: Duration = Duration::from_millis(100);

/// Looks in a row that must find no stream before it is made again: an administrator who has deleted it may be about to
/// make it with another configuration, or restore it.
const MISSING_LOOKS: u32 = 8;

/// How often it is looked whether messages do not come.
const STALL_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often a stream is looked at while it is read.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Under which JetStream says that the configuration of a stream was changed.
const ADVISORIES: &str = "$JS.EVENT.ADVISORY.STREAM.UPDATED";

const LAST_CONSUMER: HeaderName = HeaderName::from_static("Nats-Last-Consumer");
const CONSUMER_STALLED: HeaderName = HeaderName::from_static("Nats-Consumer-Stalled");

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
    suspicion: Suspicion,
    /// Looks in a row that have found no stream.
    missing: u32,
    skipped: LogThrottle,
    failed: LogThrottle,
    /// Whether the stream was read without a consumer since the last one.
    is_direct: bool,
}

/// A message of the stream, by a consumer or without one.
struct Came<'a> {
    message: &'a Message,
    subject: &'a str,
    sequence: u64,
    /// When it was stored, in ns since the Unix epoch.
    time_ns: u64,
    /// Messages that come after it.
    pending: u64,
}

struct Consumer {
    name: String,
    messages: Subscriber,
    losses: watch::Receiver<u64>,
}

/// Why a consumer is not followed any more.
#[derive(Debug)]
enum Lost {
    Connection,
    Silence,
    Hole,
    /// JetStream says that it ended.
    Ended,
    /// The stream has become another one.
    Changed,
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

    /// Reads by direct get until something is done.
    async fn read_until<O>(&mut self, done: impl Future<Output = O>) -> O {
        let mut done = pin!(done);
        let mut pause = if self.notes.is_direct { Duration::ZERO } else { DIRECT_AFTER };
        loop {
            let next = self.sequence.stream_next();
            let page = async {
                tokio::time::sleep(pause).await;
                direct::page(&self.connection, &self.api, &self.state, next).await
            };
            // A page that is given up has changed nothing.
            let page = tokio::select! {
                biased;
                output = &mut done => return output,
                page = page => page,
            };
            let is_empty = match page {
                Ok(page) => !self.take_page(page).await,
                Err(error) => {
                    tracing::debug!(stream = self.state.name, "cannot read directly: {error}");
                    true
                }
            };
            pause = if is_empty { DIRECT_PAUSE_EMPTY } else { DIRECT_PAUSE };
        }
    }

    /// Passes on what was read by direct get. Says whether there were messages, and all were taken.
    async fn take_page(&mut self, page: Page) -> bool {
        if !std::mem::replace(&mut self.notes.is_direct, true) {
            let (stream, next) = (&self.state.name, self.sequence.stream_next());
            tracing::info!(stream, next, "reading a stream without a consumer until there is one");
        }
        for found in &page.messages {
            let step = self.sequence.take_in_order(found.sequence);
            let came = Came {
                message: &found.message,
                subject: &found.subject,
                sequence: found.sequence,
                time_ns: found.time_ns,
                pending: page.last_sequence.saturating_sub(found.sequence),
            };
            if self.take_step(step, came).await.is_err() {
                return false;
            }
            add(&self.counts.messages_direct);
        }
        // Who reads everything is as ready as with a consumer.
        let (mut health, now) = (self.state.health(), Instant::now());
        health.heard(now);
        let pending = (page.last_sequence + 1).saturating_sub(self.sequence.stream_next());
        health.pending(pending, now);
        !page.messages.is_empty()
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

    /// The stream is not there: makes it again, empty, if that stays so. The next look finds that it is another one.
    async fn make_again(&mut self) -> Result<(), ApiError> {
        self.notes.missing += 1;
        if self.notes.missing < MISSING_LOOKS {
            return Ok(());
        }
        let stream = &self.state.name;
        tracing::error!(
            stream,
            "the stream was deleted: making it again, empty. Its subscribers are told of a gap. To restore a backup stop all nodes before"
        );
        self.api.create_stream(stream, &self.config).await?;
        self.notes.missing = 0;
        Ok(())
    }

    /// Compares a stream with the one that was read. Says whether it is that one now.
    async fn take_look(&mut self, info: &StreamInfo) -> Result<bool, ApiError> {
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
        // Whatever came before it was taken. So the answer asks for more.
        if let Some(reply) = flow.or(stalled) {
            let answered = self.connection.client.publish(reply, Bytes::new()).await;
            return answered.map_err(|_| Lost::Connection);
        }
        Ok(())
    }

    async fn take(&mut self, message: &Message) -> Result<(), Lost> {
        // What comes from no consumer is nobody's: the numbers of the consumer's show it.
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

    /// Takes a message that is so to the ones before.
    async fn take_step(&mut self, step: Step, came: Came<'_>) -> Result<(), Lost> {
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
        // What is read while the answer comes is not to make it look as if the stream went back.
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
