use std::net::Ipv4Addr;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::connection_limits::Address;

/// The readers are one client that does not count for an address.
const MINE: Readers = Readers::One(None);

/// The only reader, at an address.
fn reader_at(number: u8) -> Readers {
    Readers::One(Some(Address::from_ip(Ipv4Addr::new(192, 0, 2, number).into())))
}

const IN_FLIGHT: usize = 4;
const OF_HOST: usize = 2;

fn schedule() -> Schedule {
    Schedule::new(FetchLimits { in_flight: IN_FLIGHT, of_hosts: vec![OF_HOST; 3] })
}

#[test]
fn a_topic_is_under_way_once() {
    let mut schedule = schedule();
    schedule.start(7, 0, MINE, 10);
    schedule.start(7, 0, MINE, 10);
    assert_eq!(schedule.take(9), None);
    assert_eq!((schedule.take(10), schedule.take(10)), (Some(7), None));
    schedule.start(7, 0, MINE, 11);
    assert_eq!(schedule.take(11), None);
    assert!(schedule.finished(7, Next::In(Duration::from_micros(5)), 20, 0.5));
    assert_eq!((schedule.take(24), schedule.next_us()), (None, Some(25)));
    assert_eq!(schedule.take(25), Some(7));
}

#[test]
fn a_host_has_its_share() {
    let mut schedule = schedule();
    (0..10).for_each(|key| schedule.start(key, 0, MINE, 0));
    (10..12).for_each(|key| schedule.start(key, 1, MINE, 0));
    let mut taken: Vec<Key> = std::iter::from_fn(|| schedule.take(0)).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 10, 11]);
    assert!(schedule.finished(0, Next::In(Duration::from_secs(1)), 0, 0.0));
    assert_eq!(schedule.take(0), Some(2), "one of the same host takes its place");
}

#[test]
fn errors_make_the_wait_longer() {
    let mut schedule = schedule();
    schedule.start(1, 0, MINE, 0);
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
fn stopped_fetches_do_not_return() {
    let mut schedule = schedule();
    schedule.start(1, 0, MINE, 0);
    schedule.stop(1);
    assert_eq!(schedule.take(0), None);
    schedule.start(1, 0, MINE, 5);
    assert_eq!((schedule.take(4), schedule.take(5)), (None, Some(1)));
    schedule.stop(1);
    assert!(!schedule.finished(1, Next::In(Duration::ZERO), 5, 0.0), "nobody wants it");
    assert_eq!((schedule.take(100), schedule.room.in_flight), (None, 0));
    schedule.start(1, 0, MINE, 6);
    assert_eq!(schedule.take(6), Some(1));
    schedule.stop(1);
    schedule.start(1, 0, MINE, 7);
    assert!(schedule.finished(1, Next::In(Duration::ZERO), 8, 0.0), "wanted again meanwhile");
    assert_eq!(schedule.take(8), Some(1));
    assert!(schedule.finished(1, Next::Never, 9, 0.0));
    assert_eq!(schedule.take(1 << 40), None);
}

/// The fetches of a host, at most 64, in virtual time.
struct Upstream {
    schedule: Schedule,
    /// The end and the result of each fetch.
    under_way: BinaryHeap<Reverse<(u64, Key)>>,
    now_us: u64,
}

const SECOND_US: u64 = 1_000_000;

impl Upstream {
    fn new() -> Self {
        let schedule = Schedule::new(FetchLimits { in_flight: 256, of_hosts: vec![64] });
        Self { schedule, under_way: BinaryHeap::new(), now_us: 0 }
    }

    /// Advances time. `fetched` returns the duration and the result of each fetch that begins.
    fn run_until(&mut self, until_us: u64, mut fetched: impl FnMut(Key) -> (u64, Next)) {
        loop {
            while let Some(key) = self.schedule.take(self.now_us) {
                let (takes_us, _) = fetched(key);
                self.under_way.push(Reverse((self.now_us + takes_us, key)));
            }
            let over_us = self.under_way.peek().map(|Reverse((over_us, _))| *over_us);
            let times = [over_us, self.schedule.next_us()].into_iter().flatten();
            let Some(next_us) = times.filter(|time| *time > self.now_us).min() else { return };
            if next_us > until_us {
                self.now_us = until_us;
                return;
            }
            self.now_us = next_us;
            while let Some(Reverse((over_us, key))) = self.under_way.peek().copied()
                && over_us <= self.now_us
            {
                self.under_way.pop();
                let (_, next) = fetched(key);
                self.schedule.finished(key, next, over_us, 0.5);
            }
        }
    }
}

/// A document that changes four times per second, and keys whose fetches take ten seconds.
const DOCUMENT: Key = 0;

fn answered(key: Key) -> (u64, Next) {
    match key {
        DOCUMENT => (1_000, Next::In(Duration::from_millis(249))),
        _ => (10 * SECOND_US, Next::Later(None)),
    }
}

/// Returns how often the document is fetched in 25 s beside slow keys of these readers.
fn fetches_beside(slow: impl Iterator<Item = Readers>, is_answered: bool) -> usize {
    let mut upstream = Upstream::new();
    upstream.schedule.start(DOCUMENT, 0, reader_at(1), 0);
    for (key, readers) in (1..).zip(slow) {
        upstream.schedule.start(key, 0, readers, 0);
    }
    let mut begun = 0;
    upstream.run_until(25 * SECOND_US, |key| {
        begun += usize::from(key == DOCUMENT);
        match answered(key) {
            (takes_us, Next::Later(_)) if is_answered => (takes_us, Next::In(Duration::ZERO)),
            fetched => fetched,
        }
    });
    // Each is begun and finished.
    begun / 2
}

#[test]
fn a_client_with_many_slow_keys_starves_nobody() {
    let alone = fetches_beside(std::iter::empty(), false);
    assert!(alone >= 99, "{alone}");
    for is_answered in [false, true] {
        let beside = fetches_beside(std::iter::repeat_n(reader_at(2), 256), is_answered);
        assert_eq!(beside, alone, "keys that are answered: {is_answered}");
    }
    // Many clients leave capacity for documents, too.
    let many = (0..20 * 256).map(|number| reader_at(2 + (number % 20) as u8));
    assert_eq!(fetches_beside(many, false), alone);
}

#[test]
fn another_client_finds_room_at_once() {
    let mut upstream = Upstream::new();
    (1..=256).for_each(|key| upstream.schedule.start(key, 0, reader_at(2), 0));
    upstream.run_until(SECOND_US, answered);
    let taken = upstream.schedule.room.in_flight;
    assert!((48..64).contains(&taken), "{taken}");
    upstream.schedule.start(1000, 0, reader_at(3), SECOND_US);
    assert_eq!(upstream.schedule.take(SECOND_US), Some(1000));
}

#[test]
fn a_topic_that_another_address_reads_does_not_wait_behind_the_others() {
    let mut upstream = Upstream::new();
    (1..=256).for_each(|key| upstream.schedule.start(key, 0, reader_at(2), 0));
    upstream.run_until(SECOND_US, answered);
    assert!(upstream.schedule.is_waiting(250));
    upstream.schedule.share(250);
    assert_eq!(upstream.schedule.take(SECOND_US), Some(250));
    assert!(upstream.schedule.finished(250, Next::In(Duration::ZERO), SECOND_US, 0.0));
    assert_eq!(upstream.schedule.take(SECOND_US), Some(250));
    // A topic that several addresses start again is shared, too.
    upstream.schedule.start(251, 0, Readers::Several, SECOND_US);
    assert_eq!(upstream.schedule.take(SECOND_US), Some(251));
}

#[test]
fn addresses_take_turns() {
    let mut schedule = Schedule::new(FetchLimits { in_flight: 9, of_hosts: vec![2] });
    (0..10).for_each(|key| schedule.start(key, 0, reader_at(1), 0));
    (10..13).for_each(|key| schedule.start(key, 0, reader_at(2), 0));
    let mut order = Vec::new();
    while let Some(key) = schedule.take(0) {
        order.push(key);
        schedule.finished(key, Next::Never, 0, 0.0);
    }
    assert_eq!(order, [0, 10, 1, 11, 2, 12, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_topic_that_waits_beside_free_room_is_seen_once_each_time_that_it_is_due() {
    let mut schedule = Schedule::new(FetchLimits { in_flight: 10, of_hosts: vec![10] });
    (0..10).for_each(|key| schedule.start(key, 0, reader_at(1), 0));
    let seen = |schedule: &mut Schedule| {
        (0..10).filter(|key| schedule.see_held_back(*key)).collect::<Vec<Key>>()
    };
    let taken: Vec<Key> = std::iter::from_fn(|| schedule.take(0)).collect();
    assert_eq!(taken, (0..8).collect::<Vec<_>>());
    assert_eq!((seen(&mut schedule), seen(&mut schedule)), (vec![8, 9], Vec::new()));
    // They are taken, come back, and wait again.
    schedule.finished(0, Next::Never, 1, 0.5);
    schedule.finished(1, Next::Never, 1, 0.5);
    assert_eq!((schedule.take(1), schedule.take(1), schedule.take(1)), (Some(8), Some(9), None));
    schedule.finished(8, Next::In(Duration::from_micros(10)), 2, 0.5);
    schedule.start(10, 0, reader_at(1), 2);
    assert_eq!((schedule.take(2), schedule.take(12)), (Some(10), None));
    assert_eq!(seen(&mut schedule), [8]);
}

/// For any number of due documents.
#[test]
fn a_new_key_gets_its_turn_beside_documents() {
    let mut schedule = Schedule::new(FetchLimits { in_flight: 9, of_hosts: vec![1] });
    (0..50).for_each(|key| schedule.start(key, 0, reader_at(key as u8), 0));
    let next = |schedule: &mut Schedule| {
        let key = schedule.take(0).expect("it is due");
        schedule.finished(key, Next::In(Duration::ZERO), 0, 0.0);
        key
    };
    // Until all of them were answered.
    for _ in 0..300 {
        next(&mut schedule);
    }
    schedule.start(99, 0, reader_at(99), 0);
    let waited = (0..).find(|_| next(&mut schedule) == 99).expect("a number");
    assert!(waited <= DOCUMENTS_IN_ROW, "{waited}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any sequence: limits hold, and every scheduled topic is fetched in the end.
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
                    schedule.start(key, key as HostIndex % 3, MINE, now_us);
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
            prop_assert_eq!(schedule.room.in_flight, under_way.len());
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
