//! One connection: its role, and how bytes get in and out.

use std::fmt::Debug;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use crate::body::{Body, Lines};
use crate::log::Log;

const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

#[derive(Debug)]
pub(crate) struct Connection<L> {
    pub(crate) link: L,
    pub(crate) role: Role,
}

#[derive(Debug)]
pub(crate) enum Role {
    /// The client sends a request head, of which this part has arrived.
    Request(Vec<u8>),
    Publisher(Box<Publisher>),
    Subscriber(Subscriber),
}

/// Position of a connection in the log of its group.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) group: usize,
    /// Bytes of the log before this position have been sent.
    pub(crate) cursor: u64,
    /// Whether the socket is full. The rest is sent when there is room.
    pub(crate) is_blocked: bool,
    pub(crate) is_websocket: bool,
}

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) topic: usize,
    pub(crate) body: Body,
    pub(crate) lines: Lines,
    pub(crate) first: u64,
    pub(crate) position: u64,
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Lost;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) taken: usize,
    /// Whether the socket is full. Epoll reports when there is room.
    pub(crate) is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes {
        length: usize,
        is_all: bool,
    },
    Nothing,
    /// The connection has ended, or is lost.
    End,
}

/// Moves bytes into and out of a socket, unchanged or encrypted. The server is compiled once for each of the two, for speed.
pub(crate) trait Link: Debug {
    fn socket(&self) -> &OwnedFd;
    /// Sends from the front of `bytes` as much as the socket takes.
    fn send(&mut self, bytes: &[u8]) -> Result<Sent, Lost>;
    fn receive(&mut self, input: &mut [u8]) -> Received;
}

#[derive(Debug)]
pub(crate) struct Plain(pub(crate) OwnedFd);

impl<L: Link> Connection<L> {
    pub(crate) fn new(link: L) -> Self {
        Self { link, role: Role::Request(Vec::new()) }
    }

    /// Sends a subscriber the unsent part of the log up to `end`, and bytes that the link holds back. Returns whether the
    /// subscriber is blocked. Waits for `busy_wait` after the send.
    pub(crate) fn send(&mut self, log: &Log, end: u64, busy_wait: Duration) -> Result<bool, Lost> {
        let Role::Subscriber(subscriber) = &mut self.role else {
            return Ok(false);
        };
        let Sent { taken, is_full } = self.link.send(log.between(subscriber.cursor, end))?;
        subscriber.cursor += taken as u64;
        subscriber.is_blocked = is_full;
        if !busy_wait.is_zero() {
            let sent_at = Instant::now();
            while sent_at.elapsed() < busy_wait {}
        }
        Ok(is_full)
    }

    /// Returns whether unsent bytes of the log before `end` can be sent.
    pub(crate) fn is_due(&self, end: u64) -> bool {
        matches!(&self.role, Role::Subscriber(it) if !it.is_blocked && it.cursor < end)
    }
}

impl Link for Plain {
    fn socket(&self) -> &OwnedFd {
        &self.0
    }

    fn send(&mut self, bytes: &[u8]) -> Result<Sent, Lost> {
        match send(&self.0, bytes, SEND_FLAGS) {
            Ok(taken) => Ok(Sent { taken, is_full: taken < bytes.len() }),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Sent { taken: 0, is_full: true }),
            Err(_) => Err(Lost),
        }
    }

    fn receive(&mut self, input: &mut [u8]) -> Received {
        receive_plain(&self.0, input)
    }
}

pub(crate) fn send_slices(socket: &OwnedFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    match slices {
        [one] => send(socket, one, SEND_FLAGS),
        several => sendmsg(socket, several, &mut SendAncillaryBuffer::default(), SEND_FLAGS),
    }
}

pub(crate) fn receive_plain(socket: &OwnedFd, input: &mut [u8]) -> Received {
    let room = input.len();
    match recv(socket, input, RecvFlags::empty()) {
        Ok((0, _)) => Received::End,
        Ok((length, _)) => Received::Bytes { length, is_all: length < room },
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::End,
    }
}
