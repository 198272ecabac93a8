//! Many connections are told to reconnect, each at a time of its own, because otherwise all of them would come back
//! in the same instant.

use super::{Shard, goodbyes::Goodbye, subscribers::Subscribers};
use crate::{
    config::{CUT_OFF_SPREAD_US, GOODBYE_US},
    derived::is_in_stream,
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
        let (config, asked) = (&self.common.config, &self.common.asked);
        let feeds = &self.topics.feeds;
        let is_shared = |feed| {
            let local = feeds.get(feed);
            local.is_some_and(|it| is_in_stream(config, &it.topic) || asked.is_shared(&it.topic))
        };
        let connections = self.subscribers.connections.iter();
        let meant = connections.filter(|(_, it)| it.subscriber.feeds().any(is_shared));
        let keys: Vec<u32> = meant.map(|(key, _)| key as u32).collect();
        self.subscribers.say_goodbye(Goodbye::CutOff, &keys, now_us, CUT_OFF_SPREAD_US);
    }
}
