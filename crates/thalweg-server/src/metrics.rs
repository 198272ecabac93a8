//! What the server counts, for `/metrics`.
//!
//! A shard counts in plain numbers of its own and stores them here once per
//! turn: there is no read-modify-write, and no line is shared, on the hot path.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// `Content-Type` of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

macro_rules! counts {
    ($($(#[doc = $help:literal])+ $name:ident: $kind:ident,)+) => {
        /// One shard's counts.
        #[derive(Debug, Default, Clone, Copy)]
        pub(crate) struct Counts {
            $($(#[doc = $help])+ pub(crate) $name: u64,)+
        }

        impl Counts {
            const ALL: &[Description] = &[$(Description {
                name: stringify!($name),
                help: concat!($($help),+),
                kind: Kind::$kind,
            },)+];

            fn values(&self) -> [u64; Self::ALL.len()] {
                [$(self.$name,)+]
            }
        }
    };
}

counts! {
    /// Subscribers' connections.
    connections: Gauge,
    /// Topics with a log on this shard.
    topics: Gauge,
    /// Memory of retained batches, in bytes.
    history_bytes: Gauge,
    /// Memory of hot tails, in bytes.
    tail_bytes: Gauge,
    /// Memory of trimmed batches that partly sent frames still need, in bytes.
    pinned_bytes: Gauge,
    /// Subscribers whose socket is full.
    blocked_connections: Gauge,
    /// Sockets accepted.
    accepted: Counter,
    /// Subscriptions' connections taken over.
    subscribed: Counter,
    /// Events appended by this shard as their topics' home.
    events_published: Counter,
    /// Batches sealed.
    batches_sealed: Counter,
    /// Visits to connections.
    visits: Counter,
    /// Send system calls.
    sends: Counter,
    /// Bytes sent to subscribers.
    sent_bytes: Counter,
    /// Sends that a full socket cut short.
    full_sends: Counter,
    /// Gaps announced.
    gaps: Counter,
    /// Heartbeats sent.
    heartbeats: Counter,
    /// Connections reset because a frame could not be finished.
    stalled_resets: Counter,
    /// Ticks of sources.
    source_ticks: Counter,
    /// Ticks of sources that were over 1 ms late.
    source_ticks_late: Counter,
    /// Largest lateness of a source's tick, in microseconds.
    source_lateness_us_max: Gauge,
}

struct Description {
    name: &'static str,
    help: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// All shards' counts.
#[derive(Debug, Clone)]
pub(crate) struct Metrics(Arc<Vec<[AtomicU64; Counts::ALL.len()]>>);

impl Metrics {
    /// For this many shards.
    pub(crate) fn new(shards: usize) -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self(Arc::new((0..shards).map(|_| zeros()).collect()))
    }

    /// Stores a shard's counts.
    pub(crate) fn store(&self, shard: usize, counts: &Counts) {
        for (cell, value) in self.0[shard].iter().zip(counts.values()) {
            cell.store(value, Relaxed);
        }
    }

    /// All counts in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never in practice: writing to a string.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("thalweg");
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (index, Description { name, help, kind }) in Counts::ALL.iter().enumerate() {
            let metric_type = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(name, help.trim(), None, metric_type)?;
            for (shard, cells) in self.0.iter().enumerate() {
                let labels = [("shard", shard.to_string())];
                let metric = family.encode_family(&labels)?;
                let value = cells[index].load(Relaxed);
                match kind {
                    Kind::Counter => ConstCounter::new(value).encode(metric)?,
                    Kind::Gauge => ConstGauge::new(value as i64).encode(metric)?,
                }
            }
        }
        Ok(())
    }
}
