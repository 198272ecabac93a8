//! The subscribers of a topic, for the overview page.

use serde::Serialize;

use crate::{access::Holder, config::SHOWN_SUBSCRIBERS_MAX};

/// A subscriber of a topic.
#[derive(Debug, Serialize)]
pub(crate) struct ShownSubscriber {
    /// The subject of its signed token.
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    /// The name of its configured token.
    #[serde(skip_serializing_if = "String::is_empty")]
    token: String,
    transport: &'static str,
    /// Events of the topic that were published and that the server has not sent to it.
    lag: u64,
    /// For how long its connection has had no room for more data, in ms.
    full_ms: u64,
}

/// Subscribers of a topic: those of a shard, or of the server.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ShownSubscribers {
    /// All of them, also those that are not shown.
    count: usize,
    subscribers: Vec<ShownSubscriber>,
}

impl ShownSubscriber {
    pub(super) fn new(holder: &Holder, transport: &'static str, lag: u64, full_ms: u64) -> Self {
        let [subject, token] = holder.names().map(str::to_owned);
        Self { subject, token, transport, lag, full_ms }
    }
}

impl ShownSubscribers {
    /// Shows the first of `count` subscribers, in no order.
    pub(super) fn new(count: usize, subscribers: impl Iterator<Item = ShownSubscriber>) -> Self {
        Self { count, subscribers: subscribers.take(SHOWN_SUBSCRIBERS_MAX).collect() }
    }

    /// Adds the subscribers of another shard.
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.subscribers.extend(other.subscribers);
    }

    /// Returns the subscribers as JSON: first those whose connections have been full for longest, then those that lag most.
    pub(super) fn into_json(mut self) -> Vec<u8> {
        self.subscribers.sort_by_key(|shown| std::cmp::Reverse((shown.full_ms, shown.lag)));
        self.subscribers.truncate(SHOWN_SUBSCRIBERS_MAX);
        let mut line = serde_json::json!(self).to_string();
        line.push('\n');
        line.into_bytes()
    }
}
