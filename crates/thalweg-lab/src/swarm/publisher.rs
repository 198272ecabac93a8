//! One long-lived publish connection: an NDJSON request that goes on and on,
//! each burst of events one chunk (RFC 9112 §7.1).

use super::socket::{Interest, Poller, dial, read, write};
use crate::subject::dialect;
use anyhow::bail;
use rustix::fd::OwnedFd;
use std::io::Write as _;
use std::net::SocketAddr;

/// A publish connection of one topic.
#[derive(Debug)]
pub(super) struct Publisher {
    socket: OwnedFd,
    key: u64,
    /// What the kernel has not taken yet, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    /// Whether it waits to write.
    waits: bool,
}

impl Publisher {
    /// Connects and sends the request's head. The poller will report `key`.
    pub(super) fn open(
        address: SocketAddr,
        topic: u32,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<Publisher> {
        let socket = dial(address, 0)?;
        // Still connecting: the head goes out when it is writable.
        poller.add(&socket, key, Interest::ReadAndWrite)?;
        Ok(Publisher {
            socket,
            key,
            pending: dialect::publish_request(address, topic),
            sent: 0,
            waits: true,
        })
    }

    /// Publishes these lines.
    pub(super) fn post(&mut self, lines: &[u8], poller: &Poller) -> anyhow::Result<()> {
        write!(self.pending, "{:x}\r\n", lines.len())?;
        self.pending.extend_from_slice(lines);
        self.pending.extend_from_slice(b"\r\n");
        if self.waits { Ok(()) } else { self.flush(poller) }
    }

    /// Ends the request.
    pub(super) fn finish(&mut self, poller: &Poller) -> anyhow::Result<()> {
        self.pending.extend_from_slice(b"0\r\n\r\n");
        if self.waits { Ok(()) } else { self.flush(poller) }
    }

    /// Bytes the kernel has not taken.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Writes what the kernel takes.
    pub(super) fn flush(&mut self, poller: &Poller) -> anyhow::Result<()> {
        while self.sent < self.pending.len() {
            match write(&self.socket, &self.pending[self.sent..])? {
                Some(length) => self.sent += length,
                None => return self.wait_to_write(true, poller),
            }
        }
        self.pending.clear();
        self.sent = 0;
        self.wait_to_write(false, poller)
    }

    /// Reads what the subject answers; nothing yet is nothing.
    pub(super) fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = [0; 4096];
        match read(&self.socket, &mut bytes)? {
            Some(0) => bail!("the subject ended the publish connection"),
            length => Ok(bytes[..length.unwrap_or(0)].to_vec()),
        }
    }

    fn wait_to_write(&mut self, waits: bool, poller: &Poller) -> anyhow::Result<()> {
        if self.waits != waits {
            self.waits = waits;
            let interest = if waits { Interest::ReadAndWrite } else { Interest::Read };
            poller.change(&self.socket, self.key, interest)?;
        }
        Ok(())
    }
}
