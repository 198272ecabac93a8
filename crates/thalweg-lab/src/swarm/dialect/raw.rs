//! Messages as they are, without an envelope; what a WebSocket says comes back as it is. A topic
//! is a path: who gets it over a WebSocket or Server-Sent Events subscribes, who posts to it
//! publishes. A subscription stands as soon as the response's head is there.

use super::{Dialect, Wanted};
use crate::subject::topic_name;
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

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Ndjson { target: target(topic) }
    }
}

fn target(topic: u32) -> String {
    format!("/{}", topic_name(topic))
}
