//! One socket: what it is for, and what it could not take yet.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

use crate::body::{Body, Lines};

/// A subscriber that does not read is let go of here: the limit has no history
/// to fall back on.
const UNSENT_BYTES_MAX: usize = 64 << 20;

const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Begins in a frame the socket took only a part of.
    unsent: Vec<u8>,
    /// How many of these bytes have been sent since.
    flushed: usize,
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

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, unsent: Vec::new(), flushed: 0, role: Role::Request(Vec::new()) }
    }

    /// Sends `slices` in one call, behind what is still unsent.
    pub(crate) fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        if !self.unsent.is_empty() {
            return self.keep(slices, 0, Sent::Queued);
        }
        let outcome = match slices {
            [one] => send(&self.socket, one, SEND_FLAGS),
            several => {
                sendmsg(&self.socket, several, &mut SendAncillaryBuffer::default(), SEND_FLAGS)
            }
        };
        match outcome {
            Ok(sent) if sent == slices.iter().map(|slice| slice.len()).sum() => Sent::Whole,
            Ok(sent) => self.keep(slices, sent, Sent::Partly),
            Err(Errno::AGAIN | Errno::INTR) => self.keep(slices, 0, Sent::Partly),
            Err(_) => Sent::Broken,
        }
    }

    /// Sends what is unsent, now that the socket can take more.
    pub(crate) fn flush(&mut self) -> Sent {
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
