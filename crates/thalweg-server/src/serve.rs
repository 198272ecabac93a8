//! Starts sources, shards and the listener, and ends them again.

mod error;
mod listener;
mod prepare;

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
    time::{Instant, interval, sleep, timeout_at},
};

use crate::{
    access::{AccessPolicy, MadeOf},
    backend::{Backend, Link, Readiness, Shards},
    config::{
        Access, Config, DEMANDS_MAX, FETCHED_MAX, FROM_BACKEND_MAX, Limits, READS_MAX, STORES_MAX,
    },
    connection_limits::{AddressCounts, AddressRates, ConnectionLimits},
    derived::DerivedTopic,
    fetch::{Fetcher, KeyReader},
    home::home_of,
    http::{BodyPermits, Http, Shared, ShutdownState, TicketStore, serve_connection},
    metrics::{KeyCounts, Metrics},
    rates::AllRates,
    shard::{self, Common, Handle, IdempotencyHasher, Mail, Mailbox, Peer},
    source::{Inputs, Scheduled},
    transport::Certificate,
};
use thalweg_wire::Topic;

pub use error::ServeError;
pub use prepare::check;
use prepare::{access_policy, prepare};

/// Time between two checks whether a shard has ended.
const BROKEN_LOOK: Duration = Duration::from_millis(200);

/// Time between two checks whether all shards have drained.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// How far away the next timer of a shard's runtime is at most.
const NEAR_TIMER: Duration = Duration::from_secs(1);

/// A server that runs.
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

/// Starts a server. `backend` has topics that it shares with other servers.
///
/// # Errors
/// When the configuration cannot be carried out.
pub fn serve(config: Config, backend: Option<Box<dyn Backend>>) -> Result<Server, ServeError> {
    let prepared = prepare(config)?;
    let (mut sources, mut queries) = (prepared.sources, prepared.queries);
    let limits = listener::within_descriptors(prepared.config.limits);
    let config = Arc::new(Config { limits, ..prepared.config });
    let client_limits = ClientLimits::new(&config);
    let metrics = Metrics::new(
        config.version,
        config.shards,
        config.patterns(),
        config.upstreams.iter().map(|upstream| &upstream.pattern),
        backend.as_ref().map(|backend| backend.counts()),
    );
    let fetcher = Fetcher::new(&config, metrics.of_upstreams()).map_err(ServeError::Config)?;
    let key_counts = Arc::clone(&metrics.keys);
    let (demands, wanted) = mpsc::channel(DEMANDS_MAX);
    let mut to_shards = Vec::new();
    let (mut peers, mut mailboxes) = (Vec::new(), Vec::new());
    for _ in 0..config.shards {
        let (to_mail, mail) = mpsc::channel(config.limits.mail);
        let (to_publishes, publishes) = mpsc::channel(config.limits.publishes);
        let (to_backend, from_backend) = mpsc::channel(FROM_BACKEND_MAX);
        let (to_answers, answers) = mpsc::unbounded_channel();
        peers.push(Peer {
            mail: to_mail,
            publishes: to_publishes,
            from_backend: to_backend,
            read_topics: Arc::default(),
            answers: to_answers,
        });
        let (to_fetched, fetched) = mpsc::channel(FETCHED_MAX);
        to_shards.push(to_fetched);
        mailboxes.push(Mailbox { mail, publishes, fetched, from_backend, answers });
    }
    let shutdown = Arc::<ShutdownState>::default();
    let streams = backend.as_ref().map(|backend| backend.streams()).unwrap_or_default();
    let (stores, to_store) = mpsc::channel(STORES_MAX);
    let (reads, to_read) = mpsc::channel(READS_MAX);
    let readiness = backend.is_some().then(Readiness::default);
    let (tickets, to_keep) = TicketStore::new(backend.is_some());
    let common = Common {
        config: Arc::clone(&config),
        metrics,
        peers: peers.clone(),
        asked: prepared.asked,
        inputs: Arc::new(Inputs::of(&sources, queries.iter().map(|query| &query.source))),
        idempotency_hasher: IdempotencyHasher::default(),
        shares: Arc::clone(&client_limits.subscribed_topics),
        rates: Arc::clone(&client_limits.rates),
        fetched_rates: Arc::clone(&client_limits.fetched),
        demands: fetcher.is_some().then_some(demands),
        streams: streams.into(),
        reads: backend.is_some().then_some(reads),
        stores: backend.is_some().then_some(stores),
        readiness: readiness.clone(),
    };
    let shared = Shared {
        admin: prepared.admin.map(Arc::new),
        tls: prepared.certificate.clone(),
        runs: prepared.runs.map(Arc::new),
        tickets: Arc::new(tickets),
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
        listeners.push((listener, Arc::new(ConnectionLimits::of_admin())));
    }
    let access = Arc::new(prepared.access);
    let cores = cores_for(config.shards);
    let mut threads = Vec::new();
    let (started, all_started) = std::sync::mpsc::channel();
    for (id, mailbox) in mailboxes.into_iter().enumerate() {
        let (common, shared, access) = (common.clone(), shared.clone(), Arc::clone(&access));
        let is_own = |source: &mut Scheduled| home_of(&source.output, config.shards) == id;
        let own_sources: Vec<_> = sources.extract_if(.., is_own).collect();
        let is_own = |query: &mut DerivedTopic| home_of(&query.output, config.shards) == id;
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
            run_shard(id, (common, access), shared, mailbox, own, listeners, &started)
        })?);
    }
    if let Some(reader) = prepared.key_reader {
        read_keys(reader, Arc::clone(&key_counts))?;
    }
    if let Some(fetcher) = fetcher {
        let run = move || fetcher.run(wanted, to_shards);
        threads.push(thread::Builder::new().name("fetcher".into()).spawn(run)?);
    }
    if let (Some(backend), Some(readiness), Some(tickets)) = (backend, readiness, to_keep) {
        let to_shard = |peer: &Peer| (peer.from_backend.clone(), Arc::clone(&peer.read_topics));
        let shards = Shards::new(peers.iter().map(to_shard));
        let link = Link { stores: to_store, reads: to_read, tickets, shards, readiness };
        let run = move || backend.run(link);
        threads.push(thread::Builder::new().name("backend".into()).spawn(run)?);
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
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the admin listener, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Loads the certificate again, if there is one. Existing connections keep the old one.
    /// Returns whether there is one.
    ///
    /// # Errors
    /// One sentence. The old certificate stays in use.
    pub fn reload_certificate(&self) -> Result<bool, String> {
        self.certificate
            .as_ref()
            .map_or(Ok(false), |certificate| certificate.reload().map(|()| true))
    }

    /// Takes what another configuration says of tokens, origins and names, and of limits of connections,
    /// of rates, and of what one address may begin. No connection is lost but those whose token is not good any more; topics
    /// end for those whose token gives no right to them any more.
    ///
    /// # Errors
    /// One sentence. Everything stays as it was.
    pub async fn reload(&mut self, config: &Config) -> Result<(), String> {
        let limits = self.config.limits.reloaded(&listener::within_descriptors(config.limits));
        // What a proxy says is believed by who was one at the start.
        let trusted_proxies = self.config.access.trusted_proxies.clone();
        let access = Access { trusted_proxies, ..config.access.clone() };
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
            // A shard that has ended has nobody to turn away.
            let _ = peer.mail.send(Mail::Access(Arc::clone(&access))).await;
        }
        self.access = access;
        self.config = Arc::new(config);
        Ok(())
    }

    /// Waits until a shard ends by itself, which none should.
    pub async fn broken(&self) {
        while !self.threads.iter().any(thread::JoinHandle::is_finished) {
            sleep(BROKEN_LOOK).await;
        }
    }

    /// `/readyz` says "not ready", but the server still works. This gives load balancers time
    /// to notice.
    pub fn announce_end(&self) {
        self.shutdown.is_announced.store(true, Relaxed);
    }

    /// Ends the server. New connections are rejected. Subscribers are sent what is due to them
    /// and told to reconnect. Requests are finished. Connections that do not read their close
    /// in time are dropped.
    pub async fn drain(self) {
        self.announce_end();
        self.shutdown.is_closed.store(true, Relaxed);
        let deadline = Instant::now() + self.config.drain;
        // Every shard gets what the other shards still hold for it before any shard closes
        // connections. A stuck shard may use only a quarter of the time.
        let settled_by = Instant::now() + self.config.drain / 4;
        let mut settling = Vec::new();
        for peer in &self.peers {
            let (done, settled) = oneshot::channel();
            let _ = timeout_at(settled_by, peer.mail.send(Mail::Flush(done))).await;
            settling.push(settled);
        }
        for settled in settling {
            let _ = timeout_at(settled_by, settled).await;
        }
        for peer in &self.peers {
            // A shard that has ended need not be told, and a stuck one is not waited for.
            let _ = timeout_at(deadline, peer.mail.send(Mail::Drain)).await;
        }
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() >= deadline {
                tracing::warn!("some connections did not drain in time and are cut off");
                return;
            }
            sleep(DRAIN_LOOK).await;
        }
    }
}

/// Limits of clients that may change while the server serves.
struct ClientLimits {
    connections: Arc<ConnectionLimits>,
    /// Topics that exist only for subscribers, by address.
    subscribed_topics: Arc<AddressCounts>,
    /// Fetched topics, by the address that is the first to ask for them.
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

/// Reads keys on a thread of its own, which ends when nobody wants them any more. The server goes on without it.
fn read_keys(reader: KeyReader, counts: Arc<KeyCounts>) -> io::Result<()> {
    thread::Builder::new().name("keys".into()).spawn(move || reader.run(&counts)).map(|_| ())
}

/// A listener with the limits of its connections.
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
    mailbox: Mailbox,
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
        let is_own = |topic: &&Topic| home_of(topic, shards) == id;
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
        spawn_local(keep_a_timer_near());
        // A task of its own: what wakes it is queued behind what else is ready. The runtime looks
        // at all sockets before it polls the future given to `block_on` again.
        let ended = spawn_local(shard::run(handle, mailbox, serve)).await;
        drop(serving);
        for accepting in accepting {
            let _ = accepting.await;
        }
        ended.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    })
}

/// Keeps a timer of the runtime less than a second away, for ever.
///
/// tokio interrupts its own wait, by a write to an eventfd, for each timer that ends before all that were
/// there when it last waited. Idle connections have timers of more than a minute, and a request one of some seconds:
/// without this one each request took a system call more.
async fn keep_a_timer_near() {
    let mut beat = interval(NEAR_TIMER);
    loop {
        beat.tick().await;
    }
}

/// The cores to pin shards to: none if there are fewer cores than shards, or only one shard,
/// because the user may already have chosen its core.
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
        tracing::warn!(%error, core, "a shard is not pinned");
    }
}
