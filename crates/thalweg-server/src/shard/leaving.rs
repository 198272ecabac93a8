//! Many connections are told to reconnect, each at a time of its own, because otherwise all of them would come back
//! in the same instant.

use super::{
    Handle, Shard,
    goodbyes::Goodbye,
    subscribers::{SubscriberId, Subscribers},
};
use crate::{
    config::{CUT_OFF_SPREAD_US, GOODBYE_US},
    derived::is_in_stream,
    transport::Connection,
};

impl Subscribers {
    /// Tells connections to reconnect, one after the other, over `most_us` at most.
    pub(super) fn say_goodbye(
        &mut self,
        goodbye: Goodbye,
        keys: &[u32],
        now_us: u64,
        most_us: u64,
    ) {
        let span_us = most_us.min(keys.len() as u64 * GOODBYE_US);
        for (nth, key) in keys.iter().enumerate() {
            let Some(connection) = self.connections.get(*key as usize) else { continue };
            let at_us = now_us + span_us * nth as u64 / keys.len() as u64;
            self.goodbyes.set(at_us, (goodbye, *key, connection.serial));
        }
    }

    /// Tells those whose time has come.
    pub(super) fn end_goodbyes(&mut self, now_us: u64) {
        while let Some((goodbye, key, serial)) = self.goodbyes.take_due(now_us) {
            let connection = self.connections.get(key as usize);
            if connection.is_some_and(|it| it.serial == serial && !it.subscriber.is_ending()) {
                self.close(key, goodbye.close());
            }
        }
    }
}

impl Handle {
    /// Tells a long poll to reconnect if the server has been cut off from streams since its connection was opened, at
    /// `opened_us`: its client was between two polls when subscribers were told.
    pub(crate) fn leave_if_untold(&self, id: SubscriberId, opened_us: u64) {
        if !self.shard.borrow().hearing.is_untold(opened_us) {
            return;
        }
        self.with_subscriber(id, |shard| {
            let connection = shard.subscribers.connections.get(id.key as usize);
            if connection.is_some_and(|connection| shard.reads_streams(connection)) {
                shard.subscribers.close(id.key, Goodbye::CutOff.close());
            }
        });
    }
}

impl Shard {
    /// Tells all subscribers to reconnect before the server ends.
    pub(super) fn leave(&mut self, now_us: u64) {
        // The rest is for those who are slow to go.
        let most_us = self.common.config.drain.as_micros() as u64 / 2;
        let keys: Vec<u32> =
            self.subscribers.connections.iter().map(|(key, _)| key as u32).collect();
        self.subscribers.say_goodbye(Goodbye::Draining, &keys, now_us, most_us);
    }

    /// If the server has heard nothing of its streams for a while, tells those to reconnect who read what comes
    /// from there.
    pub(super) fn leave_if_deaf(&mut self, now_us: u64) {
        let Some(readiness) = &self.common.readiness else { return };
        let (hearing, is_time) = self.hearing.after(readiness.is_ready(), now_us);
        self.hearing = hearing;
        if !is_time {
            return;
        }
        let connections = self.subscribers.connections.iter();
        let meant = connections.filter(|(_, connection)| self.reads_streams(connection));
        let keys: Vec<u32> = meant.map(|(key, _)| key as u32).collect();
        self.subscribers.say_goodbye(Goodbye::CutOff, &keys, now_us, CUT_OFF_SPREAD_US);
    }

    /// Whether a connection reads a topic that comes from a stream.
    fn reads_streams(&self, connection: &Connection) -> bool {
        let (config, asked) = (&self.common.config, &self.common.asked);
        let mut locals =
            connection.subscriber.feeds().filter_map(|feed| self.topics.feeds.get(feed));
        locals.any(|local| is_in_stream(config, &local.topic) || asked.is_shared(&local.topic))
    }
}
