//! Metrics of this broker.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use thalweg_broker::{BrokerCounts, Family, FamilyValue};

/// Upper bounds of the buckets of [`Counts::ack_latency`] in µs. The last bucket has no bound.
pub const ACK_LATENCY_US_BOUNDS: [u64; 12] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000];

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Messages read from streams, including skipped ones.
    pub messages: AtomicU64,
    /// Messages skipped, because they have no valid topic, or not 1 to 256 events.
    pub skipped: AtomicU64,
    /// Messages read by direct get, because no consumer could be created.
    pub messages_direct: AtomicU64,
    /// Consumers created again, after a hole, silence, or a lost connection.
    pub recreations: AtomicU64,
    /// Streams that have another epoch, or have lost messages.
    pub restarts: AtomicU64,
    /// Times that messages in the middle of a stream were removed before they were read.
    pub removed: AtomicU64,
    /// Streams whose last sequence number went back.
    pub regressions: AtomicU64,
    /// Messages that were stored.
    pub stored: AtomicU64,
    /// Retries because the stream had no leader, or was too busy.
    pub retries_unavailable: AtomicU64,
    /// Retries because no answer came (only with a key).
    pub retries_unanswered: AtomicU64,
    /// Pages of older messages that were requested.
    pub pages: AtomicU64,
    /// Pages that could not be read.
    pub pages_failed: AtomicU64,
    /// Ended topics whose events were not removed, and stored states whose replaced messages were not.
    pub purges_omitted: AtomicU64,
    /// States of keyed topics that were stored.
    pub states: AtomicU64,
    /// States that could not be stored.
    pub states_failed: AtomicU64,
    /// Tickets that were kept.
    pub tickets_kept: AtomicU64,
    /// Tickets that were redeemed.
    pub tickets_redeemed: AtomicU64,
    /// Tickets presented that are unknown, redeemed or expired.
    pub tickets_void: AtomicU64,
    /// Requests about tickets that failed.
    pub tickets_failed: AtomicU64,
    /// Times that the store of tickets in NATS was deleted, and created again here.
    pub buckets_recreated: AtomicU64,
    /// Appends whose outcome is unknown.
    pub unknown: AtomicU64,
    /// Messages of the streams that this server has not read, as reported with the newest message that it has read.
    pub lag: AtomicU64,
    /// Age of the newest message that this server has read, in µs, the largest of all streams; 0 if it has read all messages.
    pub lag_us: AtomicU64,
    /// Time from the first attempt to the stream's answer: appends in each bucket of [`ACK_LATENCY_US_BOUNDS`], and above.
    pub ack_latency: [AtomicU64; ACK_LATENCY_US_BOUNDS.len() + 1],
    /// The sum of these times in µs.
    pub ack_latency_us_sum: AtomicU64,
}

impl BrokerCounts for Counts {
    fn families(&self) -> Vec<Family> {
        let counter = |name, help, counter: &AtomicU64| {
            let value = FamilyValue::Counter(counter.load(Relaxed));
            Family { name, help, value }
        };
        let gauge = |name, help, value| Family { name, help, value: FamilyValue::Gauge(value) };
        let seconds = |us: u64| us as f64 / 1e6;
        let latency = FamilyValue::Histogram {
            bounds: ACK_LATENCY_US_BOUNDS.map(seconds).into(),
            counts: self.ack_latency.iter().map(|count| count.load(Relaxed)).collect(),
            sum: seconds(self.ack_latency_us_sum.load(Relaxed)),
        };
        vec![
            counter("nats_messages", "Messages read from streams.", &self.messages),
            counter(
                "nats_messages_direct",
                "Messages read without a consumer, while none could be created.",
                &self.messages_direct,
            ),
            counter("nats_skipped", "Unreadable messages that were skipped.", &self.skipped),
            gauge("nats_lag", "Messages not read yet.", self.lag.load(Relaxed) as f64),
            gauge(
                "nats_lag_seconds",
                "Age of the last message that was read, if there are newer ones; otherwise 0.",
                seconds(self.lag_us.load(Relaxed)),
            ),
            counter("nats_consumers_made_anew", "Consumers created again.", &self.recreations),
            counter("nats_restarts", "Streams that got another epoch.", &self.restarts),
            counter(
                "nats_removed",
                "Times that messages in the middle were removed before they were read.",
                &self.removed,
            ),
            counter(
                "nats_regressions",
                "Streams that lost messages that were read.",
                &self.regressions,
            ),
            counter(
                "nats_retries_unavailable",
                "Retries because the message was not stored.",
                &self.retries_unavailable,
            ),
            counter(
                "nats_retries_unanswered",
                "Retries of a message with an idempotency key, because no answer came.",
                &self.retries_unanswered,
            ),
            counter("nats_unknown", "Appends whose outcome is unknown.", &self.unknown),
            counter(
                "nats_purges_omitted",
                "Ended topics and stored states whose older messages were not removed.",
                &self.purges_omitted,
            ),
            counter("nats_states", "States of keyed topics stored here.", &self.states),
            counter(
                "nats_states_failed",
                "States of keyed topics that could not be stored.",
                &self.states_failed,
            ),
            counter("nats_tickets_kept", "Tickets issued here.", &self.tickets_kept),
            counter("nats_tickets_redeemed", "Tickets redeemed here.", &self.tickets_redeemed),
            counter(
                "nats_tickets_void",
                "Tickets presented here that are unknown, redeemed or expired.",
                &self.tickets_void,
            ),
            counter(
                "nats_tickets_failed",
                "Tickets that could not be kept or redeemed.",
                &self.tickets_failed,
            ),
            counter(
                "nats_tickets_restarts",
                "Times that the bucket of tickets was deleted, and created again here.",
                &self.buckets_recreated,
            ),
            counter("nats_pages", "Pages of older messages requested.", &self.pages),
            counter("nats_pages_failed", "Pages that could not be read.", &self.pages_failed),
            Family {
                name: "nats_ack_seconds",
                help: "Time from the first attempt to store a message to the answer.",
                value: latency,
            },
        ]
    }
}

impl Counts {
    /// Counts a stored message, and the time since its first attempt.
    pub(crate) fn take_stored(&self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = ACK_LATENCY_US_BOUNDS.partition_point(|bound| *bound < us);
        add(&self.ack_latency[bucket]);
        self.ack_latency_us_sum.fetch_add(us, Relaxed);
        add(&self.stored);
    }
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_bucket_that_bounds_it() {
        let counts = Counts::default();
        for us in [0, 250, 251, 5_000_000, 5_000_001] {
            counts.take_stored(Duration::from_micros(us));
        }
        let buckets = counts.ack_latency.each_ref().map(|bucket| bucket.load(Relaxed));
        assert_eq!(buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(counts.ack_latency_us_sum.load(Relaxed), 10_000_502);
    }
}
