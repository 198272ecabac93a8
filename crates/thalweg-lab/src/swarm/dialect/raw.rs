//! Messages as they are, without an envelope; what a WebSocket says comes back as it is. A topic
//! is a path: who gets it over a WebSocket or Server-Sent Events subscribes, who posts to it
//! publishes. A subscription stands as soon as the response's head is there.

use super::{Dialect, Message, Wanted, alone};
use crate::subject::topic_name;
use crate::swarm::carrier::Kind;
use crate::swarm::publishing::Publishing;

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
        Ok(alone(Message::Event(kind, message)))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: target(topic) }
    }
}

fn target(topic: u32) -> String {
    format!("/{}", topic_name(topic))
}
