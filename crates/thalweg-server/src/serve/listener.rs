//! The listener: accepts connections and assigns them to shards.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener as StdListener, TcpStream},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, TcpKeepalive, Type};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinSet, spawn_local},
    time::sleep,
};

use crate::{
    audit::RequestOrigin,
    config::{Limits, REJECTIONS_MAX},
    connection_limits::{Address, ConnectionLimits},
    http::{Http, reject, serve_connection},
    refusal::Refusal,
    shard::{Arrival, ShardMessage},
    transport::Certificate,
};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Probes of an idle peer within `peer_timeout`: a single lost probe costs no connection.
const KEEPALIVE_PROBES: u32 = 3;

/// The kernel counts time between probes in seconds.
const KEEPALIVE_MIN: Duration = Duration::from_secs(1);

/// The pause after an accept that failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Descriptors for everything that is not a connection.
const OTHER_DESCRIPTORS: usize = 128;

pub(super) fn listen(address: SocketAddr, limits: &Limits) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit these on Linux.
    socket.set_tcp_nodelay(true)?;
    // Detects a vanished peer: with TCP_USER_TIMEOUT by unacknowledged bytes, and with keep-alive on an idle
    // connection. Without these options the kernel detects it after 15 minutes, or two hours.
    let probes = (limits.peer_timeout / KEEPALIVE_PROBES).max(KEEPALIVE_MIN);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probes).with_interval(probes))?;
    socket.set_tcp_user_timeout(Some(limits.peer_timeout))?;
    socket.set_tcp_notsent_lowat(limits.unsent_bytes as u32)?;
    if let Some(bytes) = limits.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Raises the limit of descriptors to the system's maximum, and limits connections to the available descriptors.
pub(super) fn within_descriptors(limits: Limits) -> Limits {
    let granted = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: granted.maximum, ..granted };
    let granted = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { granted };
    let Some(descriptors) = granted.current else { return limits };
    let room = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let connections = limits.connections.min(room.saturating_sub(OTHER_DESCRIPTORS).max(1));
    if connections < limits.connections {
        tracing::warn!(
            "the limit of open files allows {connections} connections, fewer than limits.connections: raise it with `ulimit -n`, or with `LimitNOFILE=` in the systemd unit"
        );
    }
    Limits { connections, ..limits }
}

/// Accepts connections for all shards of `connection_limits` until `over` changes. Each socket goes to the least-loaded shard.
/// Returns when the reason was sent to all rejected connections.
pub(super) async fn accept(
    http: Rc<Http>,
    listener: TcpListener,
    connection_limits: Arc<ConnectionLimits>,
    mut over: watch::Receiver<()>,
) {
    let mut rejections = JoinSet::new();
    let tls = http.shared.tls.as_ref().filter(|_| !connection_limits.is_admin);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = over.changed() => break,
        };
        let accepted = accepted.and_then(|(socket, from)| Ok((socket.into_std()?, from)));
        let (socket, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely no descriptor is free. Connections that end free some.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        http.shard.counts.accepted.add(1);
        if http.shared.shutdown.is_closed.load(Relaxed) {
            refuse(&http, &mut rejections, socket, tls, Refusal::draining(), from.ip());
            continue;
        }
        let permit = match connection_limits.take(from.ip()) {
            Ok(permit) => permit,
            Err(refused) => {
                // Over TLS the reason needs a handshake, which costs too much.
                match tls {
                    None => refuse(&http, &mut rejections, socket, None, refused, from.ip()),
                    Some(_) => http.shard.counts.refuse(&refused, origin(from.ip())),
                }
                continue;
            }
        };
        let shard = permit.shard();
        let arrival = Arrival { socket, permit, open: http.shard.common.open_sockets.open() };
        if shard == http.shard.id {
            spawn_local(serve_connection(Rc::clone(&http), arrival));
        } else if http.shard.common.peers[shard]
            .messages
            .send(ShardMessage::Connection(arrival))
            .await
            .is_err()
        {
            return;
        }
    }
    drop(listener);
    while rejections.join_next().await.is_some() {}
}

/// Returns the origin of a connection from an address.
fn origin(from: IpAddr) -> RequestOrigin<'static> {
    RequestOrigin { address: Some(Address::from_ip(from)), what: "connection", request: "" }
}

/// Sends a connection the reason for its rejection, unless too many rejections are in progress.
fn refuse(
    http: &Http,
    rejections: &mut JoinSet<()>,
    socket: TcpStream,
    tls: Option<&Certificate>,
    refused: Refusal,
    from: IpAddr,
) {
    http.shard.counts.refuse(&refused, origin(from));
    while rejections.try_join_next().is_some() {}
    if rejections.len() == REJECTIONS_MAX {
        return;
    }
    let tls = tls.map(Certificate::current);
    rejections.spawn_local(async move { reject(socket, tls, &refused).await });
}
