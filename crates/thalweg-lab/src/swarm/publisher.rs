//! One long-lived publish connection: an NDJSON request that goes on and on,
//! each burst of events one chunk (RFC 9112 §7.1); or one to a NATS server.

use super::dialer::Dialer;
use super::link::{RECORD_BYTES_MAX, Received};
use super::nats::NatsPublisher;
use super::negotiated;
use super::socket::Poller;
use super::writer::Writer;
use anyhow::bail;

/// An answer comes once, at the end, and is short.
const ANSWER_BYTES_MAX: usize = 4096;

/// A publish connection of one topic.
#[derive(Debug)]
pub(super) enum Publisher {
    Http(Writer),
    Nats(Box<NatsPublisher>),
}

impl Publisher {
    /// Connects and sends the head of a request that posts to this target. The poller will report `key`.
    pub(super) fn open(
        dialer: &Dialer,
        target: &str,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<Publisher> {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
            dialer.address()
        );
        Ok(Publisher::Http(Writer::open(dialer, key, head.into_bytes(), poller)?))
    }

    /// Publishes these lines.
    pub(super) fn post(&mut self, lines: &[u8], poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Nats(nats) => nats.post(lines, poller),
            Publisher::Http(writer) => writer.send(poller, |out| {
                out.extend_from_slice(format!("{:x}\r\n", lines.len()).as_bytes());
                out.extend_from_slice(lines);
                out.extend_from_slice(b"\r\n");
            }),
        }
    }

    /// Sends what waits for more, because nothing more comes.
    pub(super) fn send_rest(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Nats(nats) => nats.send_rest(poller),
            Publisher::Http(_) => Ok(()),
        }
    }

    /// What the connection is like, once that is agreed on.
    pub(super) fn facts(&self) -> Option<Vec<(String, String)>> {
        match self {
            Publisher::Http(writer) if writer.link.is_agreed() => {
                Some(negotiated::of_link(&writer.link))
            }
            _ => None,
        }
    }

    /// Ends the request.
    pub(super) fn finish(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Nats(nats) => nats.send_rest(poller),
            Publisher::Http(writer) => {
                writer.send(poller, |out| out.extend_from_slice(b"0\r\n\r\n"))
            }
        }
    }

    /// Bytes the kernel has not taken.
    pub(super) fn pending_bytes(&self) -> usize {
        match self {
            Publisher::Http(writer) => writer.pending_bytes(),
            Publisher::Nats(nats) => nats.pending_bytes(),
        }
    }

    /// Writes what the kernel takes.
    pub(super) fn flush(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Http(writer) => writer.flush(poller),
            Publisher::Nats(nats) => nats.go_on(poller),
        }
    }

    /// Reads what the subject answers; nothing yet is nothing.
    pub(super) fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        // What NATS says is read when the rest is written.
        let Publisher::Http(writer) = self else { return Ok(Vec::new()) };
        let mut bytes = vec![0; ANSWER_BYTES_MAX + RECORD_BYTES_MAX];
        match writer.link.receive(&mut bytes, ANSWER_BYTES_MAX, &mut Vec::new())? {
            Received::End => bail!("the subject ended the publish connection"),
            Received::Nothing => Ok(Vec::new()),
            Received::Bytes { length, .. } => {
                bytes.truncate(length);
                Ok(bytes)
            }
        }
    }
}
