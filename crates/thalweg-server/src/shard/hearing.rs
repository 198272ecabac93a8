//! What connections say: read, taken apart, and answered one message after the other, for
//! as long as a turn reads.

use std::{rc::Rc, time::Duration};

use serde_json::value::RawValue;
use thalweg_wire::{answer::refusal, close};
use tokio::task::spawn_local;

use super::{
    Handle, Shard,
    commands::{Answer, Command, Context, Execution, Request},
    subscribe::SubscriberId,
};
use crate::{
    clock::now_us,
    refusal::Refusal,
    transport::{Connection, Heard},
};

/// Bytes heard between two looks at the clock.
const BYTES_PER_LOOK: usize = 16 << 10;

/// What a read or a message counts for besides its bytes: a command that is refused takes
/// about as long as so many bytes of one that is not.
const MESSAGE_BYTES: usize = 1 << 10;

/// The time that a turn has for hearing.
#[derive(Debug, Default)]
pub(super) struct Slice {
    end_us: u64,
    /// Since the last look at the clock.
    heard_bytes: usize,
    is_over: bool,
}

impl Slice {
    /// Begins a slice of this length.
    pub(super) fn begin(&mut self, now_us: u64, length: Duration) {
        *self = Self { end_us: now_us + length.as_micros() as u64, ..Self::default() };
    }

    /// Whether what is left waits for the next turn.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// A read, or a message of so many bytes.
    fn spend(&mut self, bytes: usize) {
        self.heard_bytes += bytes + MESSAGE_BYTES;
        if self.heard_bytes >= BYTES_PER_LOOK {
            self.heard_bytes = 0;
            self.is_over = now_us() >= self.end_us;
        }
    }
}

impl Shard {
    /// Reads a connection once.
    pub(super) fn hear(&mut self, handle: &Rc<Handle>, key: u32, now_us: u64) -> Heard {
        let Some(connection) = self.connections.get_mut(key as usize) else { return Heard::Gone };
        let held_before = connection.unfinished_bytes();
        let unheard = connection.take_unheard();
        if !unheard.is_empty() {
            self.count_unfinished(key, held_before);
            self.take_in(handle, key, &unheard, now_us);
            return Heard::More;
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let (bytes, heard) = connection.read(&mut buffer);
        self.slice.spend(0);
        self.take_in(handle, key, &buffer[..bytes], now_us);
        self.read_buffer = buffer;
        heard
    }

    /// Keeps what a connection said until it is read.
    pub(super) fn keep_unheard(&mut self, key: u32, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let held_before = connection.unfinished_bytes();
        connection.keep_unheard(bytes);
        self.count_unfinished(key, held_before);
    }

    /// Takes in what a connection said, a message at a time. Once its answers are too many,
    /// one must be waited for, or time is over, the rest is kept.
    fn take_in(&mut self, handle: &Rc<Handle>, key: u32, bytes: &[u8], now_us: u64) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(connection) = self.connections.get(key as usize) else { return };
            let may_be_read = connection.may_be_read(&self.common.config.limits);
            if may_be_read && !self.slice.is_over() {
                self.take_in_message(handle, key, &mut rest, now_us);
                continue;
            }
            if may_be_read {
                self.mark_readable(key);
            } else {
                self.flags[key as usize].unread = true;
            }
            return self.keep_unheard(key, rest);
        }
    }

    fn take_in_message(&mut self, handle: &Rc<Handle>, key: u32, rest: &mut &[u8], now_us: u64) {
        let connection = &mut self.connections[key as usize];
        let may_publish = self.common.gate.lets_publish(connection.client.identity);
        let event_bytes_max = may_publish.then_some(self.common.config.limits.event_bytes);
        let (mut request, mut bytes) = (None, 0);
        let held_before = connection.unfinished_bytes();
        connection.hear(rest, now_us, &mut |text| {
            bytes = text.len();
            request = Some(Request::read(text, event_bytes_max));
        });
        self.slice.spend(bytes);
        let is_answered = connection.subscriber.own_bytes() > 0;
        self.count_unfinished(key, held_before);
        if is_answered {
            self.mark_dirty(key);
            self.count_own(key, 0);
        }
        if let Some(request) = request {
            self.execute_for(handle, key, request);
        }
    }

    /// Counts what a connection holds of what it said, unheard or unfinished, which was
    /// `held_before`; if all hold too much together, the one that holds most has to go.
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

    /// Executes a command that came on a connection, and answers when that is done.
    fn execute_for(&mut self, handle: &Rc<Handle>, key: u32, request: Request) {
        let Request { id, command } = request;
        let connection = &mut self.connections[key as usize];
        let subscriber = SubscriberId { key, serial: connection.serial };
        let context = Context { client: connection.client, subscriber: Some(subscriber) };
        // An ack without an id wants no answer.
        let is_silent = id.is_none() && matches!(command, Ok(Command::Ack { .. }));
        let waiting = match command.map(|command| self.execute(command, &context)) {
            Ok(Execution::Done(Ok(_))) if is_silent => return,
            Ok(Execution::Done(answer)) => return self.answer(key, id.as_deref(), answer),
            Err(refused) => return self.answer(key, id.as_deref(), Err(refused)),
            Ok(Execution::Waiting(waiting)) => waiting,
        };
        let connection = &mut self.connections[key as usize];
        let is_first = waiting.is_first();
        connection.waits |= is_first;
        connection.unanswered += 1;
        let handle = Rc::clone(handle);
        spawn_local(async move {
            let answer = handle.finish(waiting, &context).await;
            handle.step_of(subscriber, |shard| {
                let connection = &mut shard.connections[key as usize];
                connection.unanswered -= 1;
                connection.waits &= !is_first;
                shard.answer(key, id.as_deref(), answer);
                shard.read_again(key);
            });
        });
    }

    fn answer(&mut self, key: u32, id: Option<&RawValue>, answer: Result<Answer, Refusal>) {
        let json = match answer {
            Ok(answer) => answer.to_json(id),
            Err(refused) => {
                self.counts.count_refused(refused.code);
                refusal(refused.code, &refused.message, id, None)
            }
        };
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        connection.answer(&json);
        self.mark_dirty(key);
        self.count_own(key, 0);
    }

    /// Has a connection read that waited for it, if it may be again.
    fn read_again(&mut self, key: u32) {
        let flags = &mut self.flags[key as usize];
        if flags.unread && self.connections[key as usize].may_be_read(&self.common.config.limits) {
            flags.unread = false;
            self.mark_readable(key);
        }
    }
}
