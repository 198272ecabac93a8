//! Which topic is fetched when, and how many at a time. Pure: time comes in.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

/// Bounds on fetches under way.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Of all hosts together.
    pub(super) in_flight: usize,
    /// Of each host.
    pub(super) of_hosts: Vec<usize>,
}

/// How long to wait after errors, µs: the first time, and at most.
const BACKOFF_US: (u64, u64) = (500_000, 60_000_000);

/// A topic, by the key of whoever asks.
pub(super) type Key = u32;

/// A host, by its number: the place of its limit.
pub(super) type Host = usize;

/// Topics that are to be fetched again and again, until they are stopped. A topic is under way
/// once at most.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: Limits,
    topics: HashMap<Key, Topic>,
    /// When topics are due, with the turn that they had then: what was stopped, or due earlier,
    /// meanwhile, is no longer.
    due: BinaryHeap<Reverse<(u64, Key, u64)>>,
    hosts: Vec<Load>,
    in_flight: usize,
    turns: u64,
    /// Hosts with topics that are due and wait for room.
    waiting_hosts: VecDeque<Host>,
}

#[derive(Debug)]
struct Topic {
    host: Host,
    turn: u64,
    is_in_flight: bool,
    /// It is due, and there is no room for it yet.
    is_waiting: bool,
    /// Whether it was stopped while it was under way: it goes when it is back.
    is_stopped: bool,
    /// Errors since it was last answered.
    errors: u32,
}

#[derive(Debug, Default)]
struct Load {
    in_flight: usize,
    waiting: VecDeque<(Key, u64)>,
}

/// What a fetch has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Again after this time.
    In(Duration),
    /// It failed: again after a while, longer each time, but not before this.
    Later(Option<Duration>),
    /// Not again.
    Never,
}

impl Schedule {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            hosts: limits.of_hosts.iter().map(|_| Load::default()).collect(),
            limits,
            topics: HashMap::new(),
            due: BinaryHeap::new(),
            in_flight: 0,
            turns: 0,
            waiting_hosts: VecDeque::new(),
        }
    }

    /// A topic is wanted: it is due at once, unless it is known.
    pub(super) fn start(&mut self, key: Key, host: Host, now_us: u64) {
        if let Some(topic) = self.topics.get_mut(&key) {
            topic.is_stopped = false;
            return;
        }
        let topic = Topic {
            host,
            turn: 0,
            is_in_flight: false,
            is_waiting: false,
            is_stopped: false,
            errors: 0,
        };
        self.topics.insert(key, topic);
        self.set(key, now_us);
    }

    /// A topic is not wanted any more.
    pub(super) fn stop(&mut self, key: Key) {
        match self.topics.get_mut(&key) {
            Some(topic) if topic.is_in_flight => topic.is_stopped = true,
            _ => drop(self.topics.remove(&key)),
        }
    }

    /// The next topic to fetch now, if there is one and room for it.
    pub(super) fn take(&mut self, now_us: u64) -> Option<Key> {
        while let Some(Reverse((due_us, key, turn))) = self.due.peek().copied() {
            if due_us > now_us {
                break;
            }
            self.due.pop();
            if let Some(topic) = self.topics.get_mut(&key).filter(|topic| topic.turn == turn) {
                topic.is_waiting = true;
                let load = &mut self.hosts[topic.host];
                if load.waiting.is_empty() {
                    self.waiting_hosts.push_back(topic.host);
                }
                load.waiting.push_back((key, turn));
            }
        }
        // Hosts take turns, so that one with many topics does not keep the others waiting.
        for _ in 0..self.waiting_hosts.len() {
            if self.in_flight >= self.limits.in_flight {
                return None;
            }
            let host = self.waiting_hosts.pop_front()?;
            let load = &mut self.hosts[host];
            if load.in_flight >= self.limits.of_hosts[host] {
                self.waiting_hosts.push_back(host);
                continue;
            }
            while let Some((key, turn)) = load.waiting.pop_front() {
                let Some(topic) = self.topics.get_mut(&key).filter(|topic| topic.turn == turn)
                else {
                    continue;
                };
                (topic.is_in_flight, topic.is_waiting) = (true, false);
                load.in_flight += 1;
                self.in_flight += 1;
                if !load.waiting.is_empty() {
                    self.waiting_hosts.push_back(host);
                }
                return Some(key);
            }
        }
        None
    }

    /// A fetch is over. `jitter` is from 0 to 1. Returns whether the topic is still wanted.
    pub(super) fn finished(&mut self, key: Key, next: Next, now_us: u64, jitter: f64) -> bool {
        let Some(topic) = self.topics.get_mut(&key).filter(|topic| topic.is_in_flight) else {
            return false;
        };
        topic.is_in_flight = false;
        self.in_flight -= 1;
        self.hosts[topic.host].in_flight -= 1;
        if topic.is_stopped || next == Next::Never {
            let is_wanted = !topic.is_stopped;
            self.topics.remove(&key);
            return is_wanted;
        }
        let wait_us = match next {
            Next::In(wait) => {
                topic.errors = 0;
                wait.as_micros() as u64
            }
            Next::Later(at_least) => {
                topic.errors += 1;
                let (first, most) = BACKOFF_US;
                let most = most.min(first << (topic.errors - 1).min(16));
                // Half of it at least: whoever failed together does not come back together.
                let wait = most / 2 + (most as f64 / 2.0 * jitter) as u64;
                wait.max(at_least.unwrap_or_default().as_micros() as u64)
            }
            Next::Never => return false,
        };
        self.set(key, now_us.saturating_add(wait_us));
        true
    }

    /// When something is due next, if nothing is due now that waits for room.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_us, ..))| *due_us)
    }

    /// Whether a topic is due and waits for room.
    pub(super) fn is_waiting(&self, key: Key) -> bool {
        self.topics.get(&key).is_some_and(|topic| topic.is_waiting)
    }

    /// Whether a topic is scheduled, or under way.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.topics.contains_key(&key)
    }

    fn set(&mut self, key: Key, due_us: u64) {
        self.turns += 1;
        if let Some(topic) = self.topics.get_mut(&key) {
            topic.turn = self.turns;
            self.due.push(Reverse((due_us, key, self.turns)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const IN_FLIGHT: usize = 4;
    const OF_HOST: usize = 2;

    fn schedule() -> Schedule {
        Schedule::new(Limits { in_flight: IN_FLIGHT, of_hosts: vec![OF_HOST; 3] })
    }

    #[test]
    fn a_topic_is_under_way_once() {
        let mut schedule = schedule();
        schedule.start(7, 0, 10);
        schedule.start(7, 0, 10);
        assert_eq!(schedule.take(9), None);
        assert_eq!((schedule.take(10), schedule.take(10)), (Some(7), None));
        schedule.start(7, 0, 11);
        assert_eq!(schedule.take(11), None);
        assert!(schedule.finished(7, Next::In(Duration::from_micros(5)), 20, 0.5));
        assert_eq!((schedule.take(24), schedule.next_us()), (None, Some(25)));
        assert_eq!(schedule.take(25), Some(7));
    }

    #[test]
    fn a_host_has_its_share() {
        let mut schedule = schedule();
        (0..10).for_each(|key| schedule.start(key, 0, 0));
        (10..12).for_each(|key| schedule.start(key, 1, 0));
        let mut taken: Vec<Key> = std::iter::from_fn(|| schedule.take(0)).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 10, 11]);
        assert!(schedule.finished(0, Next::In(Duration::from_secs(1)), 0, 0.0));
        assert_eq!(schedule.take(0), Some(2), "one of the same host takes its place");
    }

    #[test]
    fn errors_make_the_wait_longer() {
        let mut schedule = schedule();
        schedule.start(1, 0, 0);
        let (mut now_us, mut waits) = (0, Vec::new());
        for _ in 0..20 {
            assert_eq!(schedule.take(now_us), Some(1));
            assert!(schedule.finished(1, Next::Later(None), now_us, 1.0));
            let due_us = schedule.next_us().unwrap();
            waits.push(due_us - now_us);
            now_us = due_us;
        }
        assert_eq!((waits[0], waits[1], waits[19]), (500_000, 1_000_000, 60_000_000));
        assert_eq!(schedule.take(now_us), Some(1));
        let asked = Next::Later(Some(Duration::from_secs(100)));
        assert!(schedule.finished(1, asked, now_us, 0.0));
        assert_eq!(schedule.next_us(), Some(now_us + 100_000_000));
    }

    #[test]
    fn what_is_stopped_does_not_come_back() {
        let mut schedule = schedule();
        schedule.start(1, 0, 0);
        schedule.stop(1);
        assert_eq!(schedule.take(0), None);
        schedule.start(1, 0, 5);
        assert_eq!((schedule.take(4), schedule.take(5)), (None, Some(1)));
        schedule.stop(1);
        assert!(!schedule.finished(1, Next::In(Duration::ZERO), 5, 0.0), "nobody wants it");
        assert_eq!((schedule.take(100), schedule.in_flight), (None, 0));
        schedule.start(1, 0, 6);
        assert_eq!(schedule.take(6), Some(1));
        schedule.stop(1);
        schedule.start(1, 0, 7);
        assert!(schedule.finished(1, Next::In(Duration::ZERO), 8, 0.0), "wanted again meanwhile");
        assert_eq!(schedule.take(8), Some(1));
        assert!(schedule.finished(1, Next::Never, 9, 0.0));
        assert_eq!(schedule.take(1 << 40), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever comes: never more than may be, and what is wanted is fetched in the end.
        #[test]
        fn limits_hold_and_nobody_waits_for_ever(
            steps in vec((0..12_u32, 0..5_u8, 0..50_u64), 0..200),
        ) {
            let mut schedule = schedule();
            let (mut now_us, mut wanted) = (0, std::collections::BTreeSet::new());
            let mut under_way: Vec<Key> = Vec::new();
            for (key, what, later_us) in steps {
                now_us += later_us;
                match what {
                    0 | 1 => {
                        schedule.start(key, key as Host % 3, now_us);
                        wanted.insert(key);
                    }
                    2 => {
                        schedule.stop(key);
                        wanted.remove(&key);
                    }
                    _ => {
                        if let Some(at) = under_way.iter().position(|under_way| *under_way == key) {
                            under_way.swap_remove(at);
                            let next = Next::In(Duration::from_micros(later_us));
                            schedule.finished(key, next, now_us, 0.0);
                        }
                    }
                }
                while let Some(taken) = schedule.take(now_us) {
                    prop_assert!(!under_way.contains(&taken), "{taken} twice");
                    under_way.push(taken);
                }
                prop_assert_eq!(schedule.in_flight, under_way.len());
                prop_assert!(under_way.len() <= IN_FLIGHT);
                for host in 0..3 {
                    let of_host = under_way.iter().filter(|key| **key % 3 == host).count();
                    prop_assert!(of_host <= OF_HOST);
                }
            }
            let mut fetched = std::collections::BTreeSet::new();
            for _ in 0..100 {
                for key in std::mem::take(&mut under_way) {
                    schedule.finished(key, Next::In(Duration::from_micros(1)), now_us, 0.0);
                }
                now_us += 100;
                under_way.extend(std::iter::from_fn(|| schedule.take(now_us)));
                fetched.extend(under_way.iter().copied());
            }
            prop_assert!(wanted.is_subset(&fetched), "{wanted:?} of {fetched:?}");
        }
    }
}
