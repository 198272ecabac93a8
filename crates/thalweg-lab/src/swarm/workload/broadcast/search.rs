//! The highest rate that meets an objective: doubled until it is missed, bisected between the last met and the first missed, then
//! confirmed for longer. Pure: the rates tried so far determine the next.

/// A met and a missed rate this near to each other end the search.
const NEAR: f64 = 1.05;
/// A rate that is not confirmed is lowered to this share…
const LOWERED: f64 = 0.95;
/// …and at most this many times.
const LOWERED_TIMES_MAX: usize = 10;
/// A rate whose step was disturbed is tried again at most this many times.
const AGAIN_TIMES_MAX: usize = 2;
/// Lowest rate, events per second and topic.
const RATE_MIN: f64 = 1.0;
/// Highest rate.
const RATE_MAX: f64 = 10_000_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub(super) rate: f64,
    pub(super) is_confirmation: bool,
    pub(super) end: RateOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateOutcome {
    Met,
    Missed,
    /// Missed, and the swarm was saturated: the cause is not known.
    SwarmBound,
    /// The swarm was kept from its core: the result is not known. After the last try, the swarm counts as unable to offer this rate.
    Disturbed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NextRate {
    Try(f64),
    /// Try this rate for longer.
    Confirm(f64),
    Found(f64),
    /// Not even the slowest rate met the objective.
    NothingMet,
    /// No rate that met the objective also met it for longer.
    NothingConfirmed,
}

/// Returns the step after `tried`, in a search from `first`.
pub(super) fn next(first: f64, tried: &[Tried]) -> NextRate {
    let Some(last) = tried.last() else {
        return NextRate::Try(first.clamp(RATE_MIN, RATE_MAX));
    };
    if is_to_be_repeated(tried, last) {
        return if last.is_confirmation {
            NextRate::Confirm(last.rate)
        } else {
            NextRate::Try(last.rate)
        };
    }
    if last.is_confirmation {
        let confirmations = settled(tried).filter(|tried| tried.is_confirmation).count();
        return match last.end {
            RateOutcome::Met => NextRate::Found(last.rate),
            _ if confirmations > LOWERED_TIMES_MAX => NextRate::NothingConfirmed,
            _ => NextRate::Confirm(last.rate * LOWERED),
        };
    }
    let (mut met, mut not_met) = (None, None);
    for tried in settled(tried) {
        match tried.end {
            RateOutcome::Met => met = Some(tried.rate),
            RateOutcome::Missed | RateOutcome::SwarmBound | RateOutcome::Disturbed => {
                not_met = Some(tried.rate);
            }
        }
    }
    let Some(met) = met else {
        return match last.rate <= RATE_MIN {
            true => NextRate::NothingMet,
            false => NextRate::Try((last.rate / 2.0).max(RATE_MIN)),
        };
    };
    match not_met {
        None if met >= RATE_MAX => NextRate::Confirm(met),
        None => NextRate::Try((met * 2.0).min(RATE_MAX)),
        Some(not_met) if not_met <= met * NEAR => NextRate::Confirm(met),
        Some(not_met) => NextRate::Try((met * not_met).sqrt()),
    }
}

/// Returns whether the swarm was the limit, and not the subject.
pub(super) fn is_swarms(tried: &[Tried]) -> bool {
    let not_met = settled(tried).filter(|tried| tried.end != RateOutcome::Met).last();
    not_met.is_some_and(|tried| tried.end != RateOutcome::Missed)
}

/// Returns whether the last step was disturbed, and not too often.
fn is_to_be_repeated(tried: &[Tried], last: &Tried) -> bool {
    let times = tried.iter().rev().take_while(|tried| *tried == last).count();
    last.end == RateOutcome::Disturbed && times <= AGAIN_TIMES_MAX
}

fn settled(tried: &[Tried]) -> impl Iterator<Item = &Tried> {
    let after = tried.iter().skip(1).map(Some).chain([None]);
    tried.iter().zip(after).filter_map(|(tried, after)| {
        let is_again = after.is_some_and(|after| {
            (after.rate, after.is_confirmation) == (tried.rate, tried.is_confirmation)
        });
        (!is_again).then_some(tried)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Steps down or up to the limits, five bisections between two rates that are a factor of two apart, and the confirmations.
    const STEPS_MAX: usize = (24 + 1 + 5 + 1 + LOWERED_TIMES_MAX) * (1 + AGAIN_TIMES_MAX);

    fn search(first: f64, mut end: impl FnMut(f64, bool) -> RateOutcome) -> (NextRate, Vec<Tried>) {
        let mut tried = Vec::new();
        loop {
            let (rate, is_confirmation) = match next(first, &tried) {
                NextRate::Try(rate) => (rate, false),
                NextRate::Confirm(rate) => (rate, true),
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
            // A system may slow down a little over a longer time.
            let longer = if sags { 0.97 } else { 1.0 };
            let (found, _) = search(first, |rate, is_confirmation| {
                let ceiling = if is_confirmation { ceiling * longer } else { ceiling };
                if rate <= ceiling { RateOutcome::Met } else { RateOutcome::Missed }
            });
            match found {
                NextRate::Found(rate) => {
                    prop_assert!(rate <= ceiling * longer && rate >= ceiling * longer * 0.9499);
                }
                other => prop_assert!(ceiling * longer < RATE_MIN * 1.05, "{other:?}"),
            }
        }

        #[test]
        fn a_noisy_system_comes_to_an_end(
            first in 1.0f64..1e7, ends in prop::collection::vec(0u8..4, 120),
        ) {
            let mut ends = ends.into_iter().map(|end| match end {
                0 => RateOutcome::Met,
                1 => RateOutcome::Missed,
                2 => RateOutcome::SwarmBound,
                _ => RateOutcome::Disturbed,
            });
            search(first, |_, _| ends.next().unwrap_or(RateOutcome::Missed));
        }
    }

    fn check(
        first: f64,
        end: impl FnMut(f64, bool) -> RateOutcome,
        expected: NextRate,
        rates: &[f64],
    ) {
        let (found, tried) = search(first, end);
        let found = match found {
            NextRate::Found(rate) => NextRate::Found(rate.round()),
            other => other,
        };
        assert_eq!(found, expected);
        let tried: Vec<f64> = tried.iter().map(|tried| tried.rate.round()).collect();
        assert_eq!(tried, rates);
    }

    #[test]
    fn ends_of_a_search() {
        let never = |_: f64, _: bool| RateOutcome::Missed;
        check(4.0, never, NextRate::NothingMet, &[4.0, 2.0, 1.0]);
        let briefly = |rate: f64, is_confirmation: bool| {
            if rate <= 100.0 && !is_confirmation { RateOutcome::Met } else { RateOutcome::Missed }
        };
        let tried = [
            100.0, 200.0, 141.0, 119.0, 109.0, 104.0, 100.0, 95.0, 90.0, 86.0, 81.0, 77.0, 74.0,
            70.0, 66.0, 63.0, 60.0,
        ];
        check(100.0, briefly, NextRate::NothingConfirmed, &tried);
        // Above 300 the swarm is the limit, which the search finds as exactly as a subject's.
        let swarm = |rate: f64, _: bool| {
            if rate > 300.0 { RateOutcome::SwarmBound } else { RateOutcome::Met }
        };
        let nearer = [283.0, 336.0, 308.0, 295.0, 295.0];
        let nearer = |begun: &[f64]| [begun, &nearer].concat();
        check(100.0, swarm, NextRate::Found(295.0), &nearer(&[100.0, 200.0, 400.0]));
        // A search that begins above the limit goes down.
        check(400.0, swarm, NextRate::Found(295.0), &nearer(&[400.0, 200.0]));
        let no_swarm = |_: f64, _: bool| RateOutcome::SwarmBound;
        check(4.0, no_swarm, NextRate::NothingMet, &[4.0, 2.0, 1.0]);
    }

    #[test]
    fn disturbed_samples_are_retried_a_few_times() {
        let mut left = 2;
        let mut twice = |rate: f64, _: bool| {
            let is_disturbed = rate == 200.0 && left > 0;
            left -= i32::from(is_disturbed);
            match is_disturbed {
                true => RateOutcome::Disturbed,
                false if rate > 205.0 => RateOutcome::Missed,
                false => RateOutcome::Met,
            }
        };
        let (found, tried) = search(100.0, &mut twice);
        assert!(matches!(found, NextRate::Found(rate) if rate >= 200.0), "{found:?}");
        assert!(!is_swarms(&tried));
        let at_200: Vec<_> =
            tried.iter().filter(|tried| tried.rate == 200.0).map(|tried| tried.end).collect();
        assert_eq!(at_200[..3], [RateOutcome::Disturbed, RateOutcome::Disturbed, RateOutcome::Met]);

        let always = |rate: f64, _: bool| {
            if rate > 150.0 { RateOutcome::Disturbed } else { RateOutcome::Met }
        };
        let (found, tried) = search(100.0, always);
        assert!(matches!(found, NextRate::Found(rate) if rate > 142.0), "{found:?}");
        assert!(is_swarms(&tried));
        // Confirmations are retried, too; the next one has a lower rate.
        let longer = |rate: f64, is_confirmation: bool| match is_confirmation && rate > 97.0 {
            true => RateOutcome::Disturbed,
            false if rate > 101.0 => RateOutcome::Missed,
            false => RateOutcome::Met,
        };
        let (found, tried) = search(100.0, longer);
        assert_eq!(found, NextRate::Found(95.0));
        assert_eq!(tried.iter().filter(|tried| tried.end == RateOutcome::Disturbed).count(), 3);
    }

    #[test]
    fn the_limiting_side_is_named() {
        let whose = |ends: fn(f64, bool) -> RateOutcome| is_swarms(&search(400.0, ends).1);
        assert!(whose(|rate, _| if rate > 300.0 {
            RateOutcome::SwarmBound
        } else {
            RateOutcome::Met
        }));
        // A rate that the swarm could not offer did not end the search.
        assert!(!whose(|rate, _| match rate {
            300.0.. => RateOutcome::SwarmBound,
            150.0.. => RateOutcome::Missed,
            _ => RateOutcome::Met,
        }));
    }
}
