//! Tells subscribers to reconnect.

use super::{Handle, Shard};
use crate::{
    config::CUT_OFF_SPREAD_US,
    derived::is_in_stream,
    shard::{
        common::Common,
        session_input::SubscriberId,
        subscribers::{Connection, ReconnectReason},
    },
};

impl Handle {
    /// Tells a long poll to reconnect if the server has lost its streams since the connection was opened at
    /// `opened_us`. The client was between two polls when subscribers were told.
    pub(crate) fn reconnect_if_missed(&self, id: SubscriberId, opened_us: u64) {
        if !self.shard.borrow().stream_health.missed_notice(opened_us) {
            return;
        }
        self.with_subscriber(id, |shard| {
            let connection = shard.subscribers.get(id.key);
            if connection.is_some_and(|connection| shard.reads_streams(connection)) {
                shard.subscribers.close(id.key, ReconnectReason::CutOff.close());
            }
        });
    }
}

impl Shard {
    /// Tells all subscribers to reconnect before the server ends.
    pub(super) fn drain(&mut self, now_us: u64) {
        // The rest of the time is for slow clients.
        let most_us = self.common.config.shutdown_timeout.as_micros() as u64 / 2;
        let keys: Vec<u32> = self.subscribers.iter().map(|(key, _)| key).collect();
        self.subscribers.tell_to_reconnect(ReconnectReason::Draining, &keys, now_us, most_us);
    }

    /// Tells readers of streams to reconnect if the server has been cut off from its streams for a while.
    pub(super) fn reconnect_if_cut_off(&mut self, now_us: u64) {
        let Some(has_caught_up) = self.common.has_caught_up() else { return };
        let (stream_health, is_time) = self.stream_health.after(has_caught_up, now_us);
        self.stream_health = stream_health;
        if !is_time {
            return;
        }
        let connections = self.subscribers.iter();
        let meant = connections.filter(|(_, connection)| self.reads_streams(connection));
        let keys: Vec<u32> = meant.map(|(key, _)| key).collect();
        self.subscribers.tell_to_reconnect(
            ReconnectReason::CutOff,
            &keys,
            now_us,
            CUT_OFF_SPREAD_US,
        );
    }

    /// Returns whether a connection reads a topic that comes from a stream.
    fn reads_streams(&self, connection: &Connection) -> bool {
        let Common { config, shared_topics, ad_hoc, .. } = &self.common;
        let mut topics = connection.subscriber.feeds().filter_map(|feed| self.topics.topic(feed));
        topics.any(|topic| is_in_stream(config, shared_topics, topic) || ad_hoc.is_shared(topic))
    }
}
