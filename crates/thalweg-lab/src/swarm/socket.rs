//! Sockets, readiness and the clock, as the swarm's one thread uses them.

use anyhow::bail;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Bytes asked for in one read. Larger reads leave the second-level cache.
const READ_BYTES: usize = 256 * 1024;
/// A longer part of a frame stays where it is and grows there; a shorter one
/// is copied in front of the next read.
const CARRY_BYTES_MAX: usize = 64 * 1024;
/// Sockets told of in one wait.
const READY_MAX: usize = 256;
/// Ports of one source address that connections may take, with room to spare.
const CONNECTIONS_PER_ADDRESS: usize = 20_000;
/// Files the lab needs besides its connections.
const OTHER_FILES: u64 = 64;

/// `CLOCK_MONOTONIC` in µs, which every process of the machine shares.
#[inline]
pub(super) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// CPU time of the calling thread.
pub(super) fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Makes room for so many connections; the subject inherits it.
pub(super) fn allow_open_files(connections: u32) -> anyhow::Result<()> {
    let needed = u64::from(connections) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        bail!(
            "{connections} connections need {needed} open files and this user may have {}; \
             raise the hard limit (ulimit -Hn) or take fewer connections",
            limit.maximum.unwrap_or(0)
        );
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

/// Begins a connection. The `index` picks the source address, so that no
/// address runs out of ports.
pub(super) fn dial(address: SocketAddr, index: usize) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    if index >= CONNECTIONS_PER_ADDRESS {
        let host = 1 + index / CONNECTIONS_PER_ADDRESS;
        let source = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host as u8), 0));
        rustix::net::bind(&socket, &source)?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// The port a connection comes from.
pub(super) fn local_port(socket: &OwnedFd) -> io::Result<u16> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    Ok(address.port())
}

/// Reads; `None` if there is nothing yet.
pub(super) fn read(socket: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    would_block(rustix::net::recv(socket, into, RecvFlags::empty()).map(|(length, _)| length))
}

/// Writes; `None` if there is no room yet.
pub(super) fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    would_block(rustix::net::send(socket, bytes, rustix::net::SendFlags::NOSIGNAL))
}

fn would_block<T>(result: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Who is ready.
pub(super) struct Poller {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
}

/// What a socket waits for. Readiness is told once (edge-triggered), which
/// saves the kernel a second look at every socket: so read until nothing is
/// left, write until the kernel takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    ReadAndWrite,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) key: u64,
    pub(super) writable: bool,
    pub(super) readable: bool,
    /// Nothing will come after what there is to read.
    pub(super) has_ended: bool,
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        Ok(Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(READY_MAX),
        })
    }

    pub(super) fn add(&self, socket: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(key), interest.flags())?)
    }

    pub(super) fn change(&self, socket: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(key), interest.flags())?)
    }

    pub(super) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits until a socket is ready or the time has passed; says how many are.
    pub(super) fn wait(&mut self, timeout_us: u64) -> io::Result<usize> {
        let timeout = Timespec {
            tv_sec: (timeout_us / 1_000_000) as i64,
            tv_nsec: (timeout_us % 1_000_000 * 1000) as i64,
        };
        self.ready.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.ready.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// One of those that the last wait found.
    pub(super) fn ready(&self, index: usize) -> Ready {
        let event = self.ready[index];
        let (flags, failed) = (event.flags, EventFlags::ERR | EventFlags::HUP);
        Ready {
            key: event.data.u64(),
            writable: flags.intersects(EventFlags::OUT | failed),
            readable: flags.intersects(EventFlags::IN | failed),
            has_ended: flags.intersects(EventFlags::RDHUP | failed),
        }
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        let always = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        match self {
            Interest::Read => always,
            Interest::ReadAndWrite => always | EventFlags::OUT,
        }
    }
}

/// The one buffer all connections are read through.
#[derive(Debug)]
pub(super) struct ReadBuffer(Vec<u8>);

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Bytes {
        length: usize,
        /// Whether nothing is left.
        is_all: bool,
    },
    Nothing,
    End,
}

impl ReadBuffer {
    pub(super) fn new() -> ReadBuffer {
        ReadBuffer(vec![0; CARRY_BYTES_MAX + READ_BYTES])
    }

    /// Reads once. `parse` is given what `carry` held and what came, and says
    /// how much of it is done with; the rest is carried over.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        socket: &OwnedFd,
        carry: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<Received, E> {
        let held = carry.len();
        if held > CARRY_BYTES_MAX {
            return Self::read_long(socket, carry, parse);
        }
        let length = match read(socket, &mut self.0[held..held + READ_BYTES])? {
            None => return Ok(Received::Nothing),
            Some(0) => return Ok(Received::End),
            Some(length) => length,
        };
        self.0[..held].copy_from_slice(carry);
        let bytes = &self.0[..held + length];
        let rest = &bytes[parse(bytes)?..];
        // A connection that waits shall hold no memory for it.
        *carry = rest.to_vec();
        Ok(Received::Bytes { length, is_all: length < READ_BYTES })
    }

    /// Reads behind a long part of a frame, in place.
    fn read_long<E: From<io::Error>>(
        socket: &OwnedFd,
        carry: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<Received, E> {
        carry.reserve(READ_BYTES);
        let room = carry.capacity() - carry.len();
        let spare = rustix::buffer::spare_capacity(carry);
        let length = match would_block(rustix::net::recv(socket, spare, RecvFlags::empty()))? {
            None => return Ok(Received::Nothing),
            Some((_, 0)) => return Ok(Received::End),
            Some((_, length)) => length,
        };
        let used = parse(carry)?;
        if carry.len() - used <= CARRY_BYTES_MAX {
            *carry = carry[used..].to_vec();
        } else {
            carry.drain(..used);
        }
        Ok(Received::Bytes { length, is_all: length < room })
    }
}
