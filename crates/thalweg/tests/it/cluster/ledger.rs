//! Checks what publishers were told against what each subscriber receives, while both continue. Pure.
//!
//! The offsets that a subscriber receives only increase. An event is lost if a subscriber has passed the
//! offset that its publisher was told. The ledger removes events that all subscribers have passed: it holds
//! the events in flight, and the few without a known offset.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::Serialize;

/// The number of violations that are described. All are counted.
const VIOLATIONS_TOLD_MAX: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Stored(u64),
    NotStored,
    /// There was no answer, or it may be stored.
    Unknown,
}

/// Events by the results of their publishes, and errors. An error for several subscribers counts for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) stored: u64,
    pub(super) not_stored: u64,
    pub(super) unknown: u64,
    /// The number of events with an unknown result that were stored.
    pub(super) unknown_stored: u64,
    /// The event is stored, and a subscriber received later ones without it.
    pub(super) lost: u64,
    /// A subscriber received the event twice.
    pub(super) repeated: u64,
    /// The event is stored before an earlier event of its publisher.
    pub(super) reordered: u64,
    /// The offset differs from the one that the publisher was told, or that other subscribers received.
    pub(super) misplaced: u64,
    /// The event was refused, never published, or has other bytes.
    pub(super) unexpected: u64,
    pub(super) gaps: u64,
    /// Answers that contradict each other, or are invalid.
    pub(super) contradictory: u64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    totals: Totals,
    violations: Vec<String>,
}

/// The events of one publisher, numbered from 0.
#[derive(Debug, Default)]
struct Publisher {
    /// Number of the first event in flight.
    first: u64,
    under_way: VecDeque<Event>,
    /// Events before `first` without a known offset.
    uncertain: BTreeMap<u64, Event>,
    stored_last: Option<u64>,
}

#[derive(Debug)]
struct Event {
    told: Option<Told>,
    /// The offset at which each subscriber received it.
    got: Vec<Option<u64>>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// The offset of the last event that it received.
    at: u64,
    /// The digest of all offsets and bytes that it received.
    digest: DefaultHasher,
}

impl Ledger {
    /// `from` is the offset before the first event.
    pub(super) fn new(publishers: usize, subscribers: usize, from: u64) -> Self {
        let subscriber = || Subscriber { at: from, ..Subscriber::default() };
        Self {
            publishers: std::iter::repeat_with(Publisher::default).take(publishers).collect(),
            subscribers: std::iter::repeat_with(subscriber).take(subscribers).collect(),
            totals: Totals::default(),
            violations: Vec::new(),
        }
    }

    /// Begins a publish. Returns the number and the bytes of the event.
    pub(super) fn begin(&mut self, publisher: usize) -> (u64, String) {
        let got = vec![None; self.subscribers.len()];
        let it = &mut self.publishers[publisher];
        it.under_way.push_back(Event { told: None, got });
        let number = it.first + it.under_way.len() as u64 - 1;
        (number, event(publisher, number))
    }

    pub(super) fn tell(&mut self, publisher: usize, number: u64, told: Told) {
        let it = &mut self.publishers[publisher];
        it.under_way[(number - it.first) as usize].told = Some(told);
        let count = match told {
            Told::Stored(_) => &mut self.totals.stored,
            Told::NotStored => &mut self.totals.not_stored,
            Told::Unknown => &mut self.totals.unknown,
        };
        *count += 1;
        if let Told::Stored(offset) = told {
            let before = it.stored_last.replace(offset);
            if before.is_some_and(|before| before >= offset) {
                self.violate(
                    |totals| &mut totals.reordered,
                    || {
                        format!(
                            "{} is at {offset}, the one before it at {before:?}",
                            event(publisher, number)
                        )
                    },
                );
            }
        }
        self.settle(publisher);
    }

    pub(super) fn get(&mut self, subscriber: usize, offset: u64, bytes: &str) {
        let who = &mut self.subscribers[subscriber];
        let at = who.at;
        if offset <= at {
            return self.violate(
                |totals| &mut totals.repeated,
                || format!("subscriber {subscriber} got {bytes} at {offset}, after {at}"),
            );
        }
        who.at = offset;
        (offset, bytes).hash(&mut who.digest);
        let Some((publisher, number)) = self.parse(bytes) else {
            return self.violate(
                |totals| &mut totals.unexpected,
                || {
                    format!(
                        "subscriber {subscriber} got {bytes} at {offset}, which nobody published"
                    )
                },
            );
        };
        let it = &mut self.publishers[publisher];
        let known = match number.checked_sub(it.first) {
            Some(index) => it.under_way.get_mut(index as usize),
            None => it.uncertain.get_mut(&number),
        };
        // The ledger has no unknown event below: all subscribers have received it.
        let before = match known.map(|event| &mut event.got[subscriber]) {
            Some(first @ None) => first.replace(offset),
            Some(first) => *first,
            None => Some(at),
        };
        if let Some(before) = before {
            self.violate(|totals| &mut totals.repeated, || {
                format!("subscriber {subscriber} got {bytes} at {offset}, and before, at {before} or earlier")
            });
        }
        self.settle(publisher);
    }

    /// Returns the offset up to which every subscriber has received everything.
    pub(super) fn got_by_all(&self) -> u64 {
        self.subscribers.iter().map(|subscriber| subscriber.at).min().unwrap_or_default()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn gap(&mut self, what: &str) {
        self.violate(|totals| &mut totals.gaps, || what.to_owned());
    }

    pub(super) fn contradict(&mut self, what: &str) {
        self.violate(|totals| &mut totals.contradictory, || what.to_owned());
    }

    /// Records that a subscriber is not served, or does not receive the end.
    pub(super) fn lose(&mut self, what: &str) {
        self.violate(|totals| &mut totals.lost, || what.to_owned());
    }

    /// Returns the counts and descriptions of errors, after everything has arrived.
    pub(super) fn finish(mut self) -> (Totals, Vec<String>) {
        for publisher in 0..self.publishers.len() {
            self.settle(publisher);
            let it = std::mem::take(&mut self.publishers[publisher]);
            let left = (it.first..).zip(it.under_way);
            for (number, known) in it.uncertain.into_iter().chain(left) {
                self.judge(&event(publisher, number), &known);
            }
        }
        let digests: Vec<u64> =
            self.subscribers.iter().map(|subscriber| subscriber.digest.finish()).collect();
        if digests.windows(2).any(|two| two[0] != two[1]) {
            self.violate(
                |totals| &mut totals.misplaced,
                || "subscribers did not get the same bytes at the same offsets".to_owned(),
            );
        }
        (self.totals, self.violations)
    }

    fn settle(&mut self, publisher: usize) {
        let all = self.got_by_all();
        while let Some(known) = self.publishers[publisher].under_way.front() {
            match known.told {
                Some(Told::Stored(offset)) if offset > all => return,
                None => return,
                Some(_) => {}
            }
            let it = &mut self.publishers[publisher];
            let number = it.first;
            it.first += 1;
            let Some(known) = it.under_way.pop_front() else { return };
            match known.told {
                Some(Told::Stored(_)) => self.judge(&event(publisher, number), &known),
                _ => drop(it.uncertain.insert(number, known)),
            }
        }
    }

    /// Compares the result of a publish with what subscribers received. All of them have passed the event.
    fn judge(&mut self, event: &str, known: &Event) {
        let offset = match known.told {
            Some(Told::Stored(offset)) => Some(offset),
            Some(Told::Unknown) => {
                let offset = known.got.iter().flatten().next().copied();
                self.totals.unknown_stored += u64::from(offset.is_some());
                offset
            }
            Some(Told::NotStored) | None => None,
        };
        for (subscriber, got) in known.got.iter().enumerate().filter(|(_, got)| **got != offset) {
            let which: fn(&mut Totals) -> &mut u64 = match (offset, got) {
                (Some(_), None) => |totals| &mut totals.lost,
                (Some(_), Some(_)) => |totals| &mut totals.misplaced,
                (None, _) => |totals| &mut totals.unexpected,
            };
            self.violate(which, || {
                let told = known.told;
                format!("{event}: {told:?} was told, subscriber {subscriber} got it at {got:?}, another at {offset:?}")
            });
        }
    }

    /// Returns publisher and number of an event, or `None` unless it equals the published bytes.
    fn parse(&self, bytes: &str) -> Option<(usize, u64)> {
        let (publisher, number): (usize, u64) = serde_json::from_str(bytes).ok()?;
        let it = self.publishers.get(publisher)?;
        let is_published = number < it.first + it.under_way.len() as u64;
        (is_published && event(publisher, number) == bytes).then_some((publisher, number))
    }

    fn violate(&mut self, which: impl Fn(&mut Totals) -> &mut u64, what: impl FnOnce() -> String) {
        *which(&mut self.totals) += 1;
        if self.violations.len() < VIOLATIONS_TOLD_MAX {
            self.violations.push(what());
        }
    }
}

fn event(publisher: usize, number: u64) -> String {
    format!("[{publisher},{number}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_STORED: Told = Told::NotStored;
    const UNKNOWN: Told = Told::Unknown;

    /// Checks results of one publisher against events of two subscribers.
    fn check(told: &[Told], got: [&[(u64, &str)]; 2], expected: &Totals) {
        let by_kind = |is: fn(&Told) -> bool| told.iter().filter(|told| is(told)).count() as u64;
        let expected = Totals {
            stored: by_kind(|told| matches!(told, Told::Stored(_))),
            not_stored: by_kind(|told| *told == NOT_STORED),
            unknown: by_kind(|told| *told == UNKNOWN),
            ..expected.clone()
        };
        // The order of answers and events makes no difference.
        for is_told_first in [true, false] {
            let mut ledger = Ledger::new(1, 2, 0);
            let tell = |ledger: &mut Ledger| {
                (0..).zip(told).for_each(|(number, told)| ledger.tell(0, number, *told));
            };
            told.iter().for_each(|_| drop(ledger.begin(0)));
            if is_told_first {
                tell(&mut ledger);
            }
            for (subscriber, events) in got.into_iter().enumerate() {
                events.iter().for_each(|(offset, bytes)| ledger.get(subscriber, *offset, bytes));
            }
            if !is_told_first {
                tell(&mut ledger);
            }
            let (totals, violations) = ledger.finish();
            assert_eq!(totals, expected, "{told:?} {got:?} {violations:?}");
        }
    }

    fn stored<const N: usize>(offsets: [u64; N]) -> [Told; N] {
        offsets.map(Told::Stored)
    }

    const TWO: &[(u64, &str)] = &[(5, "[0,0]"), (9, "[0,1]")];

    #[test]
    fn matching_results_are_clean() {
        check(&stored([5, 9]), [TWO, TWO], &Totals::default());
        check(&[Told::Stored(5), NOT_STORED], [&TWO[..1]; 2], &Totals::default());
        let was_stored = Totals { unknown_stored: 1, ..Totals::default() };
        check(&[Told::Stored(5), UNKNOWN], [TWO, TWO], &was_stored);
        check(&[Told::Stored(5), UNKNOWN], [&TWO[..1]; 2], &Totals::default());
        // It was sent first, and stored after the publisher had given up.
        check(&[UNKNOWN, Told::Stored(3)], [&[(3, "[0,1]"), (8, "[0,0]")]; 2], &was_stored);
    }

    #[test]
    fn each_violation_is_counted() {
        let clean = Totals::default();
        // Its digest differs as well.
        check(&stored([5, 9]), [TWO, &TWO[1..]], &Totals { lost: 1, misplaced: 1, ..clean });
        check(&stored([5, 9]), [&TWO[1..]; 2], &Totals { lost: 2, ..clean });
        let twice: &[_] = &[(5, "[0,0]"), (7, "[0,0]"), (9, "[0,1]")];
        check(&stored([5, 9]), [twice; 2], &Totals { repeated: 2, ..clean });
        let again: &[_] = &[(5, "[0,0]"), (9, "[0,1]"), (9, "[0,1]")];
        check(&stored([5, 9]), [TWO, again], &Totals { repeated: 1, ..clean });
        let exchanged: &[_] = &[(5, "[0,1]"), (9, "[0,0]")];
        check(&stored([9, 5]), [exchanged; 2], &Totals { reordered: 1, ..clean });
        check(&[Told::Stored(5), NOT_STORED], [TWO; 2], &Totals { unexpected: 2, ..clean });
        let unknown = Totals { unknown_stored: 1, lost: 1, misplaced: 1, ..clean };
        check(&[Told::Stored(5), UNKNOWN], [TWO, &TWO[..1]], &unknown);
        for other in ["[0,1]", "[1,0]", "[0, 0]", "[0,0,\"other\"]", "x"] {
            let with: &[_] = &[(5, "[0,0]"), (9, other)];
            check(&stored([5]), [with; 2], &Totals { unexpected: 2, ..clean });
        }
    }

    #[test]
    fn events_that_all_have_passed_are_removed() {
        let mut ledger = Ledger::new(1, 2, 0);
        for offset in 1..1000 {
            let (number, bytes) = ledger.begin(0);
            ledger.tell(0, number, Told::Stored(offset));
            (0..2).for_each(|subscriber| ledger.get(subscriber, offset, &bytes));
            assert!(ledger.publishers[0].under_way.is_empty());
        }
        ledger.get(0, 1000, "[0,7]");
        assert_eq!(ledger.totals.repeated, 1, "and comes a second time nevertheless");
    }
}
