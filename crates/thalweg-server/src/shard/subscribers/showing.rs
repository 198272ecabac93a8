//! Describes subscribers to those who run the server.

use thalweg_wire::Topic;

use super::Subscribers;
use crate::{
    metrics::CountedTransport,
    shard::{
        topic_subscribers::{ShownSubscriber, ShownSubscribers},
        topics::Topics,
    },
};

impl Subscribers {
    /// Returns the subscribers of a topic on this shard.
    pub(in crate::shard) fn shown(
        &self,
        topics: &Topics,
        topic: &Topic,
        now_us: u64,
    ) -> ShownSubscribers {
        let Some((feed, keys)) = topics.subscribers_of(topic) else {
            return ShownSubscribers::default();
        };
        let shown = |key: &u32| {
            let connection = self.connections.get(*key as usize)?;
            let transport = CountedTransport::NAMES[connection.counted_transport() as usize];
            let lag = connection.subscriber.lag_on(topics, feed);
            let full_us = match connection.stalled_us {
                0 => 0,
                since_us => now_us.saturating_sub(since_us),
            };
            Some(ShownSubscriber::new(&connection.holder, transport, lag, full_us / 1000))
        };
        ShownSubscribers::new(keys.len(), keys.iter().filter_map(shown))
    }
}
