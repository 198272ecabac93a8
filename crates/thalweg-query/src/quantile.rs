//! A quantile of the values of a group: exact for few values, and a t-digest of many.

use tdigest::TDigest;

use crate::limits::{ALLOCATION_BYTES, DIGEST_CENTROIDS, EXACT_VALUES_MAX};

/// The values of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quantile {
    /// Values that are not in the digest.
    values: Vec<f64>,
    /// All earlier values.
    digest: Option<Box<TDigest>>,
}

/// Memory without values.
const OWN_BYTES: usize = size_of::<Quantile>() + 2 * ALLOCATION_BYTES;

/// Memory of a digest: its centroids have two numbers each.
const DIGEST_BYTES: usize =
    size_of::<TDigest>() + DIGEST_CENTROIDS * 2 * size_of::<f64>() + 2 * ALLOCATION_BYTES;

/// Adds a value. Returns the growth of the memory in bytes; `None` if it exceeds `room`.
pub(crate) fn add(to: &mut Option<Box<Quantile>>, value: f64, room: usize) -> Option<isize> {
    let before = to.as_ref().map_or(0, |quantile| quantile.memory_bytes());
    let (values, has_digest) = match to.as_deref() {
        Some(Quantile { values, .. }) if values.len() == EXACT_VALUES_MAX => (1, true),
        Some(Quantile { values, digest }) => (values.len() + 1, digest.is_some()),
        None => (1, false),
    };
    let grown = bytes(values, has_digest).saturating_sub(before);
    if grown > room {
        return None;
    }
    to.get_or_insert_default().add(value);
    Some(grown as isize)
}

/// Returns the memory of this many values, and of a digest if there is one. The result depends only on these arguments, so that each
/// run counts the same.
fn bytes(values: usize, has_digest: bool) -> usize {
    let places = if has_digest { EXACT_VALUES_MAX } else { places(values) };
    OWN_BYTES + places * size_of::<f64>() + if has_digest { DIGEST_BYTES } else { 0 }
}

/// Returns the capacity for this many values.
fn places(values: usize) -> usize {
    values.next_power_of_two().clamp(4, EXACT_VALUES_MAX)
}

impl Quantile {
    pub(crate) fn memory_bytes(&self) -> usize {
        bytes(self.values.len(), self.digest.is_some())
    }

    fn add(&mut self, value: f64) {
        if self.values.len() == EXACT_VALUES_MAX {
            let values = std::mem::replace(&mut self.values, Vec::with_capacity(EXACT_VALUES_MAX));
            self.digest = Some(Box::new(self.merged(values)));
        }
        if self.values.len() == self.values.capacity() {
            self.values.reserve_exact(places(self.values.len() + 1) - self.values.len());
        }
        self.values.push(value);
    }

    fn merged(&self, values: Vec<f64>) -> TDigest {
        match &self.digest {
            Some(digest) => digest.merge_unsorted(values),
            None => TDigest::new_with_size(DIGEST_CENTROIDS).merge_unsorted(values),
        }
    }

    /// Returns the value with this share of the values below it, interpolated between two of them.
    pub(crate) fn result(&self, share: f64) -> Option<f64> {
        let values = self.values.clone();
        if self.digest.is_some() {
            return self.merged(values).estimate_quantile(share);
        }
        exact(values, share)
    }
}

fn exact(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let place = share * (values.len().checked_sub(1)? as f64);
    let (low, high) = (*values.get(place.floor() as usize)?, *values.get(place.ceil() as usize)?);
    let part = place.fract();
    // The difference of two finite numbers may be infinite.
    Some(if low == high { low } else { low * (1.0 - part) + high * part })
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// The stated error: the difference between the share of values below the result and the requested share.
    const ERROR_MAX: f64 = 0.02;

    /// Draws a value of a distribution.
    type Draw = fn(&mut Rng, usize) -> f64;

    const DISTRIBUTIONS: [(&str, Draw); 9] = [
        ("uniform", |rng, _| rng.f64()),
        ("normal", |rng, _| (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0),
        ("heavy tail", |rng, _| 1.0 / (1e-9 + rng.f64()).powi(3)),
        ("both signs", |rng, _| (rng.f64() - 0.5) * 10_f64.powi(rng.i32(-15..16))),
        ("few values", |rng, _| f64::from(rng.u8(0..5))),
        ("two clusters", |rng, _| if rng.bool() { rng.f64() } else { 1e6 + rng.f64() }),
        ("ascending", |_, place| place as f64),
        ("descending", |_, place| -(place as f64)),
        ("times", |rng, place| 1.66e12 + place as f64 * 10.0 + rng.f64() * 1000.0),
    ];

    fn digest(values: &[f64]) -> Quantile {
        let mut quantile = None;
        let mut held = 0;
        for value in values {
            held += add(&mut quantile, *value, usize::MAX).expect("room");
        }
        let quantile = quantile.expect("values");
        assert_eq!(quantile.memory_bytes(), held as usize);
        *quantile
    }

    /// Returns how far `share` is from the shares of the values below and up to a result.
    fn error(sorted: &[f64], result: f64, share: f64) -> f64 {
        let count = sorted.len() as f64;
        let below = sorted.partition_point(|value| *value < result) as f64 / count;
        let up_to = sorted.partition_point(|value| *value <= result) as f64 / count;
        (below - share).max(share - up_to).max(0.0)
    }

    #[test]
    fn the_rank_of_a_result_is_within_the_stated_error() {
        let mut rng = Rng::with_seed(20_261_129);
        let mut largest = 0.0_f64;
        for (name, draw) in DISTRIBUTIONS {
            for count in [129, 129, 200, 200, 300, 300, 300, 1000, 1000, 1000, 5000, 50_000] {
                let values: Vec<f64> = (0..count).map(|place| draw(&mut rng, place)).collect();
                let quantile = digest(&values);
                let mut sorted = values;
                sorted.sort_unstable_by(f64::total_cmp);
                for share in [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0] {
                    let result = quantile.result(share).expect("values");
                    let error = error(&sorted, result, share);
                    assert!(error <= ERROR_MAX, "{name} {count} {share}: {error}");
                    largest = largest.max(error);
                    let ends = sorted[0]..=sorted[sorted.len() - 1];
                    assert!(ends.contains(&result), "{name} {count} {share}");
                }
                assert_eq!(quantile.result(0.0), sorted.first().copied());
                assert_eq!(quantile.result(1.0), sorted.last().copied());
            }
        }
        // Less would mean that this test does not see errors.
        assert!(largest > ERROR_MAX / 10.0, "{largest}");
    }

    /// No error is stated for values that span hundreds of orders of magnitude.
    #[test]
    fn any_values_have_a_result_between_the_smallest_and_the_largest() {
        let mut rng = Rng::with_seed(3);
        for _ in 0..200 {
            let values: Vec<f64> = (0..rng.usize(1..600))
                .map(|_| match rng.u8(0..4) {
                    0 => f64::from_bits(rng.u64(..)),
                    1 => [0.0, -0.0, f64::MAX, -f64::MAX][rng.usize(0..4)],
                    2 => f64::from_bits(rng.u64(0..9)),
                    _ => rng.f64(),
                })
                .filter(|value| value.is_finite())
                .chain([1.0])
                .collect();
            let quantile = digest(&values);
            let (least, most) = values.iter().fold((1.0_f64, 1.0_f64), |(least, most), value| {
                (least.min(*value), most.max(*value))
            });
            for share in [0.0, 0.001, 0.3, 0.5, 0.99, 1.0] {
                let result = quantile.result(share).expect("values");
                assert!(least <= result && result <= most, "{share}: {result}");
            }
        }
    }

    #[test]
    fn the_memory_is_bounded_and_as_counted() {
        let mut rng = Rng::with_seed(7);
        for count in [1, 4, 5, 100, 128, 129, 1000, 20_000] {
            let values: Vec<f64> = (0..count).map(|_| rng.f64()).collect();
            let quantile = digest(&values);
            let centroids = quantile.digest.as_ref().map_or(0, |digest| digest.centroids().len());
            assert!(centroids <= DIGEST_CENTROIDS);
            let real = quantile.values.capacity() * 8 + centroids * 16;
            assert!(real <= quantile.memory_bytes(), "{count}");
            assert!(quantile.memory_bytes() <= 4800, "{}", quantile.memory_bytes());
        }
        let mut quantile = None;
        assert_eq!(add(&mut quantile, 1.0, 10), None);
        assert!(quantile.is_none());
    }

    #[test]
    fn few_values_are_exact() {
        for (values, share, expected) in [
            (&[1.0, 2.0, 10.0][..], 0.5, 2.0),
            (&[1.0, 2.0], 0.5, 1.5),
            (&[3.0], 0.9, 3.0),
            (&[1.0, 2.0, 3.0, 4.0, 5.0], 0.9, 4.6),
            (&[f64::MAX, -f64::MAX], 0.5, 0.0),
            (&[f64::MAX, f64::MAX], 0.3, f64::MAX),
        ] {
            assert_eq!(digest(values).result(share), Some(expected), "{values:?}");
        }
    }
}
