//! The dialect of `limit`: Thalweg's envelopes for subscribers; the server echoes WebSocket messages.

use super::{Dialect, Message, alone, thalweg};
use crate::swarm::carrier::Kind;

#[derive(Debug)]
pub(super) struct Limit;

impl Dialect for Limit {
    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        Ok(alone(thalweg::unwrap(kind, message).unwrap_or(Message::Answer(message))))
    }
}
