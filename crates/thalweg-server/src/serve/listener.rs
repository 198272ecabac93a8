//! The listener: who gets in, and to which shard.

use std::{cell::Cell, io, net::TcpListener as StdListener, rc::Rc, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tokio::{net::TcpListener, task::spawn_local, time::sleep};

use crate::{
    config::{Config, Limits},
    shard::{Arrival, Handle, Mail, refuse_connection, serve_connection},
};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Until accepting is tried again after it failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Connections that are told why they are refused, at a time; others of a flood are
/// just closed.
const REFUSING: usize = 64;

/// Descriptors for everything that is no connection.
const OTHER_DESCRIPTORS: usize = 128;

pub(super) fn listen(config: &Config) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(config.listen), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit these on Linux.
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    socket.set_tcp_notsent_lowat(config.limits.unsent_bytes as u32)?;
    if let Some(bytes) = config.limits.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.bind(&config.listen.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Takes all descriptors that the system grants, and no more connections than
/// there are descriptors for.
pub(super) fn within_descriptors(limits: Limits) -> Limits {
    let granted = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: granted.maximum, ..granted };
    let granted = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { granted };
    let Some(descriptors) = granted.current else { return limits };
    let room = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let connections = limits.connections.min(room.saturating_sub(OTHER_DESCRIPTORS).max(1));
    if connections < limits.connections {
        tracing::info!(connections, "the system grants descriptors for so many connections");
    }
    Limits { connections, ..limits }
}

/// Accepts for all shards; each socket goes to the least-loaded.
pub(super) async fn accept(handle: Rc<Handle>, listener: TcpListener) {
    let refusing = Rc::new(Cell::new(0_usize));
    loop {
        let accepted = listener.accept().await;
        let accepted = accepted.and_then(|(socket, from)| Ok((socket.into_std()?, from)));
        let (socket, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: those that end free some.
                tracing::warn!(%error, "cannot accept");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        handle.count(|counts| counts.accepted += 1);
        let seat = match handle.common.seats.take(from.ip()) {
            Ok(seat) => seat,
            Err(refused) => {
                handle.count(|counts| counts.count_refused(refused.code));
                if refusing.get() < REFUSING {
                    refusing.set(refusing.get() + 1);
                    let refusing = Rc::clone(&refusing);
                    let is_tls = handle.common.tls.is_some();
                    spawn_local(async move {
                        // Without a handshake there is nothing to tell.
                        if !is_tls {
                            refuse_connection(socket, refused).await;
                        }
                        refusing.set(refusing.get() - 1);
                    });
                }
                continue;
            }
        };
        let shard = seat.shard();
        let arrival = Arrival { socket, seat };
        if shard == handle.id {
            spawn_local(serve_connection(Rc::clone(&handle), arrival));
        } else if handle.common.peers[shard].mail.send(Mail::Connection(arrival)).await.is_err() {
            return;
        }
    }
}
