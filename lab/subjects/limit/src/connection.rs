//! One socket: what it is for, and how bytes get in and out.

use std::fmt::Debug;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use crate::body::{Body, Lines};

/// A subscriber that does not read is let go of here: the limit has no history
/// to fall back on.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 << 20;

const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

#[derive(Debug)]
pub(crate) struct Connection<L> {
    pub(crate) link: L,
    pub(crate) role: Role,
}

/// What a connection is doing.
#[derive(Debug)]
pub(crate) enum Role {
    /// Sending a request head; this much has come.
    Request(Vec<u8>),
    Publisher(Box<Publisher>),
    Subscriber {
        group: usize,
        is_websocket: bool,
    },
}

/// A request body on its way into a topic.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) topic: usize,
    pub(crate) body: Body,
    pub(crate) lines: Lines,
    /// Offset of the first event it appended.
    pub(crate) first: u64,
    /// Offset of the last event it appended.
    pub(crate) position: u64,
    /// Events appended so far.
    pub(crate) count: u64,
}

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Whole,
    /// The socket is full: the rest waits for it to drain.
    Partly,
    /// All of it waits, behind what waits already.
    Queued,
    /// The connection is lost, or too slow.
    Broken,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes {
        length: usize,
        /// Whether nothing is left.
        is_all: bool,
    },
    Nothing,
    /// The connection is at its end, or lost.
    End,
}

/// How bytes get in and out of a socket: as they are, or encrypted. The server
/// is compiled once for each, so that the one costs the other nothing.
pub(crate) trait Link: Debug {
    fn socket(&self) -> &OwnedFd;
    /// Sends `slices` in one call, behind what is still unsent.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent;
    /// Sends what is unsent, now that the socket can take more.
    fn flush(&mut self) -> Sent;
    fn receive(&mut self, input: &mut [u8]) -> Received;
}

/// A socket, and what it could not take yet.
#[derive(Debug)]
pub(crate) struct Plain {
    socket: OwnedFd,
    /// Begins in a frame the socket took only a part of.
    unsent: Vec<u8>,
    /// How many of these bytes have been sent since.
    flushed: usize,
}

impl<L> Connection<L> {
    pub(crate) fn new(link: L) -> Self {
        Self { link, role: Role::Request(Vec::new()) }
    }
}

impl Plain {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, unsent: Vec::new(), flushed: 0 }
    }

    /// Keeps `slices` but for the first `sent` bytes.
    fn keep(&mut self, slices: &[IoSlice<'_>], mut sent: usize, outcome: Sent) -> Sent {
        for slice in slices {
            let skipped = sent.min(slice.len());
            self.unsent.extend_from_slice(&slice[skipped..]);
            sent -= skipped;
        }
        if self.unsent.len() - self.flushed > UNSENT_BYTES_MAX { Sent::Broken } else { outcome }
    }
}

impl Link for Plain {
    fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        if !self.unsent.is_empty() {
            return self.keep(slices, 0, Sent::Queued);
        }
        match send_slices(&self.socket, slices) {
            Ok(sent) if sent == slices.iter().map(|slice| slice.len()).sum() => Sent::Whole,
            Ok(sent) => self.keep(slices, sent, Sent::Partly),
            Err(Errno::AGAIN | Errno::INTR) => self.keep(slices, 0, Sent::Partly),
            Err(_) => Sent::Broken,
        }
    }

    fn flush(&mut self) -> Sent {
        match send(&self.socket, &self.unsent[self.flushed..], SEND_FLAGS) {
            Ok(sent) => self.flushed += sent,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Sent::Broken,
        }
        if self.flushed == self.unsent.len() {
            // Its memory goes too: being slow once is not paid for ever.
            self.unsent = Vec::new();
            self.flushed = 0;
            return Sent::Whole;
        }
        // Not at every send, so that a long rest is not moved for each.
        if self.flushed > self.unsent.len() / 2 {
            self.unsent.drain(..self.flushed);
            self.flushed = 0;
        }
        Sent::Partly
    }

    fn receive(&mut self, input: &mut [u8]) -> Received {
        receive_plain(&self.socket, input)
    }
}

/// One send of all slices.
pub(crate) fn send_slices(socket: &OwnedFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    match slices {
        [one] => send(socket, one, SEND_FLAGS),
        several => sendmsg(socket, several, &mut SendAncillaryBuffer::default(), SEND_FLAGS),
    }
}

/// One read of what the socket has.
pub(crate) fn receive_plain(socket: &OwnedFd, input: &mut [u8]) -> Received {
    let room = input.len();
    match recv(socket, input, RecvFlags::empty()) {
        Ok((0, _)) => Received::End,
        Ok((length, _)) => Received::Bytes { length, is_all: length < room },
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::End,
    }
}
