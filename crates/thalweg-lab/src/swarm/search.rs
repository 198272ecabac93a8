//! The highest rate that meets an objective: doubled until it is missed, bisected
//! between the last met and the first missed, then confirmed for longer. Pure: the
//! rates tried so far say which is next.

/// Met and missed this near to each other are near enough.
const NEAR: f64 = 1.05;
/// A rate that is not confirmed is lowered by so much…
const LOWERED: f64 = 0.95;
/// …and so often at most.
const LOWERED_TIMES_MAX: usize = 5;
/// No slower, events per second and topic.
const RATE_MIN: f64 = 1.0;
/// No faster.
const RATE_MAX: f64 = 10_000_000.0;

/// A rate that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub(super) rate: f64,
    pub(super) is_confirmation: bool,
    pub(super) end: End,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Met,
    Missed,
    /// The swarm was saturated: nothing above can be tried.
    SwarmBound,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    Try(f64),
    /// For longer.
    Confirm(f64),
    Found(f64),
    /// Not even the slowest rate met the objective.
    NothingMet,
    /// None of the rates met before met it for longer.
    NothingConfirmed,
}

/// What comes after `tried`, when the search began at `first`.
pub(super) fn next(first: f64, tried: &[Tried]) -> Next {
    let first = first.clamp(RATE_MIN, RATE_MAX);
    if let Some(last) = tried.last().filter(|last| last.is_confirmation) {
        let confirmations = tried.iter().filter(|tried| tried.is_confirmation).count();
        return match last.end {
            End::Met => Next::Found(last.rate),
            _ if confirmations > LOWERED_TIMES_MAX => Next::NothingConfirmed,
            _ => Next::Confirm(last.rate * LOWERED),
        };
    }
    let (mut met, mut missed) = (None, None);
    for tried in tried {
        match tried.end {
            End::Met => met = Some(tried.rate),
            End::Missed => missed = Some(tried.rate),
            End::SwarmBound => {}
        }
    }
    let is_swarm_bound = tried.last().is_some_and(|last| last.end == End::SwarmBound);
    match (met, missed) {
        (Some(met), _) if is_swarm_bound => Next::Confirm(met),
        (None, _) if is_swarm_bound => Next::NothingMet,
        (None, None) => Next::Try(first),
        (None, Some(missed)) if missed <= RATE_MIN => Next::NothingMet,
        (None, Some(missed)) => Next::Try((missed / 2.0).max(RATE_MIN)),
        (Some(met), None) if met >= RATE_MAX => Next::Confirm(met),
        (Some(met), None) => Next::Try((met * 2.0).min(RATE_MAX)),
        (Some(met), Some(missed)) if missed <= met * NEAR => Next::Confirm(met),
        (Some(met), Some(missed)) => Next::Try((met * missed).sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Down or up to the ends of what is allowed, five halvings between two rates
    /// that are a factor of two apart, the confirmations.
    const STEPS_MAX: usize = 24 + 1 + 5 + 1 + LOWERED_TIMES_MAX;

    fn search(first: f64, mut end: impl FnMut(f64, bool) -> End) -> (Next, Vec<Tried>) {
        let mut tried = Vec::new();
        loop {
            let (rate, is_confirmation) = match next(first, &tried) {
                Next::Try(rate) => (rate, false),
                Next::Confirm(rate) => (rate, true),
                end => return (end, tried),
            };
            tried.push(Tried { rate, is_confirmation, end: end(rate, is_confirmation) });
            assert!(tried.len() <= STEPS_MAX, "{tried:?}");
        }
    }

    proptest! {
        #[test]
        fn a_known_ceiling_is_found_within_five_percent(
            first in 1.0f64..1e6, ceiling in 1.0f64..9e6, sags in prop::bool::ANY,
        ) {
            // A system may give way a little when it has to last.
            let longer = if sags { 0.97 } else { 1.0 };
            let (found, _) = search(first, |rate, is_confirmation| {
                let ceiling = if is_confirmation { ceiling * longer } else { ceiling };
                if rate <= ceiling { End::Met } else { End::Missed }
            });
            match found {
                Next::Found(rate) => {
                    prop_assert!(rate <= ceiling * longer && rate >= ceiling * longer * 0.9499);
                }
                other => prop_assert!(ceiling * longer < RATE_MIN * 1.05, "{other:?}"),
            }
        }

        #[test]
        fn a_noisy_system_comes_to_an_end(
            first in 1.0f64..1e7, ends in prop::collection::vec(0u8..3, 60),
        ) {
            let mut ends = ends.into_iter().map(|end| match end {
                0 => End::Met,
                1 => End::Missed,
                _ => End::SwarmBound,
            });
            search(first, |_, _| ends.next().unwrap_or(End::Missed));
        }
    }

    fn check(first: f64, end: impl FnMut(f64, bool) -> End, expected: Next, rates: &[f64]) {
        let (found, tried) = search(first, end);
        assert_eq!(found, expected);
        let tried: Vec<f64> = tried.iter().map(|tried| tried.rate.round()).collect();
        assert_eq!(tried, rates);
    }

    #[test]
    fn ends_of_a_search() {
        let never = |_: f64, _: bool| End::Missed;
        check(4.0, never, Next::NothingMet, &[4.0, 2.0, 1.0]);
        let briefly = |rate: f64, is_confirmation: bool| {
            if rate <= 100.0 && !is_confirmation { End::Met } else { End::Missed }
        };
        let tried = [100.0, 200.0, 141.0, 119.0, 109.0, 104.0, 100.0, 95.0, 90.0, 86.0, 81.0, 77.0];
        check(100.0, briefly, Next::NothingConfirmed, &tried);
        // Above 300 the swarm is the bound: what was met is confirmed.
        let swarm = |rate: f64, _: bool| if rate > 300.0 { End::SwarmBound } else { End::Met };
        check(100.0, swarm, Next::Found(200.0), &[100.0, 200.0, 400.0, 200.0]);
        check(400.0, swarm, Next::NothingMet, &[400.0]);
    }
}
