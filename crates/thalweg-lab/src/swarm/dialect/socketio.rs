//! Socket.IO 5 over Engine.IO 4, as Socket.IO 3 and 4 speak them over a WebSocket
//! (<https://github.com/socketio/socket.io-protocol>), and Engine.IO 4 alone (<https://github.com/socketio/engine.io-protocol>).
//! Every packet is text; `lab/subjects/socketio/README.md` explains its digits. A connection names its topic in its query.

use super::foreign::ForeignProtocol;
use super::{Dialect, Message, Wanted, alone, echo, unknown};
use crate::scenario::{OpeningStep, invocation};
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use crate::swarm::event::number;
use crate::swarm::publishing::Publishing;
use memchr::memchr;

/// Connects to the namespace `/`.
const CONNECT: &[u8] = b"40";
const PONG: &[u8] = b"3";
const EVENT: &[u8] = b"42[\"event\",\"";
const DUMMY: &[u8] = b"42[\"dummy\",\"";
/// The acknowledgement of an event that asked for it.
const ACKNOWLEDGEMENT: &[u8] = b"43";

/// As any server speaks it: an event is an array of its name and its arguments, of which the first counts.
pub(super) const FOREIGN: ForeignProtocol =
    ForeignProtocol { subprotocol: None, event_path: "[1]", opening, content };

fn opening(auth: Option<&str>, subscribe: &[String]) -> Vec<OpeningStep> {
    let mut steps = vec![
        OpeningStep::expect("0{"),
        OpeningStep::Send(format!("40{}", auth.unwrap_or_default())),
        OpeningStep::expect("40"),
    ];
    let events = subscribe.iter().filter_map(|text| invocation(text));
    steps.extend(events.map(|event| OpeningStep::Send(format!("42{}", serde_json::json!(event)))));
    steps
}

fn content<'a>(kind: Kind, message: &'a [u8], replies: &mut Vec<u8>) -> (Message<'a>, &'a [u8]) {
    alone(match message {
        // An attachment of the event before it.
        _ if kind == Kind::Binary => Message::Heartbeat,
        [b'4', b'1', ..] | [b'1'] => Message::Ended(b"the server has disconnected the client"),
        [b'4', b'4', reason @ ..] => Message::Ended(reason),
        // After a number of attachments, the namespace, and the id of an acknowledgement.
        [b'4', b'2' | b'5', ..] => {
            let start = memchr(b'[', message).unwrap_or(0);
            Message::Event(kind, &message[start..])
        }
        _ => transport_packet(kind, message, replies).unwrap_or(Message::Event(kind, message)),
    })
}

#[derive(Debug)]
pub(super) struct SocketIo;

impl Dialect for SocketIo {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        target("socket.io", wanted)
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        if let Some(event) = message.strip_prefix(EVENT)
            && let Some(topic_end) = memchr(b'"', event)
            && let Some(payload) = event[topic_end..].strip_prefix(b"\",")
            && let Some(events) = payload.strip_suffix(b"]")
        {
            let topic = &event[..topic_end];
            return Ok(alone(Message::Events { topic, position: b"", first: b"", events }));
        }
        Ok(alone(match message {
            [b'0', b'{', ..] => {
                websocket::text(CONNECT, replies);
                Message::Opening
            }
            // The server has joined the rooms.
            [b'4', b'0', b'{', ..] => Message::Confirmed,
            [b'4', b'1', ..] => Message::Close,
            _ if message.starts_with(ACKNOWLEDGEMENT) && kind == Kind::Text => Message::Answer(
                arguments(message).ok_or_else(|| unknown("an incomplete answer", message))?,
            ),
            _ if message.starts_with(DUMMY) && message.ends_with(b"\"]") => {
                Message::Event(Kind::Text, &message[DUMMY.len()..message.len() - 2])
            }
            _ => transport_packet(kind, message, replies)
                .ok_or_else(|| unknown("not a packet that Socket.IO sends here", message))?,
        }))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: format!("/{}", topic_name(topic)) }
    }

    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number);
        (format!(r#"42{number}["echo","{data}"]"#).into_bytes(), format!("\"{data}\"").into_bytes())
    }

    fn echo_number(&self, answer: &[u8]) -> Option<u64> {
        let number = echo::number(answer.strip_prefix(b"\"")?)?;
        (self.echo(number).1 == answer).then_some(number)
    }

    fn ack_runner(&self, event: &[u8]) -> Vec<u8> {
        [b"421[\"echo\",", event, b"]"].concat()
    }
}

#[derive(Debug)]
pub(super) struct EngineIo;

impl Dialect for EngineIo {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        target("engine.io", wanted)
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        Ok(alone(match message {
            [b'4', event @ ..] => Message::Event(kind, event),
            [b'0', b'{', ..] => Message::Confirmed,
            _ => transport_packet(kind, message, replies)
                .ok_or_else(|| unknown("not a packet of Engine.IO", message))?,
        }))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: format!("/{}", topic_name(topic)) }
    }

    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number).into_bytes();
        (self.ack_runner(&data), data)
    }

    fn ack_runner(&self, event: &[u8]) -> Vec<u8> {
        [b"4", event].concat()
    }
}

fn target(path: &str, wanted: &Wanted<'_>) -> String {
    let topic = topic_name(wanted.topics.start);
    format!("/{path}/?EIO=4&transport={}&topic={topic}", wanted.transport)
}

/// Parses a packet of Engine.IO that contains no packet of Socket.IO.
fn transport_packet<'a>(
    kind: Kind,
    message: &'a [u8],
    replies: &mut Vec<u8>,
) -> Option<Message<'a>> {
    match message {
        _ if kind == Kind::Binary => None,
        [b'2'] => {
            websocket::text(PONG, replies);
            Some(Message::Heartbeat)
        }
        [b'6'] => Some(Message::Heartbeat),
        [b'1'] => Some(Message::Close),
        _ => None,
    }
}

/// Returns the content of an acknowledgement, after its number.
fn arguments(message: &[u8]) -> Option<&[u8]> {
    let (digits, rest) = message[ACKNOWLEDGEMENT.len()..]
        .split_at_checked(memchr(b'[', message)?.checked_sub(ACKNOWLEDGEMENT.len())?)?;
    number(digits)?;
    rest.strip_prefix(b"[")?.strip_suffix(b"]")
}
