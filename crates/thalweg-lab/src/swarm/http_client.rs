//! Consecutive requests on a connection that is kept open.

use super::carrier::MESSAGE_BYTES_MAX;
use super::dialer::Dialer;
use super::http_response::{self, HttpResponse};
use super::link::{LinkRead, RECORD_BYTES_MAX};
use super::negotiated;
use super::socket::Poller;
use super::writer::Writer;
use crate::measure::Negotiated;
use anyhow::bail;
use std::net::SocketAddr;

/// Size of a read, because answers are short.
const READ_BYTES: usize = 16 * 1024;

/// Returns the head of a request that posts this many bytes of JSON.
pub(super) fn post(target: &str, host: SocketAddr, body_bytes: usize) -> Vec<u8> {
    format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\n\
         Content-Type: application/json\r\nContent-Length: {body_bytes}\r\n\r\n"
    )
    .into_bytes()
}

#[derive(Debug)]
pub(super) struct HttpClient {
    writer: Writer,
    is_waiting: bool,
    answer: Vec<u8>,
    /// Head of the first answer.
    head: Vec<u8>,
    room: Vec<u8>,
    /// Scratch for encrypted bytes.
    encrypted: Vec<u8>,
    /// Received bytes, including heads.
    pub(super) wire_bytes: u64,
    pub(super) reads: u64,
}

impl HttpClient {
    /// Connects. The poller will report `key`.
    pub(super) fn open(dialer: &Dialer, key: u64, poller: &Poller) -> anyhow::Result<HttpClient> {
        Ok(HttpClient {
            writer: Writer::open(dialer, key, Vec::new(), poller)?,
            is_waiting: false,
            answer: Vec::new(),
            head: Vec::new(),
            room: vec![0; READ_BYTES + RECORD_BYTES_MAX],
            encrypted: Vec::new(),
            wire_bytes: 0,
            reads: 0,
        })
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Returns the negotiated values, from the first answer.
    pub(super) fn negotiated(&self) -> Negotiated {
        negotiated::from_link(&self.writer.link, Some(&self.head))
    }

    pub(super) fn send(&mut self, request: &[u8], poller: &Poller) -> anyhow::Result<()> {
        self.is_waiting = true;
        self.writer.send(poller, |out| out.extend_from_slice(request))
    }

    pub(super) fn flush(&mut self, poller: &Poller) -> anyhow::Result<()> {
        self.writer.flush(poller)
    }

    /// Reads until there is nothing left; returns the answer, if it is complete.
    pub(super) fn receive(&mut self) -> anyhow::Result<Option<HttpResponse>> {
        loop {
            let received =
                self.writer.link.receive(&mut self.room, READ_BYTES, &mut self.encrypted)?;
            match received {
                LinkRead::Nothing => break,
                LinkRead::End => bail!("the subject ended a connection that was to be kept open"),
                LinkRead::Bytes { length, wire_bytes, is_all } => {
                    self.answer.extend_from_slice(&self.room[..length]);
                    self.wire_bytes += wire_bytes as u64;
                    self.reads += 1;
                    // `take` refuses a longer answer.
                    if is_all || self.answer.len() > MESSAGE_BYTES_MAX {
                        break;
                    }
                }
            }
        }
        let answer = http_response::take(&self.answer)?;
        if let Some(answer) = &answer {
            if self.head.is_empty() {
                self.head = self.answer[..answer.head_length].to_vec();
            }
            self.answer.drain(..answer.length);
            self.is_waiting = false;
        }
        Ok(answer)
    }
}
