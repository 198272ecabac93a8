//! What an endpoint says on one connection, from its response's head to the end.
//! Pure: bytes in, however they are cut; messages out.

use super::handshake::{Opening, Wanted};
use crate::measure::Answer;
use crate::scenario::Transport;
use crate::swarm::carrier::websocket::close_reason;
use crate::swarm::carrier::{CarrierError, Decoder, Incoming, Kind, PieceDecoder, lines};
use crate::swarm::http_response::{Body, Head, Part, shown};

/// Of a refusal's body so much is read to find its first line.
const REASON_BYTES_MAX: usize = 4096;
/// A TLS alert (RFC 8446 §5.1).
const TLS_ALERT: &[u8] = &[0x15, 0x03];

/// The endpoint does not keep to what it speaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it sent {0}")]
pub(super) struct Malformed(#[from] CarrierError);

/// How a socket came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Orderly,
    Reset,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) struct ProtocolSession {
    state: State,
    wanted: Wanted,
    /// Until somebody asks for it.
    opened: Option<Box<Answer>>,
}

#[derive(Debug)]
enum State {
    /// Before the response.
    Head,
    Websocket(Decoder),
    Stream(Body, PieceDecoder),
    Refusing(Refusing),
    Refused(String),
    Ended(String),
}

#[derive(Debug)]
struct Refusing {
    status_line: String,
    body: Body,
    text: Vec<u8>,
}

impl ProtocolSession {
    pub(super) fn new(wanted: Wanted) -> ProtocolSession {
        ProtocolSession { state: State::Head, wanted, opened: None }
    }

    /// Whether the transport is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Websocket(_) | State::Stream(..))
    }

    /// Whether there is a WebSocket to close.
    pub(super) fn is_websocket(&self) -> bool {
        matches!(self.state, State::Websocket(_))
    }

    /// Why it never opened.
    pub(super) fn refused(&self) -> Option<&str> {
        if let State::Refused(reason) = &self.state { Some(reason) } else { None }
    }

    /// How it ended after it was open.
    pub(super) fn ended(&self) -> Option<&str> {
        if let State::Ended(how) = &self.state { Some(how) } else { None }
    }

    /// What the response that opened the transport says, once.
    pub(super) fn take_opened(&mut self) -> Option<Box<Answer>> {
        self.opened.take()
    }

    /// Takes bytes, and says how many are done with: the others are to be shown again,
    /// with more behind them. What is wrong before the transport is open, is a refusal;
    /// after that, an error.
    #[inline]
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        mut on_message: impl FnMut(Incoming<'_>),
    ) -> Result<usize, Malformed> {
        let mut used = 0;
        if matches!(self.state, State::Head) {
            used = self.head(bytes);
        }
        let rest = &bytes[used..];
        Ok(used
            + match &mut self.state {
                State::Head => 0,
                State::Websocket(_) => self.websocket(rest, on_message)?,
                State::Stream(..) => self.stream(rest, &mut on_message)?,
                State::Refusing(refusing) => {
                    let (used, is_over) = refusing.receive(rest);
                    if is_over {
                        self.state = State::Refused(refusing.reason());
                    }
                    used
                }
                State::Refused(_) | State::Ended(_) => rest.len(),
            })
    }

    /// Judges the response's head, if it is whole.
    fn head(&mut self, bytes: &[u8]) -> usize {
        if bytes.starts_with(TLS_ALERT) {
            let reason = "it speaks TLS: write the URL with wss:// or https://";
            self.state = State::Refused(reason.to_owned());
            return bytes.len();
        }
        let mut used = 0;
        loop {
            let judged = Head::read(&bytes[used..], |head| {
                // Not yet the response (RFC 9110 §15.2).
                let is_interim = head.is_interim();
                (!is_interim).then(|| (self.wanted.judge(head), answer(head)))
            });
            let (judged, answer) = match judged {
                Ok(None) => return used,
                Ok(Some((None, length))) => {
                    used += length;
                    continue;
                }
                Ok(Some((Some(judged), length))) => {
                    used += length;
                    judged
                }
                Err(error) => {
                    self.state = State::Refused(Malformed(error).to_string());
                    return bytes.len();
                }
            };
            self.state = match judged {
                Err(reason) => State::Refused(reason),
                Ok(Opening::Websocket) => State::Websocket(Decoder::default()),
                Ok(Opening::Stream(body)) => State::Stream(body, PieceDecoder::default()),
                Ok(Opening::Refused(body)) => {
                    let status_line = answer.status.clone();
                    State::Refusing(Refusing { status_line, body, text: Vec::new() })
                }
            };
            if self.is_open() {
                self.opened = Some(Box::new(answer));
            }
            return used;
        }
    }

    #[inline]
    fn websocket(
        &mut self,
        bytes: &[u8],
        mut on_message: impl FnMut(Incoming<'_>),
    ) -> Result<usize, Malformed> {
        let State::Websocket(decoder) = &mut self.state else { return Ok(0) };
        let mut closed = None;
        let used = decoder.decode(Transport::Websocket, bytes, |incoming| {
            match incoming {
                Incoming::Message(Kind::Text, text) if std::str::from_utf8(text).is_err() => {
                    let what = "a text message that is not UTF-8 (RFC 6455 §8.1)";
                    return Err(CarrierError(what.into()));
                }
                Incoming::Close(payload) => closed = Some(close_reason(payload)?),
                _ => {}
            }
            on_message(incoming);
            Ok(())
        })?;
        if let Some(how) = closed {
            self.state = State::Ended(how);
        }
        Ok(used)
    }

    #[inline]
    fn stream(
        &mut self,
        bytes: &[u8],
        on_message: &mut impl FnMut(Incoming<'_>),
    ) -> Result<usize, Malformed> {
        let State::Stream(body, decoder) = &mut self.state else { return Ok(0) };
        let mut used = 0;
        loop {
            let (part, length) = body.step(&bytes[used..])?;
            used += length;
            match part {
                Part::Body(piece) => decoder.decode(self.wanted.transport, piece, |incoming| {
                    on_message(incoming);
                    Ok::<_, CarrierError>(())
                })?,
                Part::End => {
                    self.end(End::Orderly, on_message);
                    return Ok(bytes.len());
                }
                Part::Head(_) | Part::Incomplete => return Ok(used),
            }
        }
    }

    /// The socket has ended, or the response's body.
    pub(super) fn end(&mut self, end: End, mut on_message: impl FnMut(Incoming<'_>)) {
        let how = match end {
            End::Orderly => "the connection was ended",
            End::Reset => "the connection was reset",
        };
        self.state = match std::mem::replace(&mut self.state, State::Head) {
            State::Head => State::Refused(format!("{how} before there was an answer")),
            State::Refusing(refusing) => State::Refused(refusing.reason()),
            State::Websocket(_) => State::Ended(format!("{how} without a close frame (1006)")),
            State::Stream(body, decoder) if end == End::Orderly && body.may_end() => {
                // The last line may have no end. An event of SSE must have one.
                if self.wanted.transport == Transport::HttpStreaming {
                    lines::last(decoder.rest()).into_iter().for_each(&mut on_message);
                }
                State::Ended("the answer was over".to_owned())
            }
            State::Stream(..) => State::Ended(format!("{how} in the middle of the answer")),
            over @ (State::Refused(_) | State::Ended(_)) => over,
        };
    }

    /// The connection cannot go on, for a reason of its own.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.state = if self.is_open() {
            State::Ended(reason.to_owned())
        } else {
            State::Refused(reason.to_owned())
        };
    }

    /// Nobody waits any longer for the answer.
    pub(super) fn give_up(&mut self, reason: String) {
        self.state = match &self.state {
            State::Refusing(refusing) => State::Refused(refusing.reason()),
            State::Head => State::Refused(reason),
            _ => return,
        };
    }
}

impl Refusing {
    /// Takes bytes: how many are done with, and whether the first line is there.
    fn receive(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut used = 0;
        loop {
            // A body that is malformed says nothing more.
            let Ok((part, length)) = self.body.step(&bytes[used..]) else {
                return (bytes.len(), true);
            };
            used += length;
            match part {
                Part::Body(piece) => {
                    let room = REASON_BYTES_MAX - self.text.len();
                    self.text.extend_from_slice(&piece[..piece.len().min(room)]);
                    let has_line = self.text.trim_ascii_start().contains(&b'\n');
                    if has_line || self.text.len() == REASON_BYTES_MAX {
                        return (bytes.len(), true);
                    }
                }
                Part::End => return (bytes.len(), true),
                Part::Head(_) | Part::Incomplete => return (used, false),
            }
        }
    }

    /// `503 Service Unavailable: too many connections`.
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

/// What a response says, but for where it came from.
fn answer(head: &Head<'_>) -> Answer {
    let field = |name| head.field(name).map(|value| shown(&value));
    Answer {
        address: String::new(),
        status: head.status_line(),
        server: field("server"),
        content_type: field("content-type"),
        subprotocol: field("sec-websocket-protocol"),
        is_chunked: head.list("transfer-encoding").iter().any(|coding| coding == "chunked"),
    }
}

#[cfg(test)]
mod tests;
