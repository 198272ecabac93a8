//! One connection, from its response's head to its end. Pure: bytes in, however they are cut; messages go to the receiver.

use super::body_stream::{self, BodyStream, ENDED_WITH_CONNECTION};
use super::carrier::{CarrierError, Decoder};
use super::http_response::{Body, ResponsePart, shown};
use super::parser::{Over, Parser, Stage};
use super::polls::Polls;
use super::resume_state::{Nothing, Positions};
use super::streams::Streams;
use crate::scenario::{Settings, Transport};
use anyhow::anyhow;

/// Limit of a refusal's body, which is read to find its first line.
const REASON_BYTES_MAX: usize = 4096;

/// Small, because there are many.
#[derive(Debug)]
pub(super) struct ProtocolSession {
    pub(super) stage: Stage,
    /// `None` for one answer that ends with its connection.
    pub(super) shape: Option<Box<Shape>>,
    decoder: Decoder,
}

#[derive(Debug)]
pub(super) enum Shape {
    Streams(Streams),
    /// Consecutive answers.
    Polls(Polls),
    /// One answer that declares its end.
    Body(BodyStream),
    /// An answer that continues on another connection, such as a document that must be loaded again, and its
    /// body, if that declares its end.
    Resumable(Positions, Option<BodyStream>),
    /// An answer that refuses the request and says why.
    Refusal(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Orderly,
    Reset,
}

impl ProtocolSession {
    /// Returns a session that keeps its positions if it `resumes`.
    pub(super) fn new(index: usize, settings: &Settings, resumes: bool) -> ProtocolSession {
        let Settings { transport, streams, topics, .. } = *settings;
        let shape = match transport {
            _ if streams > 0 => {
                Some(Shape::Streams(Streams::new(index * streams as usize, settings)))
            }
            Transport::LongPolling => Some(Shape::Polls(Polls::new(topics))),
            _ if resumes || transport == Transport::ForeverFrame => {
                Some(Shape::Resumable(Positions::new(topics), None))
            }
            _ => None,
        };
        let (stage, decoder) = (Stage::Connecting, Decoder::default());
        ProtocolSession { stage, shape: shape.map(Box::new), decoder }
    }

    /// Restarts on another connection, from the known position.
    pub(super) fn reconnect(&mut self) {
        self.stage = Stage::Connecting;
        self.decoder = Decoder::default();
        match self.shape.as_deref_mut() {
            Some(Shape::Resumable(_, body)) => *body = None,
            // Messages that the previous connection began are not continued.
            _ => self.shape = None,
        }
    }

    /// Parses bytes and returns the number consumed; the caller passes the others again. Fails if the bytes are not of this protocol.
    #[inline]
    pub(super) fn receive(
        &mut self,
        parser: &mut Parser<'_>,
        bytes: &[u8],
    ) -> anyhow::Result<usize> {
        self.take(parser, bytes).map_err(|error| match error.downcast::<CarrierError>() {
            Ok(error) => anyhow!("it sent {error}"),
            Err(error) => error,
        })
    }

    #[inline]
    fn take(&mut self, parser: &mut Parser<'_>, bytes: &[u8]) -> anyhow::Result<usize> {
        let ProtocolSession { stage, shape, decoder } = self;
        match shape.as_deref_mut() {
            Some(Shape::Streams(streams)) => return streams.parse(parser, bytes, stage),
            Some(Shape::Polls(polls)) => return polls.parse(parser, bytes, stage),
            _ => {}
        }
        let mut used = 0;
        if matches!(stage, Stage::Asked | Stage::Returning) && !is_refusal(shape) {
            let opened = match parser.open(bytes, stage) {
                Ok(opened) => opened,
                Err(done) => return Ok(done),
            };
            used = opened.length;
            match (opened.refusal, opened.body) {
                (Some(status_line), Some(body)) => {
                    let refusal = Refusal { status_line, body, text: Vec::new() };
                    *shape = Some(Box::new(Shape::Refusal(refusal)));
                }
                (_, Some(body)) => Shape::open(shape, BodyStream::new(body, opened.is_compressed)),
                (_, None) => decoder.inflate = opened.inflate.map(Box::new),
            }
        }
        if parser.over.is_some() {
            return Ok(bytes.len());
        }
        let rest = &bytes[used..];
        Ok(used
            + match shape.as_deref_mut() {
                Some(Shape::Body(body)) => body.parse(parser, rest, stage, &mut Nothing)?,
                Some(Shape::Resumable(cursors, Some(body))) => {
                    body.parse(parser, rest, stage, cursors)?
                }
                Some(Shape::Resumable(cursors, None)) => {
                    parser.frames(rest, stage, decoder, cursors)?
                }
                Some(Shape::Refusal(refusal)) => refusal.receive(rest, parser),
                _ => parser.frames(rest, stage, decoder, &mut Nothing)?,
            })
    }

    /// Ends the session after its socket, with this rest of the socket's bytes.
    pub(super) fn end(
        &mut self,
        end: End,
        rest: &[u8],
        parser: &mut Parser<'_>,
    ) -> anyhow::Result<Over> {
        let ProtocolSession { stage, shape, .. } = self;
        let how = match end {
            End::Orderly => "the connection was ended",
            End::Reset => "the connection was reset",
        };
        Ok(match (shape.as_deref(), *stage) {
            (Some(Shape::Refusal(refusal)), _) => Over::Refused(refusal.reason()),
            (_, Stage::Connecting | Stage::Asked | Stage::Returning) => {
                Over::Refused(format!("{how} before there was an answer"))
            }
            _ if parser.transport == Transport::Websocket => {
                Over::Ended(format!("{how} without a close frame (1006)"))
            }
            (None, _) if end == End::Orderly => {
                body_stream::end_line(parser, rest, stage, &mut Nothing)?;
                Over::Ended(ENDED_WITH_CONNECTION.to_owned())
            }
            (Some(Shape::Body(body)), _) if end == End::Orderly && body.ends_with_connection() => {
                body_stream::end_line(parser, body.rest(), stage, &mut Nothing)?;
                Over::Ended(ENDED_WITH_CONNECTION.to_owned())
            }
            _ => Over::Ended(format!("{how} in the middle of the answer")),
        })
    }

    pub(super) fn deflates(&self) -> bool {
        self.decoder.inflate.is_some()
    }

    /// Returns why a session that took too long is not established; `reason` if its response does not say why.
    pub(super) fn give_up(&self, reason: String) -> Over {
        match (self.shape.as_deref(), self.stage) {
            (Some(Shape::Refusal(refusal)), _) => Over::Refused(refusal.reason()),
            (_, Stage::Connecting | Stage::Asked | Stage::Subscribing(_)) => Over::Refused(reason),
            _ => Over::Ended(reason),
        }
    }
}

impl Shape {
    /// Stores the body that a response's head has declared.
    fn open(shape: &mut Option<Box<Shape>>, stream: Option<BodyStream>) {
        match shape.as_deref_mut() {
            None => *shape = stream.map(|stream| Box::new(Shape::Body(stream))),
            Some(Shape::Resumable(_, body)) => *body = stream,
            Some(_) => {}
        }
    }
}

fn is_refusal(shape: &Option<Box<Shape>>) -> bool {
    matches!(shape.as_deref(), Some(Shape::Refusal(_)))
}

#[derive(Debug)]
pub(super) struct Refusal {
    status_line: String,
    body: Body,
    text: Vec<u8>,
}

impl Refusal {
    /// Takes bytes until the first line is complete; returns the number consumed.
    fn receive(&mut self, bytes: &[u8], parser: &mut Parser<'_>) -> usize {
        let mut used = 0;
        loop {
            // The rest of a malformed body is ignored.
            let (part, length) = self.body.step(&bytes[used..]).unwrap_or((ResponsePart::End, 0));
            used += length;
            match part {
                ResponsePart::Body(piece) => {
                    let room = REASON_BYTES_MAX - self.text.len();
                    self.text.extend_from_slice(&piece[..piece.len().min(room)]);
                    let has_line = self.text.trim_ascii_start().contains(&b'\n');
                    if !has_line && self.text.len() < REASON_BYTES_MAX {
                        continue;
                    }
                }
                ResponsePart::End => {}
                ResponsePart::Head(_) | ResponsePart::Incomplete => return used,
            }
            parser.over = Some(Over::Refused(self.reason()));
            return bytes.len();
        }
    }

    /// Returns the reason, e.g. `503 Service Unavailable: too many connections`.
    fn reason(&self) -> String {
        let text = String::from_utf8_lossy(&self.text);
        let line = shown(text.trim_start().lines().next().unwrap_or_default());
        if line.is_empty() {
            self.status_line.clone()
        } else {
            format!("{}: {line}", self.status_line)
        }
    }
}

#[cfg(test)]
mod tests;
