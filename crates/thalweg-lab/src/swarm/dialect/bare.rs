//! Messages as they are, without an envelope; what a WebSocket says comes back as it is.

use super::{Dialect, Message};
use crate::swarm::carrier::Kind;

#[derive(Debug)]
pub(super) struct Bare;

impl Dialect for Bare {
    fn confirms(&self) -> bool {
        false
    }

    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<Message<'a>> {
        Ok(Message::Event(kind, message))
    }
}
