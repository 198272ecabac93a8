//! Metrics of a broker.

use std::fmt;

/// Metrics of a broker, read at each request of `/metrics`.
pub trait BrokerCounts: fmt::Debug + Send + Sync {
    /// Returns each family. Names are unique among all brokers of a server.
    fn families(&self) -> Vec<Family>;
}

#[derive(Debug)]
pub(crate) struct NoCounts;

impl BrokerCounts for NoCounts {
    fn families(&self) -> Vec<Family> {
        Vec::new()
    }
}

/// A metric family.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name, without `thalweg_` and without the suffix of its kind.
    pub name: &'static str,
    /// Its help text, one sentence.
    pub help: &'static str,
    /// Its value now.
    pub value: FamilyValue,
}

/// The value of a metric.
#[derive(Debug, Clone)]
pub enum FamilyValue {
    /// A value that only rises.
    Counter(u64),
    /// A value that rises and falls.
    Gauge(f64),
    /// Observations, counted by bucket.
    Histogram {
        /// The upper bounds of the buckets in seconds, rising.
        bounds: Vec<f64>,
        /// The observations of each bucket, and those above the last bound.
        counts: Vec<u64>,
        /// The sum of the observations in seconds.
        sum: f64,
    },
}
