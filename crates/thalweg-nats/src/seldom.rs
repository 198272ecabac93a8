//! Something that is to be said, but not each time.

use std::time::Duration;

use tokio::time::Instant;

/// Between two times.
const INTERVAL: Duration = Duration::from_secs(10);

/// Says when.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
    unsaid: u64,
}

impl Seldom {
    /// Something happened. If it is to be said now: how often it happened since it was said last.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.last.is_some_and(|last| now - last < INTERVAL) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_said_seldom() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        let said: Vec<_> =
            (0..25).filter_map(|s| seldom.take(start + Duration::from_secs(s))).collect();
        assert_eq!(said, [1, 10, 10]);
    }
}
