//! Starts and stops sources, shards and the listener.

mod error;
mod listener;
mod prepare;
#[cfg(test)]
mod tests;

use std::{
    io,
    net::SocketAddr,
    panic::resume_unwind,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::{
    net::TcpListener,
    runtime::{self, LocalOptions},
    sync::{mpsc, oneshot, watch},
    task::spawn_local,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout_at},
};

use crate::{
    access::{AccessPolicy, MadeOf},
    broker::{BrokerLink, BrokerService, BrokerStream, Inbox, Readiness, Shards},
    config::{
        Access, Config, DEMANDS_MAX, FETCHED_MAX, FROM_BROKER_MAX, LISTS_MAX, Limits, READS_MAX,
        STORES_MAX, SharedTopics,
    },
    connection_limits::{AddressCounts, AddressRates, ConnectionLimits},
    derived::DerivedTopic,
    fetch::{Fetcher, KeyReader},
    http::{BodyPermits, Http, Shared, ShutdownState, TicketStore, serve_connection},
    metrics::{Counts, KeyCounts, Metrics},
    owner_shard::owner_shard,
    protocol::{Mount, mounts},
    rates::AllRates,
    shard::{self, Common, Handle, IdempotencyHasher, Peer, ShardMessage, ShardQueues},
    source::{Inputs, Scheduled},
    transport::Certificate,
};
use thalweg_wire::Topic;

pub use error::ServeError;
pub use prepare::check;
use prepare::{access_policy, prepare};

/// The interval between two checks whether a thread has ended.
const BROKEN_LOOK: Duration = Duration::from_millis(200);

/// The interval between two checks whether all shards have drained.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// The maximum time to the next timer of a shard's runtime.
const NEAR_TIMER: Duration = Duration::from_millis(250);

/// A running server.
pub struct Server {
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    config: Arc<Config>,
    access: Arc<AccessPolicy>,
    made_of: MadeOf,
    peers: Vec<Peer>,
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
    certificate: Option<Certificate>,
    client_limits: ClientLimits,
    key_counts: Arc<KeyCounts>,
    shutdown: Arc<ShutdownState>,
}

/// Starts a server. Its `brokers` have the topics that it shares with other servers. A topic belongs to the first stream,
/// over all brokers in order, whose pattern matches. The first broker that can keep tickets keeps them.
///
/// # Errors
/// When the configuration cannot be applied.
pub fn serve(config: Config, brokers: Vec<BrokerService>) -> Result<Server, ServeError> {
    let mounts = mounts(&config);
    serve_with(config, brokers, mounts)
}

/// Starts a server with these protocols besides Thalweg's own.
pub(crate) fn serve_with(
    config: Config,
    brokers: Vec<BrokerService>,
    mounts: Vec<Mount>,
) -> Result<Server, ServeError> {
    let streams = brokers.iter().flat_map(|broker| &broker.streams);
    let shared_topics =
        SharedTopics::new(streams.map(|stream| (stream.pattern.clone(), stream.kind)));
    let prepared = prepare(config, &shared_topics)?;
    let (mut sources, mut queries) = (prepared.sources, prepared.queries);
    let limits = listener::within_descriptors(prepared.config.limits);
    let config = Arc::new(Config { limits, ..prepared.config });
    let client_limits = ClientLimits::new(&config);
    let metrics = Metrics::new(
        config.version,
        config.shards,
        config.patterns(&shared_topics),
        config.upstreams.iter().map(|upstream| &upstream.pattern),
        brokers.iter().map(|broker| Arc::clone(&broker.counts)).collect(),
    );
    let fetcher = Fetcher::new(&config, metrics.upstream_counts()).map_err(ServeError::Config)?;
    let key_counts = Arc::clone(&metrics.keys);
    let (demands, wanted) = mpsc::channel(DEMANDS_MAX);
    let mut to_shards = Vec::new();
    let (mut peers, mut queues) = (Vec::new(), Vec::new());
    for _ in 0..config.shards {
        let (to_messages, messages) = mpsc::channel(config.limits.messages);
        let (to_publishes, publishes) = mpsc::channel(config.limits.publishes);
        let (to_backend, from_broker) = mpsc::channel(FROM_BROKER_MAX);
        let (to_answers, answers) = mpsc::unbounded_channel();
        peers.push(Peer {
            messages: to_messages,
            publishes: to_publishes,
            from_broker: to_backend,
            read_topics: Arc::default(),
            answers: to_answers,
        });
        let (to_fetched, fetched) = mpsc::channel(FETCHED_MAX);
        to_shards.push(to_fetched);
        let watched = [false; 5];
        queues.push(ShardQueues { messages, publishes, fetched, from_broker, answers, watched });
    }
    let shutdown = Arc::<ShutdownState>::default();
    let keeper = brokers.iter().position(|broker| broker.keeps_tickets);
    let (tickets, mut to_keep) = TicketStore::new(keeper.is_some());
    let (mut links, mut inboxes, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    for (number, broker) in brokers.iter().enumerate() {
        let (stores, to_store) = mpsc::channel(STORES_MAX);
        let (reads, to_read) = mpsc::channel(READS_MAX);
        let (lists, to_list) = mpsc::channel(LISTS_MAX);
        let readiness = Readiness::default();
        let tickets = if keeper == Some(number) { to_keep.take() } else { None };
        let to_shard = |peer: &Peer| (peer.from_broker.clone(), Arc::clone(&peer.read_topics));
        let shards = Shards::new(peers.iter().map(to_shard), streams.len(), readiness.clone());
        inboxes.push((Inbox { stores: to_store, reads: to_read, lists: to_list, tickets }, shards));
        let lists = broker.lists_topics.then_some(lists);
        links.push(BrokerLink { stores, reads, lists, readiness });
        let stream = |(index, stream): (usize, &_)| BrokerStream {
            stream: Clone::clone(stream),
            broker: number,
            index,
            can_compare: broker.can_compare,
        };
        streams.extend(broker.streams.iter().enumerate().map(stream));
    }
    let common = Common {
        config: Arc::clone(&config),
        metrics,
        peers: peers.clone(),
        ad_hoc: prepared.ad_hoc,
        inputs: Arc::new(Inputs::new(&sources, queries.iter().map(|query| &query.source))),
        idempotency_hasher: IdempotencyHasher::default(),
        samples: Arc::default(),
        shares: Arc::clone(&client_limits.subscribed_topics),
        rates: Arc::clone(&client_limits.rates),
        fetched_rates: Arc::clone(&client_limits.fetched),
        demands: fetcher.is_some().then_some(demands),
        streams: streams.into(),
        shared_topics: Arc::new(shared_topics),
        brokers: links.into(),
        open_sockets: Arc::default(),
        traces: Arc::default(),
        presence_nodes: Arc::default(),
    };
    let shared = Shared {
        admin: prepared.admin.map(Arc::new),
        tls: prepared.certificate.clone(),
        runs: prepared.runs.map(Arc::new),
        tickets: Arc::new(tickets),
        mounts: mounts.into(),
        sessions: Arc::new(prepared.sessions),
        requests_of_publishers: Arc::new(BodyPermits::new(limits.requests)),
        requests_of_others: Arc::new(BodyPermits::new(limits.requests_of_others())),
        shutdown: Arc::clone(&shutdown),
    };
    let listener = listen(&config, config.listen, "--listen")?;
    let address = listener.local_addr()?;
    let mut listeners = vec![(listener, Arc::clone(&client_limits.connections))];
    let mut admin_address = None;
    if let Some(listen_at) = config.admin_listen {
        let listener = listen(&config, listen_at, "--admin-listen")?;
        admin_address = Some(listener.local_addr()?);
        listeners.push((listener, Arc::new(ConnectionLimits::new_admin())));
    }
    let access = Arc::new(prepared.access);
    let cores = cores_for(config.shards);
    let mut threads = Vec::new();
    let (started, all_started) = std::sync::mpsc::channel();
    for (id, queues) in queues.into_iter().enumerate() {
        let (common, shared, access) = (common.clone(), shared.clone(), Arc::clone(&access));
        let is_own = |source: &mut Scheduled| owner_shard(&source.output, config.shards) == id;
        let own_sources: Vec<_> = sources.extract_if(.., is_own).collect();
        let is_own = |query: &mut DerivedTopic| owner_shard(&query.output, config.shards) == id;
        let own_queries: Vec<_> = queries.extract_if(.., is_own).collect();
        // The first shard accepts for all.
        let listeners = std::mem::take(&mut listeners);
        let core = cores.get(id).copied();
        let started = started.clone();
        threads.push(thread::Builder::new().name(format!("shard-{id}")).spawn(move || {
            if let Some(core) = core {
                pin_to(core);
            }
            let own = (own_sources, own_queries);
            run_shard(id, (common, access), shared, queues, own, listeners, &started)
        })?);
    }
    if let Some(reader) = prepared.key_reader {
        read_keys(reader, Arc::clone(&key_counts))?;
    }
    if let Some(fetcher) = fetcher {
        let run = move || fetcher.run(wanted, to_shards);
        threads.push(thread::Builder::new().name("fetcher".into()).spawn(run)?);
    }
    for (broker, (inbox, shards)) in brokers.into_iter().zip(inboxes) {
        let run = move || broker.run(inbox, shards);
        threads.push(thread::Builder::new().name("broker".into()).spawn(run)?);
    }
    drop(started);
    for _ in 0..config.shards {
        // A shard that cannot run sends the reason, or ends without one.
        all_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    }
    tracing::info!(%address, shards = config.shards, sources = if config.runs_sources { config.sources.len() } else { 0 }, "serving");
    Ok(Server {
        address,
        admin_address,
        config,
        access,
        made_of: prepared.made_of,
        peers,
        threads,
        certificate: prepared.certificate,
        client_limits,
        key_counts,
        shutdown,
    })
}

impl Server {
    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the admin listener, if any.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Loads the certificate again. Existing connections keep the old one. Returns `false` if the server has no certificate.
    ///
    /// # Errors
    /// The error is one sentence. The old certificate stays in use.
    pub fn reload_certificate(&self) -> Result<bool, String> {
        self.certificate
            .as_ref()
            .map_or(Ok(false), |certificate| certificate.reload().map(|()| true))
    }

    /// Applies another configuration's tokens, origins, host names, and limits of connections, rates and new topics per address.
    /// Connections end if their token is no longer valid, and subscriptions end if it no longer gives a right to the topic.
    ///
    /// # Errors
    /// The error is one sentence. The current configuration stays in use.
    pub async fn reload(&mut self, config: &Config) -> Result<(), String> {
        let limits = self.config.limits.reloaded(&listener::within_descriptors(config.limits));
        // Trusted proxies do not change after the start.
        let trusted_proxies = self.config.access.trusted_proxies.clone();
        let access = Access { trusted_proxies, ..config.access.clone() };
        // The settings file may be read while an editor rewrites it, and be empty then.
        if self.config.access.limits_publishers() && !access.limits_publishers() {
            return Err(
                "the new settings have no tokens, so all clients could publish: add a token or the token everybody, or restart the server to apply them"
                    .to_owned(),
            );
        }
        let config = Config { access, limits, ..(*self.config).clone() };
        let url = self.config.access.signed.as_ref().and_then(|signed| signed.url.as_ref());
        let before = url.zip(self.access.holders.published_keys());
        let (access, key_reader) = access_policy(&config, self.made_of.clone(), before)?;
        if let Some(reader) = key_reader {
            read_keys(reader, Arc::clone(&self.key_counts)).map_err(|error| error.to_string())?;
        }
        self.client_limits.change(&limits);
        let access = Arc::new(access);
        for peer in &self.peers {
            // A shard that has ended has no connections to close.
            let _ = peer.messages.send(ShardMessage::Access(Arc::clone(&access))).await;
        }
        self.access = access;
        self.config = Arc::new(config);
        Ok(())
    }

    /// Waits until a thread (a shard, the fetcher or a broker) ends by itself, which is an error.
    pub async fn broken(&self) {
        while !self.threads.iter().any(thread::JoinHandle::is_finished) {
            sleep(BROKEN_LOOK).await;
        }
    }

    /// Makes `/readyz` answer "not ready" while the server still works, so that load balancers have time to notice.
    pub fn announce_end(&self) {
        self.shutdown.is_announced.store(true, Relaxed);
    }

    /// Shuts the server down: rejects new connections, sends pending data to subscribers, tells them to reconnect,
    /// and finishes requests. Drops connections that do not read their close in time.
    pub async fn drain(self) {
        self.announce_end();
        self.shutdown.is_closed.store(true, Relaxed);
        let deadline = Instant::now() + self.config.shutdown_timeout;
        // Every shard gets the remaining messages of other shards before any shard closes connections. A stuck shard
        // may use only a quarter of the time.
        let settled_by = Instant::now() + self.config.shutdown_timeout / 4;
        let mut settling = Vec::new();
        for peer in &self.peers {
            let (done, settled) = oneshot::channel();
            let _ = timeout_at(settled_by, peer.messages.send(ShardMessage::Flush(done))).await;
            settling.push(settled);
        }
        for settled in settling {
            let _ = timeout_at(settled_by, settled).await;
        }
        for peer in &self.peers {
            // A shard that has ended needs no message, and a stuck one is not waited for.
            let _ = timeout_at(deadline, peer.messages.send(ShardMessage::Drain)).await;
        }
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() >= deadline {
                tracing::warn!(
                    "closing the connections that did not finish within shutdown-timeout"
                );
                return;
            }
            sleep(DRAIN_LOOK).await;
        }
    }
}

/// Limits of clients that may change while the server runs.
struct ClientLimits {
    connections: Arc<ConnectionLimits>,
    /// Topics that exist only for subscribers, by address.
    subscribed_topics: Arc<AddressCounts>,
    /// Fetched topics, by the address of their first subscriber.
    fetched: Arc<AddressRates>,
    rates: Arc<AllRates>,
}

impl ClientLimits {
    fn new(config: &Config) -> Self {
        let Config { shards, limits, access, .. } = config;
        Self {
            connections: Arc::new(ConnectionLimits::new(*shards, *limits, &access.trusted_proxies)),
            subscribed_topics: Arc::new(AddressCounts::new(limits.subscribed_topics_per_address)),
            fetched: Arc::new(AddressRates::new(limits.new_fetched_per_address)),
            rates: Arc::new(AllRates::new(limits)),
        }
    }

    fn change(&self, limits: &Limits) {
        self.connections.change(limits);
        self.subscribed_topics.change(limits.subscribed_topics_per_address);
        self.fetched.change(limits.new_fetched_per_address);
        self.rates.change(limits);
    }
}

/// Reads keys on a separate thread, which ends when nobody needs the keys. The server continues if the thread ends.
fn read_keys(reader: KeyReader, counts: Arc<KeyCounts>) -> io::Result<()> {
    thread::Builder::new().name("keys".into()).spawn(move || reader.run(&counts)).map(|_| ())
}

type Listener = (std::net::TcpListener, Arc<ConnectionLimits>);

fn listen(
    config: &Config,
    address: SocketAddr,
    flag: &'static str,
) -> Result<std::net::TcpListener, ServeError> {
    let listener = listener::listen(address, &config.limits);
    listener.map_err(|error| ServeError::Listen(address, error, flag))
}

fn run_shard(
    id: usize,
    (common, access): (Common, Arc<AccessPolicy>),
    shared: Shared,
    queues: ShardQueues,
    (sources, queries): (Vec<Scheduled>, Vec<DerivedTopic>),
    listeners: Vec<Listener>,
    started: &std::sync::mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    let (shards, inputs) = (common.peers.len(), Arc::clone(&common.inputs));
    let prepare = || {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build_local(LocalOptions::default())?;
        let entered = runtime.enter();
        let handle = Handle::new(id, common, access)?;
        let from_std = |(listener, connection_limits)| {
            Ok((TcpListener::from_std(listener)?, connection_limits))
        };
        let listeners = listeners.into_iter().map(from_std).collect::<io::Result<Vec<_>>>()?;
        drop(entered);
        Ok((runtime, handle, listeners))
    };
    let (runtime, handle, listeners) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            // The receiver reports it to the user.
            let _ = started.send(Err(error));
            return Ok(());
        }
    };
    let _ = started.send(Ok(()));
    runtime.block_on(async move {
        let is_own = |topic: &&Topic| owner_shard(topic, shards) == id;
        inputs.events.iter().filter(is_own).for_each(|topic| handle.keep_input(topic));
        for scheduled in sources {
            handle.start_source(scheduled);
        }
        for query in queries {
            handle.start_query(query);
        }
        let http = Http::new(Rc::clone(&handle), shared);
        let (serving, over) = watch::channel(());
        let accept = |(listener, connection_limits)| {
            spawn_local(listener::accept(
                Rc::clone(&http),
                listener,
                connection_limits,
                over.clone(),
            ))
        };
        let accepting: Vec<_> = listeners.into_iter().map(accept).collect();
        let serve = move |arrival| {
            spawn_local(serve_connection(Rc::clone(&http), arrival));
        };
        spawn_local(keep_a_timer_near(Arc::clone(&handle.counts)));
        // A separate task, because its wake-up is queued behind other ready tasks. The runtime would poll all sockets before
        // it polled the future of `block_on` again.
        let ended = spawn_local(shard::run(handle, queues, serve)).await;
        drop(serving);
        for accepting in accepting {
            let _ = accepting.await;
        }
        ended.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    })
}

/// Keeps a timer of the runtime less than a second away, forever, and counts how late it fires. tokio interrupts its own wait, by
/// a write to an eventfd, for each timer that is earlier than all timers of its last wait. Idle connections have timers of more
/// than a minute, and requests have timers of a few seconds: without this timer each request takes one more system call.
async fn keep_a_timer_near(counts: Arc<Counts>) {
    let mut beat = interval(NEAR_TIMER);
    // After a long delay, one late beat is counted instead of each missed beat.
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = beat.tick().await;
        counts.count_loop_delay(due.elapsed().as_micros() as u64);
    }
}

/// Returns the cores to pin shards to: none if there are fewer cores than shards, or only one shard, because the user
/// may already have chosen its core.
fn cores_for(shards: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let cores: Vec<usize> =
        (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(shards).collect();
    if shards > 1 && cores.len() == shards { cores } else { Vec::new() }
}

fn pin_to(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    if let Err(error) = sched_setaffinity(None, &cores) {
        tracing::warn!(%error, core, "cannot pin a shard to its core");
    }
}
