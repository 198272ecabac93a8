//! Opened streams, and what the server has of them.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use thalweg_server::backend::{Backend, BackendCounts, Link, Stream, TicketRequest};
use thalweg_wire::Pattern;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Semaphore, mpsc},
    task::{JoinSet, unconstrained},
    time::Instant,
};

use crate::{
    api::{Api, RETRY_PAUSE},
    bucket::{self, Bucket},
    connection::{Connection, START_TIMEOUT},
    counts::Counts,
    end::{Answer, PageAnswer, Server, Target, Wanted, Work},
    leader, looks,
    pages::{self, Reading},
    reader::{Notes, Reader},
    requests::Requests,
    sequence::Sequence,
    settings::{Settings, StreamSettings, TicketSettings},
    setup,
    store::{self, Storing},
    stream_state::StreamState,
    tickets::{self, Keeping},
};

/// What headers may take of a message's size: three digests and names need a quarter of it.
const HEADER_BYTES_MAX: usize = 1024;

/// How long JetStream may take to answer at the start: it may have to create a stream on several servers.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);

/// And later: who reads tries again soon rather than wait for a server that has gone.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// How often it is looked whether this server has caught up.
const READINESS_INTERVAL: Duration = Duration::from_millis(250);

/// Streams of NATS JetStream, opened.
#[derive(Debug)]
pub struct Nats {
    runtime: Runtime,
    requests: Requests,
    streams: Vec<Opened>,
    tickets: Option<TicketSettings>,
    message_bytes_max: usize,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Opened {
    pattern: Pattern,
    config: Value,
    warm: Duration,
    from_sequence: u64,
    state: Arc<StreamState>,
}

/// Connects to NATS, and creates or checks the streams. Blocks, for 30 s at most while there is no server, or
/// JetStream is not available; not to be called within a tokio runtime.
///
/// # Errors
/// One sentence with the remedy: the servers cannot be reached or are too old, or a stream is not as the settings
/// say.
pub fn open(settings: &Settings) -> Result<Nats, String> {
    settings.check()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime for NATS: {error}"))?;
    let deadline = Instant::now() + START_TIMEOUT;
    let opened = runtime.block_on(async {
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
        Ok::<_, String>((requests, streams, info.max_payload))
    });
    let (requests, streams, payload_bytes_max) = opened?;
    tracing::warn!(
        "whether the NATS servers write messages to disk before they confirm them cannot be seen from here: set sync_interval: always in their jetstream block, unless several never lose power at once"
    );
    let message_bytes_max = payload_bytes_max.saturating_sub(HEADER_BYTES_MAX);
    let (tickets, counts) = (settings.tickets, Arc::default());
    Ok(Nats { runtime, requests, streams, tickets, message_bytes_max, counts })
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
        match setup::sequence_ago(api, &name, &info, settings.warm).await {
            Ok(sequence) => break sequence,
            Err(error) if !error.is_transient() || Instant::now() > deadline => {
                return Err(format!(
                    "cannot make a consumer of stream {name} ({error}): see what NATS says of it"
                ));
            }
            Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
        }
    };
    let config = setup::config_of(settings);
    let StreamSettings { pattern, has_values, warm, .. } = settings.clone();
    let state = Arc::new(StreamState::new(name, has_values, epoch, from_sequence));
    Ok(Opened { pattern, config, warm, from_sequence, state })
}

impl Nats {
    /// What is counted.
    #[doc(hidden)]
    pub fn own_counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Runs for any server, until there are no more stores and all are answered.
    ///
    /// # Errors
    /// When reading ended, which it never should.
    #[doc(hidden)]
    pub fn run_for<S, A: Answer, R: Send + 'static, P: PageAnswer, T: Target>(
        self,
        (stores, split): (mpsc::Receiver<S>, impl Fn(S) -> (Work, A)),
        (reads, split_read): (mpsc::Receiver<R>, impl Fn(R) -> (Wanted, P) + Send + 'static),
        ticket_requests: mpsc::Receiver<TicketRequest>,
        target: &T,
    ) -> io::Result<()> {
        let Self { runtime, requests, streams, tickets, message_bytes_max, counts } = self;
        let api = Api::new(requests.clone(), READ_TIMEOUT);
        let states: Arc<[_]> = streams.iter().map(|stream| stream.state.clone()).collect();
        let storing = Storing {
            streams: states.clone(),
            requests: requests.clone(),
            api: api.clone(),
            counts: counts.clone(),
            purges: Arc::new(Semaphore::new(store::PURGES_MAX)),
        };
        let reading = Reading {
            streams: states.clone(),
            connection: requests.connection().clone(),
            api: api.clone(),
            counts: counts.clone(),
            event_bytes_max: message_bytes_max,
        };
        let keeping = Keeping {
            requests: requests.clone(),
            api: api.clone(),
            counts: counts.clone(),
            bucket: tickets.map(|settings| Bucket::new(api.clone(), settings)),
        };
        runtime.block_on(async move {
            tokio::spawn(tickets::run(keeping, ticket_requests));
            tokio::spawn(pages::run(reading, reads, split_read));
            let mut readers = JoinSet::new();
            for (index, stream) in streams.into_iter().enumerate() {
                let connection = requests.connection().clone();
                readers.spawn(looks::watch(api.clone(), connection, stream.state.clone()));
                readers.spawn(looks::watch_for_stalls(api.clone(), stream.state.clone()));
                readers.spawn(leader::watch(api.clone(), stream.state.clone()));
                let reader = Reader {
                    index,
                    config: stream.config,
                    warm: stream.warm,
                    event_bytes_max: message_bytes_max,
                    api: api.clone(),
                    connection: requests.connection().clone(),
                    target: target.clone(),
                    counts: counts.clone(),
                    notes: Notes::default(),
                    sequence: Sequence::new(stream.from_sequence),
                    state: stream.state,
                };
                // Of tokio's budget it would get 128 messages for as many reads of the socket, each of
                // which brings a hundred.
                readers.spawn(unconstrained(reader.run()));
            }
            readers.spawn(say_readiness(states, target.clone(), counts));
            tokio::select! {
                () = store::run(storing, stores, split) => Ok(()),
                ended = readers.join_next() => {
                    Err(io::Error::other(format!("reading from NATS has ended: {ended:?}")))
                }
            }
        })
    }
}

impl Backend for Nats {
    fn streams(&self) -> Vec<Stream> {
        let stream = |opened: &Opened| Stream {
            pattern: opened.pattern.clone(),
            has_values: opened.state.has_values,
            epoch: opened.state.epoch(),
            from_sequence: opened.from_sequence,
            message_bytes_max: self.message_bytes_max,
        };
        self.streams.iter().map(stream).collect()
    }

    fn counts(&self) -> Arc<dyn BackendCounts> {
        Arc::clone(&self.counts) as Arc<dyn BackendCounts>
    }

    fn run(self: Box<Self>, link: Link) -> io::Result<()> {
        let Link { stores, reads, tickets, shards, readiness } = link;
        self.runtime.spawn(shards.clone().send_waiting());
        let server = Server { shards, readiness };
        self.run_for((stores, Work::of), (reads, Wanted::of), tickets, &server)
    }
}

/// Keeps it up to date whether this server has caught up with all streams. For ever.
async fn say_readiness(states: Arc<[Arc<StreamState>]>, target: impl Target, counts: Arc<Counts>) {
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
            target.set_ready(is_ready);
            tracing::info!(is_ready, "streams of NATS");
        }
        tokio::time::sleep(READINESS_INTERVAL).await;
    }
}
