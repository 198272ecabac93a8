//! Finds the process that listens at an address of this machine, so that a server that the lab did not start can be observed.

use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, all_processes};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// With socket activation, init holds the sockets of all services and serves none.
const INIT: u32 = 1;

/// The processes that listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Ids of the processes that listen, without descendants of another listening process.
    pub pids: Vec<u32>,
    /// Command line of the first process.
    pub command: String,
}

impl Listener {
    /// Returns the program's name without its folder and arguments.
    pub fn program(&self) -> &str {
        let program = self.command.split(' ').next().unwrap_or_default();
        program.rsplit('/').next().unwrap_or_default()
    }
}

/// The reason why a listener's CPU and memory cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSeen {
    /// The address belongs to another machine.
    #[error("{0} is not an address of this machine, so the server's CPU and memory are not seen")]
    Elsewhere(IpAddr),
    /// No process of this namespace has such a socket: perhaps a container has.
    #[error(
        "no process of this network namespace listens at port {0}: a server in a container is \
         visible only from inside"
    )]
    Nobody(u16),
    /// The kernel does not show another user's processes.
    #[error(
        "the server at port {0} belongs to another user: run the lab as that user, or as \
         root, to see its CPU and memory"
    )]
    Hidden(u16),
    /// `/proc` cannot be read.
    #[error("/proc cannot be read, so the server's CPU and memory are not seen: {0}")]
    Unreadable(String),
}

impl Listener {
    /// Finds the listener of the first of these addresses that has one.
    pub fn find(addresses: &[SocketAddr]) -> Result<Listener, NotSeen> {
        let mut reason = NotSeen::Nobody(addresses.first().map_or(0, SocketAddr::port));
        for &address in addresses {
            match find(address) {
                Ok(listener) => return Ok(listener),
                Err(NotSeen::Nobody(_)) => {}
                Err(other) => reason = other,
            }
        }
        Err(reason)
    }
}

fn find(address: SocketAddr) -> Result<Listener, NotSeen> {
    if !is_ours(address.ip()) {
        return Err(NotSeen::Elsewhere(address.ip()));
    }
    let inodes = sockets(address)?;
    if inodes.is_empty() {
        return Err(NotSeen::Nobody(address.port()));
    }
    let unreadable = |error: procfs::ProcError| NotSeen::Unreadable(error.to_string());
    let (mut holders, mut parents) = (Vec::new(), HashMap::new());
    // Processes come and go while the directory is read.
    for process in all_processes().map_err(unreadable)?.flatten() {
        let pid = process.pid as u32;
        if let Ok(stat) = process.stat() {
            parents.insert(pid, stat.ppid as u32);
        }
        if holds(&process, &inodes) {
            holders.push(pid);
        }
    }
    let pids = roots(&holders, &parents);
    let Some(&first) = pids.first() else {
        return Err(NotSeen::Hidden(address.port()));
    };
    let command = Process::new(first as i32).and_then(|process| process.cmdline());
    Ok(Listener { command: command.unwrap_or_default().join(" "), pids })
}

/// Returns whether an address belongs to this machine: the kernel then permits a socket to bind to it.
fn is_ours(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Returns the listening sockets that may accept a connection to the address.
fn sockets(address: SocketAddr) -> Result<HashSet<u64>, NotSeen> {
    let unreadable = |error: procfs::ProcError| NotSeen::Unreadable(error.to_string());
    let mut entries = procfs::net::tcp().map_err(unreadable)?;
    // A kernel without IPv6 has no such table.
    entries.extend(procfs::net::tcp6().unwrap_or_default());
    let listening = entries.into_iter().filter(|entry| entry.state == TcpState::Listen);
    let reached = listening.filter(|entry| reaches(address, entry.local_address));
    Ok(reached.map(|entry| entry.inode).collect())
}

/// Returns whether a socket that is bound to `bound` may accept a connection to `address`.
fn reaches(address: SocketAddr, bound: SocketAddr) -> bool {
    let ip = bound.ip().to_canonical();
    let is_any = ip.is_unspecified() && (bound.is_ipv6() || address.is_ipv4());
    address.port() == bound.port() && (is_any || ip == address.ip().to_canonical())
}

fn holds(process: &Process, inodes: &HashSet<u64>) -> bool {
    let Ok(files) = process.fd() else { return false };
    let mut targets = files.flatten().map(|file| file.target);
    targets.any(|target| matches!(target, FDTarget::Socket(inode) if inodes.contains(&inode)))
}

/// Returns the holders that do not descend from another holder; init only if there is no other holder.
fn roots(holders: &[u32], parents: &HashMap<u32, u32>) -> Vec<u32> {
    let serving: Vec<u32> = match holders {
        [INIT] => vec![INIT],
        _ => holders.iter().copied().filter(|pid| *pid != INIT).collect(),
    };
    let has_holder_above = |pid: &u32| {
        let above = std::iter::successors(parents.get(pid), |parent| parents.get(parent));
        // A chain of parents is no longer than the number of processes.
        above.take(parents.len()).any(|parent| parent != pid && serving.contains(parent))
    };
    serving.iter().copied().filter(|pid| !has_holder_above(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn this_process_is_found_at_its_own_port() {
        for bound in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let listener = TcpListener::bind(bound).unwrap();
            let port = listener.local_addr().unwrap().port();
            let found = Listener::find(&[([127, 0, 0, 1], port).into()]).unwrap();
            assert!(!found.command.is_empty());
            assert_eq!(found.pids, [std::process::id()], "{bound}");
            drop(listener);
            // A child that another test is starting has a copy of the socket until it executes its program.
            let nobody = Err(NotSeen::Nobody(port));
            while Listener::find(&[([127, 0, 0, 1], port).into()]) != nobody {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn listeners_on_another_machine_are_not_inspected() {
        // Reserved for documentation (RFC 5737).
        let address: SocketAddr = ([192, 0, 2, 1], 80).into();
        assert_eq!(Listener::find(&[address]), Err(NotSeen::Elsewhere(address.ip())));
    }

    #[test]
    fn a_bound_address_decides_which_connections_a_socket_accepts() {
        let check = |address: &str, bound: &str, expected| {
            let found = reaches(address.parse().unwrap(), bound.parse().unwrap());
            assert_eq!(found, expected, "{address} at {bound}");
        };
        check("127.0.0.1:80", "127.0.0.1:80", true);
        check("127.0.0.1:80", "127.0.0.1:81", false);
        check("127.0.0.1:80", "127.0.0.2:80", false);
        check("127.0.0.1:80", "0.0.0.0:80", true);
        check("127.0.0.1:80", "[::]:80", true);
        check("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true);
        check("[::1]:80", "[::]:80", true);
        check("[::1]:80", "0.0.0.0:80", false);
        check("[::1]:80", "[::1]:80", true);
    }

    #[test]
    fn workers_belong_to_the_process_that_started_them() {
        let parents = HashMap::from([(1, 0), (10, 1), (11, 10), (12, 10), (13, 12), (20, 1)]);
        let check = |holders: &[u32], expected: &[u32]| {
            assert_eq!(roots(holders, &parents), expected, "{holders:?}");
        };
        check(&[10, 11, 12], &[10]);
        check(&[11, 12], &[11, 12]);
        check(&[10, 13], &[10]);
        check(&[1, 10, 11], &[10]);
        check(&[1], &[1]);
        check(&[10, 20], &[10, 20]);
        check(&[], &[]);
    }
}
