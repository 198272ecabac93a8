//! nchan, nginx's module for push (<https://nchan.io>): messages as they are, below `/sub/`; what
//! is posted below `/pub/` is one.

use super::{Dialect, Message, Wanted, alone};
use crate::subject::topic_name;
use crate::swarm::carrier::Kind;
use crate::swarm::publishing::{Publishing, Requests};

#[derive(Debug)]
pub(super) struct Nchan;

impl Dialect for Nchan {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        format!("/sub/{}", topic_name(wanted.topics.start))
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
        let target = format!("/pub/{}", topic_name(topic));
        Publishing::Requests(Requests { target, ..Requests::default() })
    }
}
