//! A shard's own epoll: one descriptor for the runtime, however many sockets there are.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::Context,
};

use rustix::event::{
    Timespec,
    epoll::{self, CreateFlags, Event, EventData, EventFlags},
};
use tokio::io::unix::AsyncFd;

use crate::shard::alarm::{is_readable, watched};

/// Events taken at a time.
const EVENTS: usize = 1024;

pub(super) struct Poll {
    epoll: AsyncFd<OwnedFd>,
    events: Vec<Event>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) key: u32,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer has closed its side, or is gone. A read returns the end.
    pub(super) gone: bool,
}

impl Poll {
    /// Creates an epoll. Fails if the kernel has none left, or the runtime cannot watch it.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = watched(epoll::create(CreateFlags::CLOEXEC)?)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Returns whether sockets have events. If not, the loop is woken later. Fails if the runtime shuts down.
    pub(super) fn has_events(&self, cx: &mut Context<'_>) -> io::Result<bool> {
        is_readable(&self.epoll, cx)
    }

    /// Watches a socket, edge-triggered: it is reported once when it becomes readable, or writable after it was full.
    pub(super) fn add(&self, socket: impl AsFd, key: u32) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(self.epoll.get_ref(), socket, EventData::new_u64(key.into()), flags)?)
    }

    /// Appends the events to `ready`. Returns whether there may be more.
    pub(super) fn take(&mut self, ready: &mut Vec<Ready>) -> bool {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        // After a signal or an impossible error the next turn tries again.
        if epoll::wait(self.epoll.get_ref(), spare, Some(&Timespec::default())).is_err() {
            return false;
        }
        for event in &self.events {
            let (key, flags) = (event.data.u64(), event.flags);
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
}
