//! SockJS over a WebSocket (<https://github.com/sockjs/sockjs-protocol>): `o` opens, `h` is a heartbeat, `c[…]` closes, and
//! `a["…"]` holds messages as JSON strings. The first message of a client names its topic, and is answered `subscribed`.

use super::{Dialect, Message, Wanted, alone, echo, unknown};
use crate::scenario::Settings;
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use crate::swarm::json_string::escape;
use crate::swarm::publishing::Publishing;
use memchr::memmem;

const SUBSCRIBED: &[u8] = b"subscribed";

#[derive(Debug)]
pub(super) struct SockJs {
    settings: Settings,
}

impl SockJs {
    pub(super) fn new(settings: &Settings) -> SockJs {
        SockJs { settings: settings.clone() }
    }
}

impl Dialect for SockJs {
    fn target(&self, _wanted: &Wanted<'_>) -> String {
        // Server and session: over a WebSocket no two requests share a session.
        "/sockjs/000/lab/websocket".to_owned()
    }

    fn greet(&self, connection: usize, out: &mut Vec<u8>) {
        let topic = topic_name(self.settings.topics_of(connection).start);
        websocket::text(&encode_message(topic.as_bytes()), out);
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        // In a frame, all messages after the first begin with their comma.
        let texts = message.strip_prefix(b"a[\"").or_else(|| message.strip_prefix(b",\""));
        if let Some(texts) = texts.and_then(|texts| texts.strip_suffix(b"\"]"))
            && kind == Kind::Text
        {
            // Within a string a quote has a backslash before it.
            let end = memmem::find(texts, b"\",\"").unwrap_or(texts.len());
            let behind = match end == texts.len() {
                true => &[][..],
                false => &message[message.len() - 2 - (texts.len() - end - 1)..],
            };
            let text = &texts[..end];
            let content =
                if text == SUBSCRIBED { Message::Confirmed } else { Message::Event(kind, text) };
            return Ok((content, behind));
        }
        Ok(alone(match message {
            b"o" => Message::Opening,
            b"h" => Message::Heartbeat,
            [b'c', b'[', ..] => Message::Close,
            _ => return Err(unknown("not a frame of SockJS", message)),
        }))
    }

    fn escapes(&self) -> bool {
        true
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: format!("/{}", topic_name(topic)) }
    }

    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number).into_bytes();
        (encode_message(&data), data)
    }

    fn ack_runner(&self, event: &[u8]) -> Vec<u8> {
        encode_message(event)
    }
}

/// Encodes a message as a client sends it.
fn encode_message(text: &[u8]) -> Vec<u8> {
    let mut frame = b"[\"".to_vec();
    escape(text, &mut frame);
    frame.extend_from_slice(b"\"]");
    frame
}
