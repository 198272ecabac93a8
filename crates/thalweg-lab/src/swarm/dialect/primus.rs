//! Primus with its JSON parser (<https://github.com/primus/primus>): a message is any JSON value; a string `primus::ping::…` is
//! to be answered with `primus::pong::…`. A connection names its topic in its query.

use super::{Dialect, Message, Wanted, alone, echo};
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use crate::swarm::publishing::Publishing;

#[derive(Debug)]
pub(super) struct Primus;

impl Dialect for Primus {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        format!("/primus/?topic={}", topic_name(wanted.topics.start))
    }

    fn confirms(&self) -> bool {
        false
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let string = message.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        Ok(alone(match string {
            Some(text) => match text.strip_prefix(b"primus::ping::") {
                Some(time) => {
                    websocket::text(&[b"\"primus::pong::", time, b"\""].concat(), replies);
                    Message::Heartbeat
                }
                None if text == b"primus::server::close" => Message::Close,
                None => Message::Event(kind, text),
            },
            None => Message::Event(kind, message),
        }))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: format!("/{}", topic_name(topic)) }
    }

    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number);
        (format!("\"{data}\"").into_bytes(), data.into_bytes())
    }
}
