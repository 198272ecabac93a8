//! The delivery ledger: what every subscription got, and what it should have got. A sample with a hole in it posts no throughput.

use super::missed::Missed;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// Fate of the events, over all subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Arrived in order and intact.
    pub delivered: u64,
    /// Never arrived.
    pub missing: u64,
    /// Arrived once more.
    pub duplicated: u64,
    /// Arrived after a later one.
    pub reordered: u64,
    /// Arrived with other bytes than were published.
    pub corrupt: u64,
    /// Arrived before it was due or published, or answered before it was asked.
    #[serde(default)]
    pub early: u64,
    /// Versions of a document that a newer one replaced before they were sent: nothing is lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced: u64,
    /// Gaps the subject announced.
    pub gaps: u64,
    /// Connections that ended before the sample did.
    pub cut: u64,
}

impl Counts {
    /// Returns whether every subscription got every event once, in order, intact.
    pub fn is_whole(&self) -> bool {
        self.is_honest() && self.gaps == 0
    }

    /// Returns whether every event that a subscription did not get was announced as a gap, and the others came once, in order, intact.
    pub fn is_honest(&self) -> bool {
        let Counts { missing, duplicated, reordered, corrupt, early, cut, .. } = self;
        [missing, duplicated, reordered, corrupt, early, cut].iter().all(|&&count| count == 0)
    }

    /// Returns the share of the expected events that arrived.
    pub fn delivered_share(&self) -> f64 {
        self.delivered as f64 / (self.delivered + self.missing).max(1) as f64
    }

    /// Returns the sum of both.
    pub fn and(&self, other: &Counts) -> Counts {
        Counts {
            delivered: self.delivered + other.delivered,
            missing: self.missing.saturating_add(other.missing),
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            corrupt: self.corrupt + other.corrupt,
            early: self.early + other.early,
            replaced: self.replaced + other.replaced,
            gaps: self.gaps + other.gaps,
            cut: self.cut + other.cut,
        }
    }

    /// Returns the changes since `before`. An event that was missing then and came late counts as reordered, and no longer as missing.
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            delivered: self.delivered - before.delivered,
            missing: self.missing.saturating_sub(before.missing),
            duplicated: self.duplicated - before.duplicated,
            reordered: self.reordered - before.reordered,
            corrupt: self.corrupt - before.corrupt,
            early: self.early - before.early,
            replaced: self.replaced - before.replaced,
            gaps: self.gaps - before.gaps,
            cut: self.cut - before.cut,
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The part of running counts that was reported, so that each is reported once.
#[derive(Clone, Debug, Default)]
pub struct Reported(Counts);

impl Reported {
    /// Returns the changes since the last call.
    pub fn new_in(&mut self, counts: Counts) -> Counts {
        let new = counts.since(&self.0);
        self.0 = counts;
        new
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holes = [
            (self.missing, "missing", "missing"),
            (self.duplicated, "duplicated", "duplicated"),
            (self.reordered, "reordered", "reordered"),
            (self.corrupt, "corrupt", "corrupt"),
            (self.early, "early", "early"),
            (self.gaps, "gap announced", "gaps announced"),
            (self.cut, "connection cut", "connections cut"),
        ];
        let named: Vec<String> = holes
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, several)| {
                format!("{count} {}", if *count == 1 { one } else { several })
            })
            .collect();
        if named.is_empty() {
            return f.write_str("whole");
        }
        f.write_str(&named.join(", "))
    }
}

/// The sequence number that each subscription must get next, in eight bytes. Missed events take memory only once there are some.
/// All numbers come from the subject, so they can have any value.
#[derive(Debug)]
pub struct Ledger {
    next: Vec<u64>,
    missed: Missed,
    /// Subscriptions after a gap of unknown size: they continue at any number from `next` on.
    adrift: HashSet<usize>,
    counts: Counts,
}

/// Stands for any first number: the subject numbers its events itself.
const ANY: u64 = u64::MAX;
/// The last number that an event may have, so that there is always a next one.
const SEQ_MAX: u64 = ANY - 2;
/// A leap this long is a corrupt number rather than a loss worth listing.
const LEAP_MAX: u64 = 1 << 20;

impl Ledger {
    /// Creates a ledger whose subscriptions begin with the event numbered `first`, or with the first that comes.
    pub fn new(subscriptions: usize, first: Option<u64>) -> Self {
        Ledger {
            next: vec![first.unwrap_or(ANY); subscriptions],
            missed: Missed::default(),
            adrift: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the number that the subscription must get next; `None` before its first.
    #[inline]
    pub fn next(&self, subscription: usize) -> Option<u64> {
        let next = self.next[subscription];
        (next != ANY).then_some(next)
    }

    /// Records that the next `count` events arrived as expected.
    #[inline]
    pub fn in_order(&mut self, subscription: usize, count: u64) {
        if count == 0 {
            return;
        }
        self.next[subscription] = ahead(self.next[subscription], count);
        self.counts.delivered += count;
        if !self.adrift.is_empty() {
            self.adrift.remove(&subscription);
        }
    }

    /// Records an intact event, in order or not. Returns whether it is new to the subscription.
    pub fn arrived(&mut self, subscription: usize, seq: u64) -> bool {
        if seq > SEQ_MAX {
            self.counts.corrupt += 1;
            return false;
        }
        let next = self.next[subscription];
        if next != ANY && seq < next {
            return self.came_late(subscription, seq);
        }
        let is_awaited = next == ANY || self.adrift.remove(&subscription);
        if !is_awaited && seq > next {
            if seq - next > LEAP_MAX {
                self.counts.corrupt += 1;
                return false;
            }
            self.missed.add(subscription, next..seq);
            self.counts.missing = self.counts.missing.saturating_add(seq - next);
        }
        self.next[subscription] = seq + 1;
        self.counts.delivered += 1;
        true
    }

    /// Records a lower number than expected: either missed until now, or received before.
    fn came_late(&mut self, subscription: usize, seq: u64) -> bool {
        let is_new = self.missed.take(subscription, seq);
        if is_new {
            self.counts.missing = self.counts.missing.saturating_sub(1);
            self.counts.reordered += 1;
        } else {
            self.counts.duplicated += 1;
        }
        is_new
    }

    /// Records an event whose bytes differ from those published.
    pub fn corrupt(&mut self) {
        self.counts.corrupt += 1;
    }

    /// Records `events` that arrived before they were due or published.
    pub fn early(&mut self, events: u64) {
        self.counts.early += events;
    }

    /// Records an announcement that `events` will not come. With `None`, the subscription continues at the next event that comes.
    pub fn gap(&mut self, subscription: usize, events: Option<u64>) {
        self.counts.gaps += 1;
        self.excuse(subscription, events);
    }

    /// Records the same for a subscription that does not need them.
    pub fn excuse(&mut self, subscription: usize, events: Option<u64>) {
        let next = self.next[subscription];
        match events {
            _ if next == ANY => {}
            Some(events) => self.next[subscription] = ahead(next, events),
            None => {
                self.adrift.insert(subscription);
            }
        }
    }

    /// Records that a newer version replaced the next `versions`.
    pub fn replaced(&mut self, subscription: usize, versions: u64) {
        self.counts.replaced += versions;
        self.excuse(subscription, Some(versions));
    }

    /// Records a connection that ended early.
    pub fn cut(&mut self) {
        self.counts.cut += 1;
    }

    /// Ends a subscription: everything up to `last` that has not come is missing.
    pub fn close(&mut self, subscription: usize, last: u64) {
        let next = self.next[subscription];
        if next != ANY && next <= last && !self.adrift.contains(&subscription) {
            let after = ahead(last, 1);
            self.counts.missing = self.counts.missing.saturating_add(after - next);
            self.next[subscription] = after;
        }
    }

    /// Records a subscription that should have got something, and has not.
    pub fn got_nothing(&mut self) {
        self.counts.missing = self.counts.missing.saturating_add(1);
    }

    /// Restarts the subscription at the next event that comes.
    pub fn restart(&mut self, subscription: usize) {
        self.next[subscription] = ANY;
        self.adrift.remove(&subscription);
    }

    /// Ends the subscriptions to a subject that numbers its events itself: none of the first `subscriptions` may be more than
    /// `slack` events behind the furthest, and none may have got nothing.
    pub fn close_at_furthest(&mut self, subscriptions: usize, slack: u64) {
        let next = &self.next[..subscriptions];
        let furthest = next.iter().copied().filter(|next| *next != ANY).max();
        for (subscription, next) in next.iter().enumerate() {
            let missing = match furthest {
                _ if self.adrift.contains(&subscription) => 0,
                Some(furthest) if *next != ANY && next.saturating_add(slack) >= furthest => 0,
                Some(furthest) if *next != ANY => furthest - next,
                _ => 1,
            };
            self.counts.missing = self.counts.missing.saturating_add(missing);
        }
    }

    /// Returns whether these subscriptions have got everything up to `last`, or were told that they will not.
    pub fn have(&self, subscriptions: impl IntoIterator<Item = usize>, last: u64) -> bool {
        subscriptions.into_iter().all(|subscription| {
            self.next[subscription] > last || self.adrift.contains(&subscription)
        })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

#[inline]
fn ahead(next: u64, count: u64) -> u64 {
    next.saturating_add(count).min(SEQ_MAX + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arrivals: &[u64], expected: &str) {
        let mut ledger = Ledger::new(1, Some(1));
        for &seq in arrivals {
            ledger.arrived(0, seq);
        }
        ledger.close(0, 5);
        assert_eq!(ledger.counts().to_string(), expected, "{arrivals:?}");
    }

    #[test]
    fn holes_are_told_apart() {
        check(&[1, 2, 3, 4, 5], "whole");
        check(&[1, 2, 4, 5], "1 missing");
        check(&[1, 2, 3], "2 missing");
        check(&[], "5 missing");
        check(&[1, 2, 2, 3, 4, 5], "1 duplicated");
        check(&[1, 3, 2, 4, 5], "1 reordered");
        check(&[1, 4, 2, 2, 5], "1 missing, 1 duplicated, 1 reordered");
        check(&[1, 2, 3, u64::MAX / 2, 4, 5], "1 corrupt");
    }

    #[test]
    fn early_events_are_not_deliveries() {
        let mut ledger = Ledger::new(1, None);
        ledger.arrived(0, 1);
        let before = ledger.counts().clone();
        ledger.early(2);
        ledger.arrived(0, 2);
        assert_eq!(ledger.counts().to_string(), "2 early");
        assert!(!ledger.counts().is_honest());
        assert_eq!(
            ledger.counts().since(&before),
            Counts { delivered: 1, early: 2, ..Counts::default() }
        );
    }

    #[test]
    fn silence_is_a_loss_under_any_numbering() {
        let behind = |second: Option<u64>| {
            let mut ledger = Ledger::new(2, None);
            ledger.arrived(0, 100);
            if let Some(second) = second {
                ledger.arrived(1, second);
            }
            ledger.close_at_furthest(2, 10);
            ledger.counts().missing
        };
        assert_eq!((behind(Some(95)), behind(Some(50)), behind(None)), (0, 50, 1));
        let mut silent = Ledger::new(3, None);
        silent.close_at_furthest(3, 10);
        assert_eq!(silent.counts().missing, 3);
    }

    #[test]
    fn an_announced_gap_is_a_hole_but_not_a_loss_twice() {
        let mut ledger = Ledger::new(1, Some(1));
        ledger.arrived(0, 1);
        ledger.gap(0, Some(3));
        ledger.arrived(0, 5);
        ledger.close(0, 5);
        assert_eq!(ledger.counts().to_string(), "1 gap announced");
        assert!(!ledger.counts().is_whole());
    }

    #[test]
    fn behind_a_gap_of_unknown_size_it_goes_on_at_whichever_comes() {
        let after = |arrivals: &[u64]| {
            let mut ledger = Ledger::new(1, Some(1));
            ledger.arrived(0, 1);
            ledger.gap(0, None);
            assert!(ledger.have([0], 9), "nobody waits for what may not come");
            for &seq in arrivals {
                ledger.arrived(0, seq);
            }
            ledger.close(0, 9);
            ledger.counts().to_string()
        };
        assert_eq!(after(&[]), "1 gap announced");
        assert_eq!(after(&[7, 8, 9]), "1 gap announced");
        // From there on everything has to come again, and only once.
        assert_eq!(after(&[7, 9]), "1 missing, 1 gap announced");
        assert_eq!(after(&[1, 7, 8, 9]), "1 duplicated, 1 gap announced");
        let mut ledger = Ledger::new(1, Some(1));
        ledger.gap(0, None);
        ledger.in_order(0, 1);
        ledger.arrived(0, 3);
        assert_eq!(ledger.counts().to_string(), "1 missing, 1 gap announced");
    }

    #[test]
    fn any_number_is_counted_and_none_overflows() {
        let mut ledger = Ledger::new(3, None);
        for seq in [u64::MAX, u64::MAX - 1, SEQ_MAX] {
            ledger.arrived(0, seq);
            ledger.arrived(1, 1);
        }
        assert_eq!(ledger.next(0), Some(SEQ_MAX + 1));
        ledger.in_order(0, 1 << 60);
        ledger.gap(0, Some(u64::MAX));
        ledger.gap(1, Some(u64::MAX));
        ledger.close(1, u64::MAX);
        assert_eq!((ledger.next(0), ledger.next(1)), (Some(SEQ_MAX + 1), Some(SEQ_MAX + 1)));
        let mut far = Ledger::new(3, None);
        far.arrived(0, SEQ_MAX);
        far.arrived(1, 1);
        far.arrived(2, 2);
        far.close_at_furthest(3, u64::MAX / 2);
        assert_eq!(far.counts().missing, u64::MAX);
    }

    #[test]
    fn one_is_not_several() {
        let counts = |gaps, cut| Counts { gaps, cut, ..Counts::default() }.to_string();
        assert_eq!(counts(1, 1), "1 gap announced, 1 connection cut");
        assert_eq!(counts(2, 3), "2 gaps announced, 3 connections cut");
    }

    #[test]
    fn a_generated_subscription_begins_anywhere() {
        let mut ledger = Ledger::new(2, None);
        ledger.arrived(0, 700);
        ledger.arrived(0, 701);
        assert_eq!(ledger.next(0), Some(702));
        assert_eq!(ledger.next(1), None);
        assert!(ledger.counts().is_whole());
    }
}
