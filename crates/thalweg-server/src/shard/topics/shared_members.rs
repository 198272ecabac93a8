//! The state of a shard for the members that several servers share.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use thalweg_wire::{Offset, Topic};

use crate::config::LEFT_MEMBERS_MAX;

/// The time for which a server must be unknown before its members leave, in µs: the news of a server and of its members come on
/// different shards.
pub(super) const UNKNOWN_US: u64 = 3_000_000;

/// The time after which members are compared once more, in µs: events of a server that has gone may come late.
const LATE_US: u64 = 30_000_000;

/// The members that this shard shares.
#[derive(Debug, Default)]
pub(super) struct SharedMembers {
    /// By the topic of the members.
    pub(super) changed: HashMap<Topic, ChangedMembers>,
    /// When servers were first found unknown, in µs.
    pub(super) unknown: HashMap<Box<str>, u64>,
    /// When this server says again that it runs, in µs.
    pub(super) beat_us: u64,
    /// Whether this server was among those that run.
    pub(super) is_listed: bool,
}

/// The members of a topic whose events may be out of date.
#[derive(Debug, Default)]
pub(super) struct ChangedMembers {
    pub(super) keys: HashSet<Arc<str>>,
    /// Set while the state of the topic is here.
    pub(super) comparison: Option<Comparison>,
    /// Whether members that have left were forgotten, and a comparison has not found them again.
    pub(super) is_incomplete: bool,
}

/// The comparisons of all members of a topic with the servers that run. Each one takes several steps if the members are many.
///
/// The first one begins when the state of the topic is here, and others when a server has gone.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// The offset at which the next step begins. `None`: no comparison is under way.
    next: Option<Offset>,
    /// When the next comparison begins, in µs. `None`: when another server goes.
    due_us: Option<u64>,
    /// When the comparisons began that follow from the same change of servers, in µs.
    since_us: u64,
    /// When a server had last gone before that, in µs. `None`: nothing was compared.
    gone_us: Option<u64>,
    /// Whether the comparison has found servers that have not been unknown for long enough.
    is_early: bool,
}

impl SharedMembers {
    /// Returns whether a server has been unknown for long enough.
    pub(super) fn is_gone(&self, id: &str, now_us: u64) -> bool {
        self.unknown.get(id).is_some_and(|since_us| now_us >= since_us + UNKNOWN_US)
    }
}

impl ChangedMembers {
    /// Notes a member whose event may be out of date. `present` has the members that are here. Returns `false` if too many have left:
    /// the server forgets these, and a comparison must find them.
    pub(super) fn note<M>(&mut self, key: &str, present: Option<&HashMap<Arc<str>, M>>) -> bool {
        let known = present.and_then(|present| present.get_key_value(key));
        self.keys.insert(known.map_or_else(|| key.into(), |(key, _)| Arc::clone(key)));
        if self.room(present.map_or(0, HashMap::len)).is_some() {
            return true;
        }
        self.keys.retain(|key| present.is_some_and(|present| present.contains_key(key)));
        self.is_incomplete = true;
        // One that is under way may have passed them.
        self.comparison = self.comparison.take().map(|_| Comparison::default());
        false
    }

    /// Returns how many more members can be noted, if `present` are here. `None`: there are too many.
    pub(super) fn room(&self, present: usize) -> Option<usize> {
        (present + LEFT_MEMBERS_MAX).checked_sub(self.keys.len())
    }

    /// Returns whether there is something to publish or to compare.
    pub(super) fn is_awaited(&self) -> bool {
        !self.keys.is_empty() || self.is_incomplete
    }

    /// Continues the comparison after a step, which has reached the offset `to`. `is_last`: it has reached the last member.
    pub(super) fn has_compared(&mut self, to: Offset, is_last: bool, now_us: u64) {
        let Some(comparison) = &mut self.comparison else { return };
        match is_last {
            true => {
                comparison.end(now_us);
                self.is_incomplete = false;
            }
            false => comparison.next = Some(to),
        }
    }
}

impl Comparison {
    /// Returns the offset at which the next step begins, if there is one now. `gone_us`: when a server was last found to have gone, in µs.
    pub(super) fn place(&mut self, gone_us: u64, now_us: u64) -> Option<Offset> {
        let is_due = self.next.is_none() && self.due_us.is_some_and(|due_us| now_us >= due_us);
        if self.gone_us != Some(gone_us) {
            let (next, gone_us) = (Some(1), Some(gone_us));
            *self = Self { next, since_us: now_us, gone_us, ..Self::default() };
        } else if is_due {
            (self.next, self.due_us) = (Some(1), None);
        }
        self.next
    }

    /// Notes a server that has not been unknown for long enough.
    pub(super) fn found_early(&mut self) {
        self.is_early = true;
    }

    fn end(&mut self, now_us: u64) {
        let late_us = self.since_us + LATE_US;
        self.next = None;
        self.due_us = match std::mem::take(&mut self.is_early) {
            true => Some(now_us + UNKNOWN_US),
            false => (now_us < late_us).then_some(late_us),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_come_and_go_take_a_bounded_number_of_notes() {
        let (mut changed, mut present) = (ChangedMembers::default(), HashMap::new());
        let mut forgotten = 0;
        for nth in 0..10 * LEFT_MEMBERS_MAX {
            let key: Arc<str> = nth.to_string().into();
            present.insert(Arc::clone(&key), ());
            assert!(changed.note(&key, Some(&present)));
            // A member that comes back has one note, and every tenth one stays.
            if nth % 10 > 0 {
                present.remove(&key);
                forgotten += usize::from(!changed.note(&key, Some(&present)));
            }
            assert!(changed.keys.len() <= present.len() + LEFT_MEMBERS_MAX);
        }
        assert!((8..=10).contains(&forgotten) && changed.is_incomplete, "{forgotten}");
        assert!(present.keys().all(|key| changed.keys.contains(key)), "those are here");
    }

    #[test]
    fn members_are_compared_a_few_times_after_a_server_has_gone() {
        let comparison = Some(Comparison::default());
        let mut changed = ChangedMembers { comparison, ..ChangedMembers::default() };
        let mut begun = Vec::new();
        let mut second = |changed: &mut ChangedMembers, at: u64, gone_us: u64, is_early: bool| {
            let Some(comparison) = &mut changed.comparison else { return };
            if comparison.place(gone_us, at * 1_000_000).is_none() {
                return;
            }
            begun.push(at);
            if is_early {
                comparison.found_early();
            }
            changed.has_compared(1, true, at * 1_000_000);
        };
        (100..200).for_each(|at| second(&mut changed, at, 0, false));
        (200..300).for_each(|at| second(&mut changed, at, 199_900_000, at < 203));
        assert_eq!(begun, [100, 130, 200, 203, 230]);
    }

    #[test]
    fn a_comparison_that_may_have_passed_a_forgotten_member_begins_again() {
        let comparison = Some(Comparison::default());
        let mut changed = ChangedMembers { comparison, ..ChangedMembers::default() };
        let place = |changed: &mut ChangedMembers| {
            let comparison = changed.comparison.as_mut().expect("the state is here");
            comparison.place(7, 100)
        };
        assert_eq!(place(&mut changed), Some(1));
        changed.has_compared(500, false, 100);
        assert_eq!(place(&mut changed), Some(500));
        let gone = None::<&HashMap<Arc<str>, ()>>;
        (0..=LEFT_MEMBERS_MAX).for_each(|nth| _ = changed.note(&nth.to_string(), gone));
        assert_eq!((place(&mut changed), changed.keys.len()), (Some(1), 0));
        assert!(changed.is_awaited());
        changed.has_compared(900, true, 100);
        assert!(place(&mut changed).is_none() && !changed.is_awaited());
    }
}
