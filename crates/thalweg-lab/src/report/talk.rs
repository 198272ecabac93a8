//! Round trips, summarised.

use crate::measure::Sample;
use crate::measure::statistics::{Estimate, median};
use crate::scenario::Drive;
use serde::Serialize;

/// What it took to be answered; all from sent to come back.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Talk {
    /// Mean of a sample, of these the median.
    pub mean_us: Option<f64>,
    /// Mean of the worst sample.
    pub mean_us_worst: Option<f64>,
    /// The means, to the baseline's, paired by repeat.
    pub mean_ratio: Option<Estimate>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_us: Option<f64>,
    /// All of a sample, one after the other.
    pub total_ms: Option<f64>,
    /// What came beside the answers, in millions of bytes.
    pub received_mb_per_s: Option<f64>,
}

impl Talk {
    /// Of the samples that count.
    pub(super) fn of(drive: Drive, samples: &[&Sample], mean_ratio: Option<Estimate>) -> Talk {
        if !matches!(drive, Drive::Echo | Drive::RoundTrip) {
            return Talk::default();
        }
        let values = |of: &dyn Fn(&Sample) -> Option<f64>| -> Vec<f64> {
            samples.iter().filter_map(|sample| of(sample)).collect()
        };
        let means = values(&|sample| Some(sample.round_trips?.mean_us));
        Talk {
            mean_us: median(&means),
            mean_us_worst: means.iter().copied().max_by(f64::total_cmp),
            mean_ratio,
            p50_us: median(&values(&|sample| Some(sample.round_trips?.p50_us as f64))),
            p99_us: median(&values(&|sample| Some(sample.round_trips?.p99_us as f64))),
            total_ms: median(&values(&|sample| Some(sample.round_trips?.total_us as f64 / 1000.0))),
            received_mb_per_s: median(&values(&|sample| {
                Some(sample.traffic.wire_bytes as f64 / sample.span_us.max(1) as f64)
            })),
        }
    }
}
