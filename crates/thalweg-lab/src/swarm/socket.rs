//! Sockets, readiness and the clock, as the swarm's one thread uses them.

use anyhow::bail;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Sockets reported by one wait.
const READY_MAX: usize = 256;
/// Ports of one source address that connections may take, with room to spare.
const CONNECTIONS_PER_ADDRESS: usize = 20_000;
/// Files the lab needs besides its connections.
const OTHER_FILES: u64 = 64;
const TIMER: u64 = u64::MAX;
/// Sleep ends this long before the end of a wait, because a sleeping thread wakes late: on a virtual machine 0.1 ms at
/// the median, 0.4 ms at the p99.
const AWAKE_BEFORE_US: u64 = 500;

pub(super) use crate::load_generator::monotonic_us as now_us;

/// Returns the time of day, in ns since 1970.
#[inline]
pub(super) fn now_real_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(super) fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Returns how many files this user may have open; `None` without a limit.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Raises the limit of open files for this many connections; the subject inherits the limit.
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

/// Begins a connection. `index` picks the source address, so that no address runs out of ports; 0 keeps the kernel's buffer.
pub(super) fn dial(
    address: SocketAddr,
    index: usize,
    receive_buffer_bytes: u32,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if receive_buffer_bytes > 0 {
        // Before connecting, which negotiates the window's scale.
        let bytes = receive_buffer_bytes as usize;
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        // The kernel doubles the requested size, up to twice its own limit.
        let granted = sockopt::socket_recv_buffer_size(&socket)? / 2;
        if granted < bytes {
            return Err(io::Error::other(format!(
                "the kernel grants a receive buffer of {granted} bytes and not {bytes}: \
                 raise net.core.rmem_max"
            )));
        }
    }
    if index >= CONNECTIONS_PER_ADDRESS && address.is_ipv4() && address.ip().is_loopback() {
        let host = 1 + index / CONNECTIONS_PER_ADDRESS;
        let source = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host as u8), 0));
        rustix::net::bind(&socket, &source)?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn local_port(socket: &OwnedFd) -> io::Result<u16> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    Ok(address.port())
}

/// Reads; `None` if there is nothing yet.
pub(super) fn read(socket: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    would_block(rustix::net::recv(socket, into, RecvFlags::empty()).map(|(length, _)| length))
}

/// Reads into the spare capacity of `into`, after its content; `None` if there is nothing yet.
pub(super) fn read_behind(socket: &OwnedFd, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let spare = rustix::buffer::spare_capacity(into);
    would_block(rustix::net::recv(socket, spare, RecvFlags::empty()).map(|(_, length)| length))
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

/// Waits for ready sockets.
pub(super) struct Poller {
    epoll: OwnedFd,
    /// Ends a wait: epoll's own timeout is in milliseconds (`epoll_pwait2` needs Linux 5.11).
    timer: OwnedFd,
    is_armed: bool,
    ready: Vec<epoll::Event>,
    /// Whether the thread polls before it sleeps. On a core that other programs use, too, polling would take time from them.
    may_spin: bool,
    /// CPU time of polls that found no work, which is not part of the swarm's load.
    spun_ns: u64,
    looked_us: u64,
    away_us_max: u64,
}

/// Conditions that a socket waits for. Readiness is reported once (edge-triggered), which saves the kernel a second check of every
/// socket: read until nothing is left, write until the kernel takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    ReadAndWrite,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) key: u64,
    pub(super) writable: bool,
    pub(super) readable: bool,
    /// No more bytes arrive after those that are left to read.
    pub(super) has_ended: bool,
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), Interest::Read.flags())?;
        Ok(Poller {
            epoll,
            timer,
            is_armed: false,
            may_spin: true,
            ready: Vec::with_capacity(READY_MAX),
            spun_ns: 0,
            looked_us: now_us(),
            away_us_max: 0,
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

    /// Waits until a socket is ready or the time has passed; the thread may wake later. Returns the number of ready sockets.
    pub(super) fn wait(&mut self, timeout_us: u64) -> io::Result<usize> {
        self.ready.clear();
        let looks_us = now_us();
        self.away_us_max = self.away_us_max.max(looks_us.saturating_sub(self.looked_us));
        let no_time = Timespec::default();
        let timeout = match timeout_us {
            0 => Some(&no_time),
            _ => {
                self.arm(timeout_us)?;
                None
            }
        };
        let buffer = rustix::buffer::spare_capacity(&mut self.ready);
        let waited = epoll::wait(&self.epoll, buffer, timeout);
        // A sleeping thread is not away, because a ready socket wakes it.
        self.looked_us = if timeout_us == 0 { looks_us } else { now_us() };
        if self.is_armed
            && let Some(timer) = self.ready.iter().position(|event| event.data.u64() == TIMER)
        {
            self.is_armed = false;
            self.ready.swap_remove(timer);
        }
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(self.ready.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the timer to `timeout_us` from now.
    fn arm(&mut self, timeout_us: u64) -> io::Result<()> {
        let it_value = Timespec {
            tv_sec: (timeout_us / 1_000_000) as i64,
            tv_nsec: (timeout_us % 1_000_000 * 1000) as i64,
        };
        let spec = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        self.is_armed = true;
        Ok(())
    }

    /// Returns the longest time between two polls of the sockets since the last call.
    pub(super) fn take_away_us_max(&mut self) -> u64 {
        // Time since the last look counts, too.
        let now_us = now_us();
        let away_us = now_us.saturating_sub(std::mem::replace(&mut self.looked_us, now_us));
        std::mem::take(&mut self.away_us_max).max(away_us)
    }

    /// Lets the thread sleep instead of polling, because other programs may use its core.
    pub(super) fn share_core(&mut self) {
        self.may_spin = false;
    }

    /// Like [`Self::wait`], accurate to the µs: polls for `spin_us`, sleeps, and polls again until the end. Waking a sleeping thread
    /// costs the subject time: on a virtual machine, an interrupt to an idle core costs as much as a send.
    pub(super) fn wait_awake(&mut self, timeout_us: u64, spin_us: u64) -> io::Result<usize> {
        let count = self.wait(0)?;
        if count > 0 || timeout_us == 0 {
            return Ok(count);
        }
        if !self.may_spin {
            return self.wait(timeout_us);
        }
        let begun_us = now_us();
        let until_us = begun_us.saturating_add(timeout_us);
        let count = self.spin(until_us.min(begun_us + spin_us))?;
        if count > 0 {
            return Ok(count);
        }
        let asleep_us = until_us.saturating_sub(now_us() + AWAKE_BEFORE_US);
        let count = if asleep_us > 0 { self.wait(asleep_us)? } else { 0 };
        if count > 0 { Ok(count) } else { self.spin(until_us) }
    }

    fn spin(&mut self, until_us: u64) -> io::Result<usize> {
        let cpu_ns = thread_cpu_ns();
        let mut count = 0;
        while count == 0 && now_us() < until_us {
            count = self.wait(0)?;
        }
        self.spun_ns += thread_cpu_ns() - cpu_ns;
        Ok(count)
    }

    /// Returns the CPU time of this thread so far, without polls that found no work.
    pub(super) fn busy_ns(&self) -> u64 {
        thread_cpu_ns() - self.spun_ns
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    /// The best of many waits counts, because a stalled machine delays every thread.
    #[test]
    fn a_wait_ends_on_time_and_not_a_millisecond_later() {
        let mut poller = Poller::new().unwrap();
        let late_us = (0..50).map(|_| {
            let until_us = now_us() + 1200;
            assert_eq!(poller.wait_awake(1200, 0).unwrap(), 0);
            now_us().checked_sub(until_us).unwrap()
        });
        let late_us = late_us.min().unwrap();
        assert!(late_us < 100, "{late_us} µs late");
    }

    #[test]
    fn a_timer_without_a_waiter_is_not_reported() {
        let mut poller = Poller::new().unwrap();
        let (reader, writer) = pipe().unwrap();
        poller.add(&reader, 7, Interest::Read).unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(poller.wait(2000).unwrap(), 1);
        // The timer fires meanwhile.
        let until_us = now_us() + 4000;
        while now_us() < until_us {
            assert_eq!(poller.wait(0).unwrap(), 0);
        }
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!((poller.wait(0).unwrap(), poller.ready(0).key), (1, 7));
    }
}
