use thalweg_wire::Offset;

/// The number of answers kept. The oldest is dropped.
const ANSWERS_MAX: usize = 64;

/// How long an answer is valid, in µs: long enough for a subscriber that must then wait for a backfill of older events.
const ANSWER_US: u64 = 5_000_000;

/// The broker's answers about offsets after the head at which subscribers resumed: whether the stream has assigned the
/// previous offset. If yes, this shard will get more events. If not, the stream has lost its newest
/// events, and the position is from before the loss.
#[derive(Debug, Default)]
pub(super) struct AheadAnswers(Vec<AheadAnswer>);

#[derive(Debug)]
struct AheadAnswer {
    next: Offset,
    is_given: bool,
    at_us: u64,
}

impl AheadAnswers {
    pub(super) fn answer(&mut self, next: Offset, is_given: bool, now_us: u64) {
        self.0.retain(|answer| answer.next != next);
        if self.0.len() == ANSWERS_MAX {
            self.0.remove(0);
        }
        self.0.push(AheadAnswer { next, is_given, at_us: now_us });
    }

    /// Returns the broker's answer. `None` if the broker must be asked.
    pub(super) fn is_given(&self, next: Offset) -> Option<bool> {
        self.0.iter().find(|answer| answer.next == next).map(|answer| answer.is_given)
    }

    pub(super) fn sweep(&mut self, now_us: u64) {
        self.0.retain(|answer| now_us.saturating_sub(answer.at_us) < ANSWER_US);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_few_and_short_lived() {
        let mut ahead = AheadAnswers::default();
        ahead.answer(7, false, 1);
        assert_eq!((ahead.is_given(7), ahead.is_given(8)), (Some(false), None));
        ahead.answer(7, true, 2);
        assert_eq!((ahead.is_given(7), ahead.0.len()), (Some(true), 1));
        (0..ANSWERS_MAX as u64).for_each(|nth| ahead.answer(100 + nth, true, 3));
        assert_eq!((ahead.is_given(7), ahead.0.len()), (None, ANSWERS_MAX));
        ahead.sweep(2 + ANSWER_US);
        assert_eq!(ahead.0.len(), ANSWERS_MAX);
        ahead.sweep(3 + ANSWER_US);
        assert_eq!(ahead.0.capacity(), 0);
    }
}
