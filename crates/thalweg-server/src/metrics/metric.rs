use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter or a gauge of one shard. Only the shard's thread writes it, because two threads that count at the same
/// time would lose counts.
#[derive(Debug, Default)]
pub(crate) struct Metric(AtomicU64);

impl Metric {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn add(&self, value: u64) {
        self.set(self.get() + value);
    }

    pub(crate) fn sub(&self, value: u64) {
        self.set(self.get() - value);
    }

    /// Keeps the largest value.
    pub(crate) fn raise(&self, value: u64) {
        self.set(self.get().max(value));
    }
}

/// Durations by powers of two.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The first bucket: below 2^FIRST µs; the last: all others.
    pub(super) counts: [Metric; Self::BUCKETS],
    pub(super) sum_us: Metric,
}

impl Histogram {
    /// 64 µs: a shard that sends to many subscribers reads the clock this often.
    const FIRST: u32 = 6;
    /// Up to 67 s.
    pub(super) const BUCKETS: usize = 22;

    pub(super) fn add(&self, time_us: u64) {
        let power = u64::BITS - time_us.leading_zeros();
        let bucket = power.saturating_sub(Self::FIRST).min(Self::BUCKETS as u32 - 1);
        self.counts[bucket as usize].add(1);
        self.sum_us.add(time_us);
    }

    /// Returns the bounds in seconds, without the last bucket, which has none.
    pub(super) fn bounds() -> Vec<f64> {
        (0..Self::BUCKETS as u32 - 1)
            .map(|bucket| f64::from(1_u32 << (Self::FIRST + bucket)) / 1e6)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_below_its_bound_and_not_below_the_one_before() {
        let bounds = Histogram::bounds();
        for time_us in [0, 1, 63, 64, 65, 127, 128, 1_000_000, 67_108_863, 67_108_864, u64::MAX / 2]
        {
            let histogram = Histogram::default();
            histogram.add(time_us);
            let bucket = histogram.counts.iter().position(|count| count.get() == 1).unwrap();
            let time_s = time_us as f64 / 1e6;
            assert!(bounds.get(bucket).is_none_or(|bound| time_s < *bound), "{time_us}");
            assert!(bucket == 0 || time_s >= bounds[bucket - 1], "{time_us}");
        }
    }
}
