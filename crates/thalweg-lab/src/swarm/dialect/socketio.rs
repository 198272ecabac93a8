//! Socket.IO 5 over Engine.IO 4, as Socket.IO 3 and 4 speak them over a WebSocket
//! (<https://github.com/socketio/socket.io-protocol>,
//! <https://github.com/socketio/engine.io-protocol>). Every packet is text; what its digits
//! mean stands in `lab/subjects/socketio/README.md`.

use super::{Dialect, Message, Wanted, echo, unknown};
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use memchr::memchr;

/// Connects to the namespace `/`.
const CONNECT: &[u8] = b"40";
const PONG: &[u8] = b"3";
const EVENT: &[u8] = b"42[\"event\",\"";
/// The packet that acknowledges the subscription.
const SUBSCRIBED: &[u8] = b"430[]";
/// That of any event that asked for it.
const ACKNOWLEDGEMENT: &[u8] = b"43";

#[derive(Debug)]
pub(super) struct SocketIo {
    /// The packet that subscribes.
    subscribe: String,
}

impl SocketIo {
    /// Subscribes to the first so many topics.
    pub(super) fn new(topics: u32) -> SocketIo {
        let topics: Vec<String> = (0..topics).map(|it| format!("\"{}\"", topic_name(it))).collect();
        SocketIo { subscribe: format!(r#"420["subscribe",[{}]]"#, topics.join(",")) }
    }
}

impl Dialect for SocketIo {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        format!("/socket.io/?EIO=4&transport={}", wanted.transport)
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<Message<'a>> {
        if let Some(event) = message.strip_prefix(EVENT)
            && let Some(topic_end) = memchr(b'"', event)
            && let Some(payload) = event[topic_end..].strip_prefix(b"\",")
            && let Some(events) = payload.strip_suffix(b"]")
        {
            let topic = &event[..topic_end];
            return Ok(Message::Events { topic, position: b"", first: b"", events });
        }
        let mut answer = |packet| websocket::text(packet, replies);
        Ok(match message {
            _ if kind == Kind::Binary => return Err(unknown("not asked for", message)),
            SUBSCRIBED => Message::Confirmed,
            [b'0', b'{', ..] => {
                answer(CONNECT);
                Message::Opening
            }
            [b'4', b'0', ..] => {
                answer(self.subscribe.as_bytes());
                Message::Opening
            }
            [b'2'] => {
                answer(PONG);
                Message::Heartbeat
            }
            [b'6'] => Message::Heartbeat,
            [b'1'] | [b'4', b'1', ..] => Message::Close,
            _ if message.starts_with(ACKNOWLEDGEMENT) => Message::Answer(message),
            _ => return Err(unknown("not a packet that Socket.IO sends here", message)),
        })
    }

    fn publish_target(&self, topic: u32) -> String {
        format!("/publish/{}", topic_name(topic))
    }

    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number);
        (
            format!(r#"42{number}["echo","{data}"]"#).into_bytes(),
            format!(r#"43{number}["{data}"]"#).into_bytes(),
        )
    }

    fn echo_number(&self, answer: &[u8]) -> Option<u64> {
        let data = answer.strip_prefix(ACKNOWLEDGEMENT)?;
        let number = echo::number(&data[memchr(b'"', data)? + 1..])?;
        (self.echo(number).1 == answer).then_some(number)
    }
}
