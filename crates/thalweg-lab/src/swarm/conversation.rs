//! A subscriber that answers: one connection, received message by message. `echo` and `round_trip` check the messages.

use super::carrier::{Decoder, Incoming, PieceDecoder, shown, websocket};
use super::dialect::{Dialect, Message, Wanted};
use super::dialer::Dialer;
use super::handshake::Opening;
use super::http_response::{Body, ResponsePart};
use super::link::LinkRead;
use super::negotiated;
use super::progress::ProgressReporter;
use super::read_buffer::{READ_BYTES, ReadBuffer};
use super::socket::{Poller, Ready, now_us};
use super::subscribe_request::SubscribeRequest;
use super::writer::Writer;
use super::{Figures, Observer, SILENCE_US_MAX};
use crate::measure::Negotiated;
use crate::scenario::Transport;
use anyhow::{anyhow, bail};

#[derive(Debug)]
pub(super) struct Conversation {
    writer: Writer,
    request: SubscribeRequest,
    transport: Transport,
    /// Head of the answer that opened the connection; empty before.
    head: Vec<u8>,
    chunks: Option<(Body, PieceDecoder)>,
    decoder: Decoder,
    carry: Vec<u8>,
    buffer: ReadBuffer,
    pub(super) wire_bytes: u64,
    pub(super) reads: u64,
}

impl Conversation {
    /// Subscribes. The poller will report `key`.
    pub(super) fn open(
        dialer: &Dialer,
        dialect: &dyn Dialect,
        wanted: &Wanted<'_>,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<Conversation> {
        let request = SubscribeRequest::once(dialect, wanted, dialer.address().to_string());
        let mut first = Vec::new();
        request.first(0, &mut first);
        Ok(Conversation {
            writer: Writer::open(dialer, key, first, poller)?,
            request,
            transport: wanted.transport,
            head: Vec::new(),
            chunks: None,
            decoder: Decoder::default(),
            carry: Vec::new(),
            buffer: ReadBuffer::new(),
            wire_bytes: 0,
            reads: 0,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.head.is_empty()
    }

    pub(super) fn negotiated(&self) -> Negotiated {
        negotiated::from_link(&self.writer.link, Some(&self.head))
    }

    pub(super) fn send(&mut self, message: &[u8], poller: &Poller) -> anyhow::Result<()> {
        self.writer.send(poller, |out| websocket::text(message, out))
    }

    /// Sends waiting bytes when the connection is ready.
    pub(super) fn on_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<()> {
        if ready.writable { self.writer.flush(poller) } else { Ok(()) }
    }

    /// Reads once and hands every message to `take`, with the time of the read; returns whether there may be more to read.
    pub(super) fn receive(
        &mut self,
        dialect: &dyn Dialect,
        poller: &Poller,
        mut take: impl FnMut(Message<'_>, u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let Conversation {
            writer, request, transport, head, chunks, carry, decoder, buffer, ..
        } = self;
        let mut replies = Vec::new();
        let received =
            buffer.read(&mut writer.link, carry, READ_BYTES, |bytes| -> anyhow::Result<usize> {
                let (received_us, mut used) = (now_us(), 0);
                if head.is_empty() {
                    let response = match request.judge(0, bytes)? {
                        Ok(response) => response,
                        Err(done) => return Ok(done),
                    };
                    used = response.head.end;
                    *head = bytes[response.head].to_vec();
                    match response.opening {
                        Ok(Opening::Websocket) => dialect.greet(0, &mut replies),
                        Ok(Opening::Stream(Body::UntilEnd)) => {}
                        Ok(Opening::Stream(body)) => {
                            *chunks = Some((body, PieceDecoder::default()));
                        }
                        // Compression was not offered.
                        Ok(
                            Opening::Refused(_)
                            | Opening::DeflatedWebsocket(_)
                            | Opening::GzipStream(_),
                        ) => {
                            bail!(
                                "the subject answered {} to a subscription",
                                response.answer.status
                            )
                        }
                        Err(reason) => bail!("the subscription failed: {reason}"),
                    }
                }
                let on_message = |incoming: Incoming<'_>| {
                    match incoming {
                        Incoming::Message(kind, message) => {
                            let mut rest = message;
                            loop {
                                let (content, behind) =
                                    dialect.on_message(kind, rest, &mut replies)?;
                                take(content, received_us)?;
                                if behind.is_empty() {
                                    break;
                                }
                                rest = behind;
                            }
                        }
                        Incoming::Ping(payload) => websocket::pong(payload, &mut replies),
                        Incoming::SignOfLife => {}
                        Incoming::Close(_) => bail!("the subject closed the connection"),
                    }
                    Ok(())
                };
                let Some((body, pieces)) = chunks else {
                    return Ok(used + decoder.decode(*transport, &bytes[used..], on_message)?);
                };
                let mut on_message = on_message;
                loop {
                    let (part, length) = body.step(&bytes[used..])?;
                    used += length;
                    let ResponsePart::Body(piece) = part else { return Ok(used) };
                    pieces.decode(*transport, piece, &mut on_message)?;
                }
            })?;
        if !replies.is_empty() {
            self.writer.send(poller, |out| out.extend_from_slice(&replies))?;
        }
        match received {
            LinkRead::Nothing => Ok(false),
            LinkRead::End => bail!("the subject ended the connection"),
            LinkRead::Bytes { wire_bytes, is_all, .. } => {
                self.wire_bytes += wire_bytes as u64;
                self.reads += 1;
                Ok(!is_all)
            }
        }
    }
}

/// A conversation's clock: reports progress, and limits silence.
pub(super) struct Attention<'a> {
    pub(super) observer: &'a mut dyn Observer,
    pub(super) received_us: u64,
    progress: ProgressReporter,
}

impl<'a> Attention<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer) -> Attention<'a> {
        Attention { observer, received_us: now_us(), progress: ProgressReporter::default() }
    }

    /// Reports progress from time to time; fails if the observer ends the sample, or if no bytes arrive for too long.
    pub(super) fn report(
        &mut self,
        figures: impl FnOnce() -> Figures<'static>,
    ) -> anyhow::Result<()> {
        if now_us().saturating_sub(self.received_us) > SILENCE_US_MAX {
            bail!("the subject was silent for 2 s when it should have answered");
        }
        self.progress.report(self.observer, |_| figures())
    }
}

pub(super) fn mean_us(each_us: &[u64]) -> Option<f64> {
    let count = each_us.len();
    (count > 0).then(|| each_us.iter().sum::<u64>() as f64 / count as f64)
}

/// Returns the error for a message that answers nothing.
pub(super) fn unknown(message: &[u8]) -> anyhow::Error {
    anyhow!("neither an answer nor an envelope of the wire: {}", shown(message))
}
