//! What publishers were told, held against what each subscriber gets, while both go on. Pure.
//!
//! The offsets that a subscriber gets only rise. So an event is lost when a subscriber has
//! passed the offset that its publisher was told. What all have passed is forgotten: memory holds
//! the events under way, and those few of which no offset was told.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::Serialize;

/// So many violations are told in words. All are counted.
const VIOLATIONS_TOLD_MAX: usize = 20;

/// What a publisher was told of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Its offset.
    Stored(u64),
    /// That it is not stored.
    NotStored,
    /// Nothing, or that it may be stored.
    Unknown,
}

/// Events by what their publishers were told, and what is wrong with them. One that is wrong for
/// several subscribers counts for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) stored: u64,
    pub(super) not_stored: u64,
    pub(super) unknown: u64,
    /// Of those unknown, how many were stored.
    pub(super) unknown_stored: u64,
    /// Stored, and a subscriber got later ones without it.
    pub(super) lost: u64,
    /// A subscriber got it twice.
    pub(super) repeated: u64,
    /// Stored before an event that its publisher sent earlier.
    pub(super) reordered: u64,
    /// At another offset than the publisher was told, or than other subscribers got.
    pub(super) misplaced: u64,
    /// Not to be there: refused, never published, or with other bytes.
    pub(super) unexpected: u64,
    /// Gaps that were announced.
    pub(super) gaps: u64,
    /// Answers that contradict each other, or make no sense.
    pub(super) contradictory: u64,
}

/// The ledger of one topic.
#[derive(Debug)]
pub(super) struct Ledger {
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    totals: Totals,
    violations: Vec<String>,
}

/// One publisher's events, which it numbers from 0.
#[derive(Debug, Default)]
struct Publisher {
    /// Number of the first one under way.
    first: u64,
    under_way: VecDeque<Event>,
    /// Those before `first` of which no offset was told.
    uncertain: BTreeMap<u64, Event>,
    stored_last: Option<u64>,
}

#[derive(Debug)]
struct Event {
    told: Option<Told>,
    /// At which offset each subscriber got it.
    got: Vec<Option<u64>>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// The offset of the last event that it got.
    at: u64,
    /// Of all offsets and bytes that it got.
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

    /// A publisher is about to publish: its event's number and bytes.
    pub(super) fn begin(&mut self, publisher: usize) -> (u64, String) {
        let got = vec![None; self.subscribers.len()];
        let it = &mut self.publishers[publisher];
        it.under_way.push_back(Event { told: None, got });
        let number = it.first + it.under_way.len() as u64 - 1;
        (number, event(publisher, number))
    }

    /// It was told what became of an event.
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

    /// A subscriber got an event.
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
        // What is not known any more was settled: all have got it.
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

    /// The offset up to which every subscriber has got everything.
    pub(super) fn got_by_all(&self) -> u64 {
        self.subscribers.iter().map(|it| it.at).min().unwrap_or_default()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// A gap was announced to a subscriber.
    pub(super) fn gap(&mut self, what: &str) {
        self.violate(|totals| &mut totals.gaps, || what.to_owned());
    }

    /// An answer contradicts another one.
    pub(super) fn contradict(&mut self, what: &str) {
        self.violate(|totals| &mut totals.contradictory, || what.to_owned());
    }

    /// A subscriber is not served, or does not see the end.
    pub(super) fn lose(&mut self, what: &str) {
        self.violate(|totals| &mut totals.lost, || what.to_owned());
    }

    /// Everything has come that will: what is counted, and what is wrong in words.
    pub(super) fn finish(mut self) -> (Totals, Vec<String>) {
        for publisher in 0..self.publishers.len() {
            self.settle(publisher);
            let it = std::mem::take(&mut self.publishers[publisher]);
            let left = (it.first..).zip(it.under_way);
            for (number, known) in it.uncertain.into_iter().chain(left) {
                self.judge(&event(publisher, number), &known);
            }
        }
        let digests: Vec<u64> = self.subscribers.iter().map(|it| it.digest.finish()).collect();
        if digests.windows(2).any(|two| two[0] != two[1]) {
            self.violate(
                |totals| &mut totals.misplaced,
                || "subscribers did not get the same bytes at the same offsets".to_owned(),
            );
        }
        (self.totals, self.violations)
    }

    /// Forgets what all subscribers have passed.
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

    /// Compares what was told of an event with what subscribers got, all of which have passed it.
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

    /// Whose event it is, and which; `None` unless it is what was published, byte by byte.
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

/// An event as it is published.
fn event(publisher: usize, number: u64) -> String {
    format!("[{publisher},{number}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_STORED: Told = Told::NotStored;
    const UNKNOWN: Told = Told::Unknown;

    /// What one publisher was told of its events, and what each of two subscribers got.
    fn check(told: &[Told], got: [&[(u64, &str)]; 2], expected: &Totals) {
        let by_kind = |is: fn(&Told) -> bool| told.iter().filter(|told| is(told)).count() as u64;
        let expected = Totals {
            stored: by_kind(|told| matches!(told, Told::Stored(_))),
            not_stored: by_kind(|told| *told == NOT_STORED),
            unknown: by_kind(|told| *told == UNKNOWN),
            ..expected.clone()
        };
        // Whether answers come before events or after them makes no difference.
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
    fn what_is_as_it_was_told_is_clean() {
        check(&stored([5, 9]), [TWO, TWO], &Totals::default());
        check(&[Told::Stored(5), NOT_STORED], [&TWO[..1]; 2], &Totals::default());
        let was_stored = Totals { unknown_stored: 1, ..Totals::default() };
        check(&[Told::Stored(5), UNKNOWN], [TWO, TWO], &was_stored);
        check(&[Told::Stored(5), UNKNOWN], [&TWO[..1]; 2], &Totals::default());
        // It was sent first, and stored when nobody waited any more.
        check(&[UNKNOWN, Told::Stored(3)], [&[(3, "[0,1]"), (8, "[0,0]")]; 2], &was_stored);
    }

    #[test]
    fn what_is_wrong_is_counted() {
        let clean = Totals::default();
        // Its digest is another one as well.
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
    fn what_all_have_passed_is_forgotten() {
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
