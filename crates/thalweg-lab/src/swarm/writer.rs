//! Output of a connection: bytes that the kernel has not taken yet wait here.

use super::dialer::Dialer;
use super::link::Link;
use super::socket::{Interest, Poller};
use anyhow::bail;

/// Sent bytes are removed once there are this many, in case some bytes always wait.
const SENT_BYTES_MAX: usize = 1 << 20;

/// Limit of waiting bytes, pongs and acks included.
const PENDING_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) link: Link,
    key: u64,
    /// Bytes that the kernel has not taken yet, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    waits: bool,
}

impl Writer {
    /// Connects, and sends `first` as soon as it can. The poller will report `key`.
    pub(super) fn open(
        dialer: &Dialer,
        key: u64,
        first: Vec<u8>,
        poller: &Poller,
    ) -> anyhow::Result<Writer> {
        let link = dialer.dial(0, false)?;
        poller.add(link.socket(), key, Interest::ReadAndWrite)?;
        Ok(Writer { link, key, pending: first, sent: 0, waits: true })
    }

    /// Lets `append` add bytes, and sends as many as it can. Fails if the subject does not read.
    pub(super) fn send(
        &mut self,
        poller: &Poller,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> anyhow::Result<()> {
        append(&mut self.pending);
        if self.pending_bytes() > PENDING_BYTES_MAX {
            bail!("the subject does not read: 64 MiB of data wait");
        }
        if self.waits { Ok(()) } else { self.flush(poller) }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len() - self.sent
    }

    pub(super) fn flush(&mut self, poller: &Poller) -> anyhow::Result<()> {
        self.link.flush()?;
        while self.sent < self.pending.len() {
            match self.link.write(&self.pending[self.sent..])? {
                Some(length) => self.sent += length,
                None => {
                    if self.sent > SENT_BYTES_MAX.max(self.pending.len() / 2) {
                        self.pending.drain(..self.sent);
                        self.sent = 0;
                    }
                    return self.wait_to_write(true, poller);
                }
            }
        }
        self.pending.clear();
        self.sent = 0;
        self.wait_to_write(self.link.has_unsent(), poller)
    }

    fn wait_to_write(&mut self, waits: bool, poller: &Poller) -> anyhow::Result<()> {
        if self.waits != waits {
            self.waits = waits;
            let interest = if waits { Interest::ReadAndWrite } else { Interest::Read };
            poller.change(self.link.socket(), self.key, interest)?;
        }
        Ok(())
    }
}
