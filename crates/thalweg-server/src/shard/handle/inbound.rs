//! Executes the messages of connections, one after the other, within a turn's read budget.

use std::{rc::Rc, sync::Arc};

use serde_json::value::RawValue;
use tokio::task::spawn_local;

use super::{
    Handle, Shard,
    commands::{Context, Execution},
};
use crate::{
    audit::RequestOrigin,
    clock::now_us,
    protocol::{Command, Reply, Request},
    refusal::Refusal,
    shard::session_input::SubscriberId,
};

impl Shard {
    /// Reads each connection with data once, until the read budget is spent.
    pub(super) fn read(&mut self, handle: &Rc<Handle>, now_us: u64) {
        for _ in 0..self.subscribers.begin_reads(now_us) {
            // Before it reads more, the shard sends and checks the replies that it holds.
            if self.subscribers.has_read_enough() {
                return;
            }
            let Some(key) = self.subscribers.next_readable() else { continue };
            let (buffer, bytes, received) = self.subscribers.read(key);
            self.take_in(handle, key, &buffer[..bytes], now_us);
            self.subscribers.has_read(&mut self.topics, key, buffer, received);
        }
    }

    /// Processes a connection's bytes, one message at a time. Defers the rest if too many replies are unsent,
    /// if a command must wait, or if the read budget is spent.
    fn take_in(&mut self, handle: &Rc<Handle>, key: u32, bytes: &[u8], now_us: u64) {
        let mut rest = bytes;
        while !rest.is_empty() || self.subscribers.has_records(key) {
            if !self.subscribers.may_be_processed(key) {
                return self.subscribers.defer(key, rest);
            }
            if let Some(request) = self.subscribers.next_request(key, &mut rest, now_us) {
                self.execute_for(handle, key, request);
            }
        }
    }

    /// Counts a request against the rate limits of its connection and client. Fails if the rate is exceeded.
    fn take_rates(&mut self, key: u32, request: &Request) -> Result<(), Refusal> {
        let Some(connection) = self.subscribers.at_mut(key) else { return Ok(()) };
        let Some(rated) = connection.holder.rated(connection.client.counted()) else {
            return Ok(());
        };
        let now_us = now_us();
        for act in request.acts() {
            let buckets = Some(&mut **connection.buckets.get_or_insert_default());
            let taken = self.common.rates.take(rated, buckets, act, now_us);
            let uncounted =
                taken.map_err(|refusal| refusal.with_subject(connection.holder.names(), ""))?;
            self.counts.rates_uncounted.add(uncounted);
        }
        Ok(())
    }

    /// Executes a connection's command and sends the reply when it is done.
    fn execute_for(&mut self, handle: &Rc<Handle>, key: u32, request: Request) {
        let taken = self.take_rates(key, &request);
        let traced = self.traced_command(key, &request);
        let Request { id, command, .. } = request;
        if matches!(command, Ok(Command::Refresh { .. })) {
            // Verifying a token takes as long as a hundred visits.
            self.subscribers.end_reads();
        }
        let Some(connection) = self.subscribers.get(key) else { return };
        let subscriber = SubscriberId { key, serial: connection.serial };
        let context = Context { client: connection.client, subscriber: Some(subscriber) };
        let holder = Arc::clone(&connection.holder);
        let allowed = taken.and(command);
        let allowed = allowed.and_then(|command| self.access.allow(&holder, command));
        let execution = match allowed {
            Ok(command) => self.execute(command, &holder, &context),
            Err(refused) => Execution::Done(Err(refused)),
        };
        let waiting = match execution {
            Execution::Done(reply) => {
                if let Some(traced) = traced {
                    traced.note(&self.common.traces, &reply);
                }
                return self.reply(key, id.as_deref(), &reply);
            }
            Execution::Pending(waiting) => waiting,
        };
        let Some(connection) = self.subscribers.at_mut(key) else { return };
        let is_awaited = waiting.is_first() || connection.replies_in_order();
        connection.waits |= is_awaited;
        connection.unanswered += 1;
        let handle = Rc::clone(handle);
        spawn_local(async move {
            let reply = handle.finish(waiting, &context).await;
            if let Some(traced) = traced {
                traced.note(&handle.common.traces, &reply);
            }
            handle.with_subscriber(subscriber, |shard| {
                let Some(connection) = shard.subscribers.at_mut(key) else { return };
                connection.unanswered -= 1;
                connection.waits &= !is_awaited;
                shard.reply(key, id.as_deref(), &reply);
                shard.subscribers.read_again(key);
            });
        });
    }

    fn reply(&mut self, key: u32, id: Option<&RawValue>, reply: &Result<Reply, Refusal>) {
        if let Err(refused) = reply {
            let address = self.subscribers.get(key).map(|connection| connection.client.address);
            let request = id.map(RawValue::get).unwrap_or_default();
            self.counts.refuse(refused, RequestOrigin { address, what: "command", request });
        }
        self.subscribers.reply(key, id, reply.as_ref());
    }
}
