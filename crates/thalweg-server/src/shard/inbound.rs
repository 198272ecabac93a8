//! What connections send: read, split into messages, and answered one message after the other,
//! within the turn's time for reading.

use std::rc::Rc;

use serde_json::value::RawValue;
use thalweg_wire::{answer::refusal, close};
use tokio::task::spawn_local;

use super::{
    Handle, Shard,
    commands::{Answer, Command, Context, Execution, Request},
    subscribers::{Phase, SubscriberId, Subscribers},
};
use crate::{
    audit::Asker,
    clock::now_us,
    refusal::Refusal,
    transport::{Connection, Received},
};

/// Sockets read in one turn, once each.
const READS_PER_TURN: usize = 64;

impl Shard {
    /// Reads what subscribers have sent, each connection once, until the time for reading is
    /// over.
    pub(super) fn read(&mut self, handle: &Rc<Handle>, now_us: u64) {
        self.subscribers.slice.begin(now_us, self.common.config.limits.read_slice);
        for _ in 0..self.subscribers.readable.len().min(READS_PER_TURN) {
            // The answers held now are sent and checked first.
            if self.subscribers.slice.is_over() || self.subscribers.has_too_many_answers() {
                return;
            }
            let Some(key) = self.subscribers.next_readable() else { continue };
            match self.receive(handle, key, now_us) {
                Received::More => self.subscribers.mark_readable(key),
                // The end came before this read: epoll does not report it again.
                Received::Nothing
                    if self.subscribers.flags[key as usize].phase == Phase::PeerClosed =>
                {
                    self.subscribers.mark_readable(key);
                }
                Received::Nothing => {}
                Received::Gone => self.subscribers.remove(&mut self.topics, key),
                Received::Vanished => {
                    self.subscribers.counts.peers_vanished.add(1);
                    self.subscribers.remove(&mut self.topics, key);
                }
            }
        }
    }

    /// Reads a connection once.
    fn receive(&mut self, handle: &Rc<Handle>, key: u32, now_us: u64) -> Received {
        let deferred = self.subscribers.take_deferred(key);
        if !deferred.is_empty() {
            self.take_in(handle, key, &deferred, now_us);
            return Received::More;
        }
        let mut buffer = std::mem::take(&mut self.subscribers.read_buffer);
        let writer = &mut self.subscribers.connections[key as usize].writer;
        let (bytes, received) = writer.read(&mut buffer);
        self.subscribers.slice.spend(0);
        self.take_in(handle, key, &buffer[..bytes], now_us);
        self.subscribers.read_buffer = buffer;
        received
    }

    /// Processes what a connection sent, one message at a time. It keeps the rest if there are
    /// too many unsent answers, if a command must wait, or if the time is over.
    fn take_in(&mut self, handle: &Rc<Handle>, key: u32, bytes: &[u8], now_us: u64) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if !self.subscribers.may_be_processed(key) {
                return self.subscribers.defer(key, rest);
            }
            if let Some(request) = self.subscribers.next_request(key, &mut rest, now_us) {
                self.execute_for(handle, key, request);
            }
        }
    }

    /// Takes what a request does out of its connection's buckets, and out of its client's.
    ///
    /// # Errors
    /// When it comes too often.
    fn take_rates(&mut self, key: u32, request: &Request) -> Result<(), Refusal> {
        let connection = &mut self.subscribers.connections[key as usize];
        let Some(rated) = connection.holder.rated(connection.client.counted()) else {
            return Ok(());
        };
        let now_us = now_us();
        for act in request.acts() {
            let buckets = Some(&mut **connection.buckets.get_or_insert_default());
            let taken = self.common.rates.take(rated, buckets, act, now_us);
            let uncounted = taken.map_err(|refusal| refusal.of(connection.holder.names(), ""))?;
            self.subscribers.counts.rates_uncounted.add(uncounted);
        }
        Ok(())
    }

    /// Executes a command from a connection, and answers it when it is done.
    fn execute_for(&mut self, handle: &Rc<Handle>, key: u32, request: Request) {
        let taken = self.take_rates(key, &request);
        let Request { id, command, .. } = request;
        let connection = &self.subscribers.connections[key as usize];
        let subscriber = SubscriberId { key, serial: connection.serial };
        let context = Context { client: connection.client, subscriber: Some(subscriber) };
        // An ack without an id gets no answer.
        let is_silent = id.is_none() && matches!(command, Ok(Command::Ack { .. }));
        if matches!(command, Ok(Command::Refresh { .. })) {
            // To verify a token takes as long as a hundred visits.
            self.subscribers.slice.end();
        }
        let access = &self.access;
        let allowed = taken.and(command);
        let allowed = allowed.and_then(|command| access.allow(&connection.holder, command));
        let execution = match allowed {
            Ok(command) => self.execute(command, &context),
            Err(refused) => Execution::Done(Err(refused)),
        };
        let waiting = match execution {
            Execution::Done(Ok(_)) if is_silent => return,
            Execution::Done(answer) => return self.subscribers.answer(key, id.as_deref(), answer),
            Execution::Waiting(waiting) => waiting,
        };
        let connection = &mut self.subscribers.connections[key as usize];
        let is_first = waiting.is_first();
        connection.waits |= is_first;
        connection.unanswered += 1;
        let handle = Rc::clone(handle);
        spawn_local(async move {
            let answer = handle.finish(waiting, &context).await;
            handle.with_subscriber(subscriber, |shard| {
                let connection = &mut shard.subscribers.connections[key as usize];
                connection.unanswered -= 1;
                connection.waits &= !is_first;
                shard.subscribers.answer(key, id.as_deref(), answer);
                shard.subscribers.read_again(key);
            });
        });
    }
}

impl Subscribers {
    /// The next connection to read, if there is one and it may be read.
    fn next_readable(&mut self) -> Option<u32> {
        let key = self.readable.pop_front()?;
        self.flags[key as usize].readable = false;
        let connection = self.connections.get(key as usize)?;
        if connection.may_be_read(&self.common.config.limits) {
            return Some(key);
        }
        self.flags[key as usize].read_paused = true;
        None
    }

    /// What a connection sent that is not processed yet.
    fn take_deferred(&mut self, key: u32) -> Vec<u8> {
        let connection = &mut self.connections[key as usize];
        let held_before = connection.unfinished_bytes();
        let deferred = connection.take_deferred();
        if !deferred.is_empty() {
            self.count_unfinished(key, held_before);
        }
        deferred
    }

    /// Keeps what a connection sent, to be processed later.
    pub(super) fn defer(&mut self, key: u32, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let held_before = connection.unfinished_bytes();
        connection.defer(bytes);
        self.count_unfinished(key, held_before);
    }

    /// Whether the next message of a connection may be processed now. If not, the connection is
    /// read again when it may.
    fn may_be_processed(&mut self, key: u32) -> bool {
        let Some(connection) = self.connections.get(key as usize) else { return false };
        let may_be_read = connection.may_be_read(&self.common.config.limits);
        if may_be_read && self.slice.is_over() {
            self.mark_readable(key);
        }
        self.flags[key as usize].read_paused |= !may_be_read;
        may_be_read && !self.slice.is_over()
    }

    /// Takes the next message out of what a connection sent. Returns it if it is a request.
    fn next_request(&mut self, key: u32, rest: &mut &[u8], now_us: u64) -> Option<Request> {
        let connection = &mut self.connections[key as usize];
        let event_bytes_max =
            connection.may_publish.then_some(self.common.config.limits.event_bytes);
        let (mut request, mut bytes) = (None, 0);
        let held_before = connection.unfinished_bytes();
        connection.receive(rest, now_us, &mut |text| {
            bytes = text.len();
            request = Some(Request::read(text, event_bytes_max));
        });
        self.slice.spend(bytes);
        let is_answered = connection.subscriber.control_bytes() > 0;
        self.count_unfinished(key, held_before);
        if is_answered {
            self.mark_dirty(key);
            self.count_control(key, 0);
        }
        request
    }

    /// Counts the memory of what a connection has sent, deferred or unfinished; before, it was
    /// `held_before`. If all connections together hold too much, the one that holds most is
    /// closed.
    fn count_unfinished(&mut self, key: u32, held_before: usize) {
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

    fn answer(&mut self, key: u32, id: Option<&RawValue>, answer: Result<Answer, Refusal>) {
        let json = match answer {
            Ok(answer) => answer.to_json(id),
            Err(refused) => {
                let address = self.connections.get(key as usize).map(|it| it.client.address);
                let request = id.map(RawValue::get).unwrap_or_default();
                self.counts.refuse(&refused, Asker { address, what: "command", request });
                refusal(refused.code, &refused.message, id, None)
            }
        };
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        connection.answer(&json);
        self.mark_dirty(key);
        self.count_control(key, 0);
    }

    /// Marks a waiting connection readable, if it may be read again.
    fn read_again(&mut self, key: u32) {
        let flags = &mut self.flags[key as usize];
        if flags.read_paused
            && self.connections[key as usize].may_be_read(&self.common.config.limits)
        {
            flags.read_paused = false;
            self.mark_readable(key);
        }
    }
}
