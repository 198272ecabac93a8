//! What an endpoint says on one connection, from its answer's head to the end.
//! Pure: bytes in, however they are cut; events out.

use super::MESSAGE_BYTES_MAX;
use super::body::Body;
use super::handshake::{Opening, Wanted};
use super::head::{Head, shown};
use super::lines::Lines;
use super::sse::Sse;
use super::websocket::Websocket;

/// Of a refusal's body so much is read to find its first line.
const REASON_BYTES_MAX: usize = 4096;

/// Hears what is said.
pub(super) trait Handler {
    /// An event: a message, what an SSE event's data says, a line.
    fn on_message(&mut self, kind: Kind, payload: &[u8]);
    /// A sign of life: a pong, a comment, an empty line.
    fn on_sign_of_life(&mut self);
    /// A ping, to be answered with its payload.
    fn on_ping(&mut self, payload: &[u8]);
    /// A close frame with this code, two bytes or none, to be answered.
    fn on_close(&mut self, code: &[u8]);
}

/// What an event is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Binary,
}

/// The endpoint does not keep to what it speaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(String);

pub(super) fn wrong<T>(what: &str) -> Result<T, Malformed> {
    Err(Malformed(format!("it sent {what}")))
}

pub(super) fn too_long<T>() -> Result<T, Malformed> {
    wrong(&format!("an event over {} MiB, which is more than is measured", MESSAGE_BYTES_MAX >> 20))
}

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
    opened: Option<Box<Head>>,
}

#[derive(Debug)]
enum State {
    /// Part of the answer's head.
    Head(Vec<u8>),
    Websocket(Websocket),
    Sse(Body, Sse),
    Lines(Body, Lines),
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
        ProtocolSession { state: State::Head(Vec::new()), wanted, opened: None }
    }

    /// Whether the transport is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Websocket(_) | State::Sse(..) | State::Lines(..))
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

    /// The head of the answer that opened the transport, once.
    pub(super) fn take_opened(&mut self) -> Option<Box<Head>> {
        self.opened.take()
    }

    /// Takes bytes. What is wrong before the transport is open, is a refusal;
    /// after that, an error.
    #[inline]
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), Malformed> {
        let ended = match &mut self.state {
            State::Websocket(websocket) => websocket.feed(bytes, handler)?,
            State::Sse(body, sse) => {
                body.feed(bytes, |bytes| sse.feed(bytes, handler))?;
                body.is_done().then(|| "the answer was over".to_owned())
            }
            State::Lines(body, lines) => {
                body.feed(bytes, |bytes| lines.feed(bytes, handler))?;
                if body.is_done() {
                    lines.finish(handler);
                }
                body.is_done().then(|| "the answer was over".to_owned())
            }
            State::Head(head) => {
                head.extend_from_slice(bytes);
                let head = std::mem::take(head);
                return self.head(&head, handler);
            }
            State::Refusing(refusing) => {
                if refusing.feed(bytes) {
                    self.state = State::Refused(refusing.reason());
                }
                return Ok(());
            }
            State::Refused(_) | State::Ended(_) => return Ok(()),
        };
        if let Some(how) = ended {
            self.state = State::Ended(how);
        }
        Ok(())
    }

    fn head(&mut self, bytes: &[u8], handler: &mut impl Handler) -> Result<(), Malformed> {
        let mut rest = bytes;
        let head = loop {
            match Head::read(rest) {
                // Not yet the answer (RFC 9110 §15.2).
                Ok(Some((head, used))) if head.is_interim() => rest = &rest[used..],
                Ok(Some((head, used))) => {
                    rest = &rest[used..];
                    break head;
                }
                Ok(None) => {
                    self.state = State::Head(rest.to_vec());
                    return Ok(());
                }
                Err(reason) => {
                    self.state = State::Refused(reason);
                    return Ok(());
                }
            }
        };
        self.state = match self.wanted.judge(&head) {
            Err(reason) => State::Refused(reason),
            Ok(Opening::Websocket) => State::Websocket(Websocket::default()),
            Ok(Opening::Sse(body)) => State::Sse(body, Sse::default()),
            Ok(Opening::Lines(body)) => State::Lines(body, Lines::default()),
            Ok(Opening::Refused(body)) => {
                let status_line = head.status_line.clone();
                State::Refusing(Refusing { status_line, body, text: Vec::new() })
            }
        };
        if self.is_open() {
            self.opened = Some(Box::new(head));
        }
        self.feed(rest, handler)
    }

    /// The socket has ended.
    pub(super) fn end(&mut self, end: End, handler: &mut impl Handler) {
        let how = match end {
            End::Orderly => "the connection was ended",
            End::Reset => "the connection was reset",
        };
        self.state = match std::mem::replace(&mut self.state, State::Head(Vec::new())) {
            State::Head(_) => State::Refused(format!("{how} before there was an answer")),
            State::Refusing(refusing) => State::Refused(refusing.reason()),
            State::Websocket(_) => State::Ended(format!("{how} without a close frame (1006)")),
            State::Sse(body, _) if end == End::Orderly && body.may_end() => {
                State::Ended("the answer was over".to_owned())
            }
            State::Lines(body, mut lines) if end == End::Orderly && body.may_end() => {
                lines.finish(handler);
                State::Ended("the answer was over".to_owned())
            }
            State::Sse(..) | State::Lines(..) => {
                State::Ended(format!("{how} in the middle of the answer"))
            }
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
            State::Head(_) => State::Refused(reason),
            _ => return,
        };
    }
}

impl Refusing {
    /// Takes bytes; whether the first line is there.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        let text = &mut self.text;
        // A body that is malformed says nothing more.
        let fed = self.body.feed(bytes, |bytes| {
            let room = REASON_BYTES_MAX - text.len();
            text.extend_from_slice(&bytes[..bytes.len().min(room)]);
            Ok(())
        });
        let has_line = self.text.trim_ascii_start().contains(&b'\n');
        fed.is_err() || has_line || self.body.is_done() || self.text.len() == REASON_BYTES_MAX
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

#[cfg(test)]
mod tests;
