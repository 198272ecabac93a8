//! How far the time of a topic has come, by its events alone.

use crate::limits::AHEAD_MAX;

/// The largest time of a topic's events so far. It advances event by event, in the order of offsets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watermark {
    /// In ms since 1970.
    newest_ms: Option<i64>,
    /// Events that were too far ahead, since one was not: the time of the first, and how many agree with it.
    ahead: Option<(i64, u32)>,
}

impl Watermark {
    /// Whether an event of this time may count: it is not more than `lead_ms` ahead of the largest time before
    /// it, or many others have been so far ahead.
    pub(crate) fn admits(&mut self, time_ms: i64, lead_ms: i64) -> bool {
        let is_ahead =
            self.newest_ms.is_some_and(|newest| time_ms.saturating_sub(newest) > lead_ms);
        if !is_ahead {
            self.ahead = None;
            return true;
        }
        let (first_ms, count) = match self.ahead {
            Some((first_ms, count)) if time_ms.abs_diff(first_ms) <= lead_ms.unsigned_abs() => {
                (first_ms, count + 1)
            }
            _ => (time_ms, 1),
        };
        self.ahead = Some((first_ms, count));
        let is_believed = count > AHEAD_MAX;
        if is_believed {
            self.ahead = None;
        }
        is_believed
    }

    pub(crate) fn advance(&mut self, time_ms: i64) {
        self.newest_ms = self.newest_ms.max(Some(time_ms));
    }

    /// Windows that end here or before are over.
    pub(crate) fn ms(&self, delay_ms: i64) -> i64 {
        self.newest_ms.map_or(i64::MIN, |newest| newest.saturating_sub(delay_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_clock_does_not_move_it_and_a_pause_does() {
        let mut watermark = Watermark::default();
        let mut take = |time_ms| {
            let is_admitted = watermark.admits(time_ms, 1_000);
            if is_admitted {
                watermark.advance(time_ms);
            }
            is_admitted
        };
        assert!(take(5_000_000), "nothing is known before the first");
        for number in 0..100 {
            assert!(!take(9_000_000 + number), "a device with another clock");
            assert!(take(5_000_000 + number));
        }
        // After a pause all are far ahead.
        let admitted: Vec<bool> = (0..30).map(|number| take(8_000_000 + 10 * number)).collect();
        assert_eq!(
            admitted.iter().filter(|is_admitted| !**is_admitted).count(),
            AHEAD_MAX as usize
        );
        assert!(admitted[AHEAD_MAX as usize..].iter().all(|is_admitted| *is_admitted));
        assert!(take(7_000_000), "late, and not ahead");
        assert_eq!(watermark.ms(500), 8_000_290 - 500);
    }
}
