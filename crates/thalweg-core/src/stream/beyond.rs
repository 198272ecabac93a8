use thalweg_wire::Offset;

/// Answers that are kept; the oldest goes.
const ANSWERS_MAX: usize = 64;

/// How long an answer is good for, in µs: whoever it is for may have to wait for an older event.
const ANSWER_US: u64 = 5_000_000;

/// Offsets after the head with which subscribers came, and whether the stream has given the one
/// before: its keeper was asked. If it has, this shard has not got everything yet. If not, the
/// position is of another time of the stream: the stream lost its newest events, and was not told.
#[derive(Debug, Default)]
pub(super) struct Beyond(Vec<Answer>);

#[derive(Debug)]
struct Answer {
    next: Offset,
    is_given: bool,
    at_us: u64,
}

impl Beyond {
    /// The keeper has answered for a subscriber whose next offset is `next`.
    pub(super) fn answer(&mut self, next: Offset, is_given: bool, now_us: u64) {
        self.0.retain(|answer| answer.next != next);
        if self.0.len() == ANSWERS_MAX {
            self.0.remove(0);
        }
        self.0.push(Answer { next, is_given, at_us: now_us });
    }

    /// What the keeper has answered. `None`: it is to be asked.
    pub(super) fn is_given(&self, next: Offset) -> Option<bool> {
        self.0.iter().find(|answer| answer.next == next).map(|answer| answer.is_given)
    }

    /// Forgets what may not be so any more.
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
        let mut beyond = Beyond::default();
        beyond.answer(7, false, 1);
        assert_eq!((beyond.is_given(7), beyond.is_given(8)), (Some(false), None));
        beyond.answer(7, true, 2);
        assert_eq!((beyond.is_given(7), beyond.0.len()), (Some(true), 1));
        (0..ANSWERS_MAX as u64).for_each(|nth| beyond.answer(100 + nth, true, 3));
        assert_eq!((beyond.is_given(7), beyond.0.len()), (None, ANSWERS_MAX));
        beyond.sweep(2 + ANSWER_US);
        assert_eq!(beyond.0.len(), ANSWERS_MAX);
        beyond.sweep(3 + ANSWER_US);
        assert_eq!(beyond.0.capacity(), 0);
    }
}
