//! Little's law, L = λ W: in a closed loop the number outstanding is known, so it must equal throughput times mean time in the
//! system. If it does not, a clock, a count or the ledger is wrong, and so is the sample.

/// Largest deviation of the ratio from 1. Between the completion of an event and the next publication the swarm parses its input,
/// and nothing is outstanding: the smallest cell (one connection, one outstanding, a debug build) had ratios of 0.985 and more,
/// others of 0.99 to 1.01. A wrong clock or count deviates by far more.
const APART_MAX: f64 = 0.10;

/// Returns the ratio of the number outstanding by Little's law (`completed` in `span_us`, each in the system for `mean_us`) to the
/// actual number, `outstanding`. `None` if `completed` is 0.
pub fn ratio(outstanding: f64, completed: f64, span_us: u64, mean_us: f64) -> Option<f64> {
    (completed > 0.0 && outstanding > 0.0 && span_us > 0)
        .then(|| completed / span_us as f64 * mean_us / outstanding)
}

/// Returns why a sample with this ratio does not count, if it does not. Both sides may differ by `slack`, a share of the span: the
/// longest time in the system, for the span's ends, and the longest for which the swarm was kept from its core, perhaps just before
/// it published.
pub(super) fn broken(ratio: f64, slack: f64) -> Option<String> {
    let apart_max = APART_MAX + slack;
    let is_apart = !((1.0 - apart_max)..=(1.0 + apart_max)).contains(&ratio);
    is_apart.then(|| {
        format!(
            "Little's law: throughput times latency is {ratio:.2} of the number outstanding, \
             so a clock or a count is wrong"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_events_are_rate_times_time() {
        // 4 outstanding, each for 2 ms: 2,000 a second.
        assert_eq!(ratio(4.0, 2000.0, 1_000_000, 2000.0), Some(1.0));
        assert_eq!(ratio(4.0, 0.0, 1_000_000, 2000.0), None);
        assert!(broken(1.09, 0.0).is_none() && broken(0.91, 0.0).is_none());
        assert!(broken(0.86, 0.0).is_some() && broken(0.86, 0.06).is_none());
        // A clock that runs fast, a ledger that counts twice, one that loses.
        assert!(broken(ratio(4.0, 2000.0, 1_000_000, 2300.0).unwrap(), 0.0).is_some());
        assert!(
            broken(ratio(4.0, 4000.0, 1_000_000, 2000.0).unwrap(), 0.0).unwrap().contains("2.00")
        );
        assert!(broken(ratio(4.0, 1700.0, 1_000_000, 2000.0).unwrap(), 0.0).is_some());
        assert!(broken(f64::NAN, 0.0).is_some());
    }
}
