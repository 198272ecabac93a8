//! Starts sources, shards and the listener, and ends them again.

mod listener;

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
use thalweg_columns::Columns;
use thiserror::Error;
use tokio::{
    net::TcpListener,
    runtime::{self, LocalOptions},
    sync::{mpsc, oneshot, watch},
    task::spawn_local,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    access::{AccessPolicy, MadeOf, PublishedKeys},
    backend::{Backend, Link, Readiness, Shards},
    config::{
        Access, Config, DEMANDS_MAX, FETCHED_MAX, FROM_BACKEND_MAX, Limits, READS_MAX, STORES_MAX,
    },
    connection_limits::{AddressCounts, AddressRates, ConnectionLimits},
    derived::{self, AskedQueries, DerivedTopic},
    fetch::{Fetcher, KeyReader},
    home::home_of,
    http::{BodyPermits, Http, Shared, ShutdownState, TicketStore, serve_connection},
    metrics::Metrics,
    rates::AllRates,
    runs::Runs,
    shard::{self, Common, Handle, IdempotencyHasher, Mail, Mailbox, Peer},
    source::{self, Inputs, Scheduled},
    transport::Certificate,
};
use thalweg_wire::Topic;

/// Time between two checks whether a shard has ended.
const BROKEN_LOOK: Duration = Duration::from_millis(200);

/// Time between two checks whether all shards have drained.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// Why a server does not start, or ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; {remedy}", remedy = listen_remedy(.0, .1, .2))]
    Listen(SocketAddr, io::Error, &'static str),
    /// The access settings are not valid, or the certificate for TLS or the folder of runs
    /// cannot be used.
    #[error("{0}")]
    Config(String),
    /// A source's settings are wrong.
    #[error("source {0}: {1}")]
    Source(Topic, String),
    /// A query cannot run.
    #[error("query {0}: {1}")]
    Query(Topic, String),
    /// The system refused something a shard needs.
    #[error("a shard cannot run: {0}")]
    Shard(#[from] io::Error),
}

/// What to do about an address that cannot be listened on; `flag` set it.
fn listen_remedy(address: &SocketAddr, error: &io::Error, flag: &str) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return format!("choose another address with {flag}");
    }
    format!(
        "a port below 1024, as {}, needs a right: give it to the program with \
         `sudo setcap cap_net_bind_service=+ep /path/to/thalweg` or, in a unit of systemd, \
         `AmbientCapabilities=CAP_NET_BIND_SERVICE`; or choose another port with {flag}, \
         8443 for instance",
        address.port()
    )
}

/// A server that runs.
pub struct Server {
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    config: Arc<Config>,
    made_of: MadeOf,
    peers: Vec<Peer>,
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
    certificate: Option<Certificate>,
    shutdown: Arc<ShutdownState>,
}

/// Starts a server. `backend` has topics that it shares with other servers.
///
/// # Errors
/// When the configuration cannot be carried out.
pub fn serve(config: Config, backend: Option<Box<dyn Backend>>) -> Result<Server, ServeError> {
    let Prepared {
        access,
        made_of,
        key_reader,
        admin,
        certificate,
        runs,
        mut sources,
        config,
        mut queries,
        asked,
    } = prepare(config)?;
    let limits = listener::within_descriptors(config.limits);
    let config = Arc::new(Config { limits, ..config });
    let patterns = config.upstreams.iter().map(|upstream| &upstream.pattern);
    let metrics = Metrics::new(
        config.version,
        config.shards,
        patterns,
        backend.as_ref().map(|backend| backend.counts()),
    );
    let fetcher = Fetcher::new(&config, metrics.of_upstreams()).map_err(ServeError::Config)?;
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
        asked,
        inputs: Arc::new(Inputs::of(&sources, queries.iter().map(|query| &query.source))),
        idempotency_hasher: IdempotencyHasher::default(),
        shares: Arc::new(AddressCounts::new(config.limits.subscribed_topics_per_address)),
        rates: Arc::new(AllRates::new(
            config.limits.rates_of_connection,
            config.limits.rates_of_subject,
            config.limits.rates_of_address,
        )),
        fetched_rates: Arc::new(AddressRates::new(config.limits.new_fetched_per_address)),
        demands: fetcher.is_some().then_some(demands),
        streams: streams.into(),
        reads: backend.is_some().then_some(reads),
        stores: backend.is_some().then_some(stores),
        readiness: readiness.clone(),
    };
    let shared = Shared {
        admin: admin.map(Arc::new),
        tls: certificate.clone(),
        runs: runs.map(Arc::new),
        tickets: Arc::new(tickets),
        requests_of_publishers: Arc::new(BodyPermits::new(limits.requests)),
        requests_of_others: Arc::new(BodyPermits::new(limits.requests_of_others())),
        shutdown: Arc::clone(&shutdown),
    };
    let connection_limits =
        ConnectionLimits::new(config.shards, config.limits, &config.access.trusted_proxies);
    let listener = listen(&config, config.listen, "--listen")?;
    let address = listener.local_addr()?;
    let mut listeners = vec![(listener, Arc::new(connection_limits))];
    let mut admin_address = None;
    if let Some(listen_at) = config.admin_listen {
        let listener = listen(&config, listen_at, "--admin-listen")?;
        admin_address = Some(listener.local_addr()?);
        listeners.push((listener, Arc::new(ConnectionLimits::of_admin())));
    }
    let access = Arc::new(access);
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
    if let Some(reader) = key_reader {
        let run = move || reader.run();
        threads.push(thread::Builder::new().name("keys".into()).spawn(run)?);
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
    Ok(Server { address, admin_address, config, made_of, peers, threads, certificate, shutdown })
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

    /// Loads the certificate again. Existing connections keep the old one.
    ///
    /// # Errors
    /// One sentence. The old certificate stays in use.
    pub fn reload_certificate(&self) -> Result<(), String> {
        self.certificate.as_ref().map_or(Ok(()), Certificate::reload)
    }

    /// Takes what another configuration says of tokens, and of origins and names. No connection is
    /// lost but those whose token is not good any more; topics end for those whose token gives no
    /// right to them any more.
    ///
    /// # Errors
    /// One sentence. Everything stays as it was.
    pub async fn reload_access(&mut self, access: &Access) -> Result<(), String> {
        let config = Config { access: access.clone(), ..(*self.config).clone() };
        let (access, key_reader) = access_policy(&config, self.made_of.clone())?;
        if let Some(reader) = key_reader {
            let run = move || reader.run();
            let thread = thread::Builder::new().name("keys".into()).spawn(run);
            self.threads.push(thread.map_err(|error| error.to_string())?);
        }
        let access = Arc::new(access);
        for peer in &self.peers {
            // A shard that has ended has nobody to turn away.
            let _ = peer.mail.send(Mail::Access(Arc::clone(&access))).await;
        }
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

/// Everything that can be checked and built from a configuration without listening.
struct Prepared {
    access: AccessPolicy,
    made_of: MadeOf,
    /// Reads the keys of signed tokens at their URL.
    key_reader: Option<KeyReader>,
    admin: Option<AccessPolicy>,
    certificate: Option<Certificate>,
    runs: Option<Runs>,
    sources: Vec<Scheduled>,
    /// With the columns of what sources and queries make.
    config: Config,
    queries: Vec<DerivedTopic>,
    asked: Arc<AskedQueries>,
}

fn prepare(mut config: Config) -> Result<Prepared, ServeError> {
    let admin = config.admin_listen.map(AccessPolicy::of_admin);
    let admin = admin.transpose().map_err(ServeError::Config)?;
    let certificate = config.tls.as_ref().map(Certificate::load).transpose();
    let certificate = certificate.map_err(ServeError::Config)?;
    let runs = config.runs.as_deref().map(Runs::new).transpose().map_err(ServeError::Config)?;
    let mut sources = scheduled_sources(&config)?;
    for source in &sources {
        // Those that a source has of its own are right: a test holds them to be.
        if let Ok(columns) = Columns::declared(source.source.columns().iter().copied()) {
            config.declare(&source.output, columns);
        }
    }
    if !config.runs_sources {
        sources.clear();
    }
    let queries = derived::prepare(&mut config);
    let queries = queries.map_err(|(topic, error)| ServeError::Query(topic, error))?;
    let Limits { queries: asked_max, queries_per_address, .. } = config.limits;
    let asked = Arc::new(AskedQueries::new(&queries, asked_max, queries_per_address));
    let read = queries.iter().map(|query| (query.output.clone(), query.source.clone()));
    let made_of = MadeOf { configured: Arc::new(read.collect()), asked: Arc::clone(&asked) };
    let (access, key_reader) =
        access_policy(&config, made_of.clone()).map_err(ServeError::Config)?;
    Ok(Prepared {
        access,
        made_of,
        key_reader,
        admin,
        certificate,
        runs,
        sources,
        config,
        queries,
        asked,
    })
}

/// The access policy of a configuration, and who reads the keys at its URL.
///
/// # Errors
/// One sentence.
fn access_policy(
    config: &Config,
    made_of: MadeOf,
) -> Result<(AccessPolicy, Option<KeyReader>), String> {
    let url = config.access.signed.as_ref().and_then(|signed| signed.url.clone());
    let (published, reader) = match url {
        Some(url) => {
            let (published, end) = PublishedKeys::new();
            (Some(published), Some(KeyReader::new(url, end)?))
        }
        None => (None, None),
    };
    let access = AccessPolicy::new(&config.access, config.listen, made_of, published)?;
    Ok((access, reader))
}

/// Finds the errors that [`serve`] would find, without serving.
///
/// # Errors
/// When the configuration cannot be carried out.
pub fn check(config: &Config) -> Result<(), ServeError> {
    prepare(config.clone()).map(|_| ())
}

fn scheduled_sources(config: &Config) -> Result<Vec<Scheduled>, ServeError> {
    let build = |wanted: &crate::config::SourceConfig| {
        if config.upstream(&wanted.topic).is_some() {
            let error = "an --upstream means this topic: name another, or another pattern";
            return Err(ServeError::Source(wanted.topic.clone(), error.to_owned()));
        }
        source::build(wanted).map_err(|error| ServeError::Source(wanted.topic.clone(), error))
    };
    config.sources.iter().map(build).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_needs_a_right_is_refused_with_the_ways_to_have_it() {
        let said = |kind: io::ErrorKind| {
            ServeError::Listen(([0, 0, 0, 0], 443).into(), kind.into(), "--listen").to_string()
        };
        let denied = said(io::ErrorKind::PermissionDenied);
        for words in ["443", "setcap", "AmbientCapabilities", "--listen"] {
            assert!(denied.contains(words), "{denied}");
        }
        let used = said(io::ErrorKind::AddrInUse);
        assert!(used.contains("--listen") && !used.contains("setcap"), "{used}");
    }
}
