//! Wires sources, shards and the listener together, and takes them down again.

use std::{
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use socket2::{Domain, Socket, Type};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    runtime,
    sync::mpsc,
    task::{LocalSet, spawn_local},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    access::Gate,
    config::Config,
    metrics::Metrics,
    shard::{self, Common, Handle, Letterbox, Mail, Peer, home_of},
    source::{self, Scheduled},
};
use thalweg_wire::Topic;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// From look to look whether a shard has ended.
const BROKEN_LOOK: Duration = Duration::from_millis(200);

/// From look to look whether all shards have drained.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// Until accepting is tried again after it failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Why a server does not start, or ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; choose another address with --listen")]
    Listen(SocketAddr, io::Error),
    /// Not on loopback.
    #[error(
        "{0} is reachable from other machines, and there is no access control yet: listen on 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    /// Who may do what is not said, or wrongly.
    #[error("{0}")]
    Access(String),
    /// A source's settings are wrong.
    #[error("source {0}: {1}")]
    Source(Topic, String),
    /// The system refused something a shard needs.
    #[error("a shard cannot run: {0}")]
    Shard(#[from] io::Error),
}

/// A server that runs.
pub struct Server {
    address: SocketAddr,
    config: Arc<Config>,
    peers: Vec<Peer>,
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
}

/// Checks a configuration as [`serve`] would, without listening.
///
/// # Errors
/// When it cannot be carried out.
pub fn check(config: &Config) -> Result<(), ServeError> {
    Gate::new(&config.access, config.listen).map_err(ServeError::Access)?;
    scheduled_sources(config).map(drop)
}

/// Starts a server.
///
/// # Errors
/// When the configuration cannot be carried out.
pub fn serve(config: Config) -> Result<Server, ServeError> {
    if !config.listen.ip().is_loopback() {
        return Err(ServeError::NotLoopback(config.listen));
    }
    let config = Arc::new(config);
    let mut sources = scheduled_sources(&config)?;
    let (mut peers, mut letterboxes) = (Vec::new(), Vec::new());
    for _ in 0..config.shards {
        let (to_mail, mail) = mpsc::channel(config.limits.mail);
        let (to_publishes, publishes) = mpsc::channel(config.limits.publishes);
        peers.push(Peer { mail: to_mail, publishes: to_publishes });
        letterboxes.push(Letterbox { mail, publishes });
    }
    let common = Common {
        config: Arc::clone(&config),
        metrics: Metrics::new(config.shards),
        peers: peers.clone(),
        loads: Arc::new((0..config.shards).map(|_| AtomicUsize::new(0)).collect()),
    };
    let listener = listen(&config).map_err(|error| ServeError::Listen(config.listen, error))?;
    let address = listener.local_addr()?;
    let mut listener = Some(listener);
    let cores = cores_for(config.shards);
    let mut threads = Vec::new();
    let (started, all_started) = std::sync::mpsc::channel();
    for (id, letterbox) in letterboxes.into_iter().enumerate() {
        let common = common.clone();
        let own_sources = sources.extract_if(.., |(topic, _)| home_of(topic, config.shards) == id);
        let own_sources: Vec<_> = own_sources.collect();
        // The first shard accepts for all.
        let listener = listener.take();
        let core = cores.get(id).copied();
        let started = started.clone();
        threads.push(thread::Builder::new().name(format!("shard-{id}")).spawn(move || {
            if let Some(core) = core {
                pin_to(core);
            }
            run_shard(id, common, letterbox, own_sources, listener, &started)
        })?);
    }
    drop(started);
    for _ in 0..config.shards {
        // A shard that cannot run says why, or ends without a word.
        all_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    }
    tracing::info!(%address, shards = config.shards, sources = config.sources.len(), "serving");
    Ok(Server { address, config, peers, threads })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until a shard ends by itself, which none should.
    pub async fn broken(&self) {
        while !self.threads.iter().any(thread::JoinHandle::is_finished) {
            sleep(BROKEN_LOOK).await;
        }
    }

    /// Ends it: subscribers are told to reconnect, requests are finished. Those
    /// that do not take their good-bye in time are cut off.
    pub async fn drain(self) {
        let deadline = Instant::now() + self.config.drain;
        for peer in &self.peers {
            // A shard that has ended needs no telling, one that is stuck no waiting.
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

fn scheduled_sources(config: &Config) -> Result<Vec<(Topic, Scheduled)>, ServeError> {
    let build = |wanted: &crate::config::SourceConfig| {
        source::build(wanted)
            .map(|scheduled| (wanted.topic.clone(), scheduled))
            .map_err(|error| ServeError::Source(wanted.topic.clone(), error))
    };
    config.sources.iter().map(build).collect()
}

fn listen(config: &Config) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(config.listen), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit these on Linux.
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    socket.set_tcp_notsent_lowat(config.limits.unsent_bytes as u32)?;
    socket.set_send_buffer_size(config.limits.send_buffer_bytes)?;
    socket.bind(&config.listen.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn run_shard(
    id: usize,
    common: Common,
    letterbox: Letterbox,
    sources: Vec<(Topic, Scheduled)>,
    listener: Option<std::net::TcpListener>,
    started: &std::sync::mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    let prepare = || {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let entered = runtime.enter();
        let handle = Handle::new(id, common)?;
        let listener = listener.map(TcpListener::from_std).transpose()?;
        drop(entered);
        Ok((runtime, handle, listener))
    };
    let (runtime, handle, listener) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            // Whoever waits for it tells the user.
            let _ = started.send(Err(error));
            return Ok(());
        }
    };
    let _ = started.send(Ok(()));
    LocalSet::new().block_on(&runtime, async move {
        for (topic, scheduled) in sources {
            handle.start_source(&topic, scheduled);
        }
        if let Some(listener) = listener {
            spawn_local(accept(Rc::clone(&handle), listener));
        }
        shard::run(handle, letterbox).await
    })
}

/// Accepts for all shards; each socket goes to the least-loaded.
async fn accept(handle: Rc<Handle>, listener: TcpListener) {
    loop {
        let socket = match listener.accept().await.and_then(|(socket, _)| socket.into_std()) {
            Ok(socket) => socket,
            Err(error) => {
                // Out of descriptors, most likely: those that end free some.
                tracing::warn!(%error, "cannot accept");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let loads = &handle.common.loads;
        let least = (0..loads.len()).min_by_key(|shard| loads[*shard].load(Relaxed));
        let least = least.unwrap_or(handle.id);
        loads[least].fetch_add(1, Relaxed);
        handle.count_accepted();
        if least == handle.id {
            spawn_local(shard::serve_connection(Rc::clone(&handle), socket));
        } else if handle.common.peers[least].mail.send(Mail::Connection(socket)).await.is_err() {
            return;
        }
    }
}

/// The cores to pin shards to: none if there are fewer than shards, or only one
/// shard, which whoever started the server may have placed already.
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
