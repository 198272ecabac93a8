//! Latency, from the intended time to the moment the bytes were read, in µs.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Anything slower counts as this slow: ten minutes.
const LATENCY_US_MAX: u64 = 600_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of latencies, exact to three digits.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        match Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS) {
            Ok(histogram) => Latency(histogram),
            Err(error) => unreachable!("constant bounds that every test creates: {error}"),
        }
    }
}

impl Latency {
    /// Records `count` events that were this late.
    pub fn record(&mut self, latency_us: u64, count: u64) {
        self.0.saturating_record_n(latency_us, count);
    }

    /// Returns the latency that a share (0 to 1) of the events did not exceed; `None` without events.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(share))
    }

    /// Returns the mean; `None` without events. Walks the whole histogram, which takes about ten µs.
    pub fn mean_us(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    /// Returns latency and count of every bucket that is not empty, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()))
    }

    /// Returns the percentiles that a sample keeps; `None` without events.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            p50_us: self.quantile_us(0.5)?,
            p90_us: self.quantile_us(0.9)?,
            p99_us: self.quantile_us(0.99)?,
            p999_us: self.quantile_us(0.999)?,
            max_us: self.quantile_us(1.0)?,
        })
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.reset();
    }
}

/// The percentiles that a sample keeps of its latencies, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of the events were no later.
    pub p50_us: u64,
    /// 90 of 100.
    pub p90_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1,000.
    pub p999_us: u64,
    /// The latest.
    pub max_us: u64,
}

/// A summary of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// Half of the events were no later.
    pub p50_us: u64,
    /// 95 of 100; older archives lack it.
    #[serde(default)]
    pub p95_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// The latest.
    pub max_us: u64,
}

impl Delays {
    /// Returns the delays of a recorded latency; `None` if nothing was recorded.
    pub fn new(latency: &Latency) -> Option<Delays> {
        Some(Delays {
            p50_us: latency.quantile_us(0.5)?,
            p95_us: latency.quantile_us(0.95)?,
            p99_us: latency.quantile_us(0.99)?,
            max_us: latency.quantile_us(1.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_latencies() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile_us(0.5), None);
        for us in 1..=1000 {
            latency.record(us, 2);
        }
        assert_eq!(latency.quantile_us(0.5), Some(500));
        assert_eq!(latency.quantile_us(0.99), Some(990));
        let percentiles =
            Percentiles { p50_us: 500, p90_us: 900, p99_us: 990, p999_us: 999, max_us: 1000 };
        assert_eq!(latency.percentiles(), Some(percentiles));
        assert_eq!(Latency::default().percentiles(), None);
        assert!((latency.mean_us().unwrap() - 500.5).abs() < 0.5);
        assert_eq!(latency.buckets().map(|(_, count)| count).sum::<u64>(), 2000);
    }
}
