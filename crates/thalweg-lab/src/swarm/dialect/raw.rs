//! Messages without an envelope: one event each, or several with line feeds between them. The server echoes WebSocket messages. A
//! topic is a path: a WebSocket or Server-Sent Events subscribe to it, and a POST publishes. A subscription is established as soon as
//! the response's head has arrived.

use super::{Dialect, Message, Wanted};
use crate::subject::topic_name;
use crate::swarm::carrier::Kind;
use crate::swarm::publishing::Publishing;
use memchr::memchr;

#[derive(Debug)]
pub(super) struct Raw;

impl Dialect for Raw {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        target(wanted.topics.start)
    }

    fn confirms(&self) -> bool {
        false
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let end = memchr(b'\n', message).unwrap_or(message.len());
        let behind = message.get(end + 1..).unwrap_or_default();
        Ok((Message::Event(kind, &message[..end]), behind))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: target(topic) }
    }
}

fn target(topic: u32) -> String {
    format!("/{}", topic_name(topic))
}
