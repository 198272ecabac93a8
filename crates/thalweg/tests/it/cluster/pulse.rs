//! The longest time without progress. Pure: time is an argument.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Pulse {
    last: Instant,
    silence_max: Duration,
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, silence_max: Duration::ZERO }
    }

    pub(super) fn beat(&mut self, now: Instant) {
        self.silence_max = self.silence_max.max(now - self.last);
        self.last = now;
    }

    pub(super) fn restart(&mut self) {
        self.silence_max = Duration::ZERO;
    }

    /// Returns the longest pause since the restart, including the current one.
    pub(super) fn silence_max(&self, now: Instant) -> Duration {
        self.silence_max.max(now - self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_count_that_reach_into_the_time_since_the_restart() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let seconds = |pulse: &Pulse, second| pulse.silence_max(at(second)).as_secs();
        let mut pulse = Pulse::new(start);
        pulse.beat(at(9));
        pulse.restart();
        assert_eq!(seconds(&pulse, 10), 1, "not the one before");
        pulse.beat(at(13));
        pulse.beat(at(14));
        assert_eq!(seconds(&pulse, 15), 4, "the one in which it was restarted, whole");
        assert_eq!(seconds(&pulse, 20), 6, "the one that goes on");
    }
}
