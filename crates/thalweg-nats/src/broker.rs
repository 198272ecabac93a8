//! Opened streams, as a broker.

use std::{
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use thalweg_broker::{
    Append, AppendError, BoxFuture, Broker, BrokerCounts, CompareAndSet, Follower, ReadPage,
    ReadRange, Stored, Stream, Tickets, TopicIndex, TopicRange, Unreadable,
};
use thalweg_wire::{Offset, Pattern, Topic};
use tokio::{
    sync::Semaphore,
    task::{JoinSet, unconstrained},
    time::{Instant, timeout_at},
};

use crate::{
    api::{Api, RETRY_PAUSE},
    bucket::{self, Bucket},
    checks,
    compaction::Compaction,
    connection::{Connection, START_TIMEOUT},
    counts::Counts,
    leader,
    offsets::{EVENTS_MAX, offset_of},
    pages::PageReader,
    reader::{Notes, Reader},
    requests::Requests,
    sequence::Sequence,
    settings::{Settings, StreamSettings},
    setup,
    store::{self, Store},
    stream_state::StreamState,
    tallies::Tallies,
    tickets::TicketStore,
    topic_list,
};

/// Bytes of a message that are reserved for headers: three digests and names need a quarter of them.
const HEADER_BYTES_MAX: usize = 1024;

/// Bytes of a message of keyed events that its bytes of events and keys do not count: the times at which the keys expire.
const EXPIRY_BYTES_MAX: usize = 8192;

/// The timeout of JetStream's answers at the start: it may have to create a stream on several servers.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of JetStream's answers later: a reader retries soon instead of waiting for a server that has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of messages with a key that are in flight for a topic of events. JetStream stores the messages of a
/// connection in order; a message that is retried, because a leader has failed, comes later. With 256, a topic stores
/// at most 6,400 a second over a round trip of 40 ms.
const IN_FLIGHT_MAX: usize = 256;

/// The time that a list of topics may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

const READINESS_INTERVAL: Duration = Duration::from_millis(250);

/// Streams of NATS JetStream, opened.
#[derive(Debug)]
pub struct Nats {
    requests: Requests,
    api: Api,
    streams: Vec<Opened>,
    store: Store,
    page_reader: Arc<PageReader>,
    ticket_store: Option<TicketStore>,
    message_bytes_max: usize,
    counts: Arc<Counts>,
}

#[derive(Debug, Clone)]
struct Opened {
    pattern: Pattern,
    config: Value,
    warm: Duration,
    from_sequence: u64,
    state: Arc<StreamState>,
}

/// Connects to NATS, and creates or checks the streams. Waits at most 30 s while there is no server, or JetStream is
/// not available.
///
/// # Errors
/// One sentence with the remedy: the servers cannot be reached or are too old, or a stream differs from the settings.
pub async fn open(settings: &Settings) -> Result<Nats, String> {
    settings.check()?;
    let deadline = Instant::now() + START_TIMEOUT;
    let connection = Connection::open(settings, deadline).await?;
    let info = connection.client.server_info();
    setup::check_version(&info.version)?;
    let requests = Requests::new(connection).await?;
    let api = Api::new(requests.clone(), SETUP_TIMEOUT);
    let mut streams = Vec::with_capacity(settings.streams.len());
    for stream in &settings.streams {
        streams.push(open_stream(&api, stream, info.max_payload, deadline).await?);
    }
    if let Some(tickets) = &settings.tickets {
        bucket::open(&api, tickets, deadline).await?;
    }
    tracing::warn!(
        "the NATS servers do not report whether they write messages to disk before they confirm them: set sync_interval: always in their jetstream block, unless two of them can never lose power at the same time"
    );
    let message_bytes_max = info.max_payload.saturating_sub(HEADER_BYTES_MAX);
    let (api, counts) = (Api::new(requests.clone(), READ_TIMEOUT), Arc::<Counts>::default());
    let states: Arc<[_]> = streams.iter().map(|stream| stream.state.clone()).collect();
    let store = Store {
        streams: states.clone(),
        requests: requests.clone(),
        api: api.clone(),
        counts: counts.clone(),
        purges: Arc::new(Semaphore::new(store::PURGES_MAX)),
        repetitions: Arc::new(Semaphore::new(store::REPETITIONS_MAX)),
    };
    let page_reader = PageReader {
        streams: states,
        connection: requests.connection().clone(),
        api: api.clone(),
        counts: counts.clone(),
        event_bytes_max: message_bytes_max,
        failures: Mutex::default(),
        tallies: streams.iter().map(|_| Mutex::<Tallies>::default()).collect(),
    };
    let page_reader = Arc::new(page_reader);
    let ticket_store = settings.tickets.map(|tickets| TicketStore {
        requests: requests.clone(),
        api: api.clone(),
        counts: counts.clone(),
        bucket: Bucket::new(api.clone(), tickets),
        failures: Mutex::default(),
    });
    Ok(Nats { requests, api, streams, store, page_reader, ticket_store, message_bytes_max, counts })
}

async fn open_stream(
    api: &Api,
    settings: &StreamSettings,
    payload_bytes_max: usize,
    deadline: Instant,
) -> Result<Opened, String> {
    let name = settings.stream_name();
    let info = setup::open_stream(api, settings, payload_bytes_max, deadline).await?;
    let epoch = setup::epoch(&info).ok_or_else(|| {
        format!("stream {name} has no generation: delete it, or choose another name")
    })?;
    let from_sequence = loop {
        match setup::first_sequence(api, (&name, settings.kind), &info, settings.warm).await {
            Ok(sequence) => break sequence,
            Err(error) if !error.is_transient() || Instant::now() > deadline => {
                return Err(format!(
                    "cannot create a consumer of stream {name} ({error}): check the logs of NATS"
                ));
            }
            Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
        }
    };
    let config = setup::config_of(settings);
    let StreamSettings { pattern, kind, warm, .. } = settings.clone();
    let state = Arc::new(StreamState::new(name, kind, epoch, from_sequence));
    Ok(Opened { pattern, config, warm, from_sequence, state })
}

impl Nats {
    /// Returns the counters.
    #[doc(hidden)]
    pub fn own_counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Stores the states of all keyed topics, and removes the messages that they replace.
    ///
    /// # Errors
    /// One sentence.
    #[doc(hidden)]
    pub async fn compact_all(&self) -> Result<(), String> {
        for compaction in self.compactions() {
            let topics = TopicRange {
                patterns: vec![Pattern::all()],
                prefix: String::new(),
                after: String::new(),
                limit: usize::MAX,
            };
            let stream = &self.streams[compaction.stream];
            let streams = [(stream.pattern.clone(), &*stream.state)];
            let topics = topic_list::topics(&self.api, &streams, topics).await;
            for topic in topics.map_err(|error| error.to_string())? {
                let compacted = compaction.compact_now(&topic).await;
                compacted.map_err(|error| format!("{topic}: {error}"))?;
            }
        }
        Ok(())
    }

    fn compactions(&self) -> impl Iterator<Item = Compaction> {
        let keyed = self.streams.iter().enumerate();
        let keyed = keyed.filter(|(_, stream)| stream.state.kind.has_keys());
        keyed.map(|(index, stream)| Compaction {
            stream: index,
            state: stream.state.clone(),
            requests: self.requests.clone(),
            api: self.api.clone(),
            page_reader: self.page_reader.clone(),
            counts: self.counts.clone(),
        })
    }
}

impl Broker for Nats {
    fn streams(&self) -> Vec<Stream> {
        let stream = |opened: &Opened| Stream {
            pattern: opened.pattern.clone(),
            kind: opened.state.kind,
            epoch: opened.state.epoch(),
            from: offset_of(opened.from_sequence),
            events_max: EVENTS_MAX,
            bytes_max: match opened.state.kind.has_keys() {
                true => self.message_bytes_max.saturating_sub(EXPIRY_BYTES_MAX),
                false => self.message_bytes_max,
            },
            // An older value that is retried must not overwrite a newer one.
            in_flight_max: if opened.state.kind.has_versions() { 1 } else { IN_FLIGHT_MAX },
            is_shared: true,
        };
        self.streams.iter().map(stream).collect()
    }

    fn counts(&self) -> Arc<dyn BrokerCounts> {
        Arc::clone(&self.counts) as Arc<dyn BrokerCounts>
    }

    async fn append(&self, append: Append) -> Result<Stored, AppendError> {
        self.store.append(append, None).await
    }

    async fn read(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.page_reader.read(range, false).await
    }

    async fn newest(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.page_reader.read(range, true).await
    }

    async fn follow<F: Follower>(&self, follower: F) -> String {
        let (connection, mut tasks) = (self.requests.connection(), JoinSet::new());
        if let Some(TicketStore { bucket, counts, .. }) = &self.ticket_store {
            tasks.spawn(bucket.clone().watch(counts.clone()));
        }
        for compaction in self.compactions() {
            tasks.spawn(compaction.run());
        }
        for (index, stream) in self.streams.iter().cloned().enumerate() {
            let api = &self.api;
            tasks.spawn(checks::watch(api.clone(), connection.clone(), stream.state.clone()));
            tasks.spawn(checks::watch_for_stalls(api.clone(), stream.state.clone()));
            tasks.spawn(leader::watch(api.clone(), stream.state.clone()));
            let reader = Reader {
                index,
                config: stream.config,
                warm: stream.warm,
                event_bytes_max: self.message_bytes_max,
                api: api.clone(),
                connection: connection.clone(),
                follower: follower.clone(),
                counts: self.counts.clone(),
                notes: Notes::default(),
                sequence: Sequence::new(stream.from_sequence),
                state: stream.state,
                tallies: self.page_reader.tallies.clone(),
            };
            // With tokio's budget the reader would stop after 128 messages, while the connection reads the socket 128
            // times, with a hundred messages each.
            tasks.spawn(unconstrained(reader.run()));
        }
        let states = self.streams.iter().map(|stream| stream.state.clone()).collect();
        tasks.spawn(report_readiness(states, follower, self.counts.clone()));
        let ended = tasks.join_next().await;
        format!("reading from NATS has ended: {ended:?}")
    }

    fn compare_and_set(&self) -> Option<&dyn CompareAndSet> {
        Some(self)
    }

    fn topic_index(&self) -> Option<&dyn TopicIndex> {
        Some(self)
    }

    fn tickets(&self) -> Option<&dyn Tickets> {
        self.ticket_store.as_ref().map(|store| store as &dyn Tickets)
    }
}

impl TopicIndex for Nats {
    fn topics(&self, range: TopicRange) -> BoxFuture<'_, Result<Vec<Topic>, Unreadable>> {
        let streams = self.streams.iter().map(|opened| (opened.pattern.clone(), &*opened.state));
        let streams: Vec<_> = streams.collect();
        Box::pin(async move {
            let deadline = Instant::now() + LIST_TIMEOUT;
            let listed = timeout_at(deadline, topic_list::topics(&self.api, &streams, range)).await;
            match listed {
                Ok(Ok(topics)) => Ok(topics),
                Ok(Err(error)) => {
                    tracing::debug!("cannot list topics: {error}");
                    Err(Unreadable)
                }
                Err(_) => Err(Unreadable),
            }
        })
    }
}

impl CompareAndSet for Nats {
    fn append_after(
        &self,
        append: Append,
        newest: Offset,
    ) -> BoxFuture<'_, Result<Stored, AppendError>> {
        Box::pin(self.store.append(append, Some(newest)))
    }
}

/// Tells the follower whether this server has caught up with all streams. Never returns.
async fn report_readiness(
    states: Vec<Arc<StreamState>>,
    follower: impl Follower,
    counts: Arc<Counts>,
) {
    let mut was_ready = None;
    loop {
        let now = Instant::now();
        let is_ready = states.iter().all(|state| state.health().is_ready(now));
        counts.lag.store(states.iter().map(|state| state.health().lag()).sum(), Relaxed);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(since.as_nanos()).unwrap_or_default();
        let lag_ns = states.iter().map(|state| state.health().lag_ns(now_ns)).max();
        counts.lag_us.store(lag_ns.unwrap_or_default() / 1000, Relaxed);
        if was_ready != Some(is_ready) {
            was_ready = Some(is_ready);
            follower.set_ready(is_ready);
            tracing::info!(is_ready, "the readiness of the streams of NATS changed");
        }
        tokio::time::sleep(READINESS_INTERVAL).await;
    }
}
