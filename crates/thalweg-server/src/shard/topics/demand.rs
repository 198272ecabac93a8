//! The demand for a topic. The owner shard knows it, and tells the topic's sources. Pure.

/// The default time for which demand outlasts the last subscriber, in µs. A client that polls is absent between
/// two polls, and another shard reports within a second that it has no subscribers left.
pub(super) const LINGER_US: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::shard) enum TopicDemand {
    #[default]
    None,
    /// There is a subscriber, here or on another shard.
    Wanted,
    /// There has been no subscriber since this time, in µs.
    Lingering { since_us: u64 },
}

/// A change of demand, for the sources of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::shard) enum DemandChange {
    Start,
    Stop,
}

impl TopicDemand {
    /// Updates the demand. `has_readers` says whether there is a subscriber now. Demand outlasts the last one by `linger_us`.
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
        let mut demand = TopicDemand::default();
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
    fn a_session_continues_for_a_client_that_returns_in_time() {
        let mut demand = TopicDemand::default();
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
