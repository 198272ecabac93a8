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
use thalweg_wire::{ErrorCode, close};

/// `Content-Type` of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

macro_rules! counts {
    ($($(#[doc = $help:literal])+ $name:ident: $kind:ident,)+) => {
        /// One shard's counts.
        #[derive(Debug, Default, Clone, Copy)]
        pub(crate) struct Counts {
            $($(#[doc = $help])+ pub(crate) $name: u64,)+
            /// Refusals by code.
            refused: [u64; ErrorCode::ALL.len()],
            /// Closes by code.
            closed: [u64; close::ALL.len()],
        }

        impl Counts {
            const ALL: &[Description] = &[$(Description {
                name: stringify!($name),
                help: concat!($($help),+),
                kind: Kind::$kind,
            },)+];

            /// The numbers that are one each; those by code follow them.
            fn singles(&self) -> [u64; Self::ALL.len()] {
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
    /// Topics that only subscribers hold: without events, or whose home has not answered.
    subscribed_topics: Gauge,
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
    /// Gaps announced because a subscriber fell behind.
    gaps_slow: Counter,
    /// Gaps announced because a cursor was older than the history.
    gaps_trimmed: Counter,
    /// Gaps announced because a cursor was of another epoch.
    gaps_epoch: Counter,
    /// Most events that a subscriber whose socket is full is behind.
    lag_events_max: Gauge,
    /// HTTP/2 streams and answers to long polls among the connections.
    piped_connections: Gauge,
    /// Requests whose bodies are being read.
    requests: Gauge,
    /// Memory of unfinished WebSocket messages, in bytes.
    unfinished_bytes: Gauge,
    /// HTTP/2 streams refused because their connection had as many as it may.
    h2_refused_streams: Counter,
    /// HTTP/2 connections ended for resetting streams or for other misuse.
    h2_misuses: Counter,
    /// TLS handshakes that failed or took too long.
    tls_failures: Counter,
    /// Publishes answered from memory, their idempotency keys being known.
    retries_replayed: Counter,
    /// Acks heard.
    acks: Counter,
    /// Heartbeats sent.
    heartbeats: Counter,
    /// Sources that do not tick because nobody subscribes to their topics.
    sources_resting: Gauge,
    /// Ticks of sources.
    source_ticks: Counter,
    /// Ticks of sources that were over 1 ms late.
    source_ticks_late: Counter,
    /// Largest lateness of a source's tick, in microseconds.
    source_lateness_us_max: Gauge,
}

impl Counts {
    /// How many numbers there are.
    const LEN: usize = Self::ALL.len() + ErrorCode::ALL.len() + close::ALL.len();

    /// One more refusal.
    pub(crate) fn count_refused(&mut self, code: ErrorCode) {
        self.refused[code as usize] += 1;
    }

    /// One more connection closed with a code.
    pub(crate) fn count_closed(&mut self, code: u16) {
        if let Some(index) = close::ALL.iter().position(|close| close.code == code) {
            self.closed[index] += 1;
        }
    }
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
pub(crate) struct Metrics(Arc<Vec<[AtomicU64; Counts::LEN]>>);

impl Metrics {
    /// For this many shards.
    pub(crate) fn new(shards: usize) -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self(Arc::new((0..shards).map(|_| zeros()).collect()))
    }

    /// Stores a shard's counts.
    pub(crate) fn store(&self, shard: usize, counts: &Counts) {
        let (singles, by_code) = self.0[shard].split_at(Counts::ALL.len());
        let (refused, closed) = by_code.split_at(counts.refused.len());
        store(singles, &counts.singles());
        store(refused, &counts.refused);
        store(closed, &counts.closed);
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

/// In loops this plain the compiler needs no bounds and no branches.
fn store(cells: &[AtomicU64], values: &[u64]) {
    for (cell, value) in cells.iter().zip(values) {
        cell.store(*value, Relaxed);
    }
}

impl Metrics {
    /// What is counted by code: a family each, a label for the code.
    fn encode_codes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let refused = ErrorCode::ALL.iter().map(|code| code.name().to_owned());
        let closed = close::ALL.iter().map(|close| close.code.to_string());
        let before_closed = Counts::ALL.len() + ErrorCode::ALL.len();
        for (name, help, first, codes) in [
            ("refused", "Requests and commands refused", Counts::ALL.len(), refused.collect()),
            ("closed", "Connections closed", before_closed, closed.collect::<Vec<_>>()),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (index, code) in codes.into_iter().enumerate() {
                let cells = self.0.iter().map(|cells| cells[first + index].load(Relaxed));
                let labels = [("code", code)];
                let metric = family.encode_family(&labels)?;
                ConstCounter::new(cells.sum::<u64>()).encode(metric)?;
            }
        }
        Ok(())
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_codes(&mut encoder)?;
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
