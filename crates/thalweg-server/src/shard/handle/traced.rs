//! The lines of connections in the traces of their subjects.

use std::sync::Arc;

use super::Shard;
use crate::{
    access::Holder,
    protocol::{Reply, Request},
    refusal::Refusal,
    shard::session_input::SubscriberId,
    traces::{Action, Traces},
    transport::SubscribeRequest,
};

/// A command whose subject is traced, until its result is known. Boxed, because few commands are.
pub(super) struct TracedCommand(Box<(Arc<Holder>, Action)>);

impl TracedCommand {
    /// Adds the line of the command.
    pub(super) fn note(self, traces: &Traces, result: &Result<Reply, Refusal>) {
        let (holder, mut action) = *self.0;
        Reply::complete(result.as_ref(), &mut action);
        traces.note(holder.subject(), || action);
    }
}

impl Shard {
    /// Returns a command for a trace, if the subject of its connection is traced.
    #[inline]
    pub(super) fn traced_command(&self, key: u32, request: &Request) -> Option<TracedCommand> {
        let connection = self.subscribers.get(key)?;
        let is_traced = self.common.traces.has(connection.holder.subject());
        is_traced.then(|| {
            let action = request.action().by(connection.serial);
            TracedCommand(Box::new((Arc::clone(&connection.holder), action)))
        })
    }

    /// Adds the lines of the subscriptions with which a connection begins.
    pub(super) fn note_subscribed(&self, id: SubscriberId, request: &SubscribeRequest) {
        let Some(connection) = self.subscribers.get(id.key) else { return };
        for (topic, start) in &request.topics {
            self.common.traces.note(connection.holder.subject(), || {
                Action::subscription(topic, *start).by(id.serial)
            });
        }
    }
}
