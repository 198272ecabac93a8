//! An open loop's schedule: when each event is due, independent of the ones before. Pure: the time is a parameter.
//!
//! Latency counts from the due time, so an event that the swarm publishes late is late; its lateness is in [`Pacing`].

use crate::measure::{Latency, Pacing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rates are kept in thousandths, so that due times are exact fractions.
const MILLI: f64 = 1000.0;
const US_PER_MILLI: u128 = 1_000_000_000;

/// Due times of one topic: event n, from 0, is due at start + n / rate, plus a share of the interval, so that topics take turns.
#[derive(Clone, Copy, Debug)]
struct Pace {
    start_us: u64,
    /// Events per second and topic, in thousandths.
    rate_milli: u64,
    topic: u64,
    topics: u64,
    next: u64,
}

impl Pace {
    /// Returns the due time, rounded up to a whole µs: never early, and less than 1 µs late.
    fn due_us(&self, number: u64) -> u64 {
        let turn = u128::from(number) * u128::from(self.topics) + u128::from(self.topic);
        let per_second = u128::from(self.rate_milli) * u128::from(self.topics);
        self.start_us + (turn * US_PER_MILLI).div_ceil(per_second) as u64
    }

    fn due_by(&self, now_us: u64) -> u64 {
        let Some(passed_us) = now_us.checked_sub(self.start_us) else { return 0 };
        let per_second = u128::from(self.rate_milli) * u128::from(self.topics);
        let turns = u128::from(passed_us) * per_second / US_PER_MILLI;
        match turns.checked_sub(u128::from(self.topic)) {
            Some(turns) => (turns / u128::from(self.topics)) as u64 + 1,
            None => 0,
        }
    }
}

/// Users who send again and again, each a random time after the message before was due.
#[derive(Debug)]
struct Users {
    /// The next due time of each user.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// The shortest and the longest time between two messages of a user.
    think_us: (u64, u64),
    taken: u64,
}

impl Users {
    fn due_by(&self, now_us: u64) -> u64 {
        let waiting = self.due.iter().filter(|Reverse((due_us, _))| *due_us <= now_us);
        self.taken + waiting.count() as u64
    }
}

/// The schedule of all topics or users, and how well the swarm keeps it.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    paces: Vec<Pace>,
    users: Option<Users>,
    /// Due time of the next event of any topic or user; `None` without them.
    next_due_us: Option<u64>,
    /// Due times of events that are taken and not yet published.
    taken_us: Vec<u64>,
    /// Time from due to published, since the span began.
    late: Latency,
    published: u64,
    begun_us: u64,
    /// Number of events due by `begun_us`.
    due_before: u64,
}

impl Schedule {
    /// Returns a schedule with `rate` events per second and topic, from `start_us` on.
    pub(super) fn new(rate: f64, topics: usize, start_us: u64) -> Schedule {
        let rate_milli = ((rate * MILLI).round() as u64).max(1);
        let topics = topics as u64;
        let pace = |topic| Pace { start_us, rate_milli, topic, topics, next: 0 };
        Schedule {
            paces: (0..topics).map(pace).collect(),
            next_due_us: Some(start_us),
            ..Schedule::default()
        }
    }

    /// Returns a schedule of users who think for a random time in this range between two messages, from `start_us` on.
    pub(super) fn with_users(users: usize, think_us: (u64, u64), start_us: u64) -> Schedule {
        let think_us = (think_us.0, think_us.1.max(think_us.0));
        let first = |user| Reverse((start_us + fastrand::u64(0..=think_us.1), user));
        let users = Users { due: (0..users).map(first).collect(), think_us, taken: 0 };
        Schedule { users: Some(users), next_due_us: Some(start_us), ..Schedule::default() }
    }

    /// Takes the next message of any user, if it is due, and returns its due time and the user.
    pub(super) fn take_from_users(&mut self, now_us: u64) -> Option<(u64, usize)> {
        let Users { due, think_us, taken } = self.users.as_mut()?;
        let Reverse((due_us, user)) = *due.peek().filter(|next| next.0.0 <= now_us)?;
        due.pop();
        due.push(Reverse((due_us + fastrand::u64(think_us.0..=think_us.1), user)));
        *taken += 1;
        self.taken_us.push(due_us);
        Some((due_us, user))
    }

    #[inline]
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        self.next_due_us.is_some_and(|due_us| due_us <= now_us)
    }

    /// Takes the topic's next event, if it is due, and returns its due time.
    pub(super) fn take(&mut self, topic: usize, now_us: u64) -> Option<u64> {
        let pace = self.paces.get_mut(topic)?;
        let due_us = pace.due_us(pace.next);
        if due_us > now_us {
            return None;
        }
        pace.next += 1;
        self.taken_us.push(due_us);
        Some(due_us)
    }

    /// Notes that taken events go to the kernel now. If its buffer is full, the subject is late and not the swarm.
    pub(super) fn publish(&mut self, now_us: u64) {
        let begun_us = self.begun_us;
        for due_us in self.taken_us.drain(..).filter(|due_us| *due_us > begun_us) {
            self.published += 1;
            self.late.record(now_us.saturating_sub(due_us), 1);
        }
    }

    /// Finds the next due time, after all events due by now were taken.
    pub(super) fn look_ahead(&mut self) {
        let user = self.users.as_ref().and_then(|users| users.due.peek());
        let user_us = user.map(|Reverse((due_us, _))| *due_us);
        let topics = self.paces.iter().map(|pace| pace.due_us(pace.next));
        self.next_due_us = topics.chain(user_us).min();
    }

    /// Ends the schedule, and keeps its figures.
    pub(super) fn stop(&mut self) {
        self.next_due_us = None;
    }

    /// Returns how long to wait from now, at most `timeout_us`.
    pub(super) fn wait_us(&self, now_us: u64, timeout_us: u64) -> u64 {
        let until_us = self.next_due_us.map(|due_us| due_us.saturating_sub(now_us));
        until_us.map_or(timeout_us, |us| us.min(timeout_us))
    }

    /// Begins a new span, without events due before, which the observer's look on this thread has delayed.
    pub(super) fn begin_span(&mut self, now_us: u64) {
        self.begun_us = now_us;
        self.late.clear();
        self.published = 0;
        self.due_before = self.due_by(now_us);
    }

    fn due_by(&self, now_us: u64) -> u64 {
        let users = self.users.iter().map(|users| users.due_by(now_us));
        self.paces.iter().map(|pace| pace.due_by(now_us)).chain(users).sum()
    }

    /// Returns how well the schedule was kept since the span began; `None` without topics and users.
    pub(super) fn pacing(&self, now_us: u64) -> Option<Pacing> {
        (!self.paces.is_empty() || self.users.is_some()).then(|| Pacing {
            scheduled: self.due_by(now_us) - self.due_before,
            published: self.published,
            late_p50_us: self.late.quantile_us(0.5).unwrap_or(0),
            late_p99_us: self.late.quantile_us(0.99).unwrap_or(0),
            late_max_us: self.late.quantile_us(1.0).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pace(rate_milli: u64, topic: u64, topics: u64) -> Pace {
        Pace { start_us: 77, rate_milli, topic, topics, next: 0 }
    }

    proptest! {
        #[test]
        fn a_schedule_never_drifts(
            rate_milli in 1u64..=10_000_000_000, number in 0u64..=1_000_000_000, topics in 1u64..20,
        ) {
            let pace = pace(rate_milli, topics / 2, topics);
            // Exact: 0 <= due × rate - (number + topic / topics) < rate × 1 µs.
            let due = u128::from(pace.due_us(number) - 77) * u128::from(rate_milli * topics);
            let exact = u128::from(number * topics + topics / 2) * 1_000_000_000;
            prop_assert!(due >= exact && due < exact + u128::from(rate_milli * topics));
        }

        #[test]
        fn due_events_are_taken_and_none_is_early(
            rate_milli in 1u64..=100_000_000, topics in 1usize..5,
            leaps_us in prop::collection::vec(0u64..2000, 1..40),
        ) {
            let mut schedule = Schedule::new(rate_milli as f64 / MILLI, topics, 500);
            schedule.begin_span(0);
            let mut now_us = 0;
            for leap_us in leaps_us {
                now_us += leap_us;
                let (before, was_due) = (schedule.published, schedule.is_due(now_us));
                for topic in 0..topics {
                    let mut last_us = 0;
                    while let Some(due_us) = schedule.take(topic, now_us) {
                        prop_assert!((last_us..=now_us).contains(&due_us));
                        last_us = due_us;
                    }
                }
                schedule.publish(now_us);
                schedule.look_ahead();
                prop_assert_eq!(was_due, schedule.published > before);
                let pacing = schedule.pacing(now_us).unwrap();
                prop_assert_eq!(pacing.scheduled, pacing.published);
                let timeout_us = schedule.wait_us(now_us, 100_000);
                prop_assert!(!schedule.is_due(now_us + timeout_us.saturating_sub(1)));
                prop_assert!(timeout_us == 100_000 || schedule.is_due(now_us + timeout_us));
            }
        }
    }

    #[test]
    fn users_think_for_a_time_in_their_range() {
        let mut schedule = Schedule::with_users(3, (2000, 5000), 500);
        schedule.begin_span(0);
        let mut last_us = [None; 3];
        for now_us in (0..100_000).step_by(700) {
            while let Some((due_us, user)) = schedule.take_from_users(now_us) {
                assert!(due_us <= now_us);
                if let Some(last_us) = last_us[user] {
                    let think_us: u64 = due_us - last_us;
                    assert!((2000..=5000).contains(&think_us), "{think_us}");
                }
                last_us[user] = Some(due_us);
            }
            schedule.publish(now_us);
            schedule.look_ahead();
            assert!(!schedule.is_due(now_us));
        }
        let pacing = schedule.pacing(100_000).unwrap();
        assert!((3 * 19..3 * 50).contains(&pacing.published), "{pacing:?}");
        assert!(pacing.scheduled >= pacing.published, "{pacing:?}");
    }

    #[test]
    fn topics_take_turns() {
        let due = |topic| pace(100_000, topic, 4).due_us(3) - 77;
        assert_eq!([due(0), due(1), due(2), due(3)], [30_000, 32_500, 35_000, 37_500]);
    }

    #[test]
    fn events_that_the_swarm_publishes_late_are_counted() {
        let mut schedule = Schedule::new(1000.0, 1, 0);
        // Events due before the span do not count.
        schedule.begin_span(10_000);
        while schedule.take(0, 90_000).is_some() {}
        // An event is late if the kernel gets it late, not if it is taken late.
        schedule.publish(92_000);
        let pacing = schedule.pacing(100_000).unwrap();
        assert_eq!((pacing.scheduled, pacing.published), (90, 80));
        assert!(pacing.is_short() && (80_000..=81_100).contains(&pacing.late_p99_us));
        assert!((40_900..=41_100).contains(&pacing.late_p50_us), "{pacing:?}");
    }
}
