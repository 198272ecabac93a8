//! A shard's own epoll: one descriptor for the runtime, however many sockets.

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

use super::alarm::{is_readable, watched};

/// Events taken at a time.
const EVENTS: usize = 1024;

/// The epoll.
pub(super) struct Poll {
    epoll: AsyncFd<OwnedFd>,
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
    /// # Errors
    /// When the kernel has no epoll left, or the runtime cannot watch it.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = watched(epoll::create(CreateFlags::CLOEXEC)?)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Whether something happened to the sockets. Otherwise the loop is woken when it does.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub(super) fn has_events(&self, cx: &mut Context<'_>) -> io::Result<bool> {
        is_readable(&self.epoll, cx)
    }

    /// Watches a socket, edge-triggered: it is reported once when it becomes readable, or
    /// writable after it was full.
    pub(super) fn add(&self, socket: impl AsFd, key: u32) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(self.epoll.get_ref(), socket, EventData::new_u64(key.into()), flags)?)
    }

    /// Appends what happened to `ready`; `true` if there may be more.
    pub(super) fn take(&mut self, ready: &mut Vec<Ready>) -> bool {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        // A signal or an impossible error: there is a next turn.
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
