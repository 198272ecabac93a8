//! Whether a topic is wanted. Its home shard knows this, and tells the sources that feed it.

/// A topic without subscribers is no longer wanted after this time, in µs, if it is not said
/// otherwise. A client that polls is away between two polls, and another shard says within a second
/// that it has no subscribers left.
pub(super) const LINGER_US: u64 = 1_000_000;

/// The demand for a topic, on its home shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Demand {
    /// Nobody subscribes.
    #[default]
    None,
    /// Somebody subscribes, here or on another shard.
    Wanted,
    /// Nobody does since this time, in µs. Somebody may come back.
    Lingering { since_us: u64 },
}

/// A change of the demand, as the sources of a topic get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemandChange {
    Start,
    Stop,
}

impl Demand {
    /// Updates the demand: `has_readers` says whether somebody subscribes now. Without them it
    /// lasts for `linger_us`. The demand changes only here.
    pub(super) fn update(
        &mut self,
        has_readers: bool,
        now_us: u64,
        linger_us: u64,
    ) -> Option<DemandChange> {
        match *self {
            Self::None if has_readers => {
                *self = Self::Wanted;
                return Some(DemandChange::Start);
            }
            Self::Lingering { .. } if has_readers => *self = Self::Wanted,
            Self::Wanted if !has_readers => *self = Self::Lingering { since_us: now_us },
            Self::Lingering { since_us } if now_us.saturating_sub(since_us) >= linger_us => {
                *self = Self::None;
                return Some(DemandChange::Stop);
            }
            Self::None | Self::Wanted | Self::Lingering { .. } => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_with_the_first_and_stops_a_while_after_the_last() {
        let mut demand = Demand::default();
        let mut check = |has_readers, now_us, expected| {
            assert_eq!(demand.update(has_readers, now_us, LINGER_US), expected, "at {now_us}");
        };
        check(false, 0, None);
        check(true, 1, Some(DemandChange::Start));
        check(true, 2, None);
        check(false, 10, None);
        check(false, 9 + LINGER_US, None);
        check(false, 10 + LINGER_US, Some(DemandChange::Stop));
        check(false, 11 + LINGER_US, None);
        check(true, 12 + LINGER_US, Some(DemandChange::Start));
    }

    #[test]
    fn it_goes_on_for_who_comes_back_in_time() {
        let mut demand = Demand::default();
        let mut changes = Vec::new();
        for poll in 0..5 {
            let now_us = poll * LINGER_US;
            changes.extend(demand.update(true, now_us, LINGER_US));
            changes.extend(demand.update(false, now_us + 1, LINGER_US));
            changes.extend(demand.update(false, now_us + LINGER_US, LINGER_US));
        }
        assert_eq!(changes, [DemandChange::Start]);
    }
}
