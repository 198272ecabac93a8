//! Parses a connection's bytes into messages of the carrier. The dialect interprets them, and the receiver takes the result.

use super::carrier::deflate::Inflate;
use super::carrier::{Decoder, Incoming, PieceDecoder, shown, websocket};
use super::dialect::{Dialect, Message};
use super::handshake::Opening;
use super::http_response::Body;
use super::receiver::Receiver;
use super::resume_state::ResumeState;
use super::subscribe_request::{Response, SubscribeRequest};
use crate::scenario::Transport;
use anyhow::bail;

/// A TLS alert (RFC 8446 §5.1).
const TLS_ALERT: &[u8] = &[0x15, 0x03];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Connecting,
    Asked,
    /// The transport is open; this many topics are yet to be confirmed, or replies of an endpoint are yet to come.
    Subscribing(u32),
    Established,
    /// The connection was established, its response has ended, and it has sent another request with its cursors.
    Returning,
    Stopped,
    Ended,
}

impl Stage {
    /// Returns whether the connection is not established yet.
    pub(super) fn is_opening(self) -> bool {
        matches!(self, Stage::Connecting | Stage::Asked | Stage::Subscribing(_) | Stage::Returning)
    }

    /// Returns whether the server has not answered the request yet.
    pub(super) fn is_unanswered(self) -> bool {
        matches!(self, Stage::Connecting | Stage::Asked | Stage::Returning)
    }

    pub(super) fn is_over(self) -> bool {
        matches!(self, Stage::Connecting | Stage::Ended)
    }
}

/// The reason in a connection's messages or answers why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Its response was complete, by its length, its last chunk or its last message.
    Completed,
    Refused(String),
    Closed(String),
    Ended(String),
}

pub(super) struct Parser<'a> {
    pub(super) receiver: &'a mut Receiver,
    pub(super) dialect: &'a dyn Dialect,
    pub(super) transport: Transport,
    pub(super) request: &'a SubscribeRequest,
    /// Bytes to send now: answers to pings, for instance, and requests that follow an answer.
    pub(super) replies: &'a mut Vec<u8>,
    pub(super) index: usize,
    /// Whether the connection reads to the end.
    pub(super) is_reader: bool,
    pub(super) over: Option<Over>,
}

pub(super) struct Opened {
    /// Length of the head, with the heads of interim responses before it.
    pub(super) length: usize,
    /// `None` for a WebSocket, and for a response that was refused because of its head.
    pub(super) body: Option<Body>,
    pub(super) is_compressed: bool,
    /// For a WebSocket: inflates messages, if they may be compressed.
    pub(super) inflate: Option<Inflate>,
    /// The first line of a refusal's head, if its body says why.
    pub(super) refusal: Option<String>,
}

impl Parser<'_> {
    /// Opens a transport, or records the refusal. While the head is incomplete, the error is the number of bytes consumed.
    pub(super) fn open(&mut self, bytes: &[u8], stage: &mut Stage) -> Result<Opened, usize> {
        let (length, is_compressed) = (bytes.len(), false);
        let mut opened = Opened { length, body: None, is_compressed, inflate: None, refusal: None };
        if bytes.starts_with(TLS_ALERT) {
            let reason = "it speaks TLS: write the URL with wss:// or https://";
            self.over = Some(Over::Refused(reason.to_owned()));
            return Ok(opened);
        }
        let Response { head, opening, answer } = match self.request.judge(self.index, bytes) {
            Ok(Err(done)) => return Err(done),
            Ok(Ok(response)) => response,
            Err(error) => {
                self.over = Some(Over::Refused(format!("it sent {error}")));
                return Ok(opened);
            }
        };
        opened.length = head.end;
        match opening {
            Err(reason) => {
                self.over = Some(Over::Refused(reason));
                return Ok(opened);
            }
            Ok(Opening::Refused(body)) => {
                (opened.body, opened.refusal) = (Some(body), Some(answer.status));
                return Ok(opened);
            }
            Ok(Opening::Websocket) => {}
            Ok(Opening::DeflatedWebsocket(inflate)) => opened.inflate = Some(inflate),
            Ok(Opening::Stream(body)) => opened.body = Some(body),
            Ok(Opening::GzipStream(body)) => {
                (opened.body, opened.is_compressed) = (Some(body), true);
            }
        }
        *stage = self.opened(*stage);
        self.dialect.greet(self.index, self.replies);
        self.receiver.opened(self.index, &bytes[head], answer);
        Ok(opened)
    }

    /// Returns the stage after opening. A connection that resumes gets no new confirmations, but may get a gap.
    pub(super) fn opened(&self, stage: Stage) -> Stage {
        match (stage, self.dialect.replies()) {
            (Stage::Asked, replies @ 1..) => Stage::Subscribing(replies),
            (Stage::Asked, _) if self.dialect.confirms() => {
                Stage::Subscribing(self.receiver.topic_count())
            }
            (Stage::Asked | Stage::Returning, _) => Stage::Established,
            (open, _) => open,
        }
    }

    /// Parses the bytes of an open transport, from the beginning of a frame on; returns the number consumed.
    #[inline]
    pub(super) fn frames(
        &mut self,
        bytes: &[u8],
        stage: &mut Stage,
        decoder: &mut Decoder,
        resume_state: &mut impl ResumeState,
    ) -> anyhow::Result<usize> {
        decoder
            .decode(self.transport, bytes, |incoming| self.incoming(incoming, stage, resume_state))
    }

    /// Like [`Self::frames`], for pieces that are cut anywhere, such as chunks or HTTP/2 frames.
    #[inline]
    pub(super) fn piece(
        &mut self,
        piece: &[u8],
        stage: &mut Stage,
        decoder: &mut PieceDecoder,
        resume_state: &mut impl ResumeState,
    ) -> anyhow::Result<()> {
        decoder
            .decode(self.transport, piece, |incoming| self.incoming(incoming, stage, resume_state))
    }

    #[inline]
    pub(super) fn incoming(
        &mut self,
        incoming: Incoming<'_>,
        stage: &mut Stage,
        resume_state: &mut impl ResumeState,
    ) -> anyhow::Result<()> {
        match incoming {
            // Behind an answer that ends the connection no message counts (RFC 6455 §5.5.1).
            Incoming::Message(..) if self.over.is_some() => {}
            Incoming::Message(kind, message) => {
                let mut rest = message;
                loop {
                    let (content, behind) = self.dialect.on_message(kind, rest, self.replies)?;
                    self.on_message(content, stage, resume_state)?;
                    if behind.is_empty() || self.over.is_some() {
                        break;
                    }
                    rest = behind;
                }
            }
            Incoming::Ping(payload) => {
                self.receiver.statistics.traffic.heartbeats += 1;
                websocket::pong(payload, self.replies);
            }
            Incoming::SignOfLife => self.receiver.statistics.traffic.heartbeats += 1,
            Incoming::Close(payload) => {
                let how = websocket::close_reason(payload)?;
                websocket::close_back(payload, self.replies);
                self.over = Some(Over::Closed(how));
            }
        }
        Ok(())
    }

    #[inline]
    fn on_message(
        &mut self,
        message: Message<'_>,
        stage: &mut Stage,
        resume_state: &mut impl ResumeState,
    ) -> anyhow::Result<()> {
        match message {
            Message::Events { topic, position, first, events } => {
                let topic = self.reached(topic, position, resume_state)?;
                if events.is_empty() {
                    confirm(stage, 1);
                    return Ok(());
                }
                // Envelopes that only confirm do not count; polls would have twice as many with them.
                self.receiver.statistics.traffic.envelopes += 1;
                self.receiver.receive(self.index, topic, self.is_reader, (first, events));
            }
            Message::Version { topic, position, version } => {
                let topic = self.reached(topic, position, resume_state)?;
                self.receiver.statistics.traffic.envelopes += 1;
                self.receiver.receive_version(self.index, topic, self.is_reader, version);
            }
            Message::Event(kind, event) => match *stage {
                Stage::Subscribing(left) if self.dialect.replies() > 0 => {
                    if self.dialect.is_reply(self.index, left, event, self.replies) {
                        confirm(stage, 1);
                    }
                }
                _ => self.receiver.event(self.index, self.is_reader, kind, event),
            },
            Message::Gap { topic, position, missed } => {
                let topic = self.reached(topic, position, resume_state)?;
                if !confirm(stage, 1) {
                    self.receiver.gap(self.index, topic, self.is_reader, missed);
                }
            }
            Message::Confirmed => drop(confirm(stage, self.receiver.topic_count())),
            Message::Opening => {}
            Message::Heartbeat => self.receiver.statistics.traffic.heartbeats += 1,
            Message::Reload if resume_state.reload() => {}
            // A subject may close slow readers.
            Message::Close if !self.is_reader => {
                self.over = Some(Over::Closed("closed".to_owned()));
            }
            Message::Refusal(kind, answer) if !stage.is_opening() => {
                self.receiver.event(self.index, self.is_reader, kind, answer);
            }
            Message::Ended(reason) | Message::Refusal(_, reason) => {
                let reason = format!("it said {}", shown(reason));
                self.over = Some(match stage.is_opening() {
                    true => Over::Refused(reason),
                    false => Over::Closed(reason),
                });
            }
            Message::Done => self.over = Some(Over::Completed),
            Message::Answer(_) => bail!("the subject sent an answer without a request"),
            Message::Reload | Message::Close => {
                bail!("the subject closed connection {}", self.index)
            }
        }
        Ok(())
    }

    /// Records that everything of this topic up to the position has arrived; returns the topic.
    #[inline]
    fn reached(
        &self,
        topic: &[u8],
        position: &[u8],
        resume_state: &mut impl ResumeState,
    ) -> anyhow::Result<usize> {
        let topic = self.receiver.topic_index(self.index, topic)?;
        resume_state.reached(self.receiver.place(topic), position)?;
        Ok(topic)
    }
}

/// Confirms this many topics; returns `false` if all were confirmed before.
fn confirm(stage: &mut Stage, topics: u32) -> bool {
    let Stage::Subscribing(left) = stage else {
        return false;
    };
    *left = left.saturating_sub(topics);
    if *left == 0 {
        *stage = Stage::Established;
    }
    true
}
