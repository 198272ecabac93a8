//! A shard's own epoll: one descriptor for the runtime, however many sockets.

use std::{io, os::fd::AsFd, os::fd::OwnedFd};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};
use tokio::io::{Interest, unix::AsyncFd};

/// Key of the timer among the sockets' keys.
const TIMER: u64 = u64::MAX;

/// Events taken at a time.
const EVENTS: usize = 1024;

/// The epoll and its timer.
pub(super) struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed_us: Option<u64>,
    events: Vec<Event>,
}

/// What happened to a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) key: u32,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Its peer has finished, or there is none any more: reading it gives the end.
    pub(super) gone: bool,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), edge)?;
        Ok(Self { epoll, timer, armed_us: None, events: Vec::with_capacity(EVENTS) })
    }

    /// Becomes readable when there are events.
    #[expect(
        deprecated,
        reason = "its successor is unsafe; what that asks for holds here: the AsyncFd owns the \
                  only handle to this descriptor, which is never replaced"
    )]
    pub(super) fn readiness(&self) -> io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(self.epoll.try_clone()?, Interest::READABLE)
    }

    /// Watches a socket, edge-triggered: it is reported once when it becomes readable, or
    /// writable after it was full.
    pub(super) fn add(&self, socket: impl AsFd, key: u32) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(key.into()), flags)?)
    }

    /// Appends what happened to `ready`; `true` if there may be more.
    pub(super) fn take(&mut self, ready: &mut Vec<Ready>) -> bool {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        // A signal or an impossible error: there is a next turn.
        if epoll::wait(&self.epoll, spare, Some(&Timespec::default())).is_err() {
            return false;
        }
        for event in &self.events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == TIMER {
                self.armed_us = None;
                continue;
            }
            let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
            ready.push(Ready {
                key: key as u32,
                readable: gone || flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                gone,
            });
        }
        self.events.len() == EVENTS
    }

    /// Makes the epoll ready at a time of the monotonic clock, in µs.
    pub(super) fn wake_at(&mut self, at_us: u64) {
        if self.armed_us.is_some_and(|armed_us| armed_us <= at_us) {
            return;
        }
        // 0 would disarm it.
        let at_us = at_us.max(1);
        let it_value = Timespec {
            tv_sec: (at_us / 1_000_000) as i64,
            tv_nsec: (at_us % 1_000_000 * 1_000) as i64,
        };
        let spec = Itimerspec { it_interval: Timespec::default(), it_value };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec).is_ok() {
            self.armed_us = Some(at_us);
        }
    }
}
