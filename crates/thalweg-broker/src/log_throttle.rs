//! Throttles log lines about frequent occurrences.

/// The time between two lines, in µs.
const INTERVAL_US: u64 = 10_000_000;

/// Decides when the next line of one kind is written: at least ten seconds after the last one.
#[derive(Debug, Default)]
pub struct LogThrottle {
    last_us: Option<u64>,
    unlogged: u64,
}

impl LogThrottle {
    /// Counts `count` occurrences at `now_us` (µs, monotonic). Returns the number since the last line, if a line is due.
    pub fn take(&mut self, count: u64, now_us: u64) -> Option<u64> {
        self.unlogged += count;
        let is_due = self.last_us.is_none_or(|last| now_us.saturating_sub(last) >= INTERVAL_US);
        if self.unlogged == 0 || !is_due {
            return None;
        }
        self.last_us = Some(now_us);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_often_it_happened() {
        let mut throttle = LogThrottle::default();
        let lines = (0..25).filter_map(|second| throttle.take(2, second * 1_000_000));
        assert_eq!(lines.collect::<Vec<_>>(), [2, 20, 20]);
        assert_eq!(throttle.take(0, 100_000_000), Some(8));
        assert_eq!(throttle.take(0, 200_000_000), None);
    }
}
