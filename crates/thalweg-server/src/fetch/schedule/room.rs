use std::collections::HashMap;

use super::group::{Group, Proof};

/// One fetch in this many is not available to a single group of topics.
const OTHERS_PART: usize = 5;

/// One fetch in this many is not available to unproven topics.
const DOCUMENTS_PART: usize = 10;

/// The fetches in flight, of a host or of all.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) in_flight: usize,
    unproven: usize,
    by_group: HashMap<Group, usize>,
}

impl Room {
    /// Returns whether a group may start another fetch, if `limit` allows one more in total. A limit below 5 is too small to divide.
    pub(super) fn takes(&self, limit: usize, proof: Proof, group: Group) -> bool {
        let of_group = self.by_group.get(&group).copied().unwrap_or_default();
        of_group < limit - limit / OTHERS_PART
            && (proof == Proof::Document || self.unproven < limit - limit / DOCUMENTS_PART)
    }

    pub(super) fn take(&mut self, proof: Proof, group: Group) {
        self.in_flight += 1;
        self.unproven += usize::from(proof == Proof::Unproven);
        *self.by_group.entry(group).or_default() += 1;
    }

    pub(super) fn give_back(&mut self, proof: Proof, group: Group) {
        self.in_flight -= 1;
        self.unproven -= usize::from(proof == Proof::Unproven);
        let Some(count) = self.by_group.get_mut(&group) else { return };
        *count -= 1;
        if *count == 0 {
            self.by_group.remove(&group);
        }
    }
}
