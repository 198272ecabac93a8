//! Numbers of a subscriber's events, which rise by one: finds lost, duplicated and reordered events. Pure.

use crate::measure::Sequenced;
use std::collections::VecDeque;
use std::ops::Range;

/// Limit of the gaps that are kept for each subscriber. An event that fills an older gap counts as duplicated.
const GAPS_MAX: usize = 256;

#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// The number after the highest one; `None` before the first event.
    next: Option<u64>,
    /// Numbers before this one are from before the span; an event with one is out of order.
    first: u64,
    /// Numbers of the span that have not come, in ascending order.
    gaps: VecDeque<Range<u64>>,
    /// Numbers of the span that have not come, those of forgotten gaps included.
    pub(super) lost: u64,
}

impl Sequence {
    pub(super) fn begin_span(&mut self) {
        let next = self.next;
        *self = Sequence { next, first: next.unwrap_or(0), ..Sequence::default() };
    }

    /// Takes the number of an event, and adds what it shows to the counts of all subscribers.
    #[inline]
    pub(super) fn receive(&mut self, number: u64, counts: &mut Sequenced) {
        counts.read += 1;
        match self.next {
            None => self.first = number,
            Some(next) if number == next => {}
            Some(next) if number > next => {
                self.lost = self.lost.saturating_add(number - next);
                counts.lost = counts.lost.saturating_add(number - next);
                self.gaps.push_back(next..number);
                if self.gaps.len() > GAPS_MAX {
                    self.gaps.pop_front();
                }
            }
            Some(_) => return self.receive_late(number, counts),
        }
        self.next = Some(number.saturating_add(1));
    }

    #[cold]
    fn receive_late(&mut self, number: u64, counts: &mut Sequenced) {
        if number < self.first {
            // Also if the numbers began again: the rest of the span then has faults, not silence.
            counts.reordered += 1;
            return;
        }
        let Some(at) = self.gaps.iter().position(|gap| gap.contains(&number)) else {
            counts.duplicated += 1;
            return;
        };
        counts.reordered += 1;
        counts.lost = counts.lost.saturating_sub(1);
        self.lost -= 1;
        let gap = self.gaps[at].clone();
        self.gaps.remove(at);
        for rest in [number + 1..gap.end, gap.start..number] {
            if !rest.is_empty() {
                self.gaps.insert(at, rest);
            }
        }
        // A gap with a late number in its middle becomes two.
        if self.gaps.len() > GAPS_MAX {
            self.gaps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns lost, duplicated and reordered numbers.
    fn counts(before: &[u64], in_span: &[u64]) -> [u64; 3] {
        let (mut sequence, mut counts) = (Sequence::default(), Sequenced::default());
        before.iter().for_each(|number| sequence.receive(*number, &mut counts));
        sequence.begin_span();
        counts = Sequenced::default();
        in_span.iter().for_each(|number| sequence.receive(*number, &mut counts));
        assert_eq!((counts.read, counts.lost), (in_span.len() as u64, sequence.lost));
        [counts.lost, counts.duplicated, counts.reordered]
    }

    #[test]
    fn gaps_repeats_and_late_numbers_are_told_apart() {
        let check = |before: &[u64], in_span: &[u64], expected| {
            assert_eq!(counts(before, in_span), expected, "{before:?} {in_span:?}");
        };
        check(&[], &[], [0, 0, 0]);
        check(&[], &[7, 8, 9], [0, 0, 0]);
        check(&[], &[7, 9, 12], [3, 0, 0]);
        check(&[], &[7, 7, 8, 8], [0, 2, 0]);
        check(&[], &[1, 5, 3, 3, 2, 4], [0, 1, 3]);
        // The span continues the numbers before it, whose gaps do not count.
        check(&[1, 3], &[4, 5], [0, 0, 0]);
        check(&[1, 3], &[5, 2, 3, 6], [1, 0, 2]);
        check(&[], &[3, 1, 4], [0, 0, 1]);
        check(&[8], &[9, 1, 2, 4], [0, 0, 3]);
        check(&[], &[0, u64::MAX, 5], [u64::MAX - 2, 0, 1]);
    }

    #[test]
    fn gaps_that_are_split_stay_within_the_limit() {
        let (mut sequence, mut counts) = (Sequence::default(), Sequenced::default());
        for number in [0, 2000].into_iter().chain((2..2000).step_by(2)) {
            sequence.receive(number, &mut counts);
        }
        assert_eq!(sequence.gaps.len(), GAPS_MAX);
        assert_eq!((counts.lost, counts.duplicated, counts.reordered), (1000, 0, 999));
    }

    proptest! {
        /// The first number is the lowest, as on any connection of a server that sends in order or a little out of order.
        #[test]
        fn the_same_as_a_set(rest in prop::collection::vec(1u64..300, 0..200)) {
            let (mut seen, mut highest, mut expected) = (std::collections::BTreeSet::from([0]), 0, [0; 3]);
            for number in &rest {
                if !seen.insert(*number) {
                    expected[1] += 1;
                } else if *number < highest {
                    expected[2] += 1;
                }
                highest = highest.max(*number);
            }
            expected[0] = highest + 1 - seen.len() as u64;
            prop_assert_eq!(counts(&[], &[&[0], &rest[..]].concat()), expected);
        }
    }
}
