//! Requests of sessions: records for a connection, and polls for its messages.

use thalweg_wire::Close;

use super::Subscribers;
use crate::{
    protocol::SessionPlace,
    shard::{
        session_input::{SessionInput, SubscriberId},
        topics::Topics,
    },
};

impl Subscribers {
    /// Ends all polled connections. Their clients are not told: no poll waits, and none will arrive.
    pub(in crate::shard) fn end_polled(&mut self, topics: &mut Topics, close: Close) {
        let polled = self.connections.iter().filter(|(_, connection)| connection.is_polled());
        let keys: Vec<u32> = polled.map(|(key, _)| key as u32).collect();
        for key in keys {
            self.cut(topics, key, close);
        }
    }

    /// Tells the protocol of a new connection the place to which the requests of the session go.
    pub(in crate::shard) fn opened(&mut self, id: SubscriberId, shard: usize) {
        let SubscriberId { key, serial } = id;
        if let Some(connection) = self.get_mut(id) {
            connection.opened(SessionPlace { shard, key, serial });
        }
    }

    /// Takes a request for a connection. If the connection has ended, the request's channel closes.
    pub(in crate::shard) fn take_request(
        &mut self,
        topics: &mut Topics,
        id: SubscriberId,
        input: SessionInput,
        now_us: u64,
    ) {
        let Some(connection) = self.get_mut(id) else { return };
        match input {
            SessionInput::Records(records, request) => {
                let held_before = connection.unfinished_bytes();
                connection.take_records(records, request, now_us);
                self.count_unfinished(id.key, held_before);
                self.mark_readable(id.key);
            }
            SessionInput::Poll(poll) => {
                connection.take_poll(poll, now_us);
                self.unblock(id.key);
            }
            SessionInput::End => self.remove(topics, id.key),
        }
    }
}
