//! Numbers that subscriptions have missed, as ranges: repeated leaps of a subject must not fill the lab's memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Maximum number of ranges, over all subscriptions. The ledger counts further numbers without listing them: if one comes late
/// after all, it counts as repeated, in a sample that is invalid in any case.
const RANGES_MAX: usize = 1 << 16;

/// Numbers that were missed, and have not come since.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// For a subscription: the beginning of each range, and the number after its end.
    ranges: HashMap<usize, BTreeMap<u64, u64>>,
    count: usize,
}

impl Missed {
    /// Adds numbers that the subscription has missed, none of which it had missed before.
    pub(super) fn add(&mut self, subscription: usize, numbers: Range<u64>) {
        if !numbers.is_empty() && self.count < RANGES_MAX {
            self.ranges.entry(subscription).or_default().insert(numbers.start, numbers.end);
            self.count += 1;
        }
    }

    /// Removes a number, which has come now. Returns whether the subscription had missed it.
    pub(super) fn take(&mut self, subscription: usize, number: u64) -> bool {
        let Some(ranges) = self.ranges.get_mut(&subscription) else { return false };
        let Some((&start, &end)) = ranges.range(..=number).next_back() else { return false };
        if number >= end {
            return false;
        }
        ranges.remove(&start);
        self.count -= 1;
        self.add(subscription, start..number);
        self.add(subscription, number + 1..end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_equal_a_set_of_numbers(
            leaps in prop::collection::vec((1u64..5, 0u64..6), 1..30),
            late in prop::collection::vec(0u64..200, 0..100),
        ) {
            let (mut missed, mut set, mut next) = (Missed::default(), BTreeSet::new(), 0);
            for (had, length) in leaps {
                missed.add(7, next + had..next + had + length);
                set.extend(next + had..next + had + length);
                next += had + length;
            }
            for number in late {
                prop_assert_eq!(missed.take(7, number), set.remove(&number), "{}", number);
                prop_assert!(!missed.take(8, number));
            }
            let listed = missed.ranges.values().flatten().map(|(start, end)| end - start);
            prop_assert_eq!(listed.sum::<u64>(), set.len() as u64);
            prop_assert_eq!(missed.count, missed.ranges.values().map(BTreeMap::len).sum::<usize>());
        }
    }

    #[test]
    fn kept_gaps_are_limited() {
        let mut missed = Missed::default();
        for leap in 0..RANGES_MAX as u64 + 10 {
            missed.add((leap % 5) as usize, 1000 * leap..1000 * leap + 900);
        }
        assert_eq!(missed.count, RANGES_MAX);
        assert!(missed.take(1, 1500), "in the middle: one range becomes two, and one is too many");
        assert_eq!(missed.count, RANGES_MAX);
        assert!(missed.take(1, 1100) && !missed.take(1, 1600));
    }
}
