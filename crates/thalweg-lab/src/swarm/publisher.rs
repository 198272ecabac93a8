//! A long-lived publish connection, in the form that its subject accepts.

use super::dialer::Dialer;
use super::http_response;
use super::link::{LinkRead, RECORD_BYTES_MAX};
use super::nats::NatsPublisher;
use super::negotiated;
use super::publishing::{Requests, write_chunks};
use super::socket::Poller;
use super::writer::Writer;
use anyhow::bail;

/// Bytes of answers that are read at once: each is short.
const ANSWER_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) enum Publisher {
    /// An NDJSON request without an end.
    Ndjson {
        writer: Writer,
        /// Events per chunk; 0 puts all events that are published together into one chunk.
        chunk_events: u32,
    },
    Requests(Box<RequestPublisher>),
    Nats(Box<NatsPublisher>),
}

#[derive(Debug)]
pub(super) struct RequestPublisher {
    writer: Writer,
    requests: Requests,
    /// The beginning of each request.
    head: Vec<u8>,
    /// The beginning of an incomplete answer.
    answers: Vec<u8>,
}

impl Publisher {
    /// Connects and sends the head of an NDJSON request to this target, in chunks of `chunk_events`; 0 puts all that are
    /// published together into one. The poller will report `key`.
    pub(super) fn ndjson(
        dialer: &Dialer,
        target: &str,
        chunk_events: u32,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<Publisher> {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
            dialer.address()
        );
        let writer = Writer::open(dialer, key, head.into_bytes(), poller)?;
        Ok(Publisher::Ndjson { writer, chunk_events })
    }

    /// Connects to send one request per event. The poller will report `key`.
    pub(super) fn requests(
        dialer: &Dialer,
        requests: Requests,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<Publisher> {
        Ok(Publisher::Requests(Box::new(RequestPublisher {
            writer: Writer::open(dialer, key, Vec::new(), poller)?,
            head: requests.head(dialer.address()),
            requests,
            answers: Vec::new(),
        })))
    }

    pub(super) fn post(&mut self, lines: &[u8], poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Ndjson { writer, chunk_events } => {
                writer.send(poller, |out| write_chunks(lines, *chunk_events, out))
            }
            Publisher::Requests(publisher) => {
                let RequestPublisher { writer, requests, head, .. } = &mut **publisher;
                writer.send(poller, |out| {
                    for line in lines.split(|byte| *byte == b'\n').filter(|found| !found.is_empty())
                    {
                        requests.write(head, line, out);
                    }
                })
            }
            Publisher::Nats(nats) => nats.post(lines, poller),
        }
    }

    /// Sends an empty line, which is no event.
    pub(super) fn keep_alive(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Ndjson { .. } => self.post(b"\n", poller),
            Publisher::Requests(_) | Publisher::Nats(_) => Ok(()),
        }
    }

    /// Sends an incomplete message, because no more events follow.
    pub(super) fn send_rest(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Nats(nats) => nats.send_rest(poller),
            Publisher::Ndjson { .. } | Publisher::Requests(_) => Ok(()),
        }
    }

    /// Returns the negotiated values of the connection, once they are known.
    pub(super) fn facts(&self) -> Option<Vec<(String, String)>> {
        match self {
            Publisher::Ndjson { writer, .. } if writer.link.is_agreed() => {
                Some(negotiated::link_facts(&writer.link))
            }
            _ => None,
        }
    }

    pub(super) fn finish(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Ndjson { writer, .. } => {
                writer.send(poller, |out| out.extend_from_slice(b"0\r\n\r\n"))
            }
            _ => self.send_rest(poller),
        }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        match self {
            Publisher::Ndjson { writer, .. } => writer.pending_bytes(),
            Publisher::Requests(publisher) => publisher.writer.pending_bytes(),
            Publisher::Nats(nats) => nats.pending_bytes(),
        }
    }

    pub(super) fn flush(&mut self, poller: &Poller) -> anyhow::Result<()> {
        match self {
            Publisher::Ndjson { writer, .. } => writer.flush(poller),
            Publisher::Requests(publisher) => publisher.writer.flush(poller),
            Publisher::Nats(nats) => nats.continue_transfer(poller),
        }
    }

    /// Reads the answer to a request; fails if the subject has refused an event.
    pub(super) fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        match self {
            Publisher::Ndjson { writer, .. } => Ok(read(writer)?.0),
            Publisher::Requests(publisher) => publisher.hear().map(|()| Vec::new()),
            // Answers of NATS are read when the rest is written.
            Publisher::Nats(_) => Ok(Vec::new()),
        }
    }
}

impl RequestPublisher {
    fn hear(&mut self) -> anyhow::Result<()> {
        loop {
            let (bytes, is_all) = read(&mut self.writer)?;
            self.answers.extend(bytes);
            let mut used = 0;
            while let Some(answer) = http_response::take(&self.answers[used..])? {
                used += answer.length;
                if answer.status >= 300 {
                    let body = String::from_utf8_lossy(&answer.body).into_owned();
                    bail!("the subject answered {} to an event: {}", answer.status, body.trim());
                }
            }
            self.answers.drain(..used);
            if is_all {
                return Ok(());
            }
        }
    }
}

/// Reads once; returns whether that was all there is.
fn read(writer: &mut Writer) -> anyhow::Result<(Vec<u8>, bool)> {
    let mut bytes = vec![0; ANSWER_BYTES_MAX + RECORD_BYTES_MAX];
    match writer.link.receive(&mut bytes, ANSWER_BYTES_MAX, &mut Vec::new())? {
        LinkRead::End => bail!("the subject ended the publish connection"),
        LinkRead::Nothing => Ok((Vec::new(), true)),
        LinkRead::Bytes { length, is_all, .. } => {
            bytes.truncate(length);
            Ok((bytes, is_all))
        }
    }
}
