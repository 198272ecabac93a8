//! Reads connections and splits their data into messages, within a turn's read budget.

use serde_json::value::RawValue;
use thalweg_wire::close;

use super::{ConnectionPhase, Subscribers, connection::Connection};
use crate::{
    protocol::{Reply, Request},
    refusal::Refusal,
    shard::topics::Topics,
    transport::Received,
};

/// Sockets read in one turn, once each.
const READS_PER_TURN: usize = 64;

impl Subscribers {
    /// Begins the turn's read budget. Returns how many connections may be read, once each.
    pub(in crate::shard) fn begin_reads(&mut self, now_us: u64) -> usize {
        self.read_budget.begin(now_us, self.common.config.limits.read_slice);
        self.readable.len().min(READS_PER_TURN)
    }

    /// Ends the read budget after a long command.
    pub(in crate::shard) fn end_reads(&mut self) {
        self.read_budget.is_over = true;
    }

    /// Returns whether the read budget is spent, or too many answers are unsent.
    pub(in crate::shard) fn has_read_enough(&self) -> bool {
        self.read_budget.is_over || self.has_too_many_answers()
    }

    /// Reads a connection once, or takes its deferred data. Returns the buffer, how many bytes of it are data, and
    /// whether more may follow.
    pub(in crate::shard) fn read(&mut self, key: u32) -> (Vec<u8>, usize, Received) {
        let has_records = self.has_records(key);
        let deferred = self.take_deferred(key);
        if has_records || !deferred.is_empty() {
            let bytes = deferred.len();
            return (deferred, bytes, Received::More);
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let (bytes, received) = self.connections[key as usize].writer.read(&mut buffer);
        self.read_budget.spend(0);
        (buffer, bytes, received)
    }

    /// Takes the buffer back after its data was processed or deferred.
    pub(in crate::shard) fn has_read(
        &mut self,
        topics: &mut Topics,
        key: u32,
        buffer: Vec<u8>,
        received: Received,
    ) {
        // Deferred data has a buffer of its own.
        if self.read_buffer.is_empty() {
            self.read_buffer = buffer;
        }
        match received {
            Received::More => self.mark_readable(key),
            // The peer's end of data came before this read, and epoll does not report it again.
            Received::Nothing if self.flags[key as usize].phase == ConnectionPhase::PeerClosed => {
                self.mark_readable(key);
            }
            Received::Nothing => {}
            Received::Gone => self.remove(topics, key),
            Received::Vanished => {
                self.counts.peers_vanished.add(1);
                self.remove(topics, key);
            }
        }
    }

    /// Replies to a request of a connection that still exists.
    pub(in crate::shard) fn reply(
        &mut self,
        key: u32,
        id: Option<&RawValue>,
        reply: Result<&Reply, &Refusal>,
    ) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        if connection.reply(id, reply) {
            self.mark_dirty(key);
            self.count_control(key, 0);
        }
    }

    /// Returns the next connection to read, if it may be read.
    pub(in crate::shard) fn next_readable(&mut self) -> Option<u32> {
        let key = self.readable.pop_front()?;
        self.flags[key as usize].readable = false;
        let connection = self.connections.get(key as usize)?;
        if connection.may_be_read(&self.common.config.limits) {
            return Some(key);
        }
        self.flags[key as usize].read_paused = true;
        None
    }

    fn take_deferred(&mut self, key: u32) -> Vec<u8> {
        let connection = &mut self.connections[key as usize];
        let held_before = connection.unfinished_bytes();
        let deferred = connection.take_deferred();
        if !deferred.is_empty() {
            self.count_unfinished(key, held_before);
        }
        deferred
    }

    pub(in crate::shard) fn has_records(&self, key: u32) -> bool {
        self.connections.get(key as usize).is_some_and(Connection::has_records)
    }

    pub(in crate::shard) fn defer(&mut self, key: u32, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let held_before = connection.unfinished_bytes();
        connection.defer(bytes);
        self.count_unfinished(key, held_before);
    }

    /// Returns whether the next message of a connection may be processed now. If not, the connection is read again as soon as it may be.
    pub(in crate::shard) fn may_be_processed(&mut self, key: u32) -> bool {
        let Some(connection) = self.connections.get(key as usize) else { return false };
        let may_be_read = connection.may_be_read(&self.common.config.limits);
        if may_be_read && self.read_budget.is_over {
            self.mark_readable(key);
        }
        self.flags[key as usize].read_paused |= !may_be_read;
        may_be_read && !self.read_budget.is_over
    }

    /// Takes the next record out of a connection's data. Returns it if it is a request.
    pub(in crate::shard) fn next_request(
        &mut self,
        key: u32,
        rest: &mut &[u8],
        now_us: u64,
    ) -> Option<Request> {
        let connection = &mut self.connections[key as usize];
        let event_bytes_max =
            connection.may_publish.then_some(self.common.config.limits.event_bytes);
        let held_before = connection.unfinished_bytes();
        let request = connection.receive(rest, now_us, event_bytes_max);
        self.read_budget.spend(request.as_ref().map_or(0, |request| request.bytes));
        let is_answered = connection.subscriber.control_bytes() > 0;
        self.count_unfinished(key, held_before);
        if is_answered {
            self.mark_dirty(key);
            self.count_control(key, 0);
        }
        request
    }

    /// Counts the memory of a connection's unprocessed data, which was `held_before`. If all connections together
    /// hold too much, closes the one that holds the most.
    pub(super) fn count_unfinished(&mut self, key: u32, held_before: usize) {
        let connection = &self.connections[key as usize];
        let held = connection.unfinished_bytes();
        self.flags[key as usize].unfinished = held > 0 || connection.unfinished_us > 0;
        self.unfinished_bytes = self.unfinished_bytes + held - held_before;
        if self.unfinished_bytes <= self.common.config.limits.unfinished_bytes || held == 0 {
            return;
        }
        let holders = self.flags.iter().enumerate().filter(|(_, flags)| flags.unfinished);
        let largest = holders.max_by_key(|(holder, _)| {
            let holds = self.connections.get(*holder).map(Connection::unfinished_bytes);
            (holds, *holder)
        });
        if let Some((largest, _)) = largest {
            self.close(largest as u32, close::BUSY);
        }
    }

    /// Queues a paused connection to be read, if it may be read again.
    pub(in crate::shard) fn read_again(&mut self, key: u32) {
        let flags = &mut self.flags[key as usize];
        if flags.read_paused
            && self.connections[key as usize].may_be_read(&self.common.config.limits)
        {
            flags.read_paused = false;
            self.mark_readable(key);
        }
    }
}
